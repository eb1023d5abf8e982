"""What Alertmanager is sent; tests/servers/test_alertmanager.py sends it to the real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from alert_receiver import AlertReceiver, alert_receiver
from otel_drift.errors import ConfigError, SinkError
from otel_drift.testing import AlerterCase, check_alerter, sample_alert
from otel_drift_connectors.alertmanager import Alertmanager


@pytest.fixture
def receiver() -> Iterator[AlertReceiver]:
    with alert_receiver() as made:
        made.get_body = json.dumps({"versionInfo": {"version": "0.25.0"}}).encode()
        yield made


def post(receiver: AlertReceiver, alert: Any) -> dict[str, Any]:
    with closing(Alertmanager(receiver.url)) as alerter:
        alerter.notify([alert])
    (posted,) = receiver.taken[-1].json
    return posted  # type: ignore[no-any-return]


def test_it_does_what_any_alerter_must(receiver: AlertReceiver) -> None:
    check_alerter(
        AlerterCase(
            open=lambda: Alertmanager(receiver.url, token="s3cr3t"),
            received=lambda: [one.body.decode() for one in receiver.taken],
            failing={
                "an error": lambda: receiver.failing(500),
                "credentials refused": lambda: receiver.failing(403),
                "not found": lambda: receiver.failing(404),
            },
            broken={
                "no web address": lambda: Alertmanager("nowhere"),
                "an option that does not exist": lambda: Alertmanager(f"{receiver.url}?x=1"),
                "a password in the URL": lambda: Alertmanager("http://me:p4ssw0rd@localhost:9093"),
                "a token over plain http": lambda: Alertmanager("http://alerts.example:9093", token="s3cr3t"),
                "nobody there": lambda: Alertmanager("http://127.0.0.1:9"),
            },
            secrets=("s3cr3t", "p4ssw0rd"),
        )
    )
    assert receiver.taken[0].headers["authorization"] == "Bearer s3cr3t"


def test_what_fires(receiver: AlertReceiver) -> None:
    alert = sample_alert(1, holds_until=1_790_000_601_000_000_000)
    posted = post(receiver, alert)
    assert receiver.taken[-1].path == "/api/v2/alerts"
    assert posted["labels"] == {
        "alertname": "OtelDriftFinding",
        "severity": "critical",
        "drift_type": "CONTRADICTION",
        "audit": "factual_drift",
        "application": "shop-bot",
        "environment": "production",
        "event_id": "event-1",
        "session_id": "session-1",
    }
    assert posted["startsAt"] == "2026-09-21T14:13:21.000Z"
    assert posted["endsAt"] == "2026-09-21T14:23:21.000Z"
    assert posted["generatorURL"] == alert.link
    assert posted["annotations"]["summary"] == (
        "CRITICAL factual_drift: possible contradiction in shop-bot (production)"
    )
    assert posted["annotations"]["confidence"] == "0.93"
    assert posted["annotations"]["session_link"] == alert.session_link


def test_what_ended_has_the_same_labels_and_its_end(receiver: AlertReceiver) -> None:
    firing = post(receiver, sample_alert(1, holds_until=1_790_000_601_000_000_000))
    ended = post(receiver, sample_alert(1, state="resolved", ended=1_790_000_061_000_000_000))
    assert ended["labels"] == firing["labels"]
    assert ended["startsAt"] == firing["startsAt"]
    assert ended["endsAt"] == "2026-09-21T14:14:21.000Z"


def test_labels_are_cut_inert_and_never_empty(receiver: AlertReceiver) -> None:
    posted = post(
        receiver,
        sample_alert(1, session_id="@channel <!here>\n" + "x" * 500, environment=None, application="shop.example"),
    )
    labels = posted["labels"]
    assert "environment" not in labels
    assert labels["application"] == "shop.example", "for routing by name"
    assert len(labels["session_id"]) <= 200
    assert "@" not in labels["session_id"]
    assert "<" not in labels["session_id"]
    assert all(labels.values())


def test_check_says_what_is_there(receiver: AlertReceiver) -> None:
    with closing(Alertmanager(receiver.url)) as alerter:
        assert alerter.check() == f"alertmanager:{receiver.url}: Alertmanager 0.25.0"
        receiver.get_body = b"{}"
        with pytest.raises(SinkError, match="no Alertmanager"):
            alerter.check()


def test_the_default_is_the_usual_port() -> None:
    assert Alertmanager("").name == "alertmanager:http://localhost:9093"
    with pytest.raises(ConfigError):
        Alertmanager("?x=1")
