"""Every way a model misbehaves, through a real HTTP server: nothing unverified gets out, and every attempt is kept.

The session, the judge's right answer to it, and for each fault what the harness must make of it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from drift_cases import MemoryCache
from model_server import ModelServer, Reply
from otel_drift import retry
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.budget import Budget
from otel_drift.findings import annotations, unit_record
from otel_drift.judges.litellm import LiteLLMJudge
from otel_drift.model import Passage, Session, Turn, Unit
from otel_drift.validation import audit_session

REFUNDS = "Unused hours on the Plus plan are usually refunded within 14 days of the request."
HOURS = "The Plus plan includes 40 support hours each month for every customer."
HELPLINE = "The helpline in Lisbon is staffed around the clock by senior engineers."
CERTAIN = "Unused hours on the Plus plan are refunded within 14 days of the request."
FEWER = "The Plus plan includes 25 support hours each month for every customer."
PROMISE = "The helpline in Lisbon is closed at night and on every public holiday."
QUEUE = "Refund requests are handled by the billing team in the order of arrival."
INVENTED = "Zanzibar pays every customer ninety golden crowns each morning."

Answer = dict[str, Any]
VERBATIM = "does not stand verbatim"


def session() -> Session:
    return Session(
        key="shop/s1",
        session_id="s1",
        turns=(
            _turn(1, "What about unused hours?", REFUNDS, [REFUNDS]),
            _turn(2, "How many hours are there?", f"{HOURS} {HELPLINE}", [HOURS]),
            _turn(3, "So what can I count on?", f"{CERTAIN} {FEWER} {PROMISE}", [QUEUE, PROMISE]),
        ),
        trace_ids=tuple(_trace(number) for number in (1, 2, 3)),
    )


def _turn(number: int, user: str, answer: str, passages: Sequence[str]) -> Turn:
    return Turn(
        turn_id=f"turn-{number}",
        number=number,
        started=number * 1_000_000_000,
        ended=number * 1_000_000_000 + 500_000_000,
        user=user,
        answer=answer,
        answer_state="captured",
        retrieval="captured",
        passages=tuple(Passage(id=f"doc-{number}-{n}", text=text, rank=n) for n, text in enumerate(passages, 1)),
        answer_ref=f"{_trace(number)}:{number:016x}",
        trace_ids=(_trace(number),),
    )


def _trace(number: int) -> str:
    return f"{number:032x}"


def right() -> Answer:
    """Three events, one of each type, all of which hold."""
    return {
        "claims": [
            _claim("c1", "t1", REFUNDS, "GROUNDED", "t1.p1", qualifiers=["usually"]),
            _claim("c2", "t2", HOURS, "GROUNDED", "t2.p1"),
            _claim("c3", "t2", HELPLINE, "UNSUPPORTED"),
            _claim("c4", "t3", CERTAIN, "UNSUPPORTED"),
            _claim("c5", "t3", FEWER, "UNSUPPORTED"),
        ],
        "drift_events": [
            _event("UNSUPPORTED_NEW_CLAIM", "t2", None, "c3"),
            _event("DROPPED_QUALIFICATION", "t3", "c1", "c4"),
            _event("CONTRADICTION", "t3", "c2", "c5"),
        ],
        "overall_assessment": "The number of hours changes.",
    }


def _claim(ref: str, turn: str, quote: str, status: str, passage: str | None = None, **more: Any) -> Answer:
    evidence = [{"passage": passage, "quote": quote}] if passage else []
    claim = {"id": ref, "turn": turn, "claim_text": quote, "quote": quote, "grounding_status": status}
    return {**claim, "evidence": evidence, "qualifiers": [], "missing_qualifier": None, **more}


def _event(kind: str, turn: str, earlier: str | None, later: str) -> Answer:
    return {
        "turn": turn,
        "drift_type": kind,
        "earlier_claim": earlier,
        "later_claim": later,
        "description": f"A {kind.lower().replace('_', ' ')}.",
        "severity": "MAJOR",
        "detection_confidence": 0.9,
        "acknowledged_correction": False,
    }


def audit(
    server: ModelServer, *, budget: Budget | None = None, waits: list[float] | None = None, **options: Any
) -> Unit:
    """Audit the session with a judge at `server`; waits of the retries are skipped, and told in `waits`."""
    judge = LiteLLMJudge("openai/scripted", **{"api_base": server.url, "timeout": 20.0, **options})
    with retry.testing() as skipped:
        unit = audit_session(FactualDrift(), session(), judge, budget=budget)
    if waits is not None:
        waits += skipped
    return unit


def assert_nothing_got_out(unit: Unit, reason: str) -> None:
    assert (unit.outcome, unit.reason) == ("inconclusive", reason)
    assert unit.report is None
    assert unit.findings == ()
    assert unit_record(unit)["severity"] is None
    written = json.dumps([unit_record(unit), [repr(one) for one in annotations(unit)]])
    for text in (INVENTED, HELPLINE, CERTAIN, "Zanzibar"):
        assert text not in written


def assert_right_findings(unit: Unit) -> None:
    assert (unit.outcome, unit.reason, unit.severity) == ("findings", None, "MAJOR")
    assert sorted((finding.type, finding.turn_number) for finding in unit.findings) == [
        ("CONTRADICTION", 3),
        ("DROPPED_QUALIFICATION", 3),
        ("UNSUPPORTED_NEW_CLAIM", 2),
    ]
    refs = {turn.answer_ref for turn in session().turns}
    texts = [turn.answer or "" for turn in session().turns]
    for finding in unit.findings:
        assert finding.span_ref in refs
        assert finding.earlier_ref in {*refs, None}
        assert all(any(quote in text for text in texts) for quote in finding.quotes)


# Answers that are wrong


def _set(path: str, value: Any) -> Callable[[Answer], Any]:
    """A fault: the right answer with one value replaced, such as ``claims.0.quote``."""

    def fault(answer: Answer) -> Any:
        place: Any = answer
        *steps, last = path.split(".")
        for step in steps:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = value
        return answer

    return fault


def _add_claim(**changes: Any) -> Callable[[Answer], Any]:
    def fault(answer: Answer) -> Any:
        answer["claims"].append({**_claim("c9", "t3", FEWER, "UNSUPPORTED"), **changes})
        return answer

    return fault


def _add_event(kind: str, turn: str, earlier: str | None, later: str) -> Callable[[Answer], Any]:
    def fault(answer: Answer) -> Any:
        answer["drift_events"].append(_event(kind, turn, earlier, later))
        return answer

    return fault


def _unsupported_before_grounded(answer: Answer) -> Any:
    """The hours of turn 2 called unsupported, those of turn 3 grounded on a passage that says so."""
    answer["claims"][4] = _claim("c5", "t3", PROMISE, "GROUNDED", "t3.p2")
    answer["drift_events"][2] = _event("CONTRADICTION", "t3", "c3", "c5")
    return answer


def _no_claims(answer: Answer) -> Any:
    return {"claims": [], "drift_events": [], "overall_assessment": "no drift"}


CONFIDENCE = "drift_events.0.detection_confidence"
WRONG: list[tuple[str, Callable[[Answer], Any], str, str]] = [
    # what is wrong, the fault, the reason if it happens twice, and what the repair ask must say
    ("a top-level array", lambda a: [a, a], "answer_not_json", "JSON array"),
    ("a top-level array of claims", lambda a: a["claims"], "answer_not_json", "JSON array"),
    ("a top-level string", lambda a: json.dumps(json.dumps(a)), "answer_not_json", "JSON str"),
    ("prose alone", lambda a: "I found no drift at all in this session.", "answer_not_json", "no JSON object"),
    ("an empty answer", lambda a: "", "answer_empty", "The answer is empty"),
    ("blanks alone", lambda a: " \n\t ", "answer_empty", "The answer is empty"),
    ("two objects", lambda a: f"{json.dumps(a)}\n{json.dumps(a)}", "answer_ambiguous", "more than one JSON object"),
    ("a repeated key", lambda a: '{"claims": [], "claims": []}', "answer_ambiguous", "twice"),
    ("broken JSON", lambda a: json.dumps(a)[:-40], "answer_not_json", "no valid JSON"),
    ("nested too deeply", lambda a: '{"claims":' + "[" * 100_000, "answer_not_json", "JSON"),
    ("no object of ours", lambda a: {"verdict": "no drift"}, "answer_schema", "claims"),
    ("a missing field", _set("claims.0", {"id": "c1", "turn": "t1"}), "answer_schema", "claims[0].quote"),
    ("an unknown status", _set("claims.0.grounding_status", "TRUE"), "answer_schema", "claims[0].grounding_status"),
    ("an unknown type", _set("drift_events.0.drift_type", "HALLUCINATION"), "answer_schema", "drift_events[0]"),
    ("an unknown severity", _set("drift_events.0.severity", "HUGE"), "answer_schema", "drift_events[0].severity"),
    ("a confidence of 7e9", _set(CONFIDENCE, 7e9), "answer_schema", "less than or equal"),
    ("a negative confidence", _set(CONFIDENCE, -1), "answer_schema", "greater than or equal"),
    ("a confidence in words", _set(CONFIDENCE, "high"), "answer_schema", "number"),
    ("a confidence that is no number", lambda a: json.dumps(a).replace("0.9", "NaN"), "answer_not_json", "NaN"),
    ("an endless confidence", lambda a: json.dumps(a).replace("0.9", "1e999"), "answer_schema", "confidence"),
    ("no claims at all", _no_claims, "answer_checks", "No claim is listed"),
    ("a turn that isn't there", _set("claims.0.turn", "t9"), "answer_checks", "there is no turn “t9”"),
    ("a span id for a turn", _set("claims.0.turn", f"{1:016x}"), "answer_checks", "there is no turn"),
    ("a claim of another turn", _set("claims.0.turn", "t2"), "answer_checks", f"{VERBATIM} in the answer of t2"),
    ("an event of another turn", _set("drift_events.0.turn", "t3"), "answer_checks", "belongs to “t2”"),
    ("an invented passage", _set("claims.0.evidence.0.passage", "t1.p7"), "answer_checks", "no passage “t1.p7”"),
    ("an invented claim id", _set("drift_events.2.later_claim", "c77"), "answer_checks", "there is no claim “c77”"),
    ("an invented earlier id", _set("drift_events.2.earlier_claim", "c77"), "answer_checks", "there is no claim “c77”"),
    ("a claim id twice", _set("claims.1.id", "c1"), "answer_checks", "used twice"),
    ("an invented quote", _set("claims.2.quote", INVENTED), "answer_checks", VERBATIM),
    ("an invented claim", _add_claim(quote=INVENTED, claim_text=INVENTED), "answer_checks", VERBATIM),
    ("an altered quote", _set("claims.2.quote", HELPLINE.replace("Lisbon", "Porto")), "answer_checks", "verbatim"),
    ("a quote of one word", _set("claims.2.quote", "helpline"), "answer_checks", "too short"),
    ("a quote cut in a word", _set("claims.2.quote", HELPLINE[6:]), "answer_checks", "verbatim"),
    ("invented evidence", _set("claims.0.evidence.0.quote", INVENTED), "answer_checks", f"{VERBATIM} in passage"),
    ("evidence of one word", _set("claims.0.evidence.0.quote", "refunded"), "answer_checks", "too short"),
    (
        "evidence from another turn's passage",
        _set("claims.1.evidence", [{"passage": "t1.p1", "quote": REFUNDS}]),
        "answer_checks",
        "passage t1.p1 belongs to t1",
    ),
    ("grounded without evidence", _set("claims.0.evidence", []), "answer_checks", "needs evidence"),
    ("not groundable", _set("claims.2.grounding_status", "NOT_GROUNDABLE"), "answer_checks", "NOT_GROUNDABLE is only"),
    (
        "a contradiction with an unsupported earlier claim",
        _unsupported_before_grounded,
        "answer_checks",
        "a contradiction needs an earlier claim that is GROUNDED",
    ),
    ("a contradiction with nothing", _set("drift_events.2.earlier_claim", None), "answer_checks", "must name"),
    (
        "a dropped qualifier that wasn't there",
        _add_event("DROPPED_QUALIFICATION", "t3", "c2", "c5"),
        "answer_checks",
        "holds no explicit qualifier",
    ),
    (
        "an earlier claim that is later",
        _set("drift_events.1", _event("CONTRADICTION", "t2", "c4", "c2")),
        "answer_checks",
        "does not come before",
    ),
    ("a grounded claim as new", _set("drift_events.0.later_claim", "c2"), "answer_checks", "must be UNSUPPORTED"),
    ("a correction nobody made", _set("drift_events.2.acknowledged_correction", True), "answer_checks", "corrects"),
    ("a qualifier not in the answer", _set("claims.1.qualifiers", ["perhaps"]), "answer_checks", "qualifier"),
]  # fmt: skip
NAMES = [case[0] for case in WRONG]


def _text(fault: Callable[[Answer], Any]) -> str:
    made = fault(copy.deepcopy(right()))
    return made if isinstance(made, str) else json.dumps(made)


def test_the_right_answer_is_taken_at_once() -> None:
    with ModelServer([Reply(right())]) as server:
        unit = audit(server)
    assert_right_findings(unit)
    assert (unit.calls, len(unit.attempts), len(server.requests)) == (1, 1, 1)
    assert (unit.input_tokens, unit.output_tokens) == (120, 30)
    assert unit.attempts[0].answer is not None
    assert unit.attempts[0].answer.model == "scripted-2026-01"
    assert unit.attempts[0].errors == ()


@pytest.mark.parametrize(("fault", "error"), [(case[1], case[3]) for case in WRONG], ids=NAMES)
def test_one_repair_ask_with_the_raw_answer_and_the_errors_mends_it(fault: Callable[[Answer], Any], error: str) -> None:
    raw = _text(fault)
    with ModelServer([Reply(raw), Reply(right())]) as server:
        unit = audit(server)
    assert_right_findings(unit)
    assert (unit.calls, len(server.requests)) == (2, 2)
    first, second = unit.attempts
    assert first.answer is not None
    assert first.answer.text == raw
    assert any(error in one for one in first.errors), first.errors
    assert second.errors == ()

    asked, repair = (request.messages for request in server.requests)
    assert repair[0] == asked[0], "the instructions stay the prefix, for the provider's prompt cache"
    assert repair[-1]["content"].startswith(asked[-1]["content"])
    added = repair[-1]["content"].removeprefix(asked[-1]["content"])
    listed = "\n".join(f"{number}. {' '.join(one.split())[:400]}" for number, one in enumerate(first.errors, 1))
    assert all(line in added for line in listed.splitlines())
    before, marker, after = _block(added, "answer")
    assert marker not in asked[-1]["content"], "the repair ask has a nonce of its own"
    assert raw.strip() in after.partition(f"<<<end of answer {marker}>>>")[0]
    assert INVENTED not in before


def _block(text: str, name: str) -> tuple[str, str, str]:
    """Text before a delimited block, its nonce, and the text from its start on."""
    before, start, after = text.partition(f"<<<{name} ")
    assert start, f"no block {name}"
    nonce, end, rest = after.partition(">>>\n")
    assert end
    return before, nonce, rest


@pytest.mark.parametrize(("fault", "reason"), [(case[1], case[2]) for case in WRONG], ids=NAMES)
def test_twice_wrong_is_inconclusive_and_nothing_of_it_gets_out(fault: Callable[[Answer], Any], reason: str) -> None:
    with ModelServer([Reply(_text(fault))]) as server:
        unit = audit(server)
    assert_nothing_got_out(unit, reason)
    assert (unit.calls, len(server.requests)) == (2, 2)
    assert [bool(attempt.errors) for attempt in unit.attempts] == [True, True]
    assert (unit.input_tokens, unit.output_tokens) == (240, 60)


# Answers that only look wrong


@pytest.mark.parametrize(
    "dress",
    [
        lambda text: f"```json\n{text}\n```",
        lambda text: f"Sure! Here is my analysis:\n\n{text}\n\nLet me know if you need more.",
        lambda text: f"```\n{text}\n```\nNote: `usually` was dropped.",
        lambda text: f"<think>The hours differ {{40, 25}}: CONTRADICTION?</think>\n{text}",
        lambda text: f"\ufeff{text}\n\n",
        lambda text: json.dumps(json.loads(text), indent=4),
    ],
    ids=["code fence", "prose around", "fence and note", "thinking aloud", "byte order mark", "indented"],
)
def test_what_stands_around_the_object_does_no_harm(dress: Callable[[str], str]) -> None:
    with ModelServer([Reply(dress(json.dumps(right())))]) as server:
        unit = audit(server)
    assert_right_findings(unit)
    assert len(server.requests) == 1


def test_two_unsupported_claims_that_contradict_are_two_new_claims_without_asking_again() -> None:
    answer = right()
    answer["drift_events"] = [_event("CONTRADICTION", "t3", "c3", "c5")]
    with ModelServer([Reply(answer)]) as server:
        unit = audit(server)
    assert len(server.requests) == 1
    assert sorted((finding.type, finding.turn_number) for finding in unit.findings) == [
        ("UNSUPPORTED_NEW_CLAIM", 2),
        ("UNSUPPORTED_NEW_CLAIM", 3),
    ]


def test_unknown_keys_and_totals_of_the_judge_are_ignored() -> None:
    with ModelServer([Reply({**right(), "summary": {"total_drift_events": 77}, "event_id": INVENTED})]) as server:
        unit = audit(server)
    assert_right_findings(unit)
    assert unit.report is not None
    assert unit.report["summary"]["total_drift_events"] == 3
    assert "Zanzibar" not in json.dumps(unit.report)


def test_a_cut_off_answer_is_called_that_and_the_second_one_counts() -> None:
    cut = Reply(json.dumps(right())[:300], finish_reason="length")
    with ModelServer([cut, Reply(right())]) as server:
        unit = audit(server)
    assert_right_findings(unit)
    assert "cut at the output limit" in unit.attempts[0].errors[0]
    with ModelServer([cut]) as server:
        assert_nothing_got_out(audit(server), "answer_truncated")
    assert len(server.requests) == 2


def test_a_huge_answer_is_refused_and_asked_for_again_only_where_that_fits() -> None:
    huge = "Let me think about Zanzibar. " * 150_000 + json.dumps(right())
    with ModelServer([Reply(huge)]) as server:
        assert_nothing_got_out(audit(server, input_window=50_000), "answer_too_long")
    assert len(server.requests) == 1


# Servers that fail


def _busy(status: int, **headers: str) -> Reply:
    return Reply(status=status, headers=headers)


@pytest.mark.parametrize(
    ("replies", "requests"),
    [
        ([_busy(429, **{"Retry-After": "7"})], 2),
        ([_busy(500), _busy(503), _busy(529)], 4),
        ([Reply(status=502, body="<html>Bad Gateway</html>", content_type="text/html")], 2),
        ([Reply("x" * 400, cut_after=200), Reply("x", cut_after=0)], 3),
        ([Reply(body='{"error": {"message": "try again", "code": 503}}')], 2),
    ],
    ids=["429 with Retry-After", "500, 503, 529", "502 with a page", "connection cut", "error object in a 200"],
)
def test_a_passing_failure_is_waited_out_within_one_call(replies: Sequence[Reply], requests: int) -> None:
    with ModelServer([*replies, Reply(right())]) as server:
        unit = audit(server)
    assert_right_findings(unit)
    assert (unit.calls, len(unit.attempts), len(server.requests)) == (1, 1, requests)


LASTING: Mapping[str, tuple[Reply, str, int]] = {
    "429": (_busy(429), "rate_limited", 5),
    "429 for hours": (_busy(429, **{"Retry-After": "86400"}), "rate_limited", 1),
    "500": (_busy(500), "overloaded", 5),
    "503": (_busy(503), "overloaded", 5),
    "connection cut": (Reply("x" * 400, cut_after=200), "transport", 5),
    "time-out": (Reply(right(), delay=60), "timeout", 5),
    "slow drip": (Reply(right(), drip=0.05), "timeout", 5),
    "401": (_busy(401), "auth", 1),
    "404": (_busy(404), "unknown_model", 1),
    "400": (_busy(400), "bad_request", 1),
    "invalid JSON body": (Reply(body='{"choices": ['), "bad_response", 1),
    "HTML page": (Reply(body=f"<html>{INVENTED}</html>", content_type="text/html"), "bad_response", 1),
    "error object in a 200": (Reply(body=json.dumps({"error": {"message": INVENTED}})), "bad_response", 1),
    "no choices": (Reply(body='{"choices": []}'), "bad_response", 1),
    "refusal": (Reply(None, refusal=INVENTED), "refused", 1),
    "content filter": (Reply(None, finish_reason="content_filter"), "content_filter", 1),
}


@pytest.mark.parametrize(("reply", "reason", "requests"), LASTING.values(), ids=LASTING.keys())
def test_a_lasting_failure_makes_the_unit_inconclusive_with_its_reason(
    reply: Reply, reason: str, requests: int
) -> None:
    with ModelServer([reply]) as server:
        unit = audit(server, waits=(waits := []), timeout=0.2 if reason == "timeout" else 20.0)
    assert_nothing_got_out(unit, reason)
    assert len(waits) + 1 == requests
    assert len(server.requests) == requests or reason == "timeout", "one that was given up need not have arrived"
    assert unit.calls == 1
    (attempt,) = unit.attempts
    assert attempt.errors[0].startswith(f"{reason}:")
    assert "Zanzibar" not in "".join(attempt.errors)


def test_a_refusal_that_was_paid_for_is_counted_and_kept() -> None:
    budget = Budget(max_cost=1000.0)
    with ModelServer([Reply(None, refusal="I can't help with that.")]) as server:
        unit = audit(server, budget=budget, input_price=0.01, output_price=0.02)
    assert (unit.input_tokens, unit.output_tokens) == (120, 30)
    assert unit.cost == pytest.approx(1.8)
    assert budget.cost == pytest.approx(1.8)
    assert unit.attempts[0].answer is not None
    assert unit.attempts[0].answer.text == ""


def test_a_failure_after_the_first_answer_keeps_both_attempts() -> None:
    with ModelServer([Reply("no JSON"), _busy(401)]) as server:
        unit = audit(server)
    assert_nothing_got_out(unit, "auth")
    assert [attempt.number for attempt in unit.attempts] == [1, 2]
    assert unit.calls == 2


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", ""])
def test_a_wrong_content_type_around_a_right_answer_does_no_harm_or_fails_plainly(content_type: str) -> None:
    with ModelServer([Reply(right(), content_type=content_type)]) as server:
        unit = audit(server)
    if unit.outcome == "inconclusive":
        assert_nothing_got_out(unit, "bad_response")
    else:
        assert_right_findings(unit)


def test_missing_usage_is_estimated_for_the_budget_to_hold() -> None:
    with ModelServer([Reply(right(), usage=None)]) as server:
        unit = audit(server, input_price=1e-6, output_price=1e-6)
    assert_right_findings(unit)
    assert unit.input_tokens > 1000
    assert unit.output_tokens > 300
    assert unit.cost == pytest.approx((unit.input_tokens + unit.output_tokens) * 1e-6)


def test_a_long_session_is_asked_once_whatever_the_markers_are() -> None:
    """The limit of an answer follows the length of the ask; the random markers must not count into the cache key."""
    long = session()
    first, *others = long.turns
    padded = replace(first.passages[0], text=f"{REFUNDS} " + "Hours are counted by the minute. " * 1500)
    long = replace(long, turns=(replace(first, passages=(padded,)), *others))
    cache = MemoryCache()
    with ModelServer([Reply(right())]) as server:
        judge = LiteLLMJudge("openai/scripted", api_base=server.url, output_limit=100_000)
        units = [audit_session(FactualDrift(), long, judge, cache=cache) for _ in range(5)]
    assert {unit.outcome for unit in units} == {"findings"}
    assert server.requests[0].body["max_tokens"] > 16_384
    assert [unit.calls for unit in units] == [1, 0, 0, 0, 0]


def test_no_exception_escapes_whatever_the_server_says() -> None:
    """A server that answers every ask with another piece of nonsense."""
    bodies = ["", "null", "[]", "{}", '{"choices": null}', '{"choices": [{}]}', '{"choices": [{"message": {}}]}', "\0"]
    bodies += ['{"choices": [{"message": {"content": {"a": 1}}}]}', '{"choices": {"0": 1}}', "\ud800", '"x"', "1e999"]
    for body in bodies:
        with ModelServer([Reply(body=body)]) as server:
            unit = audit(server)
        assert unit.outcome == "inconclusive"
        assert unit.reason in ("bad_response", "answer_empty"), (body, unit.reason)
