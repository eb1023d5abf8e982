"""Sessions: a unit written out as a `Turn`."""

from __future__ import annotations

from typing import Any

from otel_drift.model import AnswerState, Passage, Turn
from otel_drift.normalise import Step
from otel_drift.sessions.evidence import Evidence
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.quick import quick
from otel_drift.sessions.unit import Unit

_turn, _passage = quick(Turn), quick(Passage)


def turn_of(
    unit: Unit, number: int, evidence: Evidence, options: ReconstructOptions, alternatives: tuple[Turn, ...]
) -> Turn:
    """The turn a unit stands for."""
    limit = options.max_text
    answer, call = unit.answer_pair
    state: AnswerState = "captured" if answer else "failed" if unit.failed else "not_captured"
    passages = [
        _passage(  # by place, as the turn below: in the order of the fields, in half the time that names take
            d.id or f"t{number}.p{rank}",
            d.text[:limit] if d.text else None,
            rank,
            d.id is not None,
            d.score,
            d.title,
            d.source,
            d.author,
            d.date,
            d.document_type,
            stage,
            ref,
        )
        for rank, (d, stage, ref) in enumerate(evidence.found[: options.max_passages], 1)
    ]
    answer_step = call or (unit.calls[-1] if unit.calls else None)
    user = unit.user
    facts = _facts(unit)
    told = {name: _text(value) for name, value in facts.items()}
    root = unit.root.span
    return _turn(
        root.ref,
        number,
        unit.start,
        unit.end,
        user[:limit] if user else None,
        answer[:limit] if answer else None,
        state,
        evidence.state,
        tuple(passages),
        evidence.tools,
        root.ref,
        answer_step.span.ref if answer_step else root.ref,
        tuple(unit.traces),
        _text(answer_step.fact("model")) if answer_step else None,
        told.get("app_version") or _text(root.resource.get("service.version")),
        told.get("prompt_name"),
        told.get("prompt_version"),
        environment_of(unit.root),
        _tags(facts.get("tags")),
        told.get("feedback"),
        _error(unit) if state == "failed" else None,
        alternatives,
    )


def environment_of(step: Step) -> str | None:
    """The deployment environment."""
    resource = step.span.resource
    return (
        _text(resource.get("deployment.environment.name"))
        or _text(resource.get("deployment.environment"))
        or _text(step.fact("environment"))
    )


def project_of(step: Step) -> str:
    """The project or service."""
    resource = step.span.resource
    return _text(step.fact("project")) or _text(resource.get("service.name")) or ""


_FACTS = frozenset({"app_version", "prompt_name", "prompt_version", "tags", "feedback"})


def _facts(unit: Unit) -> dict[str, Any]:
    """Facts of the answering call, the outermost step and the wrappers between them; the first that knows one wins."""
    found: dict[str, Any] = {}
    for step in (unit.call, unit.root, *unit.path):
        if step is None:
            continue
        for name in step.shape.facts:
            if name in _FACTS and found.get(name) is None:
                found[name] = step.fact(name)
    return found


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int | float) else None


def _tags(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list | tuple) else ()


def _error(unit: Unit) -> str | None:
    for node in reversed(unit.nodes):
        span = node.step.span
        if node.step.failed:
            kind = span.attributes.get("error.type")
            first = span.status_message.strip().splitlines()
            return (first[0][:300] if first else None) or (str(kind) if kind else "error")
    return None
