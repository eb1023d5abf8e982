"""Did the release make it worse? Drift rates of two runs, with intervals that say how much the samples can tell.

Wilson's score interval for a rate, Newcombe's hybrid score interval (his method 10) for a difference: both hold for
few sessions and for rates near 0, where the textbook interval does not. Sources: Wilson, JASA 22 (1927); Newcombe,
Statistics in Medicine 17 (1998), 873-890.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Z95 = 1.959963984540054
_Z_POWER_80 = 0.8416212335729143
RELEVANT = 0.1
"""A change of a rate by less than this counts as none, once the interval rules out more."""

_MADE_BY = ("app_version", "prompt", "model")


@dataclass(frozen=True, slots=True)
class Rate:
    """`found` of `sessions` audited sessions, with the 95 % interval of the share."""

    found: int
    sessions: int

    @property
    def value(self) -> float | None:
        """The share; None of no sessions."""
        return self.found / self.sessions if self.sessions else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval; everything is possible where nothing was audited."""
        return wilson(self.found, self.sessions)

    @property
    def cautious(self) -> float:
        """The share with two sessions of each kind added: no sample says that something never happens.

        Source: Agresti and Coull, The American Statistician 52 (1998), 119-126.
        """
        return (self.found + 2) / (self.sessions + 4)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {"found": self.found, "sessions": self.sessions, "rate": self.value, "interval": list(self.interval)}


@dataclass(slots=True)
class AuditedSession:
    """A session of a run in which at least one audit reached a verdict."""

    audits: set[str] = field(default_factory=set)
    drifting: set[str] = field(default_factory=set)
    """Audits with a finding that stands."""
    types: set[str] = field(default_factory=set)
    severities: set[str] = field(default_factory=set)
    versions: dict[str, set[str]] = field(default_factory=dict)
    """What made the answers, by dimension: ``app_version``, ``prompt``, ``model``."""


