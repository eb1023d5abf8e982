"""Units for the tests of what people see: a made-up conversation with one event of each type, and hostile text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from otel_drift.model import Finding, Hint, Passage, Session, Turn, Unit

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
START = 1_795_860_000_000_000_000

ESCAPES = "\x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \x1b[2J\x9b31m"
BIDI = "user\u202e\u2066txt.exe\u2069\u202c \u200bzero\u200d\ufeff \U000e0041 \u2028next"
MARKUP = (
    "</script><script>window.hacked=1;alert(1)</script><img src=x onerror=alert(1)>"
    '<a href="javascript:alert(1)">x</a><style>body{display:none}</style>" onfocus=alert(1) autofocus x="'
    "{{7*7}} ${7*7} <%= 7*7 %> <!-- --> ]]> [bold red]markup[/] [link=http://evil.example]x[/link] :smile: &lt;b&gt;"
)
HOSTILE = f"{ESCAPES} {BIDI} {MARKUP}"


def passage(number: int, text: str | None, turn: int, **fields: Any) -> Passage:
    return Passage(f"doc-{number}", text, 1, title=f"Guide {number}", source=f"guide/{number}.md", score=0.87, **fields)


def turn(number: int, user: str | None, answer: str | None, *passages: Passage, **fields: Any) -> Turn:
    given: dict[str, Any] = {
        "answer_state": "captured" if answer else "not_captured",
        "retrieval": "captured" if passages else "no_retrieval",
        "answer_ref": f"{TRACE}:{number:016x}",
        "trace_ids": (TRACE,),
        "model": "gpt-4o-mini",
        **fields,
    }
    started = START + number * 40_000_000_000
    return Turn(f"turn-{number}", number, started, started + 2_000_000_000, user, answer, passages=passages, **given)


def session(session_id: str | None = "chat-7f31") -> Session:
    fee = "A night at the hut costs 24 EUR. Members of the club usually pay half."
    return Session(
        key=f"huts|{session_id}",
        session_id=session_id,
        project="hut-bookings",
        environment="production",
        user="ada",
        trace_ids=(TRACE,),
        conventions=("openinference",),
        hints=(Hint("ids", "OpenInference", "passages have no ids", "set `include_ids=True`", (1, 2, 3, 5)),),
        turns=(
            turn(1, "What does a night cost?", f"Hello 🏔! {fee}", passage(1, fee, 1)),
            turn(2, "Is breakfast included?", "Breakfast is served\nfrom 6 to 8.", passage(2, "Breakfast: 6 to 8.", 2)),
            turn(3, "And for two members?", "The night costs 30 EUR each. Members pay half.", retrieval="none"),
            turn(4, "Are dogs allowed?", None, answer_state="failed", error="HTTP 500"),
            turn(5, "Thanks!", "Gladly. About 900 dogs stay here a year."),
        ),
    )


def report() -> dict[str, Any]:
    def claim(
        number: int, at: int, quote: str, status: str, *evidence: tuple[str, str], **fields: Any
    ) -> dict[str, Any]:
        cited = [{"passage_id": passage_id, "quote": quoted} for passage_id, quoted in evidence]
        base = {"claim_id": f"c{number}", "turn": at, "claim_text": quote, "quote": quote, "grounding_status": status}
        return {**base, "evidence": cited, "qualifiers": [], "missing_qualifier": None, **fields}

    claims = [
        claim(1, 1, "A night at the hut costs 24 EUR", "GROUNDED", ("doc-1", "A night at the hut costs 24 EUR.")),
        claim(2, 1, "Members of the club usually pay half", "GROUNDED", ("doc-1", "usually pay half")),
        claim(
            3,
            2,
            "Breakfast is served from 6 to 8",
            "PARTIALLY_GROUNDED",
            ("doc-2", "6 to 8"),
            missing_qualifier="usually",
        ),
        claim(4, 3, "The night costs 30 EUR each", "UNSUPPORTED"),
        claim(5, 3, "Members pay half", "UNSUPPORTED"),
        claim(6, 5, "About 900 dogs stay here a year", "UNSUPPORTED"),
    ]

    def event(kind: str, severity: str, earlier: int | None, later: int, cause: str) -> dict[str, Any]:
        def expanded(number: int) -> dict[str, Any]:
            listed = claims[number - 1]
            kept = {key: listed[key] for key in ("claim_id", "turn", "claim_text", "quote", "grounding_status")}
            return {**kept, "trace_event_ref": f"{TRACE}:{listed['turn']:016x}"}

        return {
            "event_id": f"event-{later}",
            "turn_number": claims[later - 1]["turn"],
            "drift_type": kind,
            "earlier_claim": None if earlier is None else expanded(earlier),
            "later_claim": expanded(later),
            "description": f"A possible {kind.lower()}.",
            "severity": severity,
            "detection_confidence": 0.81,
            "likely_cause": cause,
            "status": "suspected",
        }

    events = [
        event("CONTRADICTION", "CRITICAL", 1, 4, "retrieval_gap"),
        event("DROPPED_QUALIFICATION", "MAJOR", 2, 5, "retrieval_gap"),
        event("UNSUPPORTED_NEW_CLAIM", "MINOR", None, 6, "generation_error"),
    ]
    summary = {"total_drift_events": 3, "by_type": {}, "overall_assessment": "Three possible events in five turns."}
    return {
        "session_id": "chat-7f31",
        "trace_ids": [TRACE],
        "total_turns": 5,
        "claims": claims,
        "drift_events": events,
        "summary": summary,
        "corrections": [],
    }


def unit(**fields: Any) -> Unit:
    given: dict[str, Any] = {
        "unit_id": "unit-1",
        "audit": "factual_drift",
        "session": session(),
        "outcome": "findings",
        "reason": None,
        "severity": "CRITICAL",
        "report": report(),
        "findings": (),
        "judge": "rules",
        "judge_note": "Embedded judge: sees words, not meaning.",
        "calls": 1,
        "input_tokens": 1200,
        "output_tokens": 345,
        "cost": 0.0021,
    }
    return Unit(**{**given, **fields})


def clean(number: int = 2) -> Unit:
    calm = {**report(), "drift_events": []}
    return unit(
        unit_id=f"unit-{number}", session=session(f"calm-{number}"), outcome="clean", severity="NONE", report=calm
    )


def quiet(outcome: str, reason: str, number: int = 3) -> Unit:
    named = session(f"{outcome}-{number}")
    return unit(unit_id=f"unit-{number}", session=named, outcome=outcome, reason=reason, severity="NONE", report=None)


def hostile(text: str = HOSTILE) -> Unit:
    """A unit in which every text a trace or a judge can choose is `text`."""
    whole = session(text)
    bad = Passage(
        text, f"{text} tail", 1, title=text, source=text, author=text, date=text, document_type=text, span_ref=text
    )
    turns = (
        turn(1, text, f"before {text} after", replace(bad, read_from="prompt"), model=text, feedback=text),
        turn(2, text, None, answer_state="failed", error=text),
        turn(3, text, f"{text}{text}", bad, tags=(text,), answer_ref=text),
    )
    hints = (Hint(text, text, text, text, (1,)),)
    whole = replace(
        whole,
        turns=turns,
        project=text,
        environment=text,
        user=text,
        trace_ids=(text,),
        conventions=(text,),
        hints=hints,
    )
    filled = report()
    for claim in filled["claims"]:
        at = 1 if claim["turn"] == 1 else 3
        claim.update(turn=at, quote=text, claim_text=text, evidence=[{"passage_id": text, "quote": text}])
        claim.update(qualifiers=[text], missing_qualifier=text)
    for event in filled["drift_events"]:
        event.update(turn_number=3, description=text, event_id=text, likely_cause=text, status=text, drift_type=text)
        for side in filter(None, (event["earlier_claim"], event["later_claim"])):
            side.update(
                turn=1 if side is event["earlier_claim"] else 3, quote=text, claim_text=text, trace_event_ref=text
            )
    filled["summary"]["overall_assessment"] = text
    return unit(session=whole, report=filled, judge=text, judge_note=text, reason=text)


def finding() -> Finding:
    return Finding(
        "f-1", "source_conflict", "CONTRADICTION", "MAJOR", 0.7, 3, f"{TRACE}:{3:016x}", "Two sources disagree.",
        earlier_turn=1, earlier_ref=f"{TRACE}:{1:016x}", quotes=("24 EUR", "30 EUR"),
    )  # fmt: skip
