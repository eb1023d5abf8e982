"""Turns a unit into the JSON the page shows: an index entry for the session list, and the session's detail.

Texts are shown with invisible characters made visible (`terminal_safe`); positions count UTF-16 code units of what is
shown, as JavaScript does. A passage text that recurs over turns is stored once a session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from otel_drift.links import Links
from otel_drift.model import SEVERITY_SCORES, Passage, Session, Turn, Unit
from otel_drift.report.citation_data import cited_claims
from otel_drift.report.escape import terminal_safe
from otel_drift.report.events import Event, Evidence, ShownClaim, claim_of, events_of, notes_of
from otel_drift.report.longform_data import curve_of, sentence_claims
from otel_drift.report.wording import (
    answer_words,
    cause_words,
    duration,
    moment,
    money,
    outcome_words,
    reason_words,
    retrieval_words,
    turns_words,
    words,
)
from otel_drift.text.folding import locate

MAX_TEXT = 200_000
"""Characters of one text that a page holds; longer ones are cut with a visible mark."""
MAX_LABEL = 80
"""Characters of a name that stands on a button."""
_CODES = {"CRITICAL": "C", "MAJOR": "M", "MINOR": "m", "NONE": "."}


def index_entry(unit: Unit) -> dict[str, Any]:
    """What the session list needs: verdict, the turns as a string of markers, and what filters look at."""
    session, events = unit.session, events_of(unit)
    worst: dict[int, str] = {}
    for event in events:
        if SEVERITY_SCORES[event.severity] > SEVERITY_SCORES.get(worst.get(event.turn, "NONE"), 0.0):
            worst[event.turn] = event.severity
    return {
        "id": unit.unit_id,
        "name": _shown(session.name),
        "session": hashlib.blake2b(session.key.encode("utf-8", "replace"), digest_size=8).hexdigest(),
        "audit": unit.audit,
        "outcome": unit.outcome,
        "outcome_words": outcome_words(unit.outcome),
        "reason": _shown(unit.reason or ""),
        "severity": unit.severity,
        "started": session.turns[0].started // 1_000_000 if session.turns else 0,
        "at": moment(session.turns[0].started) if session.turns else "",
        "turns": turns_words(session),
        "strip": "".join(_turn_code(turn, worst) for turn in session.turns[:400]),
        "events": [[event.type, event.severity, event.cause] for event in events],
        "words": _shown(" ".join(filter(None, [session.project, session.user, *session.trace_ids[:20]]))),
        "labels": {event.type: _label(words(event.type)) for event in events},
        "causes": {event.cause: _label(cause_words(event.cause)) for event in events if event.cause},
    }


def detail(unit: Unit, links: Links | None = None) -> dict[str, Any]:
    """Everything the page shows of one session, with where its spans are seen on the platform, if `links` know."""
    links = links or Links()
    session = unit.session
    events = events_of(unit)
    passages = _Passages(session)
    claims = _Claims(unit, passages)
    shown_events = [_event(event, claims) for event in events]
    summary = (unit.report or {}).get("summary")
    return {
        "session": {**_session(session), "url": links.session(session.session_id)},
        "unit": {
            "id": unit.unit_id,
            "audit": unit.audit,
            "outcome": unit.outcome,
            "outcome_words": outcome_words(unit.outcome),
            "reason": _shown(unit.reason or ""),
            "reason_words": reason_words(unit.reason or ""),
            "severity": unit.severity,
            "judge": _shown(unit.judge),
            "note": _shown(unit.judge_note),
            "calls": unit.calls,
            "tokens": unit.input_tokens + unit.output_tokens,
            "cost": money(unit.cost) if unit.calls else "",
            "prompts": [f"{prompt.id} {prompt.version} {prompt.sha256[:12]}" for prompt in unit.prompts],
            "assessment": _shown(str(summary.get("overall_assessment") or "")) if isinstance(summary, Mapping) else "",
        },
        "turns": [
            {
                **_turn(turn, passages, sorted(claims.marks.get(turn.number, ()))),
                "url": links.span(turn.answer_ref or turn.root_ref),
            }
            for turn in session.turns
        ],
        "texts": passages.texts,
        "passages": passages.shown,
        "claims": claims.shown,
        "events": shown_events,
        "flags": [_shown(words(str(flag))) for flag in (unit.report or {}).get("flags") or ()],
        "notes": [[turn, _shown(text)] for turn, text in notes_of(unit)],
        "longform": curve_of(unit, _shown),
    }


class _Passages:
    """The passages of a session, numbered; texts that recur share one entry."""

    def __init__(self, session: Session) -> None:
        self.texts: list[str] = []
        self.shown: list[dict[str, Any]] = []
        self.by_turn: dict[int, list[int]] = {}
        self._numbers: dict[tuple[int, str], int] = {}
        self._raw: list[str] = []
        seen: dict[str, int] = {}
        for turn in session.turns:
            self.by_turn[turn.number] = []
            for index, passage in enumerate(turn.passages):
                number, raw = len(self.shown), passage.text or ""
                if raw not in seen:
                    seen[raw] = len(self.texts)
                    self.texts.append(_shown(raw))
                self._raw.append(raw)
                self._numbers[turn.number, turn.passage_ref(index)] = number
                self._numbers.setdefault((turn.number, passage.id), number)
                self.by_turn[turn.number].append(number)
                self.shown.append(_passage(passage, seen[raw]))

    def evidence(self, turn: int, evidence: Evidence) -> dict[str, Any]:
        """A quote with the passage it stands in and where in it, as far as the turn has that passage."""
        number = self._numbers.get((turn, evidence.ref), self._numbers.get((turn, evidence.passage_id), -1))
        place = _place(self._raw[number], evidence.quote, evidence.span) if number >= 0 else None
        return {"passage": number, "id": _shown(evidence.passage_id), "quote": _shown(evidence.quote), "at": place}


class _Claims:
    """The claims of a unit, numbered: those of the report, and those that only an event names."""

    def __init__(self, unit: Unit, passages: _Passages) -> None:
        self.shown: list[dict[str, Any]] = []
        self.marks: dict[int, list[list[int]]] = {}
        """Where the claims stand: by turn number ``[start, end, claim]``, in UTF-16 code units of the answer."""
        self._passages = passages
        self._numbers: dict[str, int] = {}
        self._by_words: dict[tuple[int, str], int] = {}
        self._turns = {turn.number: turn for turn in unit.session.turns}
        for claim in sentence_claims(unit) or cited_claims(unit) or (unit.report or {}).get("claims") or ():
            self._add(
                claim_of(claim),
                qualifiers=[_shown(str(word)) for word in claim.get("qualifiers") or ()],
                missing=_shown(str(claim.get("missing_qualifier") or "")),
                explanation=_shown(str(claim.get("explanation") or "")),
            )

    def number(self, claim: ShownClaim) -> int:
        """The claim's number, by its id or else its words; a claim that the report does not list is added."""
        by_words = self._by_words.get((claim.turn, claim.quote))
        known = self._numbers.get(claim.claim_id) if claim.claim_id else by_words
        return self._add(claim) if known is None else known

    def _add(self, claim: ShownClaim, qualifiers: Sequence[str] = (), missing: str = "", explanation: str = "") -> int:
        number, turn = len(self.shown), self._turns.get(claim.turn)
        self._by_words.setdefault((claim.turn, claim.quote), number)
        if claim.claim_id:
            self._numbers[claim.claim_id] = number
        place = _place((turn.answer if turn else None) or "", claim.quote, claim.span)
        if place:
            self.marks.setdefault(claim.turn, []).append([*place, number])
        self.shown.append(
            {
                "id": _shown(claim.claim_id),
                "turn": claim.turn,
                "text": _shown(claim.text),
                "quote": _shown(claim.quote),
                "status": _shown(claim.grounding_status),
                "status_words": _shown(words(claim.grounding_status)),
                "ref": _shown(claim.ref or (turn.answer_ref if turn else "") or ""),
                "evidence": [self._passages.evidence(claim.turn, e) for e in claim.evidence],
                "qualifiers": list(qualifiers),
                "missing": missing,
                "explanation": explanation,
            }
        )
        return number


