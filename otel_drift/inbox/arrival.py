"""Inbox: what came of each trace in one call, read and packed before any transaction begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from otel_drift.inbox.packing import pack
from otel_drift.ledger import records as columns
from otel_drift.model import LogRecord, Record
from otel_drift.normalise import identify
from otel_drift.sessions.facts import TraceFacts, Whose

_LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a trace: whose it is, when it was, whether it says something of a conversation.

    `place` is where the span stands that says project and environment: roots first, then the earliest.
    """

    whose: Whose
    place: int
    started: int
    ended: int
    relevant: bool
    has_logs: bool

    def merged(self, other: Facts) -> Facts:
        """Both, as if their records had come at once."""
        here = (self.place, self.whose.place) <= (other.place, other.whose.place)
        first, second = (self, other) if here else (other, self)
        return Facts(
            first.whose.merged(second.whose),
            first.place,
            min(self.started, other.started),
            max(self.ended, other.ended),
            self.relevant or other.relevant,
            self.has_logs or other.has_logs,
        )

    def to_json(self) -> str:
        """As the database keeps it, beside the columns for times and relevance."""
        return columns.to_json([*self.whose, str(self.place), self.has_logs])

    @classmethod
    def from_json(cls, text: str, started: int, ended: int, relevant: bool) -> Facts:
        """The inverse of `to_json`."""
        project, environment, rank, sessions, owners, place, has_logs = columns.from_json(text)
        whose = Whose(project, environment, rank, tuple(sessions), tuple((kind, value) for kind, value in owners))
        return cls(whose, int(place), started, ended, relevant, has_logs)


@dataclass(slots=True)
class Part:
    """What came of one trace in one call. `records` only where equal ones are to be left out."""

    trace_id: str
    trace_hash: bytes
    origin: str
    facts: Facts
    spans: int
    payload: bytes
    records: Sequence[Record] | None = None


def parts_of(
    given: Sequence[Record], origin: str, session_attributes: Sequence[str], *, only_new: bool = False
) -> list[Part]:
    """Records by trace, with their facts."""
    traces: dict[str, list[Record]] = {}
    for record in given:
        traces.setdefault(record.trace_id, []).append(record)
    return [_part(trace, own, origin, session_attributes, only_new) for trace, own in traces.items()]


def part_of(records: Sequence[Record], origin: str, session_attributes: Sequence[str]) -> Part:
    """Records of one trace, with its facts."""
    return _part(records[0].trace_id, records, origin, session_attributes, False)


def _part(trace: str, given: Sequence[Record], origin: str, session_attributes: Sequence[str], keep: bool) -> Part:
    facts = TraceFacts()
    logs = 0
    for record in given:
        if isinstance(record, LogRecord):
            logs += 1
            facts.add_log(record.attributes)
            continue
        try:
            identity = identify(record, session_attributes)
        except Exception:  # as where a file is read: its trace is not passed over in silence
            facts.add_unread(record)
        else:
            facts.add(record, identity)
    known = Facts(
        facts.whose, facts.place, max(-_LAST, min(facts.start, _LAST)), max(-_LAST, min(facts.end, _LAST)),
        facts.relevant, bool(logs),
    )  # fmt: skip
    payload = pack(given)
    return Part(trace, trace_hash(origin, trace), origin, known, len(given) - logs, payload, given if keep else None)


def trace_hash(origin: str, trace_id: str) -> bytes:
    """What a trace is found by: 16 bytes, however long its id is."""
    return _digest(f"{origin}\0{trace_id}")


@lru_cache(maxsize=8192)
def group_id(place: str, session_id: str) -> str:
    """The group of a session id at a place; that of the traces without one is the place itself."""
    return _digest(f"{place}\0{session_id}").hex()


@lru_cache(maxsize=8192)
def place_id(origin: str, project: str, environment: str | None) -> str:
    """The id of a place."""
    return _digest(columns.to_json([origin, project, environment or ""])).hex()


def groups_of(facts: Facts, origin: str) -> dict[str, str | None]:
    """The groups that have to audit a trace, with their session ids; none for what is of no interest."""
    place = place_id(origin, *facts.whose.place)
    if facts.whose.sessions:
        return {group_id(place, session): session for session in facts.whose.sessions}
    return {place: None} if facts.relevant else {}


def written(text: str) -> str:
    """`text` as a text column holds it: ordinary text as it is, control characters and the like as JSON's escapes."""
    return columns.to_json(text)[1:-1]


def read(column: str) -> str:
    """The inverse of `written`."""
    return str(columns.from_json(f'"{column}"')) if "\\" in column else column


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
