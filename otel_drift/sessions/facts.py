"""Sessions: what is remembered of each trace while an input larger than memory is read: ids, times, hashes of texts."""

from __future__ import annotations

import marshal
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from otel_drift.model import Attributes, Span
from otel_drift.normalise import Identity, Step, log_identity, read
from otel_drift.normalise.app import is_search
from otel_drift.normalise.owners import Owner
from otel_drift.normalise.remembered import of_names
from otel_drift.normalise.values import fold
from otel_drift.sessions.assemble import relevant
from otel_drift.sessions.evidence import gather
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.tree import cut, instructions, plant
from otel_drift.sessions.unit import Unit

MAX_PAIRS = 6
MAX_PASSAGES = 6
FEW_WORDS = 5
MAX_OWNERS = 12

_PREPARATION = re.compile(r"embed|index|insert|upsert|\badd\b", re.IGNORECASE)

T = TypeVar("T")


class Whose(NamedTuple):
    """Whose a trace is; as a rule the same for all traces of a session."""

    project: str
    environment: str | None
    rank: int
    sessions: tuple[str, ...]
    owners: tuple[Owner, ...]

    @property
    def place(self) -> tuple[str, str]:
        """Project and environment."""
        return self.project, self.environment or ""

    def packed(self) -> bytes:
        """As bytes, equal where it is equal."""
        return _packed(*self)

    def merged(self, other: Whose) -> Whose:
        """Both parts of what a trace says; project and environment are this one's."""
        sessions = self.sessions if self.rank <= other.rank else other.sessions
        if self.rank == other.rank:
            sessions = tuple(sorted({*self.sessions, *other.sessions}))
        owners = tuple(sorted({*self.owners, *other.owners})[:MAX_OWNERS])
        return Whose(self.project, self.environment, min(self.rank, other.rank), sessions, owners)


@lru_cache(maxsize=256)
def _packed(*whose: Any) -> bytes:
    return marshal.dumps(whose, 2)


@lru_cache(maxsize=256)
def unpacked(packed: bytes) -> Whose:
    """What `Whose.packed` made bytes of."""
    return Whose(*marshal.loads(packed))  # noqa: S302  (our own bytes)


class TraceFacts:
    """What is remembered of a trace while the input is read: about 200 bytes."""

    __slots__ = ("end", "environment", "owners", "place", "project", "rank", "relevant", "sessions", "start")

    def __init__(self) -> None:
        self.start = 2**63
        self.end = 0
        self.place = 2**65
        self.project = ""
        self.environment: str | None = None
        self.rank = 99
        self.sessions: tuple[str, ...] = ()
        self.owners: tuple[Owner, ...] = ()
        self.relevant = False

    def add(self, span: Span, identity: Identity | Step) -> None:
        """Take in one span."""
        if span.start < self.start:
            self.start = span.start
        if span.end > self.end:
            self.end = span.end
        place = span.start if span.parent_id is None else span.start + 2**64  # roots first
        if place <= self.place:
            here = (project_of(span), environment_of(span))
            if place < self.place or (here[0], here[1] or "") < (self.project, self.environment or ""):
                self.project, self.environment = _once(here)
            self.place = place
        if identity.session is not None:
            self._session(*identity.session)
        if identity.owners and identity.owners != self.owners:
            self._own(identity.owners)
        if not self.relevant and (len(identity.readers) > 1 or is_search(span)):
            self.relevant = bool(self.sessions) or not _only_prepares(span, identity)

    def add_unread(self, span: Span) -> None:
        """Take in a span that could not be read, so that its trace is not passed over in silence."""
        self.add(span, Identity((), None))
        self.relevant = True

    def add_log(self, attributes: Attributes) -> None:
        """Take in the ids of a log record that has not met its span yet."""
        session, owners = log_identity(attributes)
        if session is not None:
            self._session(*session)
        self._own(owners)

    @property
    def whose(self) -> Whose:
        """Whose the trace is."""
        return Whose(self.project, self.environment, self.rank, self.sessions, self.owners)

    def packed(self) -> bytes:
        """Whose the trace is, packed."""
        return _packed(self.project, self.environment, self.rank, self.sessions, self.owners)

    def _own(self, owners: Iterable[Owner]) -> None:
        for owner in owners:
            if owner not in self.owners:
                self.owners = _once(tuple(sorted((*self.owners, owner))[:MAX_OWNERS]))

    def _session(self, rank: int, session: str) -> None:
        if rank < self.rank:
            self.rank, self.sessions = rank, _once((session,))
        elif rank == self.rank and session not in self.sessions:
            self.sessions = _once(tuple(sorted((*self.sessions, session))))


