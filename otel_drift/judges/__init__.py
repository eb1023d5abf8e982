"""Judges: who answers an audit step."""
