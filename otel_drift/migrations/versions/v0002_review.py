"""Review and record: evidence, full prompts, review items, mutes, members of runs, privacy deletions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables and columns; units of earlier runs become their members."""
    op.add_column("otel_drift_attempt", sa.Column("messages", sa.Text(), nullable=True))
    op.add_column("otel_drift_finding", sa.Column("fingerprint", sa.Text(), nullable=True))
    op.create_index(op.f("ix_otel_drift_finding_fingerprint"), "otel_drift_finding", ["fingerprint"], unique=False)
    _create_evidence()
    _create_review()
    op.create_table(
        "otel_drift_membership",
        sa.Column("run_id", _serial(), nullable=False),
        sa.Column("unit_id", sa.Text(), nullable=False),
        sa.Column("result_id", _serial(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["otel_drift_run.run_id"]),
        sa.ForeignKeyConstraint(["result_id"], ["otel_drift_unit.result_id"]),
        sa.PrimaryKeyConstraint("run_id", "unit_id"),
    )
    op.create_table(
        "otel_drift_erasure",
        sa.Column("erasure_id", _serial(), autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("selector", sa.Text(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("erasure_id"),
        sqlite_autoincrement=True,
    )
    op.execute(
        "INSERT INTO otel_drift_membership (run_id, unit_id, result_id)"
        " SELECT run_id, unit_id, max(result_id) FROM otel_drift_unit WHERE run_id IS NOT NULL GROUP BY run_id, unit_id"
    )


def _create_evidence() -> None:
    op.create_table(
        "otel_drift_instructions",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_table(
        "otel_drift_evidence",
        sa.Column("result_id", _serial(), nullable=False),
        sa.Column("frame", sa.Text(), nullable=False),
        sa.Column("for_user", sa.Text(), nullable=True),
        sa.Column("packet", sa.Text(), nullable=True),
        sa.Column("packet_sha256", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["result_id"], ["otel_drift_unit.result_id"]),
        sa.PrimaryKeyConstraint("result_id"),
    )
    op.create_index(op.f("ix_otel_drift_evidence_for_user"), "otel_drift_evidence", ["for_user"], unique=False)
    op.create_table(
        "otel_drift_passage",
        sa.Column("result_id", _serial(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("passage_key", sa.Text(), nullable=False),
        sa.Column("passage_id", sa.Text(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["result_id"], ["otel_drift_unit.result_id"]),
        sa.PrimaryKeyConstraint("result_id", "position", "passage_key"),
    )
    op.create_index(op.f("ix_otel_drift_passage_passage_key"), "otel_drift_passage", ["passage_key"], unique=False)


def _create_review() -> None:
    op.create_table(
        "otel_drift_review",
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("unit_id", sa.Text(), nullable=False),
        sa.Column("result_id", _serial(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.Text(), nullable=False),
        sa.Column("opened", sa.BigInteger(), nullable=False),
        sa.Column("resolved", sa.BigInteger(), nullable=True),
        sa.Column("resolved_by", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["result_id"], ["otel_drift_unit.result_id"]),
        sa.PrimaryKeyConstraint("item_id"),
    )
    for column in ("event_id", "status", "unit_id"):
        op.create_index(op.f(f"ix_otel_drift_review_{column}"), "otel_drift_review", [column], unique=False)
    op.create_table(
        "otel_drift_review_log",
        sa.Column("log_id", _serial(), autoincrement=True, nullable=False),
        sa.Column("item_id", sa.Text(), nullable=False),
        sa.Column("result_id", _serial(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("said_by", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("log_id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_otel_drift_review_log_item_id"), "otel_drift_review_log", ["item_id"], unique=False)
    op.create_table(
        "otel_drift_mute",
        sa.Column("mute_id", _serial(), autoincrement=True, nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("audit", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("removed", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("mute_id"),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_otel_drift_mute_fingerprint"), "otel_drift_mute", ["fingerprint"], unique=False)


def _serial() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")
