"""Makes a SQLite file of sample conversations, as your application would: ``python fill.py traces.db``."""

import json
import sqlite3
import sys

from sqlite_traces import SPANS

from otel_drift.testing import sample_spans


def fill(file, spans) -> None:
    """Add spans to the file."""
    with sqlite3.connect(file) as database:
        database.execute(SPANS)
        database.executemany(
            "INSERT OR REPLACE INTO span VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    span.trace_id,
                    span.span_id,
                    span.parent_id,
                    span.attributes["gen_ai.conversation.id"],
                    span.name,
                    span.start,
                    span.end,
                    json.dumps(span.attributes),
                    json.dumps(span.resource),
                )
                for span in spans
            ],
        )


if __name__ == "__main__":
    fill(sys.argv[1], sample_spans(sessions=3))
