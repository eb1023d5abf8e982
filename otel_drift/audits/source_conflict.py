"""The audit ``source_conflict``: do the passages of a turn contradict each other, and did the answer say so?

One ask a turn. The judge lists conflicts with a quote from each side; code checks them, counts pairs of sources and
decides whether answering was unsafe. The conflict gate runs the same audit on passages that have no answer yet.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel

from otel_drift import prompting
from otel_drift.audits.source_conflict_answer import ConflictAnswer, ConflictsAnswer, ConflictSeverity, WrittenAnswer
from otel_drift.audits.source_conflict_checks import MARKER, check_conflicts, check_written
from otel_drift.audits.source_conflict_report import CANONICAL, RANKS, build_report, settled
from otel_drift.audits.source_conflict_sources import ConflictMaterial, same_text, sources_of
from otel_drift.errors import ConfigError, UnitError
from otel_drift.faults import Fault
from otel_drift.model import Finding, Passage, Session, Turn
from otel_drift.protocols import AuditSettings, Eligibility, Forecast, Step

CONFLICTS_PROMPT = "source_conflict/conflicts"
ANSWER_PROMPT = "source_conflict/answer"

UNDISCLOSED_CONFLICT = "UNDISCLOSED_CONFLICT"
CONFLICTING_SOURCES = "CONFLICTING_SOURCES"
"""The types of finding: an answer that hides a conflict; passages the gate let nobody answer from."""

_FRAME_TOKENS = 120
_REPAIR_TOKENS = 800
_ANSWER_TOKENS = 1_500


class SourceConflict:
    """Finds contradictions between the passages of one turn that its answer does not voice.

    Args:
        severity_threshold: conflicts from this severity on count towards abstaining.
        pair_threshold: so many pairs of sources in conflict, and answering is unsafe.
        write_answer: let the judge answer the question where answering is safe (the gate's option).
        gate: the turn is a gate call: there is no answer yet, and pairs over the threshold are the finding.
        min_confidence: conflicts the judge is less sure of are listed and count for nothing (``calibrate`` finds it).

    Raises:
        ConfigError: a threshold is none.
    """

    name = "source_conflict"
    per_turn = True

    def __init__(
        self,
        severity_threshold: ConflictSeverity = "MATERIAL",
        pair_threshold: int = 1,
        *,
        write_answer: bool = False,
        gate: bool = False,
        min_confidence: float = 0.0,
    ) -> None:
        self.severity_threshold, self.pair_threshold = _checked(severity_threshold, pair_threshold)
        self.min_confidence = _confidence(min_confidence)
        self._write_answer, self._gate = write_answer, gate
        sure = f" {self.min_confidence}" if self.min_confidence else ""
        self.version = f"1 {severity_threshold} {pair_threshold} {write_answer} {gate}{sure}"

    def eligibility(self, session: Session, settings: AuditSettings) -> Eligibility:
        """A turn with two captured passages of different text."""
        captured = [turn for turn in session.turns if turn.retrieval == "captured" and _texts(turn)]
        if not captured:
            return Eligibility(False, "no_passages_captured")
        if not any(_texts_differ(turn) for turn in captured):
            return Eligibility(False, "single_source")
        return Eligibility(True)

    def steps(
        self, session: Session, settings: AuditSettings
    ) -> Generator[Sequence[Step], Sequence[BaseModel], dict[str, Any]]:
        """The conflicts; then, where asked for and safe, an answer that voices what disagreement remains.

        Raises:
            UnitError: the passages do not fit the judge.
        """
        turn = session.turns[0]
        severity_threshold, pair_threshold, min_confidence = self.thresholds(settings)
        (found,) = cast("Sequence[ConflictsAnswer]", (yield [_conflicts_step(session, settings)]))
        conflicts = settled(found.conflicts, sources_of(turn), at_most_material=settings.embedded_judge)
        report = build_report(
            session,
            conflicts,
            notes=found.conflict_notes,
            severity_threshold=severity_threshold,
            pair_threshold=pair_threshold,
            min_confidence=min_confidence,
            answer=turn.answer if turn.answered else None,
        )
        if self._write_answer and not report["abstain"]:
            (written,) = cast("Sequence[WrittenAnswer]", (yield [_answer_step(session, conflicts)]))
            report["answer"] = _with_ids(written.answer, turn)
        return report

    def forecast(self, session: Session, settings: AuditSettings) -> Sequence[Forecast]:
        """The asks a turn will take, with estimated tokens.

        Raises:
            UnitError: the passages do not fit the judge.
        """
        size = _fitting_size(session.turns[0], settings)
        asks = [Forecast(size, _ANSWER_TOKENS)]
        return [*asks, Forecast(size, _ANSWER_TOKENS)] if self._write_answer else asks

    def prompt_inputs(self, settings: AuditSettings) -> Mapping[str, frozenset[str]]:
        """The prompts of this audit and what each is given.

        Raises:
            ConfigError: the options of this audit are wrong.
        """
        self.thresholds(settings)
        inputs = {CONFLICTS_PROMPT: frozenset({"domain", "turn", "passages"})}
        return {**inputs, ANSWER_PROMPT: frozenset({"turn", "passages", "conflicts"})} if self._write_answer else inputs

    def finding_types(self, settings: AuditSettings) -> tuple[str, ...]:
        """The one type of finding there is: of an answer, or of a gate call."""
        return (CONFLICTING_SOURCES if self._gate else UNDISCLOSED_CONFLICT,)

    def findings(self, session: Session, report: Mapping[str, Any]) -> tuple[Finding, ...]:
        """One finding a conflict that the answer does not disclose; of a gate call, one a conflict it abstained for."""
        if self._gate:
            counted = [
                c
                for c in report["conflicts"]
                if RANKS[c["severity"]] >= RANKS[report["severity_threshold"]]
                and c["confidence"] >= report["min_confidence"]
            ]
            return tuple(_finding(CONFLICTING_SOURCES, one, report) for one in counted if report["abstain"])
        return tuple(
            _finding(UNDISCLOSED_CONFLICT, one, report) for one in report["conflicts"] if one["disclosed"] is False
        )

    def thresholds(self, settings: AuditSettings) -> tuple[ConflictSeverity, int, float]:
        """Severity, pairs and confidence from which conflicts count.

        This audit's own, or those of the settings (``[audit.options.source_conflict]``).

        Raises:
            ConfigError: the options of this audit are wrong.
        """
        told = settings.options.get(self.name, {})
        if unknown := sorted(set(told) - {"severity_threshold", "pair_threshold", "min_confidence"}):
            raise ConfigError(
                f"source_conflict has no option {unknown[0]!r}: severity_threshold, pair_threshold, min_confidence"
            )
        severity, pairs = _checked(
            told.get("severity_threshold", self.severity_threshold), told.get("pair_threshold", self.pair_threshold)
        )
        return severity, pairs, _confidence(told.get("min_confidence", self.min_confidence))


def _confidence(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"min_confidence {value!r}: use 0 to 1")
    return float(value)


def _checked(severity_threshold: Any, pair_threshold: Any) -> tuple[ConflictSeverity, int]:
    if not isinstance(severity_threshold, str) or severity_threshold not in RANKS:
        raise ConfigError(f"severity_threshold {severity_threshold!r}: use {', '.join(RANKS)}")
    if isinstance(pair_threshold, bool) or not isinstance(pair_threshold, int) or pair_threshold < 1:
        raise ConfigError(f"pair_threshold {pair_threshold!r}: use a whole number from 1")
    return cast("ConflictSeverity", severity_threshold), pair_threshold


def passage_lines(turn: Turn) -> list[str]:
    """One JSON object a passage, every text escaped; a text sent before is only referred to."""
    sent: dict[str, str] = {}
    lines = []
    for ref, passage in sources_of(turn).passages.items():
        text = passage.text or ""
        body = {"same_text_as": sent[text]} if text in sent else {"text": text}
        sent.setdefault(text, ref)
        lines.append(_line({"ref": ref, **_about(passage), **body}))
    return lines


def _conflicts_step(session: Session, settings: AuditSettings) -> Step:
    turn = session.turns[0]
    known = sources_of(turn)
    _fitting_size(turn, settings)

    def check(answer: BaseModel) -> list[Fault]:
        return check_conflicts(cast("ConflictsAnswer", answer), known, turn)

    material = ConflictMaterial(session)
    return Step("conflicts", CONFLICTS_PROMPT, _inputs(turn, settings), ConflictsAnswer, check, material, max_repairs=2)


def _answer_step(session: Session, conflicts: Sequence[ConflictAnswer]) -> Step:
    turn = session.turns[0]
    passages = sources_of(turn).passages

    def check(answer: BaseModel) -> list[Fault]:
        return check_written(cast("WrittenAnswer", answer).answer, conflicts, passages)

    shown = {"source_a", "claim_a", "source_b", "claim_b", "severity"}
    inputs = {
        "turn": _line({"question": turn.user}),
        "passages": "\n".join(passage_lines(turn)),
        "conflicts": "\n".join(_line(conflict.model_dump(include=shown)) for conflict in conflicts) or "none",
    }
    return Step("answer", ANSWER_PROMPT, inputs, WrittenAnswer, check, max_repairs=2)


def _inputs(turn: Turn, settings: AuditSettings) -> dict[str, str]:
    domain = " ".join((settings.domain or "").split())
    return {
        "domain": f"The assistant works in this domain: {domain}. Weigh severity accordingly." if domain else "",
        "turn": _line({"question": turn.user, "answer": turn.answer if turn.answered else None}),
        "passages": "\n".join(passage_lines(turn)),
    }


def _fitting_size(turn: Turn, settings: AuditSettings) -> int:
    count = settings.count_tokens or (lambda words: len(words) // 4 + 1)
    prompt = prompting.load(CONFLICTS_PROMPT, folder=settings.prompts_dir)
    size = _FRAME_TOKENS + sum(count(text) for text in (prompt.text, *_inputs(turn, settings).values()))
    limit = settings.limits.input_tokens
    if limit is not None and not settings.embedded_judge and size + _ANSWER_TOKENS + _REPAIR_TOKENS > limit:
        raise UnitError(
            f"source_conflict: the passages of turn {turn.number} take about {size} tokens, more than the judge reads "
            f"({limit})",
            reason="turn_exceeds_window",
        )
    return int(size)


def _with_ids(answer: str, turn: Turn) -> str:
    """The answer with each marker's reference replaced by the passage's own id."""
    passages = sources_of(turn).passages
    return MARKER.sub(lambda marker: f"[{passages[marker[1]].id}]", answer)


def _finding(kind: str, conflict: Mapping[str, Any], report: Mapping[str, Any]) -> Finding:
    sides = " against ".join(conflict[f"title_{side}"] or conflict[f"source_{side}"] for side in ("a", "b"))
    said = " The answer does not say so." if kind == UNDISCLOSED_CONFLICT else ""
    return Finding(
        event_id=conflict["event_id"],
        audit=SourceConflict.name,
        type=kind,
        severity=CANONICAL[conflict["severity"]],
        confidence=conflict["confidence"],
        turn_number=report["turn"],
        span_ref=report["trace_event_ref"] or "",
        explanation=f"{_closed(conflict['explanation'])} Sources: {sides}.{said}",
        quotes=(conflict["quote_a"], conflict["quote_b"]),
        likely_cause="source_conflict",
    )


def _closed(sentence: str) -> str:
    stripped = sentence.strip()
    return stripped if stripped.endswith((".", "!", "?", "。")) else f"{stripped}."


def _texts(turn: Turn) -> list[str]:
    return [passage.text for passage in turn.passages if passage.text and passage.text.strip()]


def _texts_differ(turn: Turn) -> bool:
    first, *others = _texts(turn)
    return any(not same_text(first, other) for other in others)


def _about(passage: Passage) -> dict[str, str]:
    about = {
        "title": passage.title,
        "source": passage.source,
        "author": passage.author,
        "date": passage.date,
        "document_type": passage.document_type,
    }
    return {key: value for key, value in about.items() if value}


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