def _event(event: Event, claims: _Claims) -> dict[str, Any]:
    return {
        "id": _shown(event.event_id),
        "turn": event.turn,
        "type": event.type,
        "type_words": _label(words(event.type)),
        "severity": event.severity,
        "earlier": claims.number(event.earlier) if event.earlier is not None else None,
        "later": claims.number(event.later),
        "description": _shown(event.description),
        "confidence": event.confidence,
        "cause": event.cause,
        "cause_words": _label(cause_words(event.cause)),
        "status": _shown(event.status),
    }


def _session(session: Session) -> dict[str, Any]:
    started = session.turns[0].started if session.turns else 0
    ended = max((turn.ended for turn in session.turns), default=0)
    return {
        "name": _shown(session.name),
        "turns": turns_words(session),
        "own_id": session.session_id is not None,
        "project": _shown(session.project),
        "environment": _shown(session.environment or ""),
        "user": _shown(session.user or ""),
        "traces": [_shown(trace) for trace in session.trace_ids],
        "at": moment(started),
        "duration": duration(ended - started) if 0 < started < ended - 1_000_000_000 else "",
        "conventions": [_shown(name) for name in session.conventions],
        "hints": [{"what": _shown(hint.what), "remedy": _shown(hint.remedy)} for hint in session.hints],
    }