def compare(run_a: Sequence[Mapping[str, Any]], run_b: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compare two runs, JSON-ready.

    A session counts once in a rate, however many findings it has; findings that a person rejected or muted don't
    count. Sessions without a verdict (inconclusive, not applicable) are left out and counted apart.

    Args:
        run_a: The members of the earlier run, from `Ledger.members`.
        run_b: Those of the later one.

    Returns:
        ``rows`` (one a dimension and value: rates ``a`` and ``b``, ``difference`` with interval, ``decision``) and
        ``notes``. Decisions: ``worse`` and ``better`` where the interval of the difference is clear of 0;
        ``no_difference`` where it rules out a change of 10 points; else ``undecided``, with ``sessions_needed`` in
        each run to see a difference as large as this one (80 % power). None where one run lacks the value.
    """
    before, after = _sessions(run_a), _sessions(run_b)
    both = (*before.values(), *after.values())
    asked: list[tuple[str, str, _Condition, _Condition]] = [("overall", "any finding", _all, _drifts)]
    for dimension, members in (("audit", _audits), ("type", _types), ("severity", _severities)):
        values = sorted({one for session in both for one in members(session)})
        asked += [(dimension, value, *_of_result(dimension, value)) for value in values]
    for dimension in _MADE_BY:
        values = sorted({one for session in both for one in session.versions.get(dimension, ())})
        asked += [(dimension, value, _made_by(dimension, value), _drifts) for value in values]
    rows = [_row(*one, before, after) for one in asked]
    return {"rows": rows, "notes": _notes(run_a, run_b, before, after), "a": _tally(run_a), "b": _tally(run_b)}


def wilson(found: int, sessions: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval of a share; (0, 1) for no sessions."""
    if not sessions:
        return 0.0, 1.0
    share, square = found / sessions, z * z
    centre = share + square / (2 * sessions)
    half = z * math.sqrt(share * (1 - share) / sessions + square / (4 * sessions * sessions))
    scale = 1 + square / sessions
    low = 0.0 if found == 0 else max(0.0, (centre - half) / scale)
    high = 1.0 if found == sessions else min(1.0, (centre + half) / scale)
    return low, high


def newcombe(a: Rate, b: Rate) -> tuple[float, float]:
    """The interval of the difference ``b - a`` of two independent shares, neither of no sessions."""
    assert a.value is not None
    assert b.value is not None
    (low_a, high_a), (low_b, high_b) = a.interval, b.interval
    difference = b.value - a.value
    low = difference - math.hypot(b.value - low_b, high_a - a.value)
    high = difference + math.hypot(high_b - b.value, a.value - low_a)
    return max(-1.0, low), min(1.0, high)


def sessions_needed(a: float, b: float) -> int:
    """Sessions in each run to see such a difference at 95 % with a power of 80 %; at least a relevant one.

    The usual normal approximation. It is too hopeful for shares of 0 and 1, so shares found in samples go in as
    `Rate.cautious`.
    """
    size = max(abs(b - a), RELEVANT)
    middle = (a + b) / 2
    spread = max(a * (1 - a) + b * (1 - b), 2 * max(middle, 0.02) * (1 - min(middle, 0.98)) * 0.5)
    return math.ceil((Z95 + _Z_POWER_80) ** 2 * spread / size**2)


def _sessions(members: Sequence[Mapping[str, Any]]) -> dict[str, AuditedSession]:
    found: dict[str, AuditedSession] = {}
    for one in members:
        if one["outcome"] not in ("findings", "clean"):
            continue
        session = found.setdefault(one["session_key"], AuditedSession())
        session.audits.add(one["audit"])
        if one["findings"]:
            session.drifting.add(one["audit"])
        for finding in one["findings"]:
            session.types.add(f"{one['audit']}: {finding['type']}")
            session.severities.add(finding["severity"])
        for turn in one["turns"]:
            prompt = " ".join(filter(None, (turn.get("prompt_name"), turn.get("prompt_version"))))
            versions = {"app_version": turn.get("app_version"), "prompt": prompt, "model": turn.get("model")}
            for name, value in versions.items():
                if value:
                    session.versions.setdefault(name, set()).add(value)
    return found


_Condition = Callable[[AuditedSession], bool]


def _all(_: AuditedSession) -> bool:
    return True


def _drifts(session: AuditedSession) -> bool:
    return bool(session.drifting)


def _audits(session: AuditedSession) -> set[str]:
    return session.audits


def _types(session: AuditedSession) -> set[str]:
    return session.types


def _severities(session: AuditedSession) -> set[str]:
    return session.severities


def _of_result(dimension: str, value: str) -> tuple[_Condition, _Condition]:
    """Which sessions count for a value, and which of them have it. A type is looked for where its audit looked."""
    if dimension == "audit":
        return (lambda one: value in one.audits), (lambda one: value in one.drifting)
    if dimension == "type":
        audit = value.partition(": ")[0]
        return (lambda one: audit in one.audits), (lambda one: value in one.types)
    return _all, (lambda one: value in one.severities)


def _made_by(dimension: str, value: str) -> _Condition:
    return lambda one: value in one.versions.get(dimension, ())


def _row(
    dimension: str,
    value: str,
    counts: _Condition,
    has_it: _Condition,
    before: Mapping[str, AuditedSession],
    after: Mapping[str, AuditedSession],
) -> dict[str, Any]:
    a, b = _rate(before, counts, has_it), _rate(after, counts, has_it)
    row: dict[str, Any] = {"dimension": dimension, "value": value, "a": a.record(), "b": b.record()}
    if a.value is None or b.value is None:
        return {**row, "difference": None, "decision": None, "sessions_needed": None}
    low, high = newcombe(a, b)
    decision = _decision(low, high)
    return {
        **row,
        "difference": {"value": b.value - a.value, "interval": [low, high]},
        "decision": decision,
        "sessions_needed": sessions_needed(a.cautious, b.cautious) if decision == "undecided" else None,
    }


def _rate(sessions: Mapping[str, AuditedSession], counts: _Condition, has_it: _Condition) -> Rate:
    counted = [one for one in sessions.values() if counts(one)]
    return Rate(sum(map(has_it, counted)), len(counted))


def _decision(low: float, high: float) -> str:
    if low > 0:
        return "worse"
    if high < 0:
        return "better"
    return "no_difference" if max(-low, high) < RELEVANT else "undecided"


def _tally(members: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    outcomes = ("findings", "clean", "not_applicable", "inconclusive")
    return {name: sum(one["outcome"] == name for one in members) for name in outcomes}


def _notes(
    run_a: Sequence[Mapping[str, Any]],
    run_b: Sequence[Mapping[str, Any]],
    before: Mapping[str, AuditedSession],
    after: Mapping[str, AuditedSession],
) -> list[str]:
    notes = []
    for what, key in (("judges", _judges), ("prompts", _prompts)):
        a, b = key(run_a), key(run_b)
        if a != b and a and b:
            names = f"{', '.join(sorted(a))} against {', '.join(sorted(b))}"
            notes.append(f"The runs were judged with different {what} ({names}): a difference may come from that.")
    unverified = [sum(one["outcome"] == "inconclusive" for one in run) for run in (run_a, run_b)]
    if any(unverified):
        a_count, b_count = unverified
        notes.append(f"Inconclusive results are in no rate: {a_count} in the first run, {b_count} in the second.")
    shared = len(before.keys() & after.keys())
    if shared:
        notes.append(
            f"{shared} session{' is' if shared == 1 else 's are'} in both runs. The intervals hold for independent "
            "samples; for the same sessions they are wider than need be."
        )
    if min(len(before), len(after)) == 0:
        notes.append("One of the runs has no audited session: nothing can be compared.")
    return notes


def _judges(members: Sequence[Mapping[str, Any]]) -> set[str]:
    return {one["judge"] for one in members if one["judge"] and one["outcome"] in ("findings", "clean")}


def _prompts(members: Sequence[Mapping[str, Any]]) -> set[str]:
    return {name for one in members if one["outcome"] in ("findings", "clean") for name in one["prompts"]}
