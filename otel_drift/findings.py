"""From an audited unit to what is written: annotations for platforms, and the JSON line of ``audit --format json``."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from otel_drift.links import Links
from otel_drift.model import SEVERITY_SCORES, Annotation, Finding, Session, Severity, Target, Turn, Unit, worst
from otel_drift.passage_mark import PassageMark
from otel_drift.report.escape import terminal_safe

SEVERITY_NAME = "drift_severity"
TYPE_NAME = "contradiction_type"
LONGEST_NAME = 35
"""The strictest platform's limit for the name of a score."""
LONGEST_EXPLANATION = 1_000
LONGEST_QUOTE = 240


def annotations(unit: Unit) -> tuple[Annotation, ...]:
    """What a unit says on a platform, in a fixed order: spans by turn, then the trace, then the session.

    With findings: on each answer span ``<audit>``, one ``<audit>.<type>`` a type, ``drift_severity`` and
    ``contradiction_type``, and a raw score where the audit has one (``longform_drift.score``); on the session (if it
    has an id) and its first trace ``drift_severity`` and ``<audit>``. Clean: ``NONE`` for the latter two on one target,
    the session or else the trace. No verdict: the outcome as label on that target, no score, and `error_type`. Findings
    a person rejected or muted count as none.

    Args:
        unit: An audited unit.

    Returns:
        Annotations with `revision` 0: the ledger counts revisions.
    """
    found = standing(unit)
    by_span: dict[str, list[Finding]] = {}
    for finding in sorted(found, key=lambda one: (one.turn_number, _rank(one), one.event_id)):
        by_span.setdefault(finding.span_ref, []).append(finding)
    made = [one for ref, at_span in by_span.items() for one in _of_span(unit, ref, at_span)]
    session = unit.session
    if found and session.trace_ids:
        made += _overall(unit, "trace", found)
    if session.session_id is not None:
        made += _overall(unit, "session", found)
    elif not found and session.trace_ids:
        made += _overall(unit, "trace", found)
    return tuple(made)


def standing(unit: Unit) -> list[Finding]:
    """The findings that count: neither rejected nor muted by a person."""
    return [finding for finding in unit.findings if finding.status != "rejected" and not finding.muted]


def unit_record(unit: Unit, links: Links | None = None) -> dict[str, Any]:
    """The JSON line of a unit. `severity` is None where no verdict was reached, `url` where no address is known."""
    links = links or Links()
    return {
        "unit_id": unit.unit_id,
        "session_id": unit.session.session_id,
        "session_key": unit.session.key,
        "trace_ids": list(unit.session.trace_ids),
        "audit": unit.audit,
        "outcome": unit.outcome,
        "reason": unit.reason,
        "severity": unit.severity if _has_verdict(unit) else None,
        "report": unit.report,
        "findings": [{**_finding_record(finding), "url": links.span(finding.span_ref)} for finding in unit.findings],
        "judge": unit.judge,
        "judge_note": unit.judge_note,
        "prompts": _prompt_records(unit),
        "calls": unit.calls,
        "tokens": {
            "input": unit.input_tokens,
            "output": unit.output_tokens,
            "total": unit.input_tokens + unit.output_tokens,
        },
        "cost": unit.cost,
        "url": links.session(unit.session.session_id),
    }


def slug(text: str) -> str:
    """A type as the lower-case part of a name: ``DROPPED_QUALIFICATION``, ``entity shift`` → ``entity_shift``."""
    return re.sub(r"\W+", "_", text.strip().lower()).strip("_") or "other"


def type_name(audit: str, finding_type: str) -> str:
    """``<audit>.<type>`` in at most 35 characters; a longer one is cut and told apart by a hash."""
    name = f"{audit}.{slug(finding_type)}"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 5]}_{hashlib.sha256(name.encode()).hexdigest()[:4]}"


def annotation_id(target: Target, ids: Sequence[str], name: str) -> str:
    """The id of the one current value per target and name: 32 hex digits."""
    return hashlib.sha256(json.dumps([target, *ids, name]).encode()).hexdigest()[:32]


def root_of(session: Session) -> tuple[str | None, str | None]:
    """The first trace of a session and, where known, its root span."""
    trace_id = session.trace_ids[0] if session.trace_ids else None
    root = next((turn.root_ref for turn in session.turns if turn.root_ref), None) or ""
    root_trace, _, root_span = root.partition(":")
    return trace_id, root_span if root_trace == trace_id and root_span else None


