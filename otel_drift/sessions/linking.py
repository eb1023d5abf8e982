"""Sessions: which traces belong to one session; by session id, else by history, overlap or shared passages.

Only compact facts and hashes of a trace are kept, so that this works for inputs larger than memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from otel_drift.sessions.facts import Digest, TraceFacts, digest_of, passages_of
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.owners import Owners, compatible, key_parts, parted, tenant_of, user_of
from otel_drift.sessions.unit import Unit

PASSAGE_GAP = 10 * 60 * 10**9
"""How long (nanoseconds) after a search or a failed try the call that it served may start."""

PREPARED_GAP = 60 * 10**9
"""How long (nanoseconds) after a call that only prepared an answer the answering call may start."""

ID_GAP = 30 * 60 * 10**9
"""How long after a turn without a session id the session that continues it may name itself."""

Units = Callable[[str], Sequence[Unit]]
Bucket = tuple[str, str, Owners, str]
"""Project, environment, user and tenant, session id."""


@dataclass(slots=True)
class Group:
    """Traces of one session."""

    key: str
    session_id: str | None
    project: str
    environment: str | None
    user: str | None
    tenant: str | None
    trace_ids: list[str]
    start: int


def link(facts: Mapping[str, TraceFacts], units: Units, options: ReconstructOptions) -> list[Group]:
    """Group traces into sessions, ordered by their first trace.

    Args:
        facts: every trace's facts.
        units: the units of a trace, read again; asked for only where links are needed.
        options: the time gap.
    """
    buckets = _by_session({t: f for t, f in facts.items() if f.sessions})
    lone = {t: _digest(t, units, options) for t, f in facts.items() if not f.sessions and f.relevant}
    lone = {t: d for t, d in lone.items() if not d.empty}
    links = _Links()
    if lone:
        for bucket, traces in buckets.items():
            for trace in traces:
                links.anchor(trace, bucket)
        _Lone(facts, lone, buckets, units, links, options).link()
    return sorted(_groups(facts, buckets, lone, links), key=lambda g: (g.start, g.key))


def _digest(trace: str, units: Units, options: ReconstructOptions) -> Digest:
    """A trace's digest; one that cannot be read links to nothing, and is reported when its session is built."""
    try:
        return digest_of(units(trace), options)
    except Exception:
        return Digest(talks=True)


def _by_session(known: Mapping[str, TraceFacts]) -> dict[Bucket, list[str]]:
    """Traces by project, environment, owners and session id."""
    rough: dict[tuple[str, str, str], list[str]] = {}
    for trace, f in known.items():
        for session in f.sessions:
            rough.setdefault((f.project, f.environment or "", session), []).append(trace)
    buckets: dict[Bucket, list[str]] = {}
    for (project, environment, session), traces in rough.items():
        whose = parted({known[t].owners for t in traces})
        for trace in sorted(traces):
            buckets.setdefault((project, environment, whose[known[trace].owners], session), []).append(trace)
    return buckets


@dataclass(slots=True)
class _Links:
    """Union-find over trace ids; two sessions that have ids of their own are never joined."""

    parent: dict[str, str] = field(default_factory=dict)
    bucket: dict[str, Bucket] = field(default_factory=dict)
    first: dict[Bucket, str] = field(default_factory=dict)

    def find(self, item: str) -> str:
        path = []
        while self.parent.setdefault(item, item) != item:
            path.append(item)
            item = self.parent[item]
        for step in path:
            self.parent[step] = item
        return item

    def anchor(self, trace: str, bucket: Bucket) -> None:
        first = self.first.setdefault(bucket, trace)
        self.bucket.setdefault(self.find(first), bucket)
        self.join(trace, first)

    def join(self, one: str, other: str) -> bool:
        first, second = sorted((self.find(one), self.find(other)))
        if first == second:
            return True
        named = self.bucket.get(first)
        other_named = self.bucket.get(second)
        if named is not None and other_named is not None and named != other_named:
            return False
        self.parent[second] = first
        if named is None and other_named is not None:
            self.bucket[first] = other_named
        return True


