"""What any sink must do, seen from the platform: what stands there after writes, faults and repetitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from otel_drift import retry
from otel_drift.errors import ConfigError, SinkError
from otel_drift.model import Annotation, WriteReport
from otel_drift.protocols import Sink
from otel_drift.testing.lines import is_one_safe_line, shows_no_secret

Place: TypeAlias = tuple[str, str, str]
"""Target (``span``, ``trace``, ``session``), its id (``trace_id:span_id``, trace id, session id), name."""


@dataclass(frozen=True, slots=True)
class SinkCase:
    """A sink and how to look behind it.

    Args:
        open: Makes the sink anew, as a process that starts does.
        annotations: Some that it can take, each of another place, none withdrawn.
        standing: Reads from the platform what stands: ``(place, label)`` of each current value of ours. Of an
            append-only sink: of each record that is the highest revision of its id and not withdrawn, once for every
            distinct (id, revision).
        foreign: Reads what other people wrote there, in whatever form; it must never change.
        failing: Label → a context in which the platform fails so: down, overloaded, answers lost. Writes must be
            complete after it, and nothing doubled.
        refused: An annotation the platform refuses for good, if there is one.
        broken: What is wrong → makes a sink that is wrong so.
        secrets: Texts that may appear nowhere.
    """

    open: Callable[[], Sink]
    annotations: Sequence[Annotation]
    standing: Callable[[], Iterable[tuple[Place, str]]]
    foreign: Callable[[], object] = lambda: None
    failing: Mapping[str, Callable[[], AbstractContextManager[object]]] = field(default_factory=dict)
    refused: Annotation | None = None
    broken: Mapping[str, Callable[[], Sink]] = field(default_factory=dict)
    secrets: Collection[str] = ()


def place(one: Annotation) -> Place:
    """Where an annotation stands."""
    if one.target == "span":
        return "span", f"{one.trace_id}:{one.span_id}", one.name
    return one.target, (one.trace_id if one.target == "trace" else one.session_id) or "", one.name


def check_sink(case: SinkCase) -> None:
    """Check one current value per place under repetition, revision, order, withdrawal and faults, and clear errors.

    Raises:
        AssertionError: what a user would see go wrong.
    """
    foreign = case.foreign()
    _writes(case)
    _writes_nothing_twice(case)
    revised = _orders(case, _revises(case))
    _survives_faults(case, revised)
    _refuses_one_alone(case)
    _withdraws(case)
    _clear_errors(case)
    assert case.foreign() == foreign, "what other people wrote has changed"


def _writes(case: SinkCase) -> None:
    assert _deliver(case.open, case.annotations) == [], "not everything is written"
    _stand(case, case.annotations)


def _writes_nothing_twice(case: SinkCase) -> None:
    """A crash between writing and settling: the same is handed out again, to a new process."""
    _deliver(case.open, case.annotations)
    _stand(case, case.annotations)
    _deliver(case.open, [*case.annotations[:1], *case.annotations])
    _stand(case, case.annotations)


def _revises(case: SinkCase) -> list[Annotation]:
    revised = [replace(one, revision=2, label="CRITICAL", score=1.0) for one in case.annotations]
    assert _deliver(case.open, revised) == [], "a revision is not written"
    _stand(case, revised)
    return revised


def _orders(case: SinkCase, current: list[Annotation]) -> list[Annotation]:
    """Of two revisions in one delivery the newer stands."""
    older = [replace(one, revision=one.revision + 1, label="MINOR", score=0.3) for one in current]
    newer = [replace(one, revision=one.revision + 2, label="MAJOR", score=0.7) for one in current]
    assert _deliver(case.open, [*older, *newer]) == [], "two revisions in one delivery are not written"
    _stand(case, newer, "after two revisions in one delivery")
    return newer


def _survives_faults(case: SinkCase, current: list[Annotation]) -> None:
    for number, (label, failing) in enumerate(case.failing.items()):
        current = [
            replace(one, revision=10 + number, label=("MINOR", "MAJOR")[number % 2], score=(0.3, 0.7)[number % 2])
            for one in current
        ]
        with failing(), retry.testing():
            owed = _deliver(case.open, current, final=False)
        assert {one.id for one in owed} <= {one.id for one in current}
        assert _deliver(case.open, owed) == [], f"{label}: what failed cannot be written afterwards"
        _stand(case, current, f"after {label}")


def _refuses_one_alone(case: SinkCase) -> None:
    if case.refused is None:
        return
    others = [replace(one, revision=20, label="MAJOR", score=0.7) for one in case.annotations]
    sink = case.open()
    try:
        report = _confirmed(sink, [case.refused, *others])
    finally:
        sink.close()
    refused = {rejection.annotation_id: rejection for rejection in report.rejected}
    assert set(refused) == {case.refused.id}, "an annotation that cannot be written takes others with it"
    assert refused[case.refused.id].reason.strip(), "a refusal without a reason"
    _stand(case, others, "beside one that is refused")


def _withdraws(case: SinkCase) -> None:
    gone = [
        replace(
            one, revision=30, label="withdrawn", score=None, explanation=None, withdrawn=True, links=(), metadata={}
        )
        for one in case.annotations
    ]
    assert _deliver(case.open, gone) == [], "a withdrawal is not written"
    left = [(at, label) for at, label in case.standing() if label not in ("NONE", "withdrawn")]
    assert not left, f"withdrawn, and still there: {left[:3]}"
    assert _deliver(case.open, gone) == [], "a withdrawal that comes twice fails"
    back = [replace(one, revision=31) for one in case.annotations]
    assert _deliver(case.open, back) == [], "what was withdrawn cannot be written again"
    _stand(case, back, "written again after a withdrawal")


def _clear_errors(case: SinkCase) -> None:
    sink = case.open()
    name = sink.name
    sink.close()
    shows_no_secret(case.secrets, f"{name} {sink!r}", "a name")
    for label, make in case.broken.items():
        try:
            with retry.testing():
                sink = make()
                try:
                    if check := getattr(sink, "check", None):
                        check()
                    report = sink.write(case.annotations)
                finally:
                    sink.close()
        except (ConfigError, SinkError) as error:
            is_one_safe_line(case.secrets, str(error), f"{label}: the error")
            continue
        assert report.rejected, f"{label}: no error"


def _stand(case: SinkCase, expected: Sequence[Annotation], when: str = "") -> None:
    standing = list(case.standing())
    doubled = [at for at, count in Counter(at for at, _ in standing).items() if count > 1]
    assert not doubled, f"{len(doubled)} places have more than one value {when}: {doubled[0]}"
    values = dict(standing)
    for one in expected:
        assert place(one) in values, f"{place(one)} has no value {when}"
        assert values[place(one)] == one.label, f"{place(one)} says {values[place(one)]!r}, not {one.label!r} {when}"


def _deliver(make: Callable[[], Sink], annotations: Sequence[Annotation], *, final: bool = True) -> list[Annotation]:
    """Write as the delivery does; what stays owed comes back."""
    sink = make()
    try:
        report = _confirmed(sink, annotations)
    except (ConfigError, SinkError):
        assert not final, "the sink fails although the platform does not"
        return list(annotations)
    finally:
        sink.close()
    done = {*report.written, *report.unchanged}
    lost = [one for one in report.rejected if not one.retryable and one.annotation_id not in done]
    assert not lost, f"refused for good, so it is lost: {lost[0].reason}"
    return [one for one in annotations if one.id not in done]


def _confirmed(sink: Sink, annotations: Sequence[Annotation]) -> WriteReport:
    report = sink.write(annotations)
    confirm: Callable[[Sequence[Annotation]], WriteReport] | None = getattr(sink, "confirm", None)
    if confirm is None or not report.written:
        return report
    accepted = set(report.written)
    read_back = confirm([one for one in annotations if one.id in accepted])
    return WriteReport(
        written=read_back.written,
        unchanged=(*report.unchanged, *read_back.unchanged),
        rejected=(*report.rejected, *read_back.rejected),
    )
