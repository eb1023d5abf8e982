"""Sessions: from spans to sessions, in memory or from a spool one session at a time."""

from __future__ import annotations

import gc
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from otel_drift.hints import failed_hint
from otel_drift.model import LogRecord, Record, Session, Span
from otel_drift.normalise import Step, identify, read
from otel_drift.normalise.remembered import forget
from otel_drift.sessions.build import Trace, build
from otel_drift.sessions.linking import Group, link
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.trace_index import TraceIndex
from otel_drift.sessions.tree import order
from otel_drift.sessions.unit import Unit

log = logging.getLogger(__name__)

DEFAULTS = ReconstructOptions()
COLLECT_AFTER = 50_000
"""New objects between two garbage collections while sessions are rebuilt (Python's own default is 700)."""
CONVERSATION = 16
"""Traces read one after another to be linked, after which their texts are forgotten: each resends those before it."""


class Spool(Protocol):
    """Where records wait, by trace (`otel_drift.spool.SpanSpool`)."""

    def add(self, record: Record) -> None:
        """Keep one record."""
        ...

    def load(self, trace_ids: Sequence[str]) -> list[Span]:
        """The spans of these traces, each once, log records joined, ordered by start."""
        ...


def reconstruct(spans: Iterable[Span], options: ReconstructOptions = DEFAULTS) -> list[Session]:
    """Rebuild the sessions in `spans`.

    Args:
        spans: spans in any order, log records joined; the same span may come more than once.
        options: see `ReconstructOptions`.

    Returns:
        Sessions ordered by their first turn.
    """
    with _rare_collections:
        return _reconstruct(spans, options)


def _reconstruct(spans: Iterable[Span], options: ReconstructOptions) -> list[Session]:
    unique: dict[tuple[str, str], Span] = {}
    for span in spans:
        key = (span.trace_id, span.span_id)
        other = unique.get(key)
        unique[key] = span if other is None else _fuller(other, span)
    steps: dict[str, list[Step]] = {}
    broken: dict[str, Exception] = {}
    index = TraceIndex()
    for span in unique.values():
        own = steps.setdefault(span.trace_id, [])
        try:
            step = read(span, options.session_attributes)
            index.facts(span.trace_id).add(span, step)
        except Exception as error:
            broken[span.trace_id] = error
            index.facts(span.trace_id).add_unread(span)
            continue
        own.append(step)
    traces = {trace: Trace(sorted(own, key=_step_order)) for trace, own in steps.items()}

    def units(trace: str) -> Sequence[Unit]:
        if trace in broken:
            raise broken[trace]
        return traces[trace].units

    sessions = []
    with index:
        for group in link(index, units, options):
            try:
                for trace in group.trace_ids:
                    if trace in broken:
                        raise broken[trace]
                session = build(group, traces, options)
            except Exception as error:
                session = _failed(group, error)
            if session is not None:
                sessions.append(session)
    return sessions


def stream(
    records: Iterable[Record],
    spool: Spool,
    options: ReconstructOptions = DEFAULTS,
    *,
    wanted: Callable[[Group], bool] = lambda _: True,
) -> Iterator[Session]:
    """Rebuild sessions from an input of any size; memory holds one session, and of each trace a few bytes.

    Args:
        records: spans and log records in any order.
        spool: keeps the records by trace until all are read.
        options: see `ReconstructOptions`.
        wanted: asked of each group of traces that is a session, before it is rebuilt; it is left out where False.

    Yields:
        The sessions that `reconstruct` would return, in the same order.
    """
    with _rare_collections:
        yield from _stream(records, spool, options, wanted)


def _stream(
    records: Iterable[Record], spool: Spool, options: ReconstructOptions, wanted: Callable[[Group], bool]
) -> Iterator[Session]:
    index = TraceIndex()
    for record in records:
        spool.add(record)
        f = index.facts(record.trace_id)
        if isinstance(record, LogRecord):
            f.add_log(record.attributes)
        else:
            try:
                identity = identify(record, options.session_attributes)
            except Exception:
                f.add_unread(record)
            else:
                f.add(record, identity)

    def trace_of(spans: Iterable[Span]) -> Trace:
        return Trace([read(span, options.session_attributes) for span in spans])

    reads = itertools.count()

    def units(trace: str) -> Sequence[Unit]:
        if next(reads) % CONVERSATION == 0:
            forget()
        return trace_of(spool.load([trace])).units

    with index:
        for group in link(index, units, options):
            if not wanted(group):
                continue
            # an error of the disk is no session's and ends the run
            try:
                spans = {trace: found for trace in group.traces if (found := spool.load([trace]))}
            except RecursionError as error:  # a value is nested about as deeply as calls may be
                yield _failed(group, error)
                continue
            forget()
            try:
                session = build(group, {trace: trace_of(own) for trace, own in spans.items()}, options)
            except Exception as error:
                session = _failed(group, error)
            if session is not None:
                yield session


def _failed(group: Group, error: Exception) -> Session:
    """What is known of a session whose spans could not be put together: no turns, and a hint that says so."""
    log.debug("a session of %d traces could not be put together: %s", len(group.trace_ids), type(error).__name__)
    return Session(
        key=group.key,
        session_id=group.session_id,
        turns=(),
        trace_ids=tuple(group.trace_ids),
        project=group.project,
        environment=group.environment,
        user=group.user,
        tenant=group.tenant,
        hints=(failed_hint(error),),
    )


class _RareCollections:
    """Collect garbage less often meanwhile.

    Trees and messages live for one session, and looking through them while
    they are built costs a third of the time. What the caller had set comes
    back once the last of those that rebuild at the same time has ended.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a collection under it may close an abandoned stream, which ends here, too
        self._under_way = 0
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._under_way += 1
            if self._under_way == 1:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < COLLECT_AFTER:
                    gc.set_threshold(COLLECT_AFTER, 20, 20)

    def __exit__(self, *_raised: object) -> None:
        with self._lock:
            self._under_way -= 1
            if not self._under_way:
                gc.set_threshold(*self._before)


_rare_collections = _RareCollections()


def _step_order(step: Step) -> tuple[Any, ...]:
    return order(step.span)


def _fuller(one: Span, other: Span) -> Span:
    """Of two copies of a span the one that says more (a span may be exported while it is still open)."""
    first = (len(one.attributes), len(one.events), len(one.logs), one.end)
    second = (len(other.attributes), len(other.events), len(other.logs), other.end)
    return other if second > first else one