def _of_span(unit: Unit, ref: str, found: list[Finding]) -> list[Annotation]:
    trace_id, _, span_id = ref.partition(":")
    if not trace_id or not span_id:
        return []
    turn = next((turn for turn in unit.session.turns if turn.number == found[0].turn_number), None)
    start, end = (turn.started, turn.ended) if turn else _window(unit.session.turns)
    types = list(dict.fromkeys(finding.type for finding in found))
    severity = worst([finding.severity for finding in found])

    def value(name: str, about: list[Finding], label: str, score: float | None) -> Annotation:
        return Annotation(
            id=annotation_id("span", (trace_id, span_id), name),
            revision=0,
            name=name,
            target="span",
            trace_id=trace_id,
            span_id=span_id,
            session_id=unit.session.session_id,
            label=label,
            score=score,
            explanation=_explanation(unit, [_sentence(one) for one in about]),
            audit=unit.audit,
            start=start,
            end=end,
            links=tuple(dict.fromkeys(one.earlier_ref for one in about if one.earlier_ref)),
            metadata=_metadata(unit, about),
            environment=(turn.environment if turn else None) or unit.session.environment,
        )

    whole = value(unit.audit, found, severity, SEVERITY_SCORES[severity])
    made = [replace(whole, passages=_passages(unit, found))]
    for one in types:
        of_type = [finding for finding in found if finding.type == one]
        label = worst([finding.severity for finding in of_type])
        made.append(value(type_name(unit.audit, one), of_type, label, SEVERITY_SCORES[label]))
    report = unit.report or {}
    if "drift_severity_score" in report:  # longform_drift: its raw score beside the canonical severity
        made.append(value(f"{unit.audit}.score", found, report["drift_severity"], report["drift_severity_score"]))
    gravest = [min(found, key=_rank)]
    made.append(value(SEVERITY_NAME, found, severity, SEVERITY_SCORES[severity]))
    made.append(value(TYPE_NAME, gravest, gravest[0].type, None))
    return made


def _passages(unit: Unit, found: Sequence[Finding]) -> tuple[PassageMark, ...]:
    """The passages that conflict, each with the worst severity, where the report says from which span it was read."""
    conflicts = {one["event_id"]: one for one in (unit.report or {}).get("conflicts", ()) if "span_ref_a" in one}
    concerned: dict[tuple[str, str, str], list[tuple[Finding, str]]] = {}
    for finding in found:
        conflict = conflicts.get(finding.event_id, {})
        for side, other in ("ab", "ba"):
            if ref := conflict.get(f"span_ref_{side}"):
                passage = (ref, conflict[f"source_{side}"], conflict[f"text_sha256_{side}"])
                concerned.setdefault(passage, []).append((finding, conflict[f"source_{other}"]))
    return tuple(
        PassageMark(*passage, worst([finding.severity for finding, _ in said]), _conflicts_with(said))
        for passage, said in sorted(concerned.items())
    )


def _conflicts_with(said: Sequence[tuple[Finding, str]]) -> str:
    """With which passages, by their ids; what they say, and of which judge the finding is, stands on the answer."""
    sentences = [
        f"{_what(finding)} with {other}, {finding.severity}, confidence {finding.confidence:.2f}."
        for finding, other in said
    ]
    return _cut(terminal_safe("\n".join(sentences), multiline=True), LONGEST_EXPLANATION)


def _overall(unit: Unit, target: Target, found: list[Finding]) -> list[Annotation]:
    """The two values of a whole session, on itself or on its first trace (there on the root span)."""
    session = unit.session
    trace_id, root_span = root_of(session)
    ids = (session.key, session.session_id or "") if target == "session" else (trace_id or "",)
    severity = worst([finding.severity for finding in found])
    verdict = _has_verdict(unit)
    start, end = _window(session.turns if target == "session" else _turns_of(session.turns, trace_id))
    return [
        Annotation(
            id=annotation_id(target, ids, name),
            revision=0,
            name=name,
            target=target,
            trace_id=trace_id,
            span_id=root_span,
            session_id=session.session_id,
            label=severity if verdict else unit.outcome,
            score=SEVERITY_SCORES[severity] if verdict else None,
            explanation=_explanation(unit, _summary(unit, found)),
            audit=unit.audit,
            start=start,
            end=end,
            error_type=None if verdict else _error_type(unit),
            links=tuple(dict.fromkeys(finding.span_ref for finding in found if finding.span_ref)),
            metadata=_metadata(unit, found),
            environment=session.environment,
        )
        for name in (unit.audit, SEVERITY_NAME)
    ]


def _has_verdict(unit: Unit) -> bool:
    return unit.outcome in ("findings", "clean")


def _error_type(unit: Unit) -> str:
    """Low cardinality, as the convention for ``error.type`` asks: the reason's code without its details."""
    code = (unit.reason or "").split(":", 1)[0].strip()
    return slug(code) if code else unit.outcome


