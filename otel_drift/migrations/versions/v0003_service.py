"""What a service keeps: alerts, what judges took a day, who is at work."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_DUE = sa.text("due IS NOT NULL")


def upgrade() -> None:
    """Add the tables, and an index for what was done today."""
    op.create_index("otel_drift_unit_created", "otel_drift_unit", ["created"], unique=False)
    op.create_table(
        "otel_drift_alert",
        sa.Column("alerter", sa.Text(), nullable=False),
        sa.Column("alert_key", sa.Text(), nullable=False),
        sa.Column("unit_id", sa.Text(), nullable=False),
        sa.Column("result_id", _serial(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=True),
        sa.Column("item_id", sa.Text(), nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.Column("due", sa.BigInteger(), nullable=True),
        sa.Column("told", sa.BigInteger(), nullable=True),
        sa.Column("told_state", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("alerter", "alert_key"),
    )
    op.create_index("otel_drift_alert_state", "otel_drift_alert", ["alerter", "state", "told"], unique=False)
    op.create_index(
        "otel_drift_alert_due",
        "otel_drift_alert",
        ["alerter", "due"],
        unique=False,
        sqlite_where=_DUE,
        postgresql_where=_DUE,
    )
    op.create_table(
        "otel_drift_alerter",
        sa.Column("alerter", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("sent", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("refusals", sa.Integer(), nullable=False),
        sa.Column("retry_at", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("alerter"),
    )
    op.create_table(
        "otel_drift_spend",
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("day"),
    )
    op.create_table(
        "otel_drift_process",
        sa.Column("process_id", sa.Text(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat", sa.BigInteger(), nullable=False),
        sa.Column("stopped", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("process_id"),
    )


def _serial() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")