class _Lone:
    """Links for the traces that name no session. Traces of known sessions are read only where one may be involved."""

    def __init__(
        self,
        facts: Mapping[str, TraceFacts],
        lone: Mapping[str, Digest],
        buckets: Mapping[Bucket, list[str]],
        units: Units,
        links: _Links,
        options: ReconstructOptions,
    ) -> None:
        self.facts = facts
        self.lone = lone
        self.buckets = buckets
        self.units = units
        self.links = links
        self.options = options
        self.gap = int(options.gap_seconds * 1e9)
        self.digests = dict(lone)
        self.continued: set[str] = set()

    def link(self) -> None:
        """Find all links, in the order of time."""
        self._read(self._overlapping())
        self._read(self._soon_after())
        self._read(self._before_orphans())
        ordered = sorted(self.digests, key=self._time)
        self._twins(ordered)
        self._silent(ordered)
        self._histories(ordered)
        self._unfinished(ordered)
        self._prepared(ordered)
        self._searches(ordered)

    def _time(self, trace: str) -> tuple[int, str]:
        return self.facts[trace].start, trace

    def _read(self, traces: Iterable[str]) -> None:
        projects = {self.facts[t].project for t in self.lone}
        for trace in traces:
            f = self.facts[trace]
            if trace not in self.digests and f.relevant and f.project in projects:
                self.digests[trace] = _digest(trace, self.units, self.options)

    def _overlapping(self) -> list[str]:
        """Traces of known sessions at the time of one that names none, or soon after a search that names none."""
        found: set[str] = set()
        open_lone: list[tuple[int, str]] = []
        open_known: list[tuple[int, str]] = []
        for trace in sorted(self.facts, key=self._time):
            f = self.facts[trace]
            if trace in self.lone:
                open_known = [(end, t) for end, t in open_known if end > f.start]
                if self.lone[trace].talks:
                    found.update(t for _, t in open_known if self.facts[t].project == f.project)
                open_lone.append((f.end if self.lone[trace].talks else f.end + PASSAGE_GAP, trace))
            elif f.sessions and f.relevant:
                open_lone = [(end, t) for end, t in open_lone if end > f.start]
                if any(self.facts[t].project == f.project for _, t in open_lone):
                    found.add(trace)
                open_known.append((f.end, trace))
        return sorted(found, key=self._time)

    def _soon_after(self) -> list[str]:
        """First traces of known sessions that may continue one that named none yet (an id given with the answer)."""
        ends = sorted(self.facts[t].end for t, d in self.lone.items() if d.answered)
        found = []
        for traces in self.buckets.values():
            first = min(traces, key=self._time)
            place = bisect_right(ends, self.facts[first].start)
            if place and self.facts[first].start - ends[place - 1] <= min(self.gap, ID_GAP):
                found.append(first)
        return found

    def _before_orphans(self) -> list[str]:
        """Traces of known sessions that one may continue whose history no trace without a session explains."""
        endings = {after[-1] for d in self.digests.values() for after in d.after}
        orphans = [t for t, d in self.lone.items() if d.before and d.before[-1] not in endings]
        if not orphans:
            return []
        latest: dict[str, int] = {}
        for trace in orphans:
            f = self.facts[trace]
            latest[f.project] = max(latest.get(f.project, 0), f.start)
        return [t for t, f in self.facts.items() if f.sessions and f.start < latest.get(f.project, 0)]

    def _twins(self, ordered: Sequence[str]) -> None:
        """The same question and answer at the same time: one turn recorded by two instrumentations."""
        by_turn: dict[int, list[str]] = {}
        for trace in ordered:
            d = self.digests[trace]
            if not d.turn:
                continue
            start = self.facts[trace].start
            under_way = [other for other in by_turn.get(d.turn, ()) if self.facts[other].end > start]
            for other in under_way:
                if (
                    (trace in self.lone or other in self.lone)
                    and self.digests[other].voice != d.voice
                    and self._near(trace, other)
                ):
                    self.links.join(trace, other)
            by_turn[d.turn] = [*under_way, trace]

    def _silent(self, ordered: Sequence[str]) -> None:
        """Calls without content that ran within another trace's call: a second instrumentation of the same call."""
        talking: list[str] = []
        for trace in ordered:
            d, f = self.digests[trace], self.facts[trace]
            if not d.talks:
                continue
            if not d.silent:
                talking = [t for t in talking if self.facts[t].end > f.start]
                talking.append(trace)
            elif trace in self.lone:
                home = next((t for t in reversed(talking) if self.facts[t].end >= f.end and self._near(t, trace)), None)
                if home is not None:
                    self.links.join(trace, home)

    def _histories(self, ordered: Sequence[str]) -> None:
        by_last: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
        for trace in ordered:
            for after in self.digests[trace].after:
                by_last.setdefault(after[-1], []).append((trace, after))
        starts = {last: [self.facts[trace].start for trace, _ in known] for last, known in by_last.items()}
        longest = max((f.end - f.start for f in self.facts.values()), default=0)
        for trace in ordered:
            before = self.digests[trace].before
            if before and before[-1] in by_last:
                f = self.facts[trace]
                first = bisect_left(starts[before[-1]], f.start - self.gap - longest)
                last = bisect_left(starts[before[-1]], f.end)
                self._history(trace, before, by_last[before[-1]][first:last])

    def _history(self, trace: str, before: tuple[int, ...], candidates: Iterable[tuple[str, tuple[int, ...]]]) -> None:
        """Join the trace whose questions and answers this one resends; several equally good ones are ambiguous.

        A trace that another already continued comes second: the same script run again and again stays apart.
        """
        f = self.facts[trace]
        best: dict[str, tuple[int, str]] = {}
        for other, after in candidates:
            g = self.facts[other]
            if other == trace or g.start >= f.end or f.start - g.end > self.gap:
                continue
            if (trace not in self.lone and other not in self.lone) or not self._near(trace, other):
                continue
            length = min(len(after), len(before))
            if after[-length:] == before[-length:]:
                root = self.links.find(other)
                best[root] = max(best.get(root, (0, "")), (2 * length + (len(after) == len(before)), other))
        if not best:
            return
        top = max(score for score, _ in best.values())
        others = [other for score, other in best.values() if score == top]
        if len(others) > 1:
            others = [other for other in others if other not in self.continued]
        if len(others) == 1 and self.links.join(trace, others[0]) and not self.digests[trace].works_on:
            self.continued.add(others[0])

    def _unfinished(self, ordered: Sequence[str]) -> None:
        """A failed or unfinished try belongs to the next trace with the same question."""
        by_asked: dict[int, list[str]] = {}
        for trace in ordered:
            if self.digests[trace].asked and self.digests[trace].answered:
                by_asked.setdefault(self.digests[trace].asked, []).append(trace)
        for trace, d in self.lone.items():
            f = self.facts[trace]
            if not d.asked or d.answered:
                continue
            for other in self._from(by_asked.get(d.asked, ()), f.start):
                if self.facts[other].start - f.end >= PASSAGE_GAP:
                    break
                if self._near(trace, other):
                    self.links.join(trace, other)
                    break

    def _prepared(self, ordered: Sequence[str]) -> None:
        """A lone call that only prepared the next (a router, a guard): the same question, soon after, another task."""
        by_question: dict[int, list[str]] = {}
        for trace in ordered:
            if self.digests[trace].question:
                by_question.setdefault(self.digests[trace].question, []).append(trace)
        served: set[str] = set()
        for trace, d in self.lone.items():
            if not d.prepares or not d.question or trace in self.continued or trace in served:
                continue
            f = self.facts[trace]
            for other in self._from(by_question[d.question], f.start + 1):
                if self.facts[other].start > f.end + PREPARED_GAP:
                    break
                if self.digests[other].task != d.task and other not in served and self._near(trace, other):
                    self.links.join(trace, other)
                    served.add(other)
                    break

    def _searches(self, ordered: Sequence[str]) -> None:
        """A retrieval that is a trace of its own belongs to the next trace whose prompt holds its passages."""
        prompts: dict[str, frozenset[int]] = {}
        for index, trace in enumerate(ordered):
            if trace not in self.lone or not self.lone[trace].passages:
                continue
            wanted = frozenset(self.lone[trace].passages)
            for other in ordered[index + 1 :]:
                if self.facts[other].start - self.facts[trace].end > PASSAGE_GAP:
                    break
                if not self.digests[other].talks or not self._near(trace, other):
                    continue
                if other not in prompts:
                    prompts[other] = self._prompt(other)
                if wanted & prompts[other]:
                    self.links.join(trace, other)
                    break

    def _from(self, ordered: Sequence[str], start: int) -> Iterator[str]:
        """The traces that begin at `start` or later; `ordered` is by start."""
        first = bisect_left(ordered, start, key=lambda trace: self.facts[trace].start)
        return (ordered[index] for index in range(first, len(ordered)))

    def _prompt(self, trace: str) -> frozenset[int]:
        try:
            return frozenset(passages_of(self.units(trace), self.options))
        except Exception:  # it fails again, and is reported, when its session is built
            return frozenset()

    def _near(self, one: str, other: str) -> bool:
        """Whether project, environment, user and tenant of two traces may be the same."""
        f, g = self.facts[one], self.facts[other]
        if f.project != g.project or (f.environment or "") != (g.environment or ""):
            return False
        return compatible(f.owners, g.owners)


