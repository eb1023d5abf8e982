"""What a result rests on, kept beside it: its frame (ids, times, versions), its texts, the passages behind a finding.

The frame holds no text of the trace, so it survives a privacy deletion; the packet is what a reviewer reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from otel_drift import text
from otel_drift.model import Finding, Passage, Session, Turn, Unit

_POINTERS = ("passage_id", "source_id", "source_a", "source_b", "passage", "source")
"""Keys under which reports name a passage (DESIGN: the four audits)."""

_Place: TypeAlias = tuple[Turn, Passage]


@dataclass(frozen=True, slots=True)
class PassageRef:
    """A passage behind a finding. `key` is equal for one document wherever it is retrieved."""

    key: str
    passage_id: str
    turn: int
    title: str | None = None


def frame(unit: Unit) -> dict[str, Any]:
    """What of a result and its session is no text: where it belongs, how the answers were made, who judged them."""
    session = unit.session
    return {
        "judge": unit.judge,
        "prompts": [{"id": one.id, "version": one.version, "sha256": one.sha256} for one in unit.prompts],
        "key": session.key,
        "session_id": session.session_id,
        "project": session.project,
        "environment": session.environment,
        "trace_ids": list(session.trace_ids),
        "turns": [_turn_frame(turn) for turn in session.turns],
    }


def session_of_frame(kept: Mapping[str, Any]) -> Session:
    """The session a frame was made of, without its texts."""
    turns = tuple(
        Turn(
            turn_id=turn["turn_id"],
            number=turn["number"],
            started=turn["started"],
            ended=turn["ended"],
            user=None,
            answer=None,
            answer_state=turn["answer_state"],
            retrieval=turn["retrieval"],
            root_ref=turn["root_ref"],
            answer_ref=turn["answer_ref"],
            trace_ids=tuple(turn["trace_ids"]),
            model=turn["model"],
            app_version=turn["app_version"],
            prompt_name=turn["prompt_name"],
            prompt_version=turn["prompt_version"],
        )
        for turn in kept["turns"]
    )
    return Session(
        key=kept["key"],
        session_id=kept["session_id"],
        turns=turns,
        trace_ids=tuple(kept["trace_ids"]),
        project=kept["project"],
        environment=kept["environment"],
    )


def packet(unit: Unit) -> dict[str, Any]:
    """The texts a reviewer needs: the conversation up to the last turn concerned, passages of the turns concerned.

    For a result without findings (inconclusive, an abstention) every turn is concerned.
    """
    numbers = {turn for one in unit.findings for turn in (one.turn_number, one.earlier_turn) if turn is not None}
    concerned = numbers or {turn.number for turn in unit.session.turns}
    last = max(concerned, default=0)
    return {
        "turns": [_turn_texts(turn, turn.number in concerned) for turn in unit.session.turns if turn.number <= last]
    }


def passages_behind(unit: Unit) -> list[tuple[PassageRef, ...]]:
    """The passages that each finding of a unit rests on, in the order of the findings.

    Those that its part of the report names; else those the whole report was judged by (``source_ids``); else those of
    its turns that hold one of its quotes.
    """
    if not unit.findings:
        return []
    known: dict[str, list[_Place]] = {}
    for turn in unit.session.turns:
        for index, passage in enumerate(turn.passages):
            for name in dict.fromkeys((passage.id, turn.passage_ref(index))):
                known.setdefault(name, []).append((turn, passage))
    report = unit.report or {}
    events = _by_id(_dicts(report), "event_id")
    claims = _by_id((claim for claim in report.get("claims") or () if isinstance(claim, Mapping)), "claim_id")
    whole = [name for name in report.get("source_ids") or () if isinstance(name, str)]
    made = []
    for finding in unit.findings:
        concerned = {finding.turn_number, finding.earlier_turn}
        parts = events.get(finding.event_id, [])
        named = [str(value) for part in parts for inner in _dicts(part) if (value := inner.get("claim_id"))]
        parts = [*parts, *(claim for name in dict.fromkeys(named) for claim in claims.get(name, ()))]
        pointers = dict.fromkeys(name for part in parts for name in _pointers(part) if name in known)
        found = [_nearest(known[name], concerned) for name in pointers or [one for one in whole if one in known]]
        if not found:
            found = _quoting(unit.session, finding, concerned)
        refs = {
            (key := _key(passage)): PassageRef(key, passage.id, turn.number, passage.title) for turn, passage in found
        }
        made.append(tuple(refs.values()))
    return made


def fingerprint(finding: Finding, behind: Sequence[PassageRef]) -> str:
    """Equal for the same pair of claims on the same passages, in whatever session: what a mute holds for."""
    said = [text.fold(quote).casefold() for quote in finding.quotes]
    return _sha256([finding.audit, finding.type, said, sorted(ref.key for ref in behind)])[:32]


def _turn_frame(turn: Turn) -> dict[str, Any]:
    return {
        "turn_id": turn.turn_id,
        "number": turn.number,
        "started": turn.started,
        "ended": turn.ended,
        "answer_state": turn.answer_state,
        "retrieval": turn.retrieval,
        "root_ref": turn.root_ref,
        "answer_ref": turn.answer_ref,
        "trace_ids": list(turn.trace_ids),
        "model": turn.model,
        "app_version": turn.app_version,
        "prompt_name": turn.prompt_name,
        "prompt_version": turn.prompt_version,
        "passages": [
            {"id": passage.id, "span_ref": passage.span_ref, "sha256": _sha256(passage.text)}
            for passage in turn.passages
        ],
    }


def _turn_texts(turn: Turn, with_passages: bool) -> dict[str, Any]:
    kept: dict[str, Any] = {
        "turn": turn.number,
        "turn_id": turn.turn_id,
        "answer_ref": turn.answer_ref,
        "root_ref": turn.root_ref,
        "user": turn.user,
        "answer": turn.answer,
        "retrieval": turn.retrieval,
    }
    if with_passages:
        kept["passages"] = [
            {
                "ref": turn.passage_ref(index),
                "id": passage.id,
                "text": passage.text,
                "title": passage.title,
                "source": passage.source,
                "author": passage.author,
                "date": passage.date,
                "document_type": passage.document_type,
                "span_ref": passage.span_ref,
            }
            for index, passage in enumerate(turn.passages)
        ]
    return kept


_PLAIN = frozenset((str, int, float, bool, type(None)))


def _by_id(parts: Iterable[Mapping[str, Any]], key: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for part in parts:
        if isinstance(name := part.get(key), str):
            found.setdefault(name, []).append(part)
    return found


def _quoting(session: Session, finding: Finding, concerned: set[int | None]) -> list[_Place]:
    """Passages of the turns concerned that hold one of the finding's quotes."""
    quotes = [folded for quote in finding.quotes if (folded := text.fold(quote))]
    return [
        (turn, passage)
        for turn in session.turns
        if turn.number in concerned
        for passage in turn.passages
        if passage.text and any(quote in folded for folded in (text.fold(passage.text),) for quote in quotes)
    ]


def _dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    """All mappings in a report, outer before inner, in its order."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (list, tuple)):
            inner = list(value)
        elif isinstance(value, Mapping):
            yield value
            inner = list(value.values())
        else:
            continue
        waiting += [one for one in reversed(inner) if type(one) not in _PLAIN]


def _pointers(part: Any) -> Iterator[str]:
    for inner in _dicts(part):
        for key in _POINTERS:
            if isinstance(value := inner.get(key), str):
                yield value


def _nearest(places: Sequence[_Place], concerned: set[int | None]) -> _Place:
    """Of several turns that were given a passage of this id, one the finding is about."""
    return next((place for place in places if place[0].number in concerned), places[0])


def _key(passage: Passage) -> str:
    """The trace's own id of a passage; where it has none, its text."""
    return f"id:{passage.id}" if passage.own_id else f"text:{_sha256(text.fold(passage.text or ''))[:32]}"


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()
