"""The connector does what every connector must: ``pytest test_sqlite_traces.py``."""

import sqlite3
from contextlib import contextmanager

from fill import fill
from sqlite_traces import SCORES, SqliteSink, SqliteSource

from otel_drift.protocols import Window
from otel_drift.testing import SinkCase, SourceCase, check_sink, check_source, sample_annotations, sample_spans

SESSIONS = sample_spans(sessions=3)


def test_the_source_conforms(tmp_path):
    file = tmp_path / "traces.db"
    fill(file, SESSIONS)
    last = [span for span in SESSIONS if span.attributes["gen_ai.conversation.id"] == "session-3"]
    (tmp_path / "empty.db").touch()

    check_source(
        SourceCase(
            open=lambda: SqliteSource(str(file)),
            window=Window(last[4].start, last[-1].end),  # its first turn lies before the window, and must come too
            sessions={"session-3": [span.ref for span in last]},
            elsewhere=["session-1"],
            broken={
                "no file": lambda: SqliteSource(str(tmp_path / "nowhere.db")),
                "no spans": lambda: SqliteSource(str(tmp_path / "empty.db")),
            },
        )
    )


def test_one_broken_span_is_told_and_the_rest_is_read(tmp_path):
    file, problems = tmp_path / "traces.db", []
    fill(file, SESSIONS)
    with sqlite3.connect(file) as database:
        database.execute("UPDATE span SET attributes = 'no json' WHERE rowid = 1")

    pages = list(SqliteSource(str(file), on_problem=problems.append).read())

    assert sum(len(page) for page, _ in pages) == len(SESSIONS) - 1
    assert len(problems) == 1


def test_the_sink_conforms(tmp_path):
    file = tmp_path / "traces.db"
    fill(file, SESSIONS)
    database = sqlite3.connect(file)
    database.execute(SCORES)
    database.execute("INSERT INTO score VALUES ('session', 'session-1', 'drift_severity', 'fine', 0, '', 'a person')")
    database.commit()

    def standing():
        rows = database.execute("SELECT target, target_id, name, label FROM score WHERE author = 'otel-drift'")
        return [((target, target_id, name), label) for target, target_id, name, label in rows]

    @contextmanager
    def locked():
        """Another process holds the file for longer than a writer waits."""
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
        other.close()

    check_sink(
        SinkCase(
            open=lambda: SqliteSink(str(file), wait=0),
            annotations=sample_annotations(SESSIONS),
            standing=standing,
            foreign=lambda: database.execute("SELECT * FROM score WHERE author <> 'otel-drift'").fetchall(),
            failing={"a locked file": locked},
            broken={"a folder": lambda: SqliteSink(str(tmp_path))},
        )
    )
    database.close()
