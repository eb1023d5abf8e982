"""The inbox's tables, in the ledger's database and its migrations. Times are nanoseconds since the Unix epoch."""

from __future__ import annotations

import sqlalchemy as sa

from otel_drift.ledger.schema import metadata

trace = sa.Table(
    "otel_drift_inbox_trace",
    metadata,
    sa.Column("trace_number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("trace_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("trace_id", sa.Text, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Column("named", sa.Boolean, nullable=False),
    sa.Column("relevant", sa.Boolean, nullable=False),
    sa.Column("started", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.BigInteger, nullable=False),
    sa.Column("received", sa.BigInteger, nullable=False, index=True),
    sa.Column("spans", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Index("otel_drift_inbox_trace_place", "place", "named", "ended"),
)
"""Traces received. `trace_hash`: of origin and trace id; `place`: a hash of origin, project and environment."""

chunk = sa.Table(
    "otel_drift_inbox_chunk",
    metadata,
    sa.Column("chunk_number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("trace_number", sa.BigInteger, nullable=False, index=True),
    sa.Column("received", sa.BigInteger, nullable=False),
    sa.Column("spans", sa.BigInteger, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
)
"""What came of a trace at once, packed. Later chunks have higher numbers, among all traces."""

group = sa.Table(
    "otel_drift_inbox_group",
    metadata,
    sa.Column("group_id", sa.Text, primary_key=True),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("environment", sa.Text),
    sa.Column("session_id", sa.Text),
    sa.Column("relevant", sa.Boolean, nullable=False),
    sa.Column("received", sa.BigInteger, nullable=False),
    sa.Column("open_since", sa.BigInteger),
    sa.Column("open_spans", sa.BigInteger, nullable=False),
    sa.Column("priority", sa.Float, nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("put_off_since", sa.BigInteger),
    sa.Column("put_off_for", sa.Text),
    sa.Column("rests_since", sa.BigInteger),
    sa.Column("rests_until", sa.BigInteger),
    sa.Column("owner", sa.Text),
    sa.Column("ticket", sa.Text),
    sa.Column("held_until", sa.BigInteger),
    sa.Index(
        "otel_drift_inbox_group_open",
        "priority",
        "received",
        sqlite_where=sa.text("open_since IS NOT NULL"),
        postgresql_where=sa.text("open_since IS NOT NULL"),
    ),
)
"""A session id of a place, or the traces of a place that name none: what is claimed for auditing."""

member = sa.Table(
    "otel_drift_inbox_member",
    metadata,
    sa.Column("trace_number", sa.BigInteger, primary_key=True),
    sa.Column("group_id", sa.Text, primary_key=True),
    sa.Column("adopted", sa.Boolean, nullable=False),
    sa.Column("received", sa.BigInteger, nullable=False),
    sa.Column("open_since", sa.BigInteger),
    sa.Column("open_spans", sa.BigInteger, nullable=False),
    sa.Column("audited", sa.BigInteger, nullable=False),
    sa.Column("audited_key", sa.Text),
    sa.Column("audited_hash", sa.BigInteger, index=True),
    sa.Index("otel_drift_inbox_member_group", "group_id"),
    sa.Index(
        "otel_drift_inbox_member_open",
        "group_id",
        "received",
        sqlite_where=sa.text("open_since IS NOT NULL"),
        postgresql_where=sa.text("open_since IS NOT NULL"),
    ),
)
"""The traces of a group. `audited`: up to which chunk; `adopted`: it names no session, but its history is of this."""

tally = sa.Table(
    "otel_drift_inbox_tally",
    metadata,
    sa.Column("tally_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("traces", sa.BigInteger, nullable=False),
    sa.Column("chunks", sa.BigInteger, nullable=False),
    sa.Column("spans", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
)
"""One row: the last numbers given to traces and chunks, and how many spans and bytes are kept."""
