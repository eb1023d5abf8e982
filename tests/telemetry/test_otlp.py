"""Metrics and own spans by OTLP: who speaks, nothing but ids and codes, and nothing that would be audited."""

from __future__ import annotations

import time

import pytest

from ledger_samples import START, finding, session, trace, unit
from otel_drift.config import Settings
from otel_drift.telemetry import SCOPE, SERVICE, Telemetry, sdk
from otlp_receiver import grpc_receiver, http_receiver, values


def test_metrics_go_to_the_endpoint_as_well() -> None:
    with http_receiver() as receiver:
        settings = Settings()
        settings.telemetry.otlp = receiver.url
        telemetry = Telemetry.open(settings)
        telemetry.unit(unit(finding(3, severity="CRITICAL")))
        telemetry.close()  # sends what is left

    sent = {record.name: (resource, scope, record) for _, resource, scope, record in receiver.arrived}
    resource, scope, findings = sent["otel_drift.findings"]
    assert resource["service.name"] == SERVICE
    assert scope == SCOPE
    points = {tuple(values(one.attributes).values()): one.as_int for one in findings.sum.data_points}
    assert points["CONTRADICTION", "CRITICAL"] == 1
    assert findings.sum.is_monotonic


@pytest.mark.parametrize("receiving", [http_receiver, grpc_receiver])
def test_a_session_makes_one_span_of_ids_and_codes(receiving: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "something-else")
    made = unit(finding(3))
    with receiving() as receiver:
        settings = Settings()
        settings.telemetry.traces = receiver.url
        telemetry = Telemetry.open(settings)
        telemetry.session("findings", made.session, [made], started=START, ended=START + 5)
        telemetry.session("not_sampled")
        telemetry.close()

    ((signal, resource, scope, span),) = receiver.arrived
    assert (signal, resource["service.name"], scope) == ("traces", SERVICE, SCOPE), "by these it is never audited"
    assert (span.name, span.start_time_unix_nano, span.end_time_unix_nano) == ("audit session", START, START + 5)
    assert values(span.attributes) == {"otel_drift.session.id": "s1", "otel_drift.outcome": "findings"}
    assert not span.parent_span_id
    assert [link.trace_id.hex() for link in span.links] == [trace(n) for n in range(1, 5)]
    (result,) = span.events
    said = values(result.attributes)
    assert said["otel_drift.unit.id"] == made.unit_id
    text = str(span)
    assert "gen_ai" not in text
    spoken = [turn.user for turn in session().turns] + [turn.answer for turn in session().turns]
    assert not any(one and one in text for one in [*spoken, *made.findings[0].quotes, made.findings[0].explanation])


def test_there_are_no_spans_unless_asked_for() -> None:
    with http_receiver() as receiver:
        settings = Settings()
        settings.telemetry.otlp = receiver.url
        telemetry = Telemetry.open(settings)
        telemetry.session("clean", session(), [unit()], started=START, ended=START + 5)
        telemetry.close()

    assert not receiver.spans


def test_an_endpoint_that_is_down_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "EXPORT_SECONDS", 0.2)
    settings = Settings()
    settings.telemetry.traces = settings.telemetry.otlp = "http://127.0.0.1:1"
    telemetry = Telemetry.open(settings)
    telemetry.session("clean", session(), [unit()], started=START, ended=START + 5)
    assert b"otel_drift_sessions_total" in telemetry.page()

    began = time.monotonic()
    telemetry.close()
    assert time.monotonic() - began < 10
