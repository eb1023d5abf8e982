"""Runs the migrations on the connection, and inside the transaction, that the ledger hands over."""

from alembic import context

from otel_drift.ledger.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
