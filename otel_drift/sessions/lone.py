"""Sessions: what a trace that names no session belongs to; by history, overlap, or shared passages.

Which two traces may belong together is asked of the database, by hashes of what they say; what is then decided needs,
in memory, a few bytes of every trace.
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from otel_drift.sessions.digests import PASSAGE_GAP, Units, read_digests
from otel_drift.sessions.facts import passages_of, unpacked
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.owners import Owners, compatible
from otel_drift.sessions.trace_index import TraceIndex, trace_id_of

PREPARED_GAP = 60 * 10**9
"""How long (nanoseconds) after a call that only prepared an answer the answering call may start."""

_TURNS = """
SELECT trace, start, end, whose, place, lone, voice, turn FROM digest WHERE turn IS NOT NULL ORDER BY trace
"""
_CALLS = "SELECT trace, start, end, whose, place, lone, silent FROM digest WHERE talks ORDER BY trace"
_CONTINUED = """
SELECT one.trace, one.works_on, one.before, one.whose, other.trace, id, after, other.whose
FROM digest AS one CROSS JOIN ending ON ending.last = one.last
    AND ending.start >= one.start - :gap - :longest AND ending.start < one.end
CROSS JOIN digest AS other ON other.trace = ending.trace
WHERE other.trace != one.trace AND (one.lone OR other.lone) AND other.place = one.place
    AND other.end >= one.start - :gap
ORDER BY one.trace
"""
_TRIED_AGAIN = """
SELECT one.trace, one.whose, other.trace, other.whose FROM digest AS one CROSS JOIN digest AS other
    ON other.asked = one.asked AND other.start >= one.start AND other.start < one.end + ?
WHERE one.lone AND NOT one.answered AND other.answered AND other.place = one.place
ORDER BY one.trace, other.trace
"""
_ASKED_SOON = """
SELECT one.trace, one.whose, other.trace, other.whose FROM digest AS one CROSS JOIN digest AS other
    ON other.question = one.question AND other.start > one.start AND other.start <= one.end + ?
WHERE one.lone AND one.prepares AND other.task != one.task AND other.place = one.place
ORDER BY one.trace, other.trace
"""
_SEARCHES = "SELECT trace, end, whose, place, passages FROM digest WHERE lone AND passages IS NOT NULL ORDER BY trace"
_CALLS_AFTER = """
SELECT digest.trace, id, digest.start, digest.whose FROM digest JOIN trace ON number = digest.trace
WHERE digest.trace > ? AND talks AND place = ? ORDER BY digest.trace
"""


def link_lone(index: TraceIndex, units: Units, options: ReconstructOptions) -> Iterator[tuple[int, int]]:
    """Say which session each trace is of that names none. The table ``member`` holds the others.

    Traces of known sessions are read only where one may be involved.

    Yields:
        the number of the session, negative for one that no trace names, and of the trace.
    """
    if read_digests(index, units, options):
        yield from _Linking(index, units, options).members()


class _Links:
    """Union-find over the traces' numbers; two sessions that have ids of their own are never joined."""

    def __init__(self, traces: int) -> None:
        self._parent = array("i", range(traces + 1))
        self._session = array("i", bytes(4 * (traces + 1)))

    def find(self, trace: int) -> int:
        """The first of the traces joined with this one."""
        parent = self._parent
        while parent[trace] != trace:
            parent[trace] = trace = parent[parent[trace]]
        return trace

    def session(self, trace: int) -> int:
        """The number of the session that a trace is of, negative where none of those joined with it names one."""
        root = self.find(trace)
        return self._session[root] or -root

    def name(self, trace: int, session: int) -> None:
        """Say that a trace names a session; it stays with the first that it named."""
        root = self.find(trace)
        self._session[root] = self._session[root] or session

    def join(self, one: int, other: int) -> bool:
        """Join two traces; False where they are of different sessions."""
        first, second = sorted((self.find(one), self.find(other)))
        named, other_named = self._session[first], self._session[second]
        if first != second and named and other_named and named != other_named:
            return False
        self._parent[second] = first
        self._session[first] = named or other_named
        return True


