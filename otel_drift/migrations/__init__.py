"""The ledger's migrations (alembic), run when a ledger is opened that needs them."""
