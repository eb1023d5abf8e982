"""What the service says about itself: counted once, bounded, without ids, and there at 0 before it happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from ledger_samples import ANSWER, PROMPT, finding, session, unit
from metrics_samples import everything
from otel_drift import retry
from otel_drift.config import Settings
from otel_drift.delivery import SinkDelivery
from otel_drift.errors import ConfigError, RetryableJudgeError
from otel_drift.faults import Fault
from otel_drift.model import Attempt, Rejection
from otel_drift.retry import RetryPolicy
from otel_drift.telemetry import MOST_ORIGINS, Telemetry, sdk
from otel_drift.telemetry.instruments import INSTRUMENTS
from otel_drift.telemetry.labels import LONGEST, Bounded, BoundedTuples, cleaned
from otel_drift.telemetry.possible import possible_types


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    opened = Telemetry.open(Settings())
    yield opened
    opened.close()


def families(telemetry: Telemetry) -> dict[str, Metric]:
    return {one.name: one for one in text_string_to_metric_families(telemetry.page().decode())}


def value(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    """The value of the one series of that name that has these labels among its own."""
    found = [
        sample.value
        for family in families(telemetry).values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) <= 1, found
    return found[0] if found else None


def test_every_finding_there_can_be_is_at_zero_before_the_first() -> None:
    """Prometheus sees no increase in a counter that begins at 1: the first critical finding would raise no alarm."""
    settings = Settings()
    settings.audit.taxonomy = ["entity shift: another entity"]
    telemetry = Telemetry.open(settings)
    shown = {(one.labels["type"], one.labels["severity"]) for one in families(telemetry)["otel_drift_findings"].samples}
    telemetry.close()

    types = {"CONTRADICTION", "UNSUPPORTED_NEW_CLAIM", "DROPPED_QUALIFICATION", "ENTITY_SHIFT"}  # factual_drift
    types |= {"UNDISCLOSED_CONFLICT"} | {"CONTRADICTED", "UNGROUNDED", "PARTIALLY_GROUNDED"}
    types |= {"DANGLING_CITATION", "WRONG_CITATION", "UNRESOLVED_CLAIM", "REFUTED_CLAIM"}
    assert shown == {(one, severity) for one in types for severity in ("CRITICAL", "MAJOR", "MINOR")}


def test_a_finding_that_is_known_is_not_counted_again(telemetry: Telemetry) -> None:
    """A session that goes on is audited again, and its old findings come again."""
    first = finding(3, severity="CRITICAL")
    telemetry.unit(unit(first))
    telemetry.unit(unit(first, finding(4)), {first.event_id})

    assert value(telemetry, "otel_drift_findings_total", type="CONTRADICTION", severity="CRITICAL") == 1
    assert value(telemetry, "otel_drift_findings_total", type="CONTRADICTION", severity="MAJOR") == 1
    assert value(telemetry, "otel_drift_units_total", audit="factual_drift", outcome="findings") == 2


@pytest.mark.parametrize("said", [{"status": "rejected"}, {"muted": "known"}])
def test_what_people_rejected_or_muted_raises_no_alarm(telemetry: Telemetry, said: dict[str, str]) -> None:
    telemetry.unit(unit(finding(3, severity="CRITICAL", **said)))

    assert value(telemetry, "otel_drift_findings_total", type="CONTRADICTION", severity="CRITICAL") == 0


def test_a_result_the_ledger_had_already_says_nothing_new(telemetry: Telemetry) -> None:
    """After a restart the turns of a session that did not change are found again, with their findings."""
    telemetry.unit(replace(unit(finding(3, severity="CRITICAL")), attempts=()))

    assert value(telemetry, "otel_drift_findings_total", type="CONTRADICTION", severity="CRITICAL") == 0
    assert "otel_drift_units" not in families(telemetry)


def test_findings_are_told_by_application_model_and_prompt(telemetry: Telemetry) -> None:
    turns = tuple(
        replace(turn, model="gpt-5-mini", prompt_name="answer", prompt_version="7", environment="prod")
        for turn in session().turns
    )
    at = replace(session(), project="shop", turns=turns)
    telemetry.unit(unit(finding(3), session=at))

    origin = {"application": "shop", "environment": "prod", "model": "gpt-5-mini", "prompt_version": "answer 7"}
    found = {"audit": "factual_drift", "type": "CONTRADICTION"}
    name = "otel_drift_findings_by_application_total"
    assert value(telemetry, name, severity="MAJOR", **found, **origin) == 1
    assert value(telemetry, name, severity="CRITICAL", **found, **origin) == 0, "what can come is there at 0"


def test_a_clean_session_shows_its_application_at_zero(telemetry: Telemetry) -> None:
    telemetry.unit(unit(session=replace(session(), project="shop")))

    name = "otel_drift_findings_by_application_total"
    assert value(telemetry, name, application="shop", type="CONTRADICTION", severity="CRITICAL") == 0


def test_no_id_becomes_a_label(telemetry: Telemetry) -> None:
    made = unit(finding(3), finding(4))
    telemetry.unit(made)
    telemetry.session("findings", made.session, [made])
    page = telemetry.page().decode()

    ids = {made.unit_id, made.session.key, made.session.session_id, *made.session.trace_ids, "event-3"}
    ids |= {turn.answer_ref.partition(":")[2] for turn in made.session.turns if turn.answer_ref}
    labels = re.findall(r'="((?:[^"\\]|\\.)*)"', page)
    assert labels
    assert not ids & set(labels)
    assert "otel_scope" not in page
    assert "instance" not in page


def test_names_from_traces_cannot_grow_the_metrics(telemetry: Telemetry) -> None:
    """A sender who puts a new name into every trace gets ``other``; the sum stays right."""
    for number in range(2 * MOST_ORIGINS):
        turns = tuple(replace(turn, model=f"model {number}") for turn in session(turns=3).turns)
        at = replace(session(), project=f"app {number}", turns=turns)
        telemetry.unit(unit(finding(3, event_id=f"e{number}"), session=at))

    samples = families(telemetry)["otel_drift_findings_by_application"].samples
    origins = {tuple(one.labels[name] for name in ("application", "model")) for one in samples}
    assert len(origins) <= MOST_ORIGINS + 1
    assert ("other", "other") in origins
    assert sum(one.value for one in samples) == 2 * MOST_ORIGINS


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=500))
def test_a_label_is_one_short_printable_line(text: str) -> None:
    made = cleaned(text)

    assert 0 < len(made) <= LONGEST
    assert all(one.isprintable() for one in made)
    made.encode()


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=50))
def test_whatever_an_application_is_called_the_page_can_be_read(name: str) -> None:
    telemetry = Telemetry(sdk.Meters())
    telemetry.unit(unit(finding(3), session=replace(session(), project=name)))
    read = {one.labels["application"] for one in families(telemetry)["otel_drift_findings_by_application"].samples}
    telemetry.close()

    assert read == {cleaned(name)}


def test_a_bound_lets_the_first_in() -> None:
    bound = Bounded(2)
    assert [bound(one) for one in ("a", "b", "c", "a", "", None)] == ["a", "b", "other", "a", "unknown", "unknown"]
    both = BoundedTuples((9, 9), 2)
    assert [both("a", "b"), both("a", "c"), both("a", "d"), both("a", "b")] == [
        ("a", "b"), ("a", "c"), ("other", "other"), ("a", "b")
    ]  # fmt: skip


def test_failures_of_the_validation_are_counted_by_rule_and_prompt(telemetry: Telemetry) -> None:
    faults = (Fault("quote", "no such words"), Fault("quote", "nor these"), Fault("reference", "no such turn"))
    failed = Attempt("session", 1, PROMPT, "key", ANSWER, faults)
    telemetry.unit(
        replace(unit(), attempts=(failed, replace(failed, cached=True), Attempt("s", 2, PROMPT, "k", ANSWER)))
    )

    name, about = "otel_drift_validation_failures_total", {"prompt": "factual_drift/session", "prompt_version": "v1"}
    assert value(telemetry, name, rule="quote", audit="factual_drift", **about) == 1, "once an answer"
    assert value(telemetry, name, rule="reference", audit="factual_drift", **about) == 1


def test_a_judge_that_was_not_reached_is_no_failure_of_the_validation(telemetry: Telemetry) -> None:
    failed = Attempt("session", 1, PROMPT, "key", None, ("timeout: RetryableJudgeError",))
    telemetry.unit(replace(unit(), outcome="inconclusive", reason="timeout", attempts=(failed,)))

    assert "otel_drift_validation_failures" not in families(telemetry)
    assert value(telemetry, "otel_drift_units_total", outcome="inconclusive", reason="timeout") == 1


def test_retries_are_told_of_until_closed(telemetry: Telemetry) -> None:
    outcomes = iter([RetryableJudgeError("busy"), RetryableJudgeError("busy"), None])

    def ask() -> None:
        if error := next(outcomes):
            raise error

    with retry.testing():
        retry.call(RetryPolicy(), ask, what="judge")
    assert value(telemetry, "otel_drift_retries_total", what="judge") == 2

    listening = list(retry._listeners)
    telemetry.close()
    assert len(retry._listeners) == len(listening) - 1


def test_deliveries_and_alerts_are_counted_by_what_came_of_them(telemetry: Telemetry) -> None:
    refused = (Rejection("a", "too long"), Rejection("b", "busy", retryable=True))
    telemetry.delivered(SinkDelivery("langfuse", 5, 2, refused, "down", 9))
    telemetry.alerted("alertmanager", "firing", True)
    telemetry.alerted("alertmanager", "firing", False, 3)

    name = "otel_drift_deliveries_total"
    outcomes = ("written", "unchanged", "refused", "put_off")
    assert [value(telemetry, name, sink="langfuse", outcome=one) for one in outcomes] == [5, 2, 1, 1]
    assert value(telemetry, "otel_drift_delivery_failures_total", sink="langfuse") == 1
    told = {"alerter": "alertmanager", "state": "firing"}
    assert value(telemetry, "otel_drift_alerts_total", **told, outcome="told") == 1
    assert value(telemetry, "otel_drift_alerts_total", **told, outcome="failed") == 3


def test_a_gauge_shows_what_is_read_and_nothing_where_that_fails(telemetry: Telemetry) -> None:
    calls = []

    def read() -> dict[str, object]:
        calls.append(1)
        return {"backlog.open": 7, "backlog.put_off": {"budget": 2, "judge": 1}, "backlog.oldest_due": None}

    telemetry.gauges(["backlog.open", "backlog.put_off", "backlog.oldest_due"], read)
    telemetry.gauge("delivery.lag", lambda: {"langfuse": 1 / 0})
    page = families(telemetry)

    assert page["otel_drift_backlog_open"].samples[0].value == 7
    assert {s.labels["reason"]: s.value for s in page["otel_drift_backlog_put_off"].samples} == {
        "budget": 2,
        "judge": 1,
    }
    assert not page.keys() & {"otel_drift_backlog_oldest_due_seconds", "otel_drift_delivery_lag_seconds"}
    assert len(calls) == 1, "one reading for all of them"
    with pytest.raises(KeyError):
        telemetry.gauge("backlog.opened", lambda: 1)
    with pytest.raises(KeyError, match="no gauge"):
        telemetry.gauge("turns", lambda: 1)


def test_a_gauge_that_takes_too_long_keeps_nobody_waiting(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database hangs, and the other metrics say that something is wrong; then it answers again."""
    monkeypatch.setattr(sdk, "READ_SECONDS", 1.0)
    answering = threading.Event()
    read = threading.Event()

    def hanging() -> dict[str, object]:
        answering.wait(60)
        read.set()
        return {"backlog.open": 7, "backlog.due": 3}

    telemetry.gauges(["backlog.open", "backlog.due"], hanging)
    telemetry.gauge("degraded", lambda: 1)
    page = families(telemetry)
    assert "otel_drift_backlog_open" not in page
    assert page["otel_drift_degraded"].samples[0].value == 1

    answering.set()
    assert read.wait(60)
    while (seen := families(telemetry)).keys().isdisjoint({"otel_drift_backlog_open"}):
        pass
    assert seen["otel_drift_backlog_due"].samples[0].value == 3


