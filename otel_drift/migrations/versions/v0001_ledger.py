"""The first ledger: runs, judge answers, units with attempts and findings, annotations, deliveries, cursors."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "otel_drift_annotation",
        sa.Column("annotation_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("unit_id", sa.Text(), nullable=False),
        sa.Column("withdrawn", sa.Boolean(), nullable=False),
        sa.Column("content_sha256", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("annotation_id", "revision"),
    )
    op.create_index(op.f("ix_otel_drift_annotation_unit_id"), "otel_drift_annotation", ["unit_id"], unique=False)
    op.create_table(
        "otel_drift_answer",
        sa.Column("cache_key", sa.Text(), nullable=False),
        sa.Column("audit", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("prompt_id", sa.Text(), nullable=False),
        sa.Column("prompt_version", sa.Text(), nullable=False),
        sa.Column("prompt_sha256", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cache_key"),
    )
    op.create_table(
        "otel_drift_contribution",
        sa.Column("annotation_id", sa.Text(), nullable=False),
        sa.Column("unit_id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("annotation_id", "unit_id"),
    )
    op.create_index(op.f("ix_otel_drift_contribution_unit_id"), "otel_drift_contribution", ["unit_id"], unique=False)
    op.create_table(
        "otel_drift_cursor",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("cursor", sa.Text(), nullable=True),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
    )
    op.create_table(
        "otel_drift_delivery",
        sa.Column("delivery_id", _serial(), autoincrement=True, nullable=False),
        sa.Column("annotation_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("attempted", sa.BigInteger(), nullable=True),
        sa.Column("settled", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("delivery_id"),
        sa.UniqueConstraint("annotation_id", "sink", "revision", name="otel_drift_delivery_once"),
        sqlite_autoincrement=True,
    )
    op.create_index("otel_drift_delivery_owed", "otel_drift_delivery", ["sink", "state", "delivery_id"], unique=False)
    op.create_table(
        "otel_drift_run",
        sa.Column("run_id", _serial(), autoincrement=True, nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("totals", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "otel_drift_unit",
        sa.Column("result_id", _serial(), autoincrement=True, nullable=False),
        sa.Column("unit_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("run_id", _serial(), nullable=True),
        sa.Column("audit", sa.Text(), nullable=False),
        sa.Column("session_key", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("body_sha256", sa.Text(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("erased", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["otel_drift_run.run_id"],
        ),
        sa.PrimaryKeyConstraint("result_id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "otel_drift_unit_current",
        "otel_drift_unit",
        ["unit_id"],
        unique=True,
        sqlite_where=sa.text("current"),
        postgresql_where=sa.text("current"),
    )
    op.create_index("otel_drift_unit_session", "otel_drift_unit", ["session_key"], unique=False)
    op.create_table(
        "otel_drift_attempt",
        sa.Column("attempt_id", _serial(), autoincrement=True, nullable=False),
        sa.Column("result_id", _serial(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("prompt_id", sa.Text(), nullable=False),
        sa.Column("prompt_version", sa.Text(), nullable=False),
        sa.Column("prompt_sha256", sa.Text(), nullable=False),
        sa.Column("cache_key", sa.Text(), nullable=False),
        sa.Column("cached", sa.Boolean(), nullable=False),
        sa.Column("errors", sa.Text(), nullable=False),
        sa.Column("messages_sha256", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("answer_sha256", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["result_id"],
            ["otel_drift_unit.result_id"],
        ),
        sa.PrimaryKeyConstraint("attempt_id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_otel_drift_attempt_result_id"), "otel_drift_attempt", ["result_id"], unique=False)
    op.create_table(
        "otel_drift_finding",
        sa.Column("result_id", _serial(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("audit", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("span_ref", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["result_id"],
            ["otel_drift_unit.result_id"],
        ),
        sa.PrimaryKeyConstraint("result_id", "position"),
    )
    op.create_index(op.f("ix_otel_drift_finding_event_id"), "otel_drift_finding", ["event_id"], unique=False)


def _serial() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")