def _groups(
    facts: Mapping[str, TraceFacts], buckets: Mapping[Bucket, list[str]], lone: Iterable[str], links: _Links
) -> list[Group]:
    by_root: dict[str, list[str]] = {}
    for trace in lone:
        by_root.setdefault(links.find(trace), []).append(trace)
    groups = []
    for bucket, traces in buckets.items():
        members = set(traces)
        if by_root:
            members.update(by_root.pop(links.find(links.first[bucket]), ()))
        groups.append(_group(facts, members, bucket))
    groups.extend(_group(facts, traces, None) for traces in by_root.values())
    return groups


def _group(facts: Mapping[str, TraceFacts], traces: Iterable[str], bucket: Bucket | None) -> Group:
    ordered = sorted(traces, key=lambda t: (facts[t].start, t))
    start = facts[ordered[0]].start
    if bucket is not None:
        project, environment, owners, session = bucket
        key = _key(project, environment, *key_parts(owners), session)
        return Group(key, session, project, environment or None, user_of(owners), tenant_of(owners), ordered, start)
    first = facts[ordered[0]]
    owners = tuple(sorted({owner for t in ordered for owner in facts[t].owners}))
    key = _key(first.project, first.environment or "", *key_parts(owners), "trace:" + ordered[0])
    return Group(key, None, first.project, first.environment, user_of(owners), tenant_of(owners), ordered, start)


def _key(*parts: str) -> str:
    return "/".join(quote(part, safe=":@.-_", errors="replace") or "-" for part in parts)
