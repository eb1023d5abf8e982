"""One module a migration, in order; a released one never changes."""
