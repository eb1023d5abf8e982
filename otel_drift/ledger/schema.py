"""The ledger's tables, as the newest migration leaves them.

Long values are JSON in text columns (ASCII, so that NUL and lone surrogates of hostile traces fit any database).
Rows are appended and superseded, never rewritten; `erased` and the ``*_sha256`` columns are what a privacy deletion
leaves of a text. Times are nanoseconds since the Unix epoch.
"""

from __future__ import annotations

import sqlalchemy as sa

REVISION = "0005"
"""The migration this code expects; a test compares it with the migrations' head."""

VERSION_TABLE = "otel_drift_version"

metadata = sa.MetaData()

# SQLite only autoincrements a column that is exactly INTEGER.
_serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

run = sa.Table(
    "otel_drift_run",
    metadata,
    sa.Column("run_id", _serial, primary_key=True, autoincrement=True),
    sa.Column("started", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.BigInteger),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("totals", sa.Text),
    sqlite_autoincrement=True,
)

answer = sa.Table(
    "otel_drift_answer",
    metadata,
    sa.Column("cache_key", sa.Text, primary_key=True),
    sa.Column("audit", sa.Text, nullable=False),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("prompt_id", sa.Text, nullable=False),
    sa.Column("prompt_version", sa.Text, nullable=False),
    sa.Column("prompt_sha256", sa.Text, nullable=False),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("body", sa.Text),
    sa.Column("created", sa.BigInteger, nullable=False),
)

