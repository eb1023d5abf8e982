"""What a service received: spans by trace, and the sessions that wait to be audited."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_OPEN = sa.text("open_since IS NOT NULL")


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "otel_drift_inbox_trace",
        sa.Column("trace_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("trace_hash", sa.LargeBinary(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("named", sa.Boolean(), nullable=False),
        sa.Column("relevant", sa.Boolean(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("spans", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trace_number"),
        sa.UniqueConstraint("trace_hash"),
    )
    op.create_index("otel_drift_inbox_trace_place", "otel_drift_inbox_trace", ["place", "named", "ended"], unique=False)
    op.create_index(op.f("ix_otel_drift_inbox_trace_received"), "otel_drift_inbox_trace", ["received"], unique=False)
    op.create_table(
        "otel_drift_inbox_chunk",
        sa.Column("chunk_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("trace_number", sa.BigInteger(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("spans", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chunk_number"),
    )
    op.create_index(
        op.f("ix_otel_drift_inbox_chunk_trace_number"), "otel_drift_inbox_chunk", ["trace_number"], unique=False
    )
    op.create_table(
        "otel_drift_inbox_group",
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=True),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("relevant", sa.Boolean(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("open_since", sa.BigInteger(), nullable=True),
        sa.Column("open_spans", sa.BigInteger(), nullable=False),
        sa.Column("priority", sa.Float(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("put_off_since", sa.BigInteger(), nullable=True),
        sa.Column("put_off_for", sa.Text(), nullable=True),
        sa.Column("rests_since", sa.BigInteger(), nullable=True),
        sa.Column("rests_until", sa.BigInteger(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("ticket", sa.Text(), nullable=True),
        sa.Column("held_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("group_id"),
    )
    op.create_index(
        "otel_drift_inbox_group_open",
        "otel_drift_inbox_group",
        ["priority", "received"],
        unique=False,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_table(
        "otel_drift_inbox_member",
        sa.Column("trace_number", sa.BigInteger(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("adopted", sa.Boolean(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("open_since", sa.BigInteger(), nullable=True),
        sa.Column("open_spans", sa.BigInteger(), nullable=False),
        sa.Column("audited", sa.BigInteger(), nullable=False),
        sa.Column("audited_key", sa.Text(), nullable=True),
        sa.Column("audited_hash", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("trace_number", "group_id"),
    )
    op.create_index("otel_drift_inbox_member_group", "otel_drift_inbox_member", ["group_id"], unique=False)
    op.create_index(
        op.f("ix_otel_drift_inbox_member_audited_hash"), "otel_drift_inbox_member", ["audited_hash"], unique=False
    )
    op.create_index(
        "otel_drift_inbox_member_open",
        "otel_drift_inbox_member",
        ["group_id", "received"],
        unique=False,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_table(
        "otel_drift_inbox_tally",
        sa.Column("tally_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("traces", sa.BigInteger(), nullable=False),
        sa.Column("chunks", sa.BigInteger(), nullable=False),
        sa.Column("spans", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tally_id"),
    )
