"""The four audits, one file each."""
