"""Sessions: which traces belong to one session; by session id, else by history, overlap or shared passages.

Only compact facts and hashes of a trace are kept, so that this works for inputs larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from urllib.parse import quote

from otel_drift.model import Attributes, Span
from otel_drift.normalise import Identity, Step, log_identity
from otel_drift.normalise.app import is_search
from otel_drift.normalise.values import fold
from otel_drift.sessions.assemble import relevant
from otel_drift.sessions.evidence import gather
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.tree import cut, plant
from otel_drift.sessions.unit import Unit

MAX_PAIRS = 6
MAX_PASSAGES = 6
PASSAGE_GAP = 10 * 60 * 10**9


class TraceFacts:
    """What is remembered of a trace while the input is read: about 200 bytes."""

    __slots__ = ("end", "environment", "place", "project", "rank", "relevant", "sessions", "start", "users")

    def __init__(self) -> None:
        self.start = 2**63
        self.end = 0
        self.place: tuple[bool, int, str] = (True, 2**63, "")
        self.project = ""
        self.environment: str | None = None
        self.rank = 99
        self.sessions: tuple[str, ...] = ()
        self.users: tuple[str, ...] = ()
        self.relevant = False

    def add(self, span: Span, identity: Identity | Step) -> None:
        """Take in one span."""
        if span.start < self.start:
            self.start = span.start
        if span.end > self.end:
            self.end = span.end
        place = (span.parent_id is not None, span.start, span.span_id)
        if place < self.place:
            self.place = place
            self.project, self.environment = project_of(span), environment_of(span)
        if not self.relevant and (len(identity.readers) > 1 or is_search(span)):
            self.relevant = True
        if identity.session is not None:
            self._session(*identity.session)
        user = identity.user
        if user is not None:
            self._user(user)

    def add_log(self, attributes: Attributes) -> None:
        """Take in the ids of a log record that has not met its span yet."""
        session, user = log_identity(attributes)
        if session is not None:
            self._session(*session)
        if user is not None:
            self._user(user)

    def _user(self, user: str) -> None:
        if user not in self.users and len(self.users) < 4:
            self.users = tuple(sorted((*self.users, user)))

    def _session(self, rank: int, session: str) -> None:
        if rank < self.rank:
            self.rank, self.sessions = rank, (session,)
        elif rank == self.rank and session not in self.sessions:
            self.sessions = tuple(sorted((*self.sessions, session)))


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
    """Hashes of what a trace says: enough to link it to others."""

    before: tuple[int, ...] = ()
    after: tuple[tuple[int, ...], ...] = ()
    asked: int = 0
    turn: int = 0
    answered: bool = False
    passages: tuple[int, ...] = ()
    talks: bool = False
    voice: int = 0
    """The instrumentations that recorded the model calls."""

    @property
    def empty(self) -> bool:
        """Whether nothing in the trace can be linked."""
        return not (self.asked or self.turn or self.passages or self.answered)


def digest_of(units: Sequence[Unit], options: ReconstructOptions) -> Digest:
    """The digest of one trace, given its units."""
    talk = [u for u in units if u.calls or (u.wrapped and u.answered)]
    if not talk:
        return Digest(passages=passages_of(units, options))
    first, last = talk[0], talk[-1]
    digest = Digest(answered=any(u.answered for u in talk), talks=True)
    digest.voice = _hash(*sorted({c.span.scope for u in talk for c in (*u.calls, u.root)}))
    digest.before = tuple(_hash(q, a) for q, a in first.history[-MAX_PAIRS:])
    asked = fold(first.user or "")
    digest.asked = _hash("asked", asked, *(a for _, a in first.history[-2:])) if asked else 0
    if last.answer:
        digest.turn = _hash("turn", fold(last.user or ""), fold(last.answer))
        stem = tuple(_hash(q, a) for q, a in last.history[-MAX_PAIRS + 1 :])
        digest.after = tuple((*stem, _hash(q, a)) for q, a in sorted(last.pairs_after))[:4]
    return digest


def passages_of(units: Sequence[Unit], options: ReconstructOptions) -> tuple[int, ...]:
    """Hashes of the passages of a trace."""
    found = [d.text for u in units if u.calls or u.has_sources for d, *_ in gather(u, options).found if d.text]
    return tuple(_hash(fold(text)) for text in found[:MAX_PASSAGES])


def units_of(steps: Sequence[Step]) -> list[Unit]:
    """The units of one trace."""
    return [Unit(group) for group in cut(plant(steps)) if relevant(group)]


def _hash(*parts: str) -> int:
    return int.from_bytes(blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).digest(), "big")


@dataclass(slots=True)
class Group:
    """Traces of one session."""

    key: str
    session_id: str | None
    project: str
    environment: str | None
    user: str | None
    trace_ids: list[str]
    start: int


@dataclass(slots=True)
class _Links:
    """Union-find over trace ids."""

    parent: dict[str, str] = field(default_factory=dict)

    def find(self, item: str) -> str:
        path = []
        while self.parent.setdefault(item, item) != item:
            path.append(item)
            item = self.parent[item]
        for step in path:
            self.parent[step] = item
        return item

    def join(self, one: str, other: str) -> None:
        first, second = self.find(one), self.find(other)
        if first != second:
            self.parent[max(first, second)] = min(first, second)


def link(
    facts: Mapping[str, TraceFacts], units: Callable[[str], Sequence[Unit]], options: ReconstructOptions
) -> list[Group]:
    """Group traces into sessions, ordered by their first trace.

    Args:
        facts: every trace's facts.
        units: the units of a trace, read again; asked for only where links are needed.
        options: the time gap.
    """
    known = {t: f for t, f in facts.items() if f.sessions}
    lone = {t: f for t, f in facts.items() if not f.sessions and f.relevant}
    buckets = _by_session(known)
    links = _Links()
    digests = {t: digest_of(units(t), options) for t in lone}
    lone = {t: f for t, f in lone.items() if not digests[t].empty}
    session_of: dict[str, tuple[str, ...]] = {}
    if lone:
        projects = {f.project for f in lone.values()}
        for trace, f in known.items():
            if f.project in projects and f.relevant:
                digests[trace] = digest_of(units(trace), options)
        for bucket, traces in buckets.items():
            for trace in traces:
                session_of.setdefault(trace, bucket)
                links.join(min(traces), trace)
        _link_lone({t: f for t, f in facts.items() if t in digests}, lone, digests, links, options)
        if any(digests[t].passages for t in lone):
            _link_passages({t: f for t, f in facts.items() if t in digests}, lone, digests, units, links, options)
    groups = _groups(facts, buckets, lone, links)
    return sorted(groups, key=lambda g: (g.start, g.key))


def _by_session(known: Mapping[str, TraceFacts]) -> dict[tuple[str, ...], list[str]]:
    """Traces by project, environment, user and session id; unknown users join where there is one user only."""
    rough: dict[tuple[str, str, str], list[str]] = {}
    for trace, f in known.items():
        for session in f.sessions:
            rough.setdefault((f.project, f.environment or "", session), []).append(trace)
    buckets: dict[tuple[str, ...], list[str]] = {}
    for (project, environment, session), traces in rough.items():
        users = sorted({u for t in traces for u in known[t].users if len(known[t].users) == 1})
        for trace in traces:
            own = known[trace].users
            user = own[0] if len(own) == 1 else users[0] if len(users) == 1 else ""
            buckets.setdefault((project, environment, user, session), []).append(trace)
    return buckets


def _link_lone(
    facts: Mapping[str, TraceFacts],
    lone: Mapping[str, TraceFacts],
    digests: Mapping[str, Digest],
    links: _Links,
    options: ReconstructOptions,
) -> None:
    ordered = sorted(facts, key=lambda t: (facts[t].start, t))
    gap = int(options.gap_seconds * 1e9)
    _link_twins(ordered, facts, lone, digests, links)
    by_last: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    by_asked: dict[int, list[str]] = {}
    for trace in ordered:
        d = digests[trace]
        for after in d.after:
            by_last.setdefault(after[-1], []).append((trace, after))
        if d.asked:
            by_asked.setdefault(d.asked, []).append(trace)
    for trace in ordered:
        d = digests[trace]
        if d.before:
            _link_history(trace, d, by_last, facts, lone, links, gap)
    for trace in ordered:
        d = digests[trace]
        if trace in lone and d.asked and not d.answered:
            _link_next(trace, by_asked.get(d.asked, ()), facts, digests, links)


def _link_twins(
    ordered: list[str],
    facts: Mapping[str, TraceFacts],
    lone: Mapping[str, TraceFacts],
    digests: Mapping[str, Digest],
    links: _Links,
) -> None:
    """The same question and answer at the same time: one turn recorded by two instrumentations."""
    by_turn: dict[int, list[str]] = {}
    for trace in ordered:
        turn = digests[trace].turn
        if not turn:
            continue
        for other in by_turn.setdefault(turn, []):
            if (
                (trace in lone or other in lone)
                and digests[other].voice != digests[trace].voice
                and facts[other].end > facts[trace].start
                and facts[other].project == facts[trace].project
            ):
                links.join(trace, other)
        by_turn[turn].append(trace)


def _link_history(
    trace: str,
    d: Digest,
    by_last: Mapping[int, list[tuple[str, tuple[int, ...]]]],
    facts: Mapping[str, TraceFacts],
    lone: Mapping[str, TraceFacts],
    links: _Links,
    gap: int,
) -> None:
    """The trace whose questions and answers this one resends; several equally good ones are ambiguous."""
    f = facts[trace]
    best: dict[str, int] = {}
    for other, after in by_last.get(d.before[-1], ()):
        g = facts[other]
        if other == trace or g.project != f.project or (g.environment or "") != (f.environment or ""):
            continue
        if trace not in lone and other not in lone:
            continue
        if f.users and g.users and not set(f.users) & set(g.users):
            continue
        if g.start >= f.end or f.start - g.end > gap:
            continue
        length = min(len(after), len(d.before))
        if after[-length:] == d.before[-length:]:
            exact = len(after) == len(d.before)
            root = links.find(other)
            best[root] = max(best.get(root, 0), 2 * length + exact)
    if not best:
        return
    top = max(best.values())
    roots = [root for root, value in best.items() if value == top]
    if len(roots) == 1:
        links.join(trace, roots[0])


def _link_next(
    trace: str,
    candidates: Iterable[str],
    facts: Mapping[str, TraceFacts],
    digests: Mapping[str, Digest],
    links: _Links,
) -> None:
    """A failed or unfinished try belongs to the next trace with the same question."""
    f = facts[trace]
    for other in candidates:
        g = facts[other]
        if (
            other != trace
            and g.start >= f.start
            and g.project == f.project
            and digests[other].answered
            and g.start - f.end < PASSAGE_GAP
        ):
            links.join(trace, other)
            return


def _link_passages(
    facts: Mapping[str, TraceFacts],
    lone: Mapping[str, TraceFacts],
    digests: Mapping[str, Digest],
    units: Callable[[str], Sequence[Unit]],
    links: _Links,
    options: ReconstructOptions,
) -> None:
    """A retrieval that is a trace of its own belongs to the next trace whose prompt holds its passages."""
    ordered = sorted(facts, key=lambda t: (facts[t].start, t))
    prompts: dict[str, frozenset[int]] = {}
    for index, trace in enumerate(ordered):
        if trace not in lone or not digests[trace].passages:
            continue
        f = facts[trace]
        wanted = frozenset(digests[trace].passages)
        for other in ordered[index + 1 :]:
            if facts[other].start - f.end > PASSAGE_GAP:
                break
            if facts[other].project != f.project or not digests[other].talks:
                continue
            if other not in prompts:
                prompts[other] = frozenset(passages_of(units(other), options))
            if wanted & prompts[other]:
                links.join(trace, other)
                break


def _groups(
    facts: Mapping[str, TraceFacts],
    buckets: Mapping[tuple[str, ...], list[str]],
    lone: Mapping[str, TraceFacts],
    links: _Links,
) -> list[Group]:
    by_root: dict[str, list[str]] = {}
    for trace in lone:
        by_root.setdefault(links.find(trace), []).append(trace)
    groups = []
    for (project, environment, user, session), traces in buckets.items():
        members = set(traces)
        if lone:
            members.update(by_root.pop(links.find(min(traces)), ()))
        ordered = sorted(members, key=lambda t: (facts[t].start, t))
        groups.append(
            Group(
                _key(project, environment, user, session),
                session,
                project,
                environment or None,
                user or None,
                ordered,
                min(facts[t].start for t in ordered),
            )
        )
    for traces in by_root.values():
        ordered = sorted(traces, key=lambda t: (facts[t].start, t))
        first = facts[ordered[0]]
        users = sorted({u for t in ordered for u in facts[t].users})
        only = users[0] if len(users) == 1 else None
        groups.append(
            Group(
                _key(first.project, first.environment or "", only or "", "trace:" + ordered[0]),
                None,
                first.project,
                first.environment,
                only,
                ordered,
                first.start,
            )
        )
    return groups


def _key(*parts: str) -> str:
    return "/".join(quote(part, safe=":@.-_", errors="replace") or "-" for part in parts)