class _Linking:
    """Links between the traces that have a digest, found in the order of time."""

    def __init__(self, index: TraceIndex, units: Units, options: ReconstructOptions) -> None:
        self._database = index.database
        self._units = units
        self._options = options
        [(traces,)] = self._database.execute("SELECT count(*) FROM trace")
        self._links = _Links(traces)
        self._continued = bytearray(traces + 1)
        self._owners = lru_cache(1024)(self._read_owners)
        self._prompt = lru_cache(1024)(self._read_prompt)

    def members(self) -> Iterator[tuple[int, int]]:
        """Find all links; then session and trace, for the traces that name none."""
        self._name_known()
        self._twins()
        self._silent()
        self._histories()
        self._unfinished()
        self._prepared()
        self._searches()
        for (trace,) in self._database.execute("SELECT trace FROM digest WHERE lone"):
            yield self._links.session(trace), trace

    def _name_known(self) -> None:
        for session, rows in groupby(self._database.execute("SELECT session, trace FROM member"), key=itemgetter(0)):
            first = 0
            for _, trace in rows:
                first = first or trace
                self._links.name(first, session)
                self._links.join(trace, first)

    def _twins(self) -> None:
        """The same question and answer at the same time: one turn recorded by two instrumentations."""
        by_turn: dict[int, list[tuple[int, ...]]] = {}
        limit = 1000
        for trace, start, end, whose, place, lone, voice, turn in self._database.execute(_TURNS):
            under_way = [other for other in by_turn.get(turn, ()) if other[1] > start]
            for other, _, other_whose, other_place, other_lone, other_voice in under_way:
                distinct = (lone or other_lone) and voice != other_voice
                if distinct and place == other_place and self._compatible(whose, other_whose):
                    self._links.join(trace, other)
            by_turn[turn] = [*under_way, (trace, end, whose, place, lone, voice)]
            if len(by_turn) > limit:
                by_turn = {t: left for t, known in by_turn.items() if (left := [o for o in known if o[1] > start])}
                limit = 1000 + 2 * len(by_turn)

    def _silent(self) -> None:
        """Calls without content that ran within another trace's call: a second instrumentation of the same call."""
        talking: list[tuple[int, ...]] = []
        for trace, start, end, whose, place, lone, silent in self._database.execute(_CALLS):
            if not silent:
                talking = [other for other in talking if other[1] > start]
                talking.append((trace, end, whose, place))
            elif lone:
                for other, other_end, other_whose, other_place in reversed(talking):
                    if other_end >= end and other_place == place and self._compatible(whose, other_whose):
                        self._links.join(trace, other)
                        break

    def _histories(self) -> None:
        """Join a trace with the one whose questions and answers it resends; several equally good ones are ambiguous.

        A trace that another already continued comes second: the same script run again and again stays apart.
        """
        [(longest,)] = self._database.execute("SELECT max(end - start) FROM digest")
        reach = {"gap": int(self._options.gap_seconds * 1e9), "longest": longest}
        for (trace, works_on, resent), rows in groupby(self._database.execute(_CONTINUED, reach), itemgetter(0, 1, 2)):
            before = marshal.loads(resent)  # noqa: S302  (our own bytes)
            best: dict[int, tuple[int, bytes, int]] = {}
            for _, _, _, whose, other, id_, packed, other_whose in rows:
                after = marshal.loads(packed)  # noqa: S302  (our own bytes)
                length = min(len(after), len(before))
                if after[-length:] == before[-length:] and self._compatible(whose, other_whose):
                    root = self._links.find(other)
                    score = 2 * length + (len(after) == len(before))
                    best[root] = max(best.get(root, (0, b"", 0)), (score, id_, other))
            if not best:
                continue
            top = max(score for score, _, _ in best.values())
            others = [other for score, _, other in best.values() if score == top]
            if len(others) > 1:
                others = [other for other in others if not self._continued[other]]
            if len(others) == 1 and self._links.join(trace, others[0]) and not works_on:
                self._continued[others[0]] = True

    def _unfinished(self) -> None:
        """A failed or unfinished try belongs to the next trace with the same question."""
        for trace, rows in groupby(self._database.execute(_TRIED_AGAIN, (PASSAGE_GAP,)), key=itemgetter(0)):
            other = next((other for _, whose, other, its in rows if self._compatible(whose, its)), None)
            if other is not None:
                self._links.join(trace, other)

    def _prepared(self) -> None:
        """A lone call that only prepared the next (a router, a guard): the same question, soon after, another task."""
        served: set[int] = set()
        for trace, rows in groupby(self._database.execute(_ASKED_SOON, (PREPARED_GAP,)), key=itemgetter(0)):
            if self._continued[trace] or trace in served:
                continue
            for _, whose, other, other_whose in rows:
                if other not in served and self._compatible(whose, other_whose):
                    self._links.join(trace, other)
                    served.add(other)
                    break

    def _searches(self) -> None:
        """A retrieval that is a trace of its own belongs to the next trace whose prompt holds its passages."""
        for trace, end, whose, place, passages in self._database.execute(_SEARCHES):
            wanted = marshal.loads(passages)  # noqa: S302  (our own bytes)
            for other, id_, start, other_whose in self._database.execute(_CALLS_AFTER, (trace, place)):
                if start - end > PASSAGE_GAP:
                    break
                if self._compatible(whose, other_whose) and not self._prompt(trace_id_of(id_)).isdisjoint(wanted):
                    self._links.join(trace, other)
                    break

    def _compatible(self, one: int, other: int) -> bool:
        """Whether users and tenants may be the same, by the numbers of what two traces say of them."""
        return one == other or compatible(self._owners(one), self._owners(other))

    def _read_owners(self, whose: int) -> Owners:
        [(packed,)] = self._database.execute("SELECT packed FROM whose WHERE number = ?", (whose,))
        return unpacked(packed).owners

    def _read_prompt(self, trace: str) -> frozenset[int]:
        try:
            return frozenset(passages_of(self._units(trace), self._options))
        except Exception:  # it fails again, and is reported, when its session is built
            return frozenset()
