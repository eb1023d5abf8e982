"""Sessions: a table of what traces say, by hashes: those that name no session, and those they may belong to."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

from otel_drift.sessions.facts import Digest, digest_of
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.trace_index import AT_ONCE, TraceIndex, blob, trace_id_of
from otel_drift.sessions.unit import Unit

PASSAGE_GAP = 10 * 60 * 10**9
"""How long (nanoseconds) after a search or a failed try the call that it served may start."""

ID_GAP = 30 * 60 * 10**9
"""How long after a turn without a session id the session that continues it may name itself."""

Units = Callable[[str], Sequence[Unit]]

_SCHEMA = """
CREATE TABLE digest (
    trace INTEGER PRIMARY KEY, start INTEGER, end INTEGER, whose INTEGER, project INTEGER, place INTEGER, lone INTEGER,
    talks INTEGER, silent INTEGER, answered INTEGER, works_on INTEGER, prepares INTEGER, asked INTEGER, turn INTEGER,
    question INTEGER, task INTEGER, voice INTEGER, last INTEGER, before BLOB, passages BLOB);
CREATE TABLE ending (last INTEGER, start INTEGER, trace INTEGER, id BLOB, after BLOB);
CREATE TABLE wanted (trace INTEGER PRIMARY KEY);
CREATE VIEW located AS
SELECT trace.number, id, start, end, whose, project, place, named FROM trace JOIN whose ON whose.number = whose
WHERE relevant;
BEGIN;
"""
_INDEXES = """
CREATE INDEX ending_last ON ending (last, start);
CREATE INDEX digest_asked ON digest (asked, start) WHERE answered;
CREATE INDEX digest_question ON digest (question, start);
BEGIN;
"""
_INSERT = "INSERT INTO digest VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UNNAMED = "SELECT number, id, start, end, whose, project, place FROM located WHERE NOT named"
_WANTED = """
SELECT number, id, start, end, whose, project, place FROM wanted JOIN located ON number = trace
WHERE named AND trace NOT IN (SELECT trace FROM digest) AND project IN (SELECT project FROM digest WHERE lone)
"""
_IN_TIME = """
SELECT number, located.start, located.end, located.project, named, talks FROM located LEFT JOIN digest ON trace = number
WHERE located.project IN (SELECT project FROM digest) ORDER BY number
"""
_SOON_AFTER = """
INSERT OR IGNORE INTO wanted SELECT first FROM (SELECT min(trace) AS first FROM member GROUP BY session)
JOIN trace ON number = first WHERE EXISTS (
    SELECT 1 FROM digest WHERE lone AND answered AND digest.end BETWEEN trace.start - ? AND trace.start)
"""
_BEFORE_ORPHANS = """
INSERT OR IGNORE INTO wanted SELECT number FROM located
JOIN (SELECT project, max(start) AS latest FROM digest
      WHERE lone AND last IS NOT NULL AND last NOT IN (SELECT last FROM ending) GROUP BY project) USING (project)
WHERE named AND start < latest
"""


def read_digests(index: TraceIndex, units: Units, options: ReconstructOptions) -> bool:
    """Fill the table ``digest``, and ``ending`` with the histories a next trace may resend.

    Traces of known sessions are read only where one that names none may be of their session.

    Returns:
        Whether there is a trace that names none.
    """
    index.database.executescript(_SCHEMA)
    digests = _Digests(index, units, options)
    found = digests.read_lone()
    if found:
        digests.read_known()
        index.database.executescript(_INDEXES)
    return found


class _Digests:
    def __init__(self, index: TraceIndex, units: Units, options: ReconstructOptions) -> None:
        self._database = index.database
        self._units = units
        self._options = options

    def read_lone(self) -> bool:
        """Read the traces that name no session; False where there are none."""
        self._read(_UNNAMED, lone=True)
        return bool(self._database.execute("SELECT EXISTS (SELECT 1 FROM digest)").fetchone()[0])

    def read_known(self) -> None:
        """Read the traces of known sessions that one without may belong to."""
        self._database.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", self._overlapping())
        soon = min(int(self._options.gap_seconds * 1e9), ID_GAP)
        self._database.execute("CREATE INDEX digest_end ON digest (end) WHERE lone AND answered")
        self._database.execute(_SOON_AFTER, (soon,))
        self._read(_WANTED, lone=False)
        self._database.execute(_BEFORE_ORPHANS)
        self._read(_WANTED, lone=False)

    def _read(self, query: str, *, lone: bool) -> None:
        found = self._database.execute(query)
        while some := found.fetchmany(AT_ONCE):
            rows: list[tuple[object, ...]] = []
            endings: list[tuple[object, ...]] = []
            for number, id_, start, end, whose, project, place in some:
                digest = self._digest(trace_id_of(id_))
                if lone and digest.empty:
                    continue
                rows.append((
                    number, start, end, whose, project, place, int(lone), int(digest.talks), int(digest.silent),
                    int(digest.answered), int(digest.works_on), int(digest.prepares),
                    digest.asked or None, digest.turn or None, digest.question or None, digest.task, digest.voice,
                    digest.before[-1] if digest.before else None, blob(marshal.dumps(digest.before)),
                    blob(marshal.dumps(digest.passages)) if digest.passages else None,
                ))  # fmt: skip
                endings += [(a[-1], start, number, blob(id_), blob(marshal.dumps(a))) for a in digest.after]
            self._database.executemany(_INSERT, rows)
            self._database.executemany("INSERT INTO ending VALUES (?, ?, ?, ?, ?)", endings)

    def _digest(self, trace: str) -> Digest:
        """A trace's digest; one that cannot be read links to nothing, and is reported when its session is built."""
        try:
            return digest_of(self._units(trace), self._options)
        except Exception:
            return Digest(talks=True)

    def _overlapping(self) -> Iterator[tuple[int]]:
        """Traces of known sessions at the time of one that names none, or soon after a search that names none."""
        until: dict[int, int] = {}
        under_way: dict[int, list[tuple[int, int]]] = {}
        for number, start, end, project, named, talks in self._database.execute(_IN_TIME):
            if talks is not None:
                until[project] = max(until.get(project, 0), end if talks else end + PASSAGE_GAP)
                if talks:
                    yield from ((other,) for known_end, other in under_way.pop(project, ()) if known_end > start)
            elif named and until.get(project, 0) > start:
                yield (number,)
            elif named:
                known = under_way.setdefault(project, [])
                heappush(known, (end, number))
                while known and known[0][0] <= start:
                    heappop(known)