def _metadata(unit: Unit, found: Sequence[Finding]) -> Mapping[str, Any]:
    severity: Severity = worst([finding.severity for finding in found])
    metadata: dict[str, Any] = {
        "outcome": unit.outcome,
        "severity": severity if _has_verdict(unit) else None,
        "judge": unit.judge,
        "prompts": _prompt_records(unit),
        "unit_id": unit.unit_id,
    }
    if unit.reason:
        metadata["reason"] = terminal_safe(unit.reason)
    if found:
        metadata |= {
            "event_ids": [finding.event_id for finding in found],
            "types": list(dict.fromkeys(finding.type for finding in found)),
            "confidence": max(finding.confidence for finding in found),
            "turns": sorted({finding.turn_number for finding in found}),
            "span_refs": list(dict.fromkeys(finding.span_ref for finding in found)),
            "earlier_span_refs": list(dict.fromkeys(one.earlier_ref for one in found if one.earlier_ref)),
            "likely_causes": list(dict.fromkeys(finding.likely_cause for finding in found if finding.likely_cause)),
        }
    return metadata


def _prompt_records(unit: Unit) -> list[dict[str, str]]:
    return [{"id": one.id, "version": one.version, "sha256": one.sha256} for one in unit.prompts]


def _finding_record(finding: Finding) -> dict[str, Any]:
    return {
        "event_id": finding.event_id,
        "type": finding.type,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "turn_number": finding.turn_number,
        "span_ref": finding.span_ref,
        "earlier_turn": finding.earlier_turn,
        "earlier_ref": finding.earlier_ref,
        "explanation": finding.explanation,
        "quotes": list(finding.quotes),
        "likely_cause": finding.likely_cause,
        "status": finding.status,
        "muted": finding.muted,
    }


def _summary(unit: Unit, found: Sequence[Finding]) -> list[str]:
    turns = _count(len(unit.session.turns), "turn")
    if not _has_verdict(unit):
        return [f"Not audited ({unit.outcome.replace('_', ' ')}): {unit.reason or 'no reason given'}."]
    if not found:
        return [f"Nothing found in {turns}."]
    by_type: dict[str, list[int]] = {}
    for finding in found:
        by_type.setdefault(finding.type, []).append(finding.turn_number)
    listed = [
        f"{len(numbers)} × {_words(one)} (turn {', '.join(str(n) for n in sorted(set(numbers)))})"
        for one, numbers in by_type.items()
    ]
    head = f"{_count(len(found), 'suspected finding')} in {turns}: {'; '.join(listed)}."
    return [head, *(_sentence(one) for one in sorted(found, key=_rank))]


def _sentence(finding: Finding) -> str:
    """One finding in words: what, how sure, from which turn to which, why, quotes, likely cause."""
    why = finding.explanation.strip()
    what = [] if why.startswith("Possible ") else [_what(finding)]
    where = f"turn {finding.turn_number}"
    if finding.earlier_turn is not None:
        where = f"turn {finding.earlier_turn} → {where}"
    parts = [", ".join([*what, finding.severity, f"confidence {finding.confidence:.2f}", where]) + ":", why]
    if finding.quotes:
        parts.append("Quotes: " + " / ".join(f"“{_cut(quote.strip(), LONGEST_QUOTE)}”" for quote in finding.quotes))
    if finding.likely_cause:
        parts.append(f"Likely cause: {_words(finding.likely_cause)}.")
    return " ".join(parts)


def _what(finding: Finding) -> str:
    """A finding is a suspicion until a person has confirmed it, and is worded so."""
    words = _words(finding.type)
    return words[:1].upper() + words[1:] if finding.status == "confirmed" else f"Possible {words}"


def _explanation(unit: Unit, sentences: Sequence[str]) -> str:
    """Sentences made safe to show and cut to the limit; a judge's note on its limits always survives the cut."""
    note = _cut(terminal_safe(f"Judge: {unit.judge_note}"), LONGEST_EXPLANATION // 2) if unit.judge_note else ""
    text = terminal_safe("\n".join(sentences), multiline=True)
    if not note:
        return _cut(text, LONGEST_EXPLANATION)
    return f"{_cut(text, LONGEST_EXPLANATION - len(note) - 1)}\n{note}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _words(code: str) -> str:
    return code.replace("_", " ").lower()


def _rank(finding: Finding) -> tuple[float, float, int, str]:
    """Worst first; then the surest; then the earliest."""
    return -SEVERITY_SCORES[finding.severity], -finding.confidence, finding.turn_number, finding.event_id


def _turns_of(turns: Sequence[Turn], trace_id: str | None) -> Sequence[Turn]:
    return [turn for turn in turns if trace_id in turn.trace_ids] or turns


def _window(turns: Sequence[Turn]) -> tuple[int, int]:
    if not turns:
        return 0, 0
    return min(turn.started for turn in turns), max(turn.ended for turn in turns)