unit = sa.Table(
    "otel_drift_unit",
    metadata,
    sa.Column("result_id", _serial, primary_key=True, autoincrement=True),
    sa.Column("unit_id", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("current", sa.Boolean, nullable=False),
    sa.Column("run_id", _serial, sa.ForeignKey("otel_drift_run.run_id")),
    sa.Column("audit", sa.Text, nullable=False),
    sa.Column("session_key", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("severity", sa.Text, nullable=False),
    sa.Column("body", sa.Text),
    sa.Column("body_sha256", sa.Text, nullable=False),
    sa.Column("calls", sa.BigInteger, nullable=False),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("output_tokens", sa.BigInteger, nullable=False),
    sa.Column("cost", sa.Float),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("erased", sa.BigInteger),
    sa.Index(
        "otel_drift_unit_current",
        "unit_id",
        unique=True,
        sqlite_where=sa.text("current"),
        postgresql_where=sa.text("current"),
    ),
    sa.Index("otel_drift_unit_session", "session_key"),
    sa.Index("otel_drift_unit_created", "created"),
    sqlite_autoincrement=True,
)

unit_is_current = sa.text("otel_drift_unit.current")
"""As the index has it: SQLAlchemy writes ``current = 1`` for SQLite, which then reads the whole table instead."""

attempt = sa.Table(
    "otel_drift_attempt",
    metadata,
    sa.Column("attempt_id", _serial, primary_key=True, autoincrement=True),
    sa.Column("result_id", _serial, sa.ForeignKey("otel_drift_unit.result_id"), nullable=False, index=True),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("prompt_id", sa.Text, nullable=False),
    sa.Column("prompt_version", sa.Text, nullable=False),
    sa.Column("prompt_sha256", sa.Text, nullable=False),
    sa.Column("cache_key", sa.Text, nullable=False),
    sa.Column("cached", sa.Boolean, nullable=False),
    sa.Column("errors", sa.Text, nullable=False),
    sa.Column("messages_sha256", sa.Text, nullable=False),
    sa.Column("messages", sa.Text),
    sa.Column("answer", sa.Text),
    sa.Column("answer_sha256", sa.Text),
    sa.Column("model", sa.Text),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("output_tokens", sa.BigInteger, nullable=False),
    sa.Column("cost", sa.Float),
    sqlite_autoincrement=True,
)

finding = sa.Table(
    "otel_drift_finding",
    metadata,
    sa.Column("result_id", _serial, sa.ForeignKey("otel_drift_unit.result_id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("event_id", sa.Text, nullable=False, index=True),
    sa.Column("audit", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("severity", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("span_ref", sa.Text, nullable=False),
    sa.Column("body", sa.Text),
    sa.Column("fingerprint", sa.Text, index=True),
)
"""`fingerprint`: the same pair of claims on the same passages, in whatever session."""

contribution = sa.Table(
    "otel_drift_contribution",
    metadata,
    sa.Column("annotation_id", sa.Text, primary_key=True),
    sa.Column("unit_id", sa.Text, primary_key=True, index=True),
    sa.Column("body", sa.Text, nullable=False),
)
"""What each unit says now for an annotation: several audits share ``drift_severity``, several sessions a trace."""

annotation = sa.Table(
    "otel_drift_annotation",
    metadata,
    sa.Column("annotation_id", sa.Text, primary_key=True),
    sa.Column("revision", sa.Integer, primary_key=True),
    sa.Column("current", sa.Boolean, nullable=False),
    sa.Column("unit_id", sa.Text, nullable=False, index=True),
    sa.Column("withdrawn", sa.Boolean, nullable=False),
    sa.Column("content_sha256", sa.Text, nullable=False),
    sa.Column("body", sa.Text),
    sa.Column("created", sa.BigInteger, nullable=False),
)

delivery = sa.Table(
    "otel_drift_delivery",
    metadata,
    sa.Column("delivery_id", _serial, primary_key=True, autoincrement=True),
    sa.Column("annotation_id", sa.Text, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("sink", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("attempted", sa.BigInteger),
    sa.Column("settled", sa.BigInteger),
    sa.Column("reason", sa.Text),
    sa.UniqueConstraint("annotation_id", "sink", "revision", name="otel_drift_delivery_once"),
    sa.Index("otel_drift_delivery_owed", "sink", "state", "delivery_id"),
    sa.Index("otel_drift_delivery_settled", "sink", "settled", "state"),
    sqlite_autoincrement=True,
)
"""`state`: owed · written · unchanged · rejected · superseded (a later revision replaced it before it was written)."""

cursor = sa.Table(
    "otel_drift_cursor",
    metadata,
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("cursor", sa.Text),
    sa.Column("updated", sa.BigInteger, nullable=False),
)

instructions = sa.Table(
    "otel_drift_instructions",
    metadata,
    sa.Column("sha256", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)
"""System messages, each once: our prompts and the operator's settings, no text of traces."""

evidence = sa.Table(
    "otel_drift_evidence",
    metadata,
    sa.Column("result_id", _serial, sa.ForeignKey("otel_drift_unit.result_id"), primary_key=True),
    sa.Column("frame", sa.Text, nullable=False),
    sa.Column("for_user", sa.Text, index=True),
    sa.Column("packet", sa.Text),
    sa.Column("packet_sha256", sa.Text),
)
"""What a result rests on: ids, times and versions (`frame`), the texts a reviewer needs (`packet`)."""

passage = sa.Table(
    "otel_drift_passage",
    metadata,
    sa.Column("result_id", _serial, sa.ForeignKey("otel_drift_unit.result_id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("passage_key", sa.Text, primary_key=True, index=True),
    sa.Column("passage_id", sa.Text, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("title", sa.Text),
)
"""The passages behind each finding."""

membership = sa.Table(
    "otel_drift_membership",
    metadata,
    sa.Column("run_id", _serial, sa.ForeignKey("otel_drift_run.run_id"), primary_key=True),
    sa.Column("unit_id", sa.Text, primary_key=True),
    sa.Column("result_id", _serial, sa.ForeignKey("otel_drift_unit.result_id"), nullable=False),
)
"""The units of each run, those found again included."""

review = sa.Table(
    "otel_drift_review",
    metadata,
    sa.Column("item_id", sa.Text, primary_key=True),
    sa.Column("unit_id", sa.Text, nullable=False, index=True),
    sa.Column("result_id", _serial, sa.ForeignKey("otel_drift_unit.result_id"), nullable=False),
    sa.Column("event_id", sa.Text, index=True),
    sa.Column("status", sa.Text, nullable=False, index=True),
    sa.Column("reasons", sa.Text, nullable=False),
    sa.Column("content_sha256", sa.Text, nullable=False),
    sa.Column("opened", sa.BigInteger, nullable=False),
    sa.Column("resolved", sa.BigInteger),
    sa.Column("resolved_by", sa.Text),
    sa.Column("why", sa.Text),
)
"""What people are asked: one row a finding (`event_id`) or unit. `status`: see `policy.ItemStatus`."""

review_log = sa.Table(
    "otel_drift_review_log",
    metadata,
    sa.Column("log_id", _serial, primary_key=True, autoincrement=True),
    sa.Column("item_id", sa.Text, nullable=False, index=True),
    sa.Column("result_id", _serial, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("said_by", sa.Text),
    sa.Column("why", sa.Text),
    sqlite_autoincrement=True,
)
"""Every change of a review item's status, appended."""

mute = sa.Table(
    "otel_drift_mute",
    metadata,
    sa.Column("mute_id", _serial, primary_key=True, autoincrement=True),
    sa.Column("fingerprint", sa.Text, nullable=False, index=True),
    sa.Column("event_id", sa.Text, nullable=False),
    sa.Column("audit", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("until", sa.BigInteger),
    sa.Column("removed", sa.BigInteger),
    sqlite_autoincrement=True,
)

erasure = sa.Table(
    "otel_drift_erasure",
    metadata,
    sa.Column("erasure_id", _serial, primary_key=True, autoincrement=True),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("selector", sa.Text, nullable=False),
    sa.Column("counts", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
"""Privacy deletions: when, by what kind of selector, how much. Whose texts they were is not kept."""

alert = sa.Table(
    "otel_drift_alert",
    metadata,
    sa.Column("alerter", sa.Text, primary_key=True),
    sa.Column("alert_key", sa.Text, primary_key=True),
    sa.Column("unit_id", sa.Text, nullable=False),
    sa.Column("result_id", _serial, nullable=False),
    sa.Column("event_id", sa.Text),
    sa.Column("item_id", sa.Text),
    sa.Column("fingerprint", sa.Text),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("started", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.BigInteger),
    sa.Column("due", sa.BigInteger),
    sa.Column("told", sa.BigInteger),
    sa.Column("told_state", sa.Text),
    sa.Index("otel_drift_alert_state", "alerter", "state", "told"),
    sa.Index(
        "otel_drift_alert_due",
        "alerter",
        "due",
        sqlite_where=sa.text("due IS NOT NULL"),
        postgresql_where=sa.text("due IS NOT NULL"),
    ),
)
"""Who is to be told of what. `state`: firing · held (rejected or muted) · resolved · expired · done (an action).

`told_state`: firing · resolved · unsure (an attempt whose end is not known); `due`: since when there is something to
tell, if there is. The body holds no text of the trace.
"""

alerter = sa.Table(
    "otel_drift_alerter",
    metadata,
    sa.Column("alerter", sa.Text, primary_key=True),
    sa.Column("since", sa.BigInteger, nullable=False),
    sa.Column("seen", sa.BigInteger, nullable=False),
    sa.Column("sent", sa.Text, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("refusals", sa.Integer, nullable=False),
    sa.Column("retry_at", sa.BigInteger),
    sa.Column("reason", sa.Text),
)
"""Who is told. `seen`: results looked at (at first, all there were); `sent`: times of the last hour's notifications."""

spend = sa.Table(
    "otel_drift_spend",
    metadata,
    sa.Column("day", sa.Text, primary_key=True),
    sa.Column("calls", sa.BigInteger, nullable=False),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("output_tokens", sa.BigInteger, nullable=False),
    sa.Column("cost", sa.Float, nullable=False),
)
"""What judges took on a day (UTC, ``2026-11-30``), of all processes together."""

process = sa.Table(
    "otel_drift_process",
    metadata,
    sa.Column("process_id", sa.Text, primary_key=True),
    sa.Column("started", sa.BigInteger, nullable=False),
    sa.Column("heartbeat", sa.BigInteger, nullable=False),
    sa.Column("stopped", sa.BigInteger),
    sa.Column("body", sa.Text, nullable=False),
)
"""Services on this ledger, and what each says of itself (JSON)."""
