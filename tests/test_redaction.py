"""What is taken out is out everywhere, identifiers stay, and hostile text costs no time."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from drift_cases import RETURNS, ScriptedJudge, calculator, claim, session, turn
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.errors import ConfigError
from otel_drift.model import Passage
from otel_drift.redaction import load_redactor, opaque, redact_session, withhold
from otel_drift.validation import audit_session, unit_id


def shout(text: str) -> str:
    """A user's redactor."""
    return text.replace("Gerda", "[NAME]")


NOT_CALLABLE = "text"


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        ("email", "Write to jo.b+x@mail.example.co.uk, please.", "Write to [email], please."),
        ("email", "not@an and @handle and a@b", "not@an and @handle and a@b"),
        ("phone", "Call +49 (0)30 1234-5678 or 030/1234567.", "Call [phone] or [phone]."),
        ("phone", "Call (555) 123-4567 or 555-123-4567 now", "Call [phone] or [phone] now"),
        ("phone", "In 2024 we sold 1,234,567 units for 12.50.", "In 2024 we sold 1,234,567 units for 12.50."),
        ("card", "Card 4111 1111 1111 1111, order 4111111111111112.", "Card [card], order 4111111111111112."),
        ("iban", "DE89 3704 0044 0532 0130 00 or GB82WEST12345698765432!", "[iban] or [iban]!"),
        ("iban", "DE88 3704 0044 0532 0130 00", "DE88 3704 0044 0532 0130 00"),
        ("ip", "From 192.168.0.1, 2001:db8::ff00:42:8329 and ::1.", "From [ip], [ip] and [ip]."),
        ("ip", "Version 1.2.3.4.5 at 12:30:45, 999.1.1.1", "Version 1.2.3.4.5 at 12:30:45, 999.1.1.1"),
        ("email,card", "a@example.org 4111111111111111", "[email] [card]"),
        (f"{__name__}:shout", "Gerda lives here.", "[NAME] lives here."),
        (f"email, {__name__}:shout", "Gerda: g@example.org", "[NAME]: [email]"),
    ],
)
def test_named_patterns_and_callables(names: str, text: str, expected: str) -> None:
    assert load_redactor(names)(text) == expected
    assert load_redactor(names.split(","))(text) == expected


@pytest.mark.parametrize(
    "spec", ["", "passport", "nowhere.at_all:f", f"{__name__}:missing", f"{__name__}:NOT_CALLABLE"]
)
def test_a_redactor_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="redaction"):
        load_redactor(spec)


@pytest.mark.parametrize("piece", ["a", "a@", "1", "1 ", "+1", "a.", "DE89", ":", "1.", "a@a.", "0-", "(", "f:"])
def test_no_text_makes_a_pattern_slow(piece: str) -> None:
    redact = load_redactor("email,phone,card,iban,ip")
    start = time.process_time()
    redact(piece * 100_000)
    assert time.process_time() - start < 5


def test_every_text_of_a_session_is_redacted_and_ids_stay() -> None:
    secret = "Gerda"
    passage = Passage("doc-1", secret, 1, title=secret, source=secret, author=secret)
    inner = turn(1, secret, secret, secret)
    one = replace(
        turn(1, secret, secret),
        passages=(passage,),
        tool_calls=(replace(calculator(secret), arguments=secret),),
        tags=(secret,),
        feedback=secret,
        error=secret,
        alternatives=(inner,),
    )
    audited = replace(session(one, key="shop/Gerda/s-1"), user=secret)
    redacted = redact_session(audited, shout)
    assert secret not in repr(redacted)
    assert redacted.turns[0].answer_ref == one.answer_ref
    assert redacted.session_id == audited.session_id
    assert redacted.key == opaque("shop/Gerda/s-1")
    assert unit_id("factual_drift", redacted) == unit_id("factual_drift", audited)
    assert redact_session(RETURNS, shout) == RETURNS
    assert secret not in repr(withhold(audited))
    assert withhold(audited).turns[0].answer_ref == one.answer_ref


def test_quotes_are_checked_against_the_redacted_text() -> None:
    text = "The flat of Gerda has four large rooms."
    audited = session(turn(1, "?", text, text), turn(2, "?", "You are welcome."))
    answer = {
        "claims": [claim("c1", "t1", text, "GROUNDED", ("t1.p1", text))],
        "drift_events": [],
        "overall_assessment": "",
    }
    redacted = redact_session(audited, shout)
    judge = ScriptedJudge([answer])
    assert audit_session(FactualDrift(), redacted, judge).reason == "answer_checks"
    assert "Gerda" not in judge.tasks[0].messages[1].content
    clean = {**answer, "claims": [claim("c1", "t1", shout(text), "GROUNDED", ("t1.p1", shout(text)))]}
    unit = audit_session(FactualDrift(), redacted, ScriptedJudge([clean]))
    assert unit.outcome == "clean"
    assert "Gerda" not in repr(unit)


def test_a_redactor_that_raises_or_returns_no_text_is_not_passed_over() -> None:
    def broken(text: str) -> str:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        redact_session(RETURNS, broken)
    with pytest.raises(TypeError, match="not text"):
        redact_session(RETURNS, lambda text: None)  # type: ignore[arg-type, return-value]
