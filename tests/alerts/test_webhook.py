"""Webhooks: signed, recognisable when repeated, no text of the trace, no secret anywhere, no redirect followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Reference

from alert_receiver import AlertReceiver, alert_receiver
from otel_drift.alerts.webhook_signature import verify
from otel_drift.errors import ConfigError, SinkError
from otel_drift.protocols import Alert
from otel_drift.testing import AlerterCase, check_alerter, sample_alert
from otel_drift_connectors.webhook import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def tell(target: str, *alerts: Alert, **options: Any) -> None:
    with closing(Webhook(target, **{"secret": SECRET, **options})) as alerter:
        alerter.notify(alerts)


@pytest.fixture
def receiver() -> Iterator[AlertReceiver]:
    with alert_receiver() as made:
        yield made


def test_it_does_what_any_alerter_must(receiver: AlertReceiver) -> None:
    check_alerter(
        AlerterCase(
            open=lambda: Webhook(f"{receiver.url}/hooks/t0k3n?code=c0d3", secret=SECRET),
            received=lambda: [one.body.decode() for one in receiver.taken],
            failing={
                "an error": lambda: receiver.failing(500),
                "too many": lambda: receiver.failing(429, **{"Retry-After": "7"}),
                "credentials refused": lambda: receiver.failing(401),
                "a redirect": lambda: receiver.failing(302, Location=f"{receiver.url}/elsewhere"),
                "gone": lambda: receiver.failing(410),
            },
            broken={
                "no URL": lambda: Webhook("", secret=SECRET),
                "no web address": lambda: Webhook("ftp://host/", secret=SECRET),
                "no secret": lambda: Webhook(receiver.url),
                "a short secret": lambda: Webhook(receiver.url, secret="p4ssw0rd"),
                "plain http": lambda: Webhook("http://hooks.example/t0k3n", secret=SECRET),
                "a password in the URL": lambda: Webhook("https://me:p4ssw0rd@hooks.example/", secret=SECRET),
                "nobody there": lambda: Webhook("http://127.0.0.1:9/t0k3n?code=c0d3", secret=SECRET),
            },
            secrets=(SECRET, "t0k3n", "c0d3", "p4ssw0rd"),
        )
    )
    assert not any("elsewhere" in one.path for one in receiver.taken)


def test_what_is_posted(receiver: AlertReceiver) -> None:
    tell(
        f"{receiver.url}/hook?team=ops",
        sample_alert(1),
        sample_alert(2, state="resolved", ended=1_790_000_060_000_000_000),
    )
    (posted,) = receiver.taken
    assert posted.path == "/hook?team=ops"
    assert Reference(SECRET).verify(posted.body, posted.headers) == posted.json
    assert verify(posted.headers, posted.body, SECRET) == posted.headers["webhook-id"]
    assert set(posted.json) == {"type", "timestamp", "data"}
    assert posted.json["type"] == "drift.alerts"
    first, second = posted.json["data"]["alerts"]
    assert (first["state"], first["ended"], first["started"]) == ("firing", None, "2026-09-21T14:13:21.000Z")
    assert (second["state"], second["ended"]) == ("resolved", "2026-09-21T14:14:20.000Z")
    assert posted.json["data"]["title"] == "otel-drift: 1 CRITICAL suspected finding, 1 resolved in shop-bot"
    assert first["quotes"] == []


def test_the_id_is_the_same_for_a_repetition_and_another_for_anything_new(receiver: AlertReceiver) -> None:
    one, two = sample_alert(1), sample_alert(2)
    told = [
        [one],
        [one],
        [one, two],
        [two, one],
        [sample_alert(1, state="resolved")],
        [sample_alert(1, started=1_790_000_900_000_000_000)],
        [sample_alert(1, severity="MAJOR")],
    ]
    for alerts in told:
        tell(receiver.url, *alerts)
    ids = [posted.headers["webhook-id"] for posted in receiver.taken]
    assert ids[0] == ids[1]
    assert ids[2] == ids[3]
    assert len(set(ids)) == 5


def test_each_attempt_has_its_own_time(receiver: AlertReceiver) -> None:
    """Or else a repetition after an hour would be outside the receiver's replay window."""
    times = iter([1_790_000_000.9, 1_790_003_600.0])
    tell(receiver.url, sample_alert(1), clock=lambda: next(times))
    tell(receiver.url, sample_alert(1), clock=lambda: next(times))
    first, second = receiver.taken
    assert (first.headers["webhook-timestamp"], second.headers["webhook-timestamp"]) == ("1790000000", "1790003600")
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]
    assert first.body == second.body


def test_an_action_is_of_its_own_type(receiver: AlertReceiver) -> None:
    details = {
        "recommended_action": "regenerate_from_drift_point",
        "drift_start_sentence_index": 3,
        "drift_start_char": 412,
        "drift_severity": "severe",
        "drift_severity_score": 0.72,
        "unit_id": "u1",
    }
    tell(receiver.url, sample_alert(1, kind="action", audit="longform_drift", details=details))
    (posted,) = receiver.taken
    assert posted.json["type"] == "drift.actions"
    assert posted.json["data"]["alerts"][0]["details"] == details
    assert "regenerate from drift point" in posted.json["data"]["text"]
    assert "drift starts at sentence 4" in posted.json["data"]["text"]


def test_the_secret_comes_from_the_environment(receiver: AlertReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_DRIFT_WEBHOOK_SECRET", SECRET)
    tell(receiver.url, sample_alert(1), secret="")
    verify(receiver.taken[0].headers, receiver.taken[0].body, SECRET)


def test_names_tell_addresses_apart_and_show_no_path() -> None:
    names = {Webhook(f"https://hooks.example{path}", secret=SECRET).name for path in ("", "/a", "/b", "/a?x=1")}
    assert len(names) == 4
    assert "webhook:https://hooks.example" in names


def test_plain_http_is_taken_where_it_is_allowed() -> None:
    assert Webhook("http://hooks.internal/x", secret=SECRET, allow_plain_http=True).name.startswith("webhook:http://")
    with pytest.raises(ConfigError, match="allow_plain_http = true"):
        Webhook("http://hooks.internal/x", secret=SECRET)


def test_a_refusal_is_no_reason_to_try_at_once(receiver: AlertReceiver) -> None:
    """The duty waits and tries again; the webhook itself does not, or else a dead receiver would hold up others."""
    with receiver.failing(503), pytest.raises(SinkError):
        tell(receiver.url, sample_alert(1))
    assert receiver.requests == 1