def test_the_page_has_exactly_what_the_table_says(telemetry: Telemetry) -> None:
    """Names, kinds and labels: the guide, the rules and the dashboard are checked against the table."""
    everything(telemetry)
    shown = {name: family for name, family in families(telemetry).items() if name.startswith("otel_drift")}

    assert {family.name + ("_total" if family.type == "counter" else "") for family in shown.values()} == {
        one.prometheus for one in INSTRUMENTS.values()
    }
    for one in INSTRUMENTS.values():
        family = shown[one.prometheus.removesuffix("_total")]
        assert family.type == one.kind
        assert family.documentation == one.about
        assert {label for sample in family.samples for label in sample.labels} - {"le"} == set(one.labels), one.name


def test_what_is_said_never_stops_the_work(telemetry: Telemetry) -> None:
    telemetry.unit(None)  # type: ignore[arg-type]
    telemetry.delivered(object())  # type: ignore[arg-type]
    telemetry.received("http", -1, 0, 0)


def test_none_counts_nothing_and_loads_nothing() -> None:
    program = """if True:
        import sys
        from otel_drift.telemetry import Telemetry
        none = Telemetry.none()
        none.received("http", 1, 2, 3)
        none.retried("judge")
        none.gauge("degraded", lambda: 1)
        none.close()
        assert none.page() == b""
        loaded = [name for name in sys.modules if name.startswith(("opentelemetry", "prometheus_client"))]
        assert not loaded, loaded
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://x", "http://user:s3cret@x:4318"])
def test_an_endpoint_that_is_none_is_told(endpoint: str) -> None:
    settings = Settings()
    settings.telemetry.otlp = endpoint
    with pytest.raises(ConfigError, match="no OTLP endpoint") as caught:
        Telemetry.open(settings)
    assert "s3cret" not in str(caught.value)


def test_turns_are_counted_with_their_session(telemetry: Telemetry) -> None:
    telemetry.session("clean", session(turns=4))
    telemetry.session("not_sampled")

    assert value(telemetry, "otel_drift_turns_total") == 4
    assert value(telemetry, "otel_drift_sessions_total", outcome="clean") == 1
    assert value(telemetry, "otel_drift_sessions_total", outcome="not_sampled") == 1


def test_whatever_an_audit_finds_was_there_at_zero(
    examples: Path, otel_drift: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    types = possible_types()
    done = otel_drift("audit", examples, "--audits", ",".join(sorted(types)), "--format", "json")
    found = {
        (unit["audit"], one["type"]) for unit in map(json.loads, done.stdout.splitlines()) for one in unit["findings"]
    }

    assert len({audit for audit, _ in found}) >= 3, done.stderr
    assert all(name in types[audit] for audit, name in found), found