def _turn(turn: Turn, passages: _Passages, marks: list[list[int]]) -> dict[str, Any]:
    return {
        "number": turn.number,
        "at": moment(turn.started),
        "user": _shown(turn.user) if turn.user is not None else None,
        "answer": _shown(turn.answer or "") if turn.answered else None,
        "answer_words": answer_words(turn),
        "error": _shown(turn.error or ""),
        "retrieval": turn.retrieval,
        "retrieval_words": retrieval_words(turn),
        "ref": _shown(turn.answer_ref or turn.root_ref or ""),
        "model": _shown(turn.model or ""),
        "feedback": _shown(turn.feedback or ""),
        "passages": passages.by_turn[turn.number],
        "tools": [_shown(call.name) for call in turn.tool_calls],
        "alternatives": len(turn.alternatives),
        "marks": marks,
    }


def _passage(passage: Passage, text: int) -> dict[str, Any]:
    return {
        "id": _shown(passage.id),
        "own_id": passage.own_id,
        "text": text,
        "captured": passage.text is not None,
        "title": _shown(passage.title or ""),
        "source": _shown(passage.source or ""),
        "author": _shown(passage.author or ""),
        "date": _shown(passage.date or ""),
        "type": _shown(passage.document_type or ""),
        "rank": passage.rank,
        "score": passage.score,
        "from": passage.read_from,
        "ref": _shown(passage.span_ref or ""),
    }


def _turn_code(turn: Turn, worst: Mapping[int, str]) -> str:
    if turn.number in worst:
        return _CODES[worst[turn.number]]
    if turn.answer_state == "failed":
        return "x"
    return "." if turn.answered else "o"


def _label(text: str) -> str:
    return _shown(text if len(text) <= MAX_LABEL else f"{text[:MAX_LABEL]}…")


def _shown(text: str) -> str:
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]} […{len(text) - MAX_TEXT:,} more characters]"
    return terminal_safe(text, multiline=True)


def _place(raw: str, quote: str, span: tuple[int, int] | None) -> list[int] | None:
    """Where a quote stands in the shown form of `raw`, in UTF-16 code units: at `span`, else where it is found."""
    if span is None or not 0 <= span[0] < span[1] <= len(raw):
        span = locate(raw, quote) if raw and quote else None
    if span is None or span[1] > MAX_TEXT:
        return None
    return [len(_shown(raw[:end]).encode("utf-16-le")) // 2 for end in span]
