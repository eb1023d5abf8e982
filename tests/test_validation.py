"""The harness: ask, check, ask once more, or inconclusive; nothing asked twice, nothing paid twice, no exception."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drift_cases import RETURNS, MemoryCache, ScriptedJudge, returns_answer, session, turn
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.errors import ConfigError, PermanentJudgeError, RetryableJudgeError
from otel_drift.model import Finding, Hint, JudgeAnswer, JudgeLimits, Session, Unit
from otel_drift.protocols import AuditSettings
from otel_drift.reasons import REASONS, explain
from otel_drift.validation import Budget, audit_session, plan, unit_fingerprint, unit_id, unredacted

AUDIT = FactualDrift()
RIGHT = json.dumps(returns_answer())
WRONG = RIGHT.replace("within 60 days", "within 90 days")
PRICED = JudgeLimits(input_price=1e-6, output_price=1e-6)


def run(*script: Any, judge: ScriptedJudge | None = None, **options: Any) -> Unit:
    return audit_session(AUDIT, RETURNS, judge or ScriptedJudge(script), **options)


def cut(text: str) -> JudgeAnswer:
    return JudgeAnswer(text, "m", 100, 50, 0.001, 0.01, "length")


def test_one_right_answer_takes_one_call() -> None:
    unit = run(RIGHT)
    assert (unit.outcome, unit.calls, unit.input_tokens, unit.output_tokens) == ("findings", 1, 100, 50)
    assert unit.cost == pytest.approx(0.001)
    assert [prompt.id for prompt in unit.prompts] == ["factual_drift/session"]
    assert unit.unit_id == unit_id("factual_drift", RETURNS)
    assert len(unit.content_sha256) == 64


def test_a_wrong_answer_is_asked_for_again_with_the_answer_and_its_errors() -> None:
    judge = ScriptedJudge([WRONG, RIGHT])
    unit = run(judge=judge, nonce="first")
    assert (unit.outcome, unit.calls, unit.cost) == ("findings", 2, pytest.approx(0.002))
    assert [attempt.number for attempt in unit.attempts] == [1, 2]
    assert [prompt.id for prompt in unit.prompts] == ["factual_drift/session", "repair"]
    first, second = (task.messages for task in judge.tasks)
    assert second[0] == first[0]
    assert second[1].content.startswith(first[1].content)  # a provider's prompt cache hits
    assert "within 90 days" in second[1].content
    assert "does not stand verbatim in the answer of t2" in second[1].content
    assert unit.attempts[0].errors
    assert unit.attempts[1].errors == ()
    assert unit.attempts[0].answer is not None
    assert unit.attempts[0].answer.text == WRONG


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "answer_empty"),
        ("   \n", "answer_empty"),
        ("I am sorry, I cannot help with that.", "answer_not_json"),
        (RIGHT[:-40], "answer_not_json"),
        (cut(RIGHT[:-40]), "answer_truncated"),
        (f"[{RIGHT}, {RIGHT}]", "answer_not_json"),
        ("[]", "answer_not_json"),
        ("null", "answer_not_json"),
        (f"{RIGHT}\n{RIGHT}", "answer_ambiguous"),
        (RIGHT.replace('"MAJOR"', '"SEVERE"'), "answer_schema"),
        (RIGHT.replace('"CONTRADICTION"', '"LIE"'), "answer_schema"),
        (RIGHT.replace('"GROUNDED"', '"FINE"'), "answer_schema"),
        (RIGHT.replace("0.9", "7e9"), "answer_schema"),
        (RIGHT.replace("0.9", "-0.1"), "answer_schema"),
        (RIGHT.replace("0.9", '"high"'), "answer_schema"),
        (RIGHT.replace("0.9", "true"), "answer_schema"),
        (RIGHT.replace("0.9", "NaN"), "answer_not_json"),
        (RIGHT.replace("0.9", "Infinity"), "answer_not_json"),
        (RIGHT.replace("0.9", "1e999"), "answer_schema"),
        (RIGHT.replace('"drift_events"', '"events"'), "answer_schema"),
        (WRONG, "answer_checks"),
        ('{"a":' * 100_000, "answer_not_json"),
        ("[" * 100_000, "answer_not_json"),
        (RIGHT.replace("0.9", "9" * 5_000), "answer_not_json"),
        (RIGHT.replace("Two drifts.", "\\ud800"), "answer_schema"),
    ],
)
def test_an_answer_that_stays_wrong_is_inconclusive_and_nothing_of_it_is_a_finding(answer: Any, reason: str) -> None:
    unit = run(answer)
    assert (unit.outcome, unit.reason, unit.calls) == ("inconclusive", reason, 2)
    assert (unit.report, unit.findings, unit.severity) == (None, (), "NONE")
    assert all(attempt.errors for attempt in unit.attempts)


@pytest.mark.parametrize(
    "wrapped",
    [
        f"```json\n{RIGHT}\n```",
        f"Here is my assessment:\n\n{RIGHT}\n\nLet me know if you need more.",
        f"<think>First {{t1}}, then {{t2}} …</think>\n{RIGHT}",
        f"[{RIGHT}]",
        f"\ufeff{RIGHT}\n",
    ],
)
def test_wrapping_around_the_one_object_does_no_harm(wrapped: str) -> None:
    assert run(wrapped).calls == 1
    assert run(wrapped).findings == run(RIGHT).findings


def test_keys_we_do_not_know_are_ignored() -> None:
    assert run({**returns_answer(), "model_notes": ["hello"]}).outcome == "findings"


@pytest.mark.parametrize(
    "error", [RetryableJudgeError("slow", reason="timeout"), PermanentJudgeError("no", reason="auth")]
)
def test_a_judge_without_an_answer_makes_the_unit_inconclusive(error: Any) -> None:
    unit = run(error)
    assert (unit.outcome, unit.reason, unit.calls) == ("inconclusive", error.reason, 1)
    assert unit.attempts[0].answer is None


def test_a_fault_of_ours_never_leaves_the_session(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FactualDrift):
        def findings(self, session: Session, report: Mapping[str, Any]) -> tuple[Finding, ...]:
            raise KeyError("secret text of the trace")

    with caplog.at_level("INFO"):
        unit = audit_session(Broken(), RETURNS, ScriptedJudge([RIGHT]))
    assert (unit.outcome, unit.reason) == ("inconclusive", "internal_error: KeyError")
    assert unit.calls == 1
    assert "secret" not in caplog.text
    assert "secret" not in str(unit.reason)


def test_the_embedded_judge_is_not_asked_the_same_twice() -> None:
    unit = run(judge=ScriptedJudge([WRONG], embedded=True))
    assert (unit.reason, unit.calls) == ("answer_checks", 1)


def test_a_cut_answer_gets_more_room_the_second_time() -> None:
    judge = ScriptedJudge([cut(RIGHT[:100]), RIGHT], limit=JudgeLimits(output_tokens=12_000))
    assert run(judge=judge).outcome == "findings"
    first, second = (task.max_output_tokens for task in judge.tasks)
    assert first is not None
    assert second is not None
    assert first < second <= 12_000


def test_a_repair_ask_that_does_not_fit_is_not_made() -> None:
    judge = ScriptedJudge(["{" + "x" * 60_000, RIGHT], limit=JudgeLimits(input_tokens=9_000))
    unit = run(judge=judge)
    assert (unit.outcome, unit.calls) == ("inconclusive", 1)


# --- the cache


def test_a_stored_answer_costs_no_call() -> None:
    cache = MemoryCache()
    first = run(WRONG, RIGHT, cache=cache)
    judge = ScriptedJudge([AssertionError("asked")])
    again = run(judge=judge, cache=cache)
    assert (again.calls, again.cost, again.input_tokens) == (0, 0.0, 0)
    assert again.report == first.report
    assert all(attempt.cached for attempt in again.attempts)


def test_a_stored_answer_is_checked_again() -> None:
    class Stricter(FactualDrift):
        def steps(self, session: Session, settings: AuditSettings) -> Any:
            inner = super().steps(session, settings)
            batch = next(inner)
            answers = yield [replace(step, check=lambda _: ["Not any more."]) for step in batch]
            return inner.send(answers)

    cache = MemoryCache()
    assert run(RIGHT, cache=cache).outcome == "findings"
    unit = audit_session(Stricter(), RETURNS, ScriptedJudge([RIGHT]), cache=cache)
    assert unit.outcome == "inconclusive"
    assert unit.attempts[0].cached
    assert unit.attempts[0].errors == ("Not any more.",)


@pytest.mark.parametrize(
    "other",
    [
        {"judge": ScriptedJudge([RIGHT], name="openai/other")},
        {"judge": ScriptedJudge([RIGHT], temperature=0.7)},
        {"judge": ScriptedJudge([RIGHT]), "settings": AuditSettings(taxonomy=("entity shift",))},
        {"judge": ScriptedJudge([RIGHT]), "settings": AuditSettings(domain="law")},
    ],
)
def test_another_model_parameter_schema_or_prompt_is_another_question(other: dict[str, Any]) -> None:
    cache = MemoryCache()
    run(RIGHT, cache=cache)
    assert run(cache=cache, **other).calls == 1
    assert run(cache=cache, **other).calls == 0


def test_the_nonce_decides_nothing() -> None:
    cache = MemoryCache()
    run(WRONG, RIGHT, cache=cache, nonce="1f3870be274f6c49")
    assert run(AssertionError("asked"), cache=cache, nonce="b3e3e393c77e35a4").calls == 0


def test_an_answer_is_stored_before_it_is_used() -> None:
    class Dies(MemoryCache):
        def remember(self, cache_key: str, task: Any, answer: JudgeAnswer, *, instead: bool = False) -> None:
            super().remember(cache_key, task, answer, instead=instead)
            raise KeyboardInterrupt

    cache = Dies()
    with pytest.raises(KeyboardInterrupt):
        run(RIGHT, cache=cache)
    assert run(AssertionError("asked"), cache=cache).outcome == "findings"


@pytest.mark.parametrize(("fault", "reason"), [("", "answer_empty"), (cut(RIGHT[:-40]), "answer_truncated")])
def test_an_answer_that_is_none_is_not_reused(fault: Any, reason: str) -> None:
    """Nor one that is in the store already; it stays on record as an attempt."""
    cache = MemoryCache()
    failed = run(fault, fault, cache=cache)
    assert (failed.outcome, failed.reason, len(failed.attempts)) == ("inconclusive", reason, 2)
    assert cache.answers == {}
    cache.answers[failed.attempts[0].cache_key] = JudgeAnswer("", "m", 1, 1, 0.0, 0.1, "stop")
    assert (run(RIGHT, cache=cache).calls, run(AssertionError("asked"), cache=cache).outcome) == (1, "findings")


def test_stored_answers_that_fail_are_asked_for_again_on_request_only_and_then_replaced() -> None:
    cache, again = MemoryCache(), AuditSettings(ask_again=True)
    assert run(WRONG, "no JSON", cache=cache).outcome == "inconclusive"
    assert (run(RIGHT, cache=cache).outcome, run(RIGHT, cache=cache).calls) == ("inconclusive", 0)
    assert run(WRONG, "none", cache=cache, settings=again).calls == 2
    fresh = run(RIGHT, cache=cache, settings=again)
    assert (fresh.outcome, fresh.calls) == ("findings", 1)
    assert run(AssertionError("asked"), cache=cache, settings=again).outcome == "findings"
    assert run(AssertionError("asked"), cache=cache).outcome == "findings"


# --- the budget


def test_a_budget_of_calls_stops_asking() -> None:
    budget = Budget(max_calls=1)
    assert run(RIGHT, budget=budget).outcome == "findings"
    unit = run(RIGHT, budget=budget)
    assert (unit.outcome, unit.reason, unit.calls) == ("inconclusive", "budget_exhausted", 0)
    assert (budget.calls, budget.exhausted) == (1, True)


def test_a_budget_stops_before_the_repair_ask_too() -> None:
    unit = run(WRONG, RIGHT, budget=Budget(max_calls=1))
    assert (unit.reason, unit.calls, unit.cost) == ("budget_exhausted", 1, pytest.approx(0.001))


def test_a_budget_of_money_is_never_exceeded() -> None:
    budget = Budget(max_cost=0.0125)
    units = [run(judge=ScriptedJudge([RIGHT], limit=PRICED), budget=budget) for _ in range(5)]
    assert 0 < sum(unit.outcome == "findings" for unit in units) < 5
    assert budget.cost <= 0.0125


def test_a_judge_of_unknown_price_cannot_keep_a_budget_of_money() -> None:
    assert run(RIGHT, budget=Budget(max_cost=10.0)).reason == "budget_exhausted"
    assert run(judge=ScriptedJudge([RIGHT], embedded=True), budget=Budget(max_cost=0.0)).outcome == "findings"


# --- identity


def test_the_fingerprint_follows_whatever_decides_a_result(tmp_path: Path) -> None:
    judge = ScriptedJudge([])
    base = unit_fingerprint(AUDIT, RETURNS, judge, AuditSettings())
    assert base == unit_fingerprint(AUDIT, RETURNS, ScriptedJudge([]), AuditSettings())
    hinted = replace(RETURNS, hints=(Hint("x", "c", "w", "r"),), conventions=("openinference",))
    assert base == unit_fingerprint(AUDIT, hinted, judge, AuditSettings())

    own = tmp_path / "repair"
    own.mkdir()
    (own / "v9.md").write_text('+++\nid = "repair"\nversion = "v9"\ninputs = ["answer", "errors"]\n+++\nAgain.\n')

    class Newer(FactualDrift):
        version = "2"

    grown = replace(RETURNS, turns=(*RETURNS.turns, turn(4, "And?", "Nothing more to say about it.")))
    others = [
        unit_fingerprint(AUDIT, grown, judge, AuditSettings()),
        unit_fingerprint(AUDIT, RETURNS, ScriptedJudge([], name="other"), AuditSettings()),
        unit_fingerprint(AUDIT, RETURNS, ScriptedJudge([], temperature=1), AuditSettings()),
        unit_fingerprint(AUDIT, RETURNS, judge, AuditSettings(domain="law")),
        unit_fingerprint(AUDIT, RETURNS, judge, AuditSettings(taxonomy=("entity shift",))),
        unit_fingerprint(AUDIT, RETURNS, judge, AuditSettings(severity_rules={"MAJOR": "x"})),
        unit_fingerprint(AUDIT, RETURNS, judge, AuditSettings(limits=JudgeLimits(output_tokens=9))),
        unit_fingerprint(AUDIT, RETURNS, judge, AuditSettings(prompts_dir=str(tmp_path))),
        unit_fingerprint(Newer(), RETURNS, judge, AuditSettings()),
    ]
    assert len({base, *others}) == len(others) + 1
    assert unit_id("factual_drift", grown) == unit_id("factual_drift", RETURNS)
    assert unit_id("longform_drift", RETURNS) != unit_id("factual_drift", RETURNS)


def test_texts_no_encoder_likes_have_a_fingerprint_too() -> None:
    odd = session(turn(1, "\ud800", "The boiler \ud800 holds \x00 eighty litres.", "\udfff"), turn(2, "?", "Fine."))
    assert len(unit_fingerprint(AUDIT, odd, ScriptedJudge([]), AuditSettings())) == 64
    assert audit_session(AUDIT, odd, ScriptedJudge([RIGHT])).reason == "answer_checks"


def test_a_session_whose_redaction_failed_gives_nothing_away() -> None:
    unit = unredacted(AUDIT, RETURNS, ScriptedJudge([]), ValueError("within 30 days"))
    assert (unit.outcome, unit.reason, unit.unit_id) == (
        "inconclusive", "redaction_failed", unit_id("factual_drift", RETURNS),
    )  # fmt: skip
    assert "days" not in repr(unit)
    assert unit.session.session_id == RETURNS.session_id


# --- the plan


def test_a_plan_counts_and_prices_and_asks_nobody() -> None:
    judge = ScriptedJudge([AssertionError("asked")], limit=PRICED)
    found = plan(AUDIT, RETURNS, judge, AuditSettings())
    assert (found.eligible, found.calls, found.most_calls) == (True, 1, 2)
    assert found.cost == pytest.approx((found.input_tokens + found.output_tokens) * 1e-6)
    assert found.most_cost is not None
    assert found.most_cost > 2 * (found.cost or 0)
    assert judge.tasks == []
    sent = ScriptedJudge([RIGHT], limit=PRICED)
    run(judge=sent)
    really = sum(sent.count_tokens(message.content) for message in sent.tasks[0].messages)
    assert found.input_tokens == pytest.approx(really, rel=0.05)


def test_a_plan_says_what_it_does_not_know_and_what_is_not_eligible() -> None:
    assert plan(AUDIT, RETURNS, ScriptedJudge([]), AuditSettings()).cost is None
    assert plan(AUDIT, RETURNS, ScriptedJudge([], embedded=True), AuditSettings()).cost == 0.0
    single = plan(AUDIT, replace(RETURNS, turns=RETURNS.turns[:1]), ScriptedJudge([]), AuditSettings())
    assert (single.eligible, single.reason, single.calls, single.cost) == (False, "single_turn", 0, 0.0)


def test_every_reason_is_explained() -> None:
    assert "citation_conflict" in explain("single_turn")
    assert explain("internal_error: KeyError") == REASONS["internal_error"]
    assert explain("a_plugin_judges_own") == "a_plugin_judges_own"


def test_a_broken_prompt_of_the_user_is_no_verdict(tmp_path: Path) -> None:
    own = tmp_path / "factual_drift" / "session"
    own.mkdir(parents=True)
    head = '+++\nid = "factual_drift/session"\nversion = "v1"\ninputs = ["session"]\n+++\n'
    (own / "v1.md").write_text(head + "Judge {{turns}}.")
    unit = run(RIGHT, settings=AuditSettings(prompts_dir=str(tmp_path)))
    assert (unit.outcome, unit.reason, unit.calls) == ("inconclusive", "config_error", 0)
    with pytest.raises(ConfigError, match="unknown variable turns"):  # a run stops at its first session
        unit_fingerprint(AUDIT, RETURNS, ScriptedJudge([]), AuditSettings(prompts_dir=str(tmp_path)))


@pytest.mark.parametrize(
    "wrong",
    [AuditSettings(taxonomy=("!",)), AuditSettings(severity_rules={"FATAL": "x"}), AuditSettings(taxonomy=("",))],
)
def test_wrong_settings_stop_a_run_before_anything_is_asked(wrong: AuditSettings) -> None:
    with pytest.raises(ConfigError):
        unit_fingerprint(AUDIT, RETURNS, ScriptedJudge([]), wrong)


def test_a_prompt_that_takes_other_names_stops_a_run(tmp_path: Path) -> None:
    own = tmp_path / "factual_drift" / "claims"
    own.mkdir(parents=True)
    (own / "v1.md").write_text('+++\nid = "factual_drift/claims"\nversion = "v1"\ninputs = ["session"]\n+++\nJudge.')
    with pytest.raises(ConfigError, match="no value for session"):
        unit_fingerprint(AUDIT, RETURNS, ScriptedJudge([]), AuditSettings(prompts_dir=str(tmp_path)))