def _only_prepares(span: Span, identity: Identity | Step) -> bool:
    """Whether a span embeds or indexes texts: traces of nothing else link to nothing, and there may be many."""
    if not _names_preparation(span.name):
        return False
    try:
        step = identity if isinstance(identity, Step) else read(span)
    except Exception:
        return False
    return step.kind in {"embedding", "index"}


@of_names(4096)
def _names_preparation(name: str) -> bool:
    return bool(_PREPARATION.search(name))


@lru_cache(maxsize=4096)
def _once(value: T) -> T:
    """The same object for equal values: thousands of traces name the same project, session and user."""
    return value


def project_of(span: Span) -> str:
    """The project or service of a span."""
    resource = span.resource
    value = resource.get("openinference.project.name") or resource.get("service.name")
    return value if isinstance(value, str) else ""


def environment_of(span: Span) -> str | None:
    """The deployment environment of a span."""
    resource = span.resource
    for value in (
        resource.get("deployment.environment.name"),
        resource.get("deployment.environment"),
        span.attributes.get("langfuse.environment"),
    ):
        if isinstance(value, str) and value:
            return value
    return None


@dataclass(slots=True)
class Digest:
    """Hashes of what a trace says: enough to link it to others, in this process only (they are Python's own)."""

    before: tuple[int, ...] = ()
    after: tuple[tuple[int, ...], ...] = ()
    asked: int = 0
    turn: int = 0
    answered: bool = False
    passages: tuple[int, ...] = ()
    talks: bool = False
    works_on: bool = False
    """Whether it only works on an answer that another trace gave."""
    question: int = 0
    task: int = 0
    """How the instructions of its first model call begin."""
    prepares: bool = False
    """Whether it is a lone call without history, answered in a few words: it may only prepare the answering one."""
    silent: bool = False
    """Whether its model calls were recorded without any content."""
    voice: int = 0
    """The instrumentations that recorded the model calls."""

    @property
    def empty(self) -> bool:
        """Whether nothing in the trace can be linked."""
        return not (self.talks or self.passages)


def digest_of(units: Sequence[Unit], options: ReconstructOptions) -> Digest:
    """The digest of one trace, given its units."""
    talk = [u for u in units if u.calls or (u.wrapped and u.answered)]
    if not talk:
        return Digest(passages=passages_of(units, options))
    first, last = talk[0], talk[-1]
    digest = Digest(answered=any(u.answered for u in talk), talks=True)
    digest.voice = hash(frozenset(c.span.scope for u in talk for c in (*u.calls, u.root)))
    history = first.history
    if len(talk) == 1 and first.works_on and not first.told:
        digest.works_on, history = True, first.ending
    digest.silent = not any(u.answered or u.user or u.failed or u.wrapped or u.has_sources for u in talk)
    digest.before = tuple(map(hash, history[-MAX_PAIRS:]))
    asked = fold(first.user or "")
    digest.asked = hash((asked, *(a for _, a in first.history[-2:]))) if asked else 0
    digest.question = hash(asked) if asked else 0
    if first.calls:
        task = instructions(first.calls[0])[:16]
        digest.task = hash(task)
        alone = len(talk) == 1 and len(first.calls) == 1 and not (history or first.wrapped or first.has_sources)
        digest.prepares = alone and bool(task) and 0 < len((first.answer or "").split()) <= FEW_WORDS
    if last.answer:
        digest.turn = hash((fold(last.user or ""), fold(last.answer)))
        stem = tuple(map(hash, last.history[-MAX_PAIRS + 1 :]))
        digest.after = tuple((*stem, hash(pair)) for pair in sorted(last.pairs_after))[:12]
    return digest


def passages_of(units: Sequence[Unit], options: ReconstructOptions) -> tuple[int, ...]:
    """Hashes of the passages of a trace."""
    found = [d.text for u in units if u.calls or u.has_sources for d, *_ in gather(u, options).found if d.text]
    return tuple(hash(fold(text)) for text in found[:MAX_PASSAGES])


def units_of(steps: Sequence[Step]) -> list[Unit]:
    """The units of one trace, whose steps come in their `order`."""
    ordered = plant(steps)
    groups = cut(ordered)
    for node in ordered:
        node.children.clear()  # only `cut` looks downwards; without the circle a trace's memory is freed at once
    return [Unit(group) for group in groups if relevant(group)]


@lru_cache(maxsize=1024)
def hash_of(*parts: str) -> int:
    """64 bits that stand for these texts."""
    digest = blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
