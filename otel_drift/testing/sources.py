"""What any source must do."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from otel_drift.errors import ConfigError, SourceError
from otel_drift.model import LogRecord, Record, Span
from otel_drift.protocols import Source, Window
from otel_drift.testing.lines import is_one_safe_line, shows_no_secret

LARGEST_PAGE = 20_000

Sessions: TypeAlias = Mapping[str, Collection[str]]
"""Session id → the refs (``trace_id:span_id``) of its spans."""


@dataclass(frozen=True, slots=True)
class SourceCase:
    """A source and what is behind it.

    Args:
        open: Makes the source anew, as a process that starts does.
        window: A window that holds at least one span of each of `sessions`, some of them not whole if possible.
        sessions: What lies behind it: every session that has a span in the window, with all its spans.
        elsewhere: Session ids that lie behind it but have no span in the window.
        broken: What is wrong → makes a source that is wrong so: key, project, URL, version.
        secrets: Texts that may appear nowhere.
        own: Ref → ``otel_drift.result.id`` of spans of ours among them: they come with that attribute, by which the
            pipeline knows them.
        failing: Makes a source whose platform fails for good in the middle of reading (optional).
    """

    open: Callable[[], Source]
    window: Window
    sessions: Sessions
    elsewhere: Collection[str] = ()
    broken: Mapping[str, Callable[[], Source]] = field(default_factory=dict)
    secrets: Collection[str] = ()
    own: Mapping[str, str] = field(default_factory=dict)
    failing: Callable[[], Source] | None = None


def check_source(case: SourceCase) -> None:
    """Check that nothing is lost, sessions come whole, pages are bounded and go on at a cursor, errors are clear.

    Raises:
        AssertionError: what a user would see go wrong.
    """
    _whole_and_nothing_else(case)
    _the_same_again(case)
    _goes_on_at_its_cursors(case)
    _single_sessions(case)
    _name_and_check(case)
    _clear_errors(case)


def _whole_and_nothing_else(case: SourceCase) -> None:
    found = _read(case.open, case.window)
    expected = {ref for refs in case.sessions.values() for ref in refs}
    assert expected, "the case holds no span"
    lost = expected - set(found)
    assert not lost, f"{len(lost)} of {len(expected)} spans are lost, e.g. {min(lost)}"
    for record in found.values():
        _is_sound(record)
    for ref, result_id in case.own.items():
        assert ref in found, f"our own span {ref} does not come through, so nobody knows it is ours"
        assert found[ref].attributes.get("otel_drift.result.id") == result_id, f"our own span {ref} has lost its mark"


def _is_sound(span: Span) -> None:
    assert re.fullmatch(r"[0-9a-f]{32}", span.trace_id), f"trace id {span.trace_id!r} is not 32 lower-case hex digits"
    assert re.fullmatch(r"[0-9a-f]{16}", span.span_id), f"span id {span.span_id!r} is not 16 lower-case hex digits"
    assert span.parent_id is None or re.fullmatch(r"[0-9a-f]{16}", span.parent_id), f"parent id {span.parent_id!r}"
    assert 10**18 < span.start <= span.end, f"{span.ref}: start {span.start} and end {span.end} are no nanoseconds"


def _the_same_again(case: SourceCase) -> None:
    first, second = _read(case.open, case.window), _read(case.open, case.window)
    assert first == second, "reading the same window twice gives different spans"


def _goes_on_at_its_cursors(case: SourceCase) -> None:
    pages = _pages(case.open, case.window)
    everything = {ref for page, _ in pages for ref in _refs(page)}
    seen: set[str] = set()
    for page, cursor in pages[:3]:
        seen |= _refs(page)
        if cursor is not None:
            rest = {ref for later, _ in _pages(case.open, case.window, cursor) for ref in _refs(later)}
            lost = everything - seen - rest
            assert not lost, f"after the cursor {cursor!r} {len(lost)} spans are lost"


def _single_sessions(case: SourceCase) -> None:
    for session_id in [*list(case.sessions)[:2], *list(case.elsewhere)[:1]]:
        found = _read(case.open, replace(case.window, sessions=(session_id,)))
        expected = set(case.sessions.get(session_id, ()))
        assert found, f"session {session_id!r} cannot be read by its id"
        assert expected <= set(found), f"session {session_id!r} is not read whole by its id"
    assert not _read(case.open, replace(case.window, sessions=("no such session",))), "an unknown session has spans"


def _name_and_check(case: SourceCase) -> None:
    with _opened(case.open) as one, _opened(case.open) as other:
        assert one.name == other.name, f"the name changes: {one.name!r}, {other.name!r}"
        is_one_safe_line(case.secrets, one.name, "its name")
        shows_no_secret(case.secrets, repr(one), "its repr")
        if check := getattr(one, "check", None):
            said = check()
            assert isinstance(said, str), "check() says nothing"
            is_one_safe_line(case.secrets, said, "check()")


def _clear_errors(case: SourceCase) -> None:
    for label, make in case.broken.items():
        try:
            with _opened(make) as source:
                if check := getattr(source, "check", None):
                    check()
            _read(make, case.window)
        except (ConfigError, SourceError) as error:
            is_one_safe_line(case.secrets, str(error), label)
            continue
        raise AssertionError(f"{label}: no error")
    if case.failing is not None:
        try:
            _read(case.failing, case.window)
        except (ConfigError, SourceError) as error:
            is_one_safe_line(case.secrets, str(error), "a platform that fails while it is read")
        else:
            raise AssertionError("a platform that fails while it is read looks like one that was read to its end")


@contextmanager
def _opened(make: Callable[[], Source]) -> Iterator[Source]:
    source = make()
    try:
        yield source
    finally:
        if close := getattr(source, "close", None):
            close()


def _read(make: Callable[[], Source], window: Window) -> dict[str, Span]:
    return {record.ref: record for page, _ in _pages(make, window) for record in page if isinstance(record, Span)}


def _pages(
    make: Callable[[], Source], window: Window, cursor: str | None = None
) -> list[tuple[Sequence[Record], str | None]]:
    pages = []
    with _opened(make) as source:
        for page, after in source.read(cursor, window):
            assert len(page) <= LARGEST_PAGE, f"a page of {len(page)} records: memory is not bounded"
            assert all(isinstance(record, Span | LogRecord) for record in page), "a page holds what is no record"
            pages.append((page, after))
    return pages


def _refs(page: Sequence[Record]) -> set[str]:
    return {record.ref for record in page if isinstance(record, Span)}
