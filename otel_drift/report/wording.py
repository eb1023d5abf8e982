"""The words, markers and colours for severities, statuses, causes and states, one place for terminal and page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from otel_drift.model import Passage, Session, Turn
from otel_drift.reasons import REASONS

SEVERITY_STYLES: Mapping[str, str] = MappingProxyType(
    {"CRITICAL": "bold white on red", "MAJOR": "bold red", "MINOR": "yellow", "NONE": "green"}
)
SEVERITY_MARKERS: Mapping[str, str] = MappingProxyType({"CRITICAL": "✖", "MAJOR": "▲", "MINOR": "◆", "NONE": "●"})
GROUNDING_STYLES: Mapping[str, str] = MappingProxyType(
    {"GROUNDED": "green", "PARTIALLY_GROUNDED": "yellow", "UNSUPPORTED": "red", "NOT_GROUNDABLE": "dim"}
)
ARC_TYPES = frozenset({"CONTRADICTION", "DROPPED_QUALIFICATION"})

_RETRIEVAL = {
    "captured": "retrieved",
    "none": "the retriever returned nothing",
    "no_retrieval": "no retrieval",
    "not_captured": "passages not captured",
    "ids_only": "only ids captured",
    "partial": "only partly captured",
}
_ANSWERS = {"captured": "answered", "failed": "no answer: the call failed", "not_captured": "answer not captured"}
_CAUSES = {
    "retrieval_gap": "retrieval gap",
    "generation_error": "generation error",
    "source_conflict": "conflicting sources",
}
_OUTCOMES = {
    "findings": "with findings",
    "clean": "clean",
    "not_applicable": "not applicable",
    "inconclusive": "inconclusive",
}
_JUDGE_REASONS = {
    "timeout": "the judge did not answer in time",
    "rate_limited": "the judge refused more calls for now",
}


def words(code: str) -> str:
    """``UNSUPPORTED_NEW_CLAIM`` → ``unsupported new claim``; works for a configured taxonomy's types too."""
    return code.replace("_", " ").replace("-", " ").strip().lower()


def cause_words(code: str) -> str:
    """The likely cause in words."""
    return _CAUSES.get(code, words(code))


def outcome_words(outcome: str) -> str:
    """The outcome in words."""
    return _OUTCOMES.get(outcome, words(outcome))


def reason_words(reason: str) -> str:
    """The reason in words where its code is known, else an empty string (the code itself is always shown)."""
    code = reason.split(":", 1)[0].strip()
    return REASONS.get(code) or _JUDGE_REASONS.get(code, "")


def answer_words(turn: Turn) -> str:
    """What became of the turn's answer."""
    return _ANSWERS[turn.answer_state]


def retrieval_words(turn: Turn) -> str:
    """Retrieval state with the number of passages, such as ``3 passages retrieved``."""
    state = _RETRIEVAL[turn.retrieval]
    if not turn.passages:
        return state
    if turn.retrieval == "captured":
        return f"{count(len(turn.passages), 'passage')} {state}"
    return f"{count(len(turn.passages), 'passage')}, {state}"


def origin_words(passage: Passage) -> str:
    """Title and source of a passage, ``title (source)``, as far as the trace has them."""
    title, source = passage.title or "", passage.source or ""
    if title and source and title != source:
        return f"{title} ({source})"
    return title or source


def turns_words(session: Session) -> str:
    """``5 turns``, or which one where it is one alone: what audits of a single turn are given."""
    return f"turn {session.turns[0].number}" if len(session.turns) == 1 else count(len(session.turns), "turn")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 turn``, ``2 turns``, ``2,345 spans``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def money(cost: float | None) -> str:
    """US dollars; ``cost unknown`` where the price is not known."""
    if cost is None:
        return "cost unknown"
    if cost == 0:
        return "no cost"
    return f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def moment(nanoseconds: int) -> str:
    """A time as ``2026-11-28 10:12:07 UTC``; empty for 0 or a time outside the calendar."""
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if nanoseconds else ""
    except (ValueError, OverflowError, OSError):
        return ""


def duration(nanoseconds: int) -> str:
    """A length of time in at most two units: ``41 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    seconds = max(0, nanoseconds) // 1_000_000_000
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit} {rest} {name}" if rest else f"{seconds // size} {unit}"
    return f"{seconds} s"
