"""Apprise: what Slack, Teams, PagerDuty and a web server would get, caught on loopback; no token in names or errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from alert_receiver import AlertReceiver, alert_receiver
from otel_drift.errors import ConfigError, SinkError
from otel_drift.testing import AlerterCase, check_alerter, sample_alert
from otel_drift_connectors.apprise import AppriseAlerter

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise imports it


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[AlertReceiver]:
    from apprise.plugins.base import NotifyBase

    monkeypatch.setattr(NotifyBase, "throttle", lambda *_args, **_more: None)
    with alert_receiver() as made:
        yield made


@pytest.fixture
def open_alerter(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], AppriseAlerter]:
    def opened(url: str) -> AppriseAlerter:
        monkeypatch.setenv("OTEL_DRIFT_APPRISE_OPS", url)
        return AppriseAlerter("ops")

    return opened


def place(receiver: AlertReceiver) -> str:
    return receiver.url.removeprefix("http://")


def test_it_does_what_any_alerter_must(receiver: AlertReceiver, open_alerter: Callable[[str], AppriseAlerter]) -> None:
    @contextmanager
    def down() -> Iterator[None]:
        with receiver.failing(500):
            yield

    check_alerter(
        AlerterCase(
            open=lambda: open_alerter(f"json://me:p4ssw0rd@{place(receiver)}/t0k3n"),
            received=lambda: ["\n".join((one.json["title"], one.json["message"])) for one in receiver.taken],
            failing={"an error": down},
            broken={
                "no name": lambda: AppriseAlerter(""),
                "a URL in place of a name": lambda: AppriseAlerter("slack://p4ssw0rd"),
                "no variable": lambda: AppriseAlerter("other"),
                "no URL of Apprise": lambda: open_alerter("nonsense://t0k3n"),
                "one of two is none": lambda: open_alerter(f"json://{place(receiver)}/, nonsense://t0k3n"),
                "nobody there": lambda: open_alerter("json://me:p4ssw0rd@127.0.0.1:9/t0k3n"),
            },
            secrets=("p4ssw0rd", "t0k3n"),
        )
    )


def test_the_name_is_that_of_the_setting(open_alerter: Callable[[str], AppriseAlerter]) -> None:
    assert open_alerter("json://localhost/t0k3n").name == "apprise:ops"
    assert AppriseAlerter("Ops").name == "apprise:Ops"


def test_several_urls_all_get_it_and_one_that_fails_is_said(
    receiver: AlertReceiver, open_alerter: Callable[[str], AppriseAlerter]
) -> None:
    open_alerter(f"json://{place(receiver)}/a json://{place(receiver)}/b").notify([sample_alert(1)])
    assert sorted(one.path for one in receiver.taken) == ["/a", "/b"]
    with pytest.raises(SinkError, match="was not delivered"):
        open_alerter(f"json://{place(receiver)}/a json://127.0.0.1:9/b").notify([sample_alert(1)])


HOSTILE = sample_alert(
    1,
    session_id="<!here> <@U123> @channel [win](https://evil.example) <https://evil.example|free>",
    quotes=(),
)


def live(text: str) -> list[str]:
    """What in a text a chat would act on, besides our own links."""
    return [sign for sign in ("<!", "<@", "@channel", "](", "https://evil", "evil.example") if sign in text]


def test_what_slack_gets(
    receiver: AlertReceiver, open_alerter: Callable[[str], AppriseAlerter], monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins.slack import NotifySlack

    monkeypatch.setattr(NotifySlack, "webhook_url", f"{receiver.url}/services")
    open_alerter("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/").notify([HOSTILE])
    (posted,) = receiver.taken
    assert posted.path.startswith("/services/T1JJ3T3L2/")
    assert live(posted.body.decode()) == []
    assert f"https://traces.example/{1:032x}" in posted.body.decode(), "our own links stay links"
    assert "CRITICAL factual_drift: possible contradiction in shop-bot" in posted.body.decode()


def test_what_pagerduty_gets(
    receiver: AlertReceiver, open_alerter: Callable[[str], AppriseAlerter], monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins import pagerduty

    monkeypatch.setitem(pagerduty.PAGERDUTY_API_LOOKUP, pagerduty.PagerDutyRegion.US, f"{receiver.url}/v2/enqueue")
    open_alerter("pagerduty://" + "i" * 32 + "@" + "a" * 24).notify([HOSTILE])
    (posted,) = receiver.taken
    assert posted.json["event_action"] == "trigger"
    assert posted.json["payload"]["severity"] == "critical"
    assert "otel-drift" in posted.json["payload"]["summary"]
    assert live(posted.body.decode()) == []


def test_what_teams_gets(
    receiver: AlertReceiver, open_alerter: Callable[[str], AppriseAlerter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plugin speaks https only, so the request is caught on its way out and sent on to loopback."""
    import requests

    sent: list[str] = []
    post = requests.post

    def redirected(url: str, **options: Any) -> Any:
        sent.append(url)
        return post(f"{receiver.url}/teams", data=options["data"], headers=options["headers"], timeout=10)

    monkeypatch.setattr(requests, "post", redirected)
    open_alerter("workflows://teams.example/" + "a" * 32 + "/" + "b" * 32).notify([HOSTILE])
    (posted,) = receiver.taken
    assert sent[0].startswith("https://teams.example/")
    text = posted.body.decode()
    assert live(text) == []
    assert "AdaptiveCard" in text
    assert f"https://traces.example/{1:032x}" in text.replace("\\", ""), "its Markdown escapes do no harm"


def test_it_logs_nothing_with_a_token(
    receiver: AlertReceiver, open_alerter: Callable[[str], AppriseAlerter], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "apprise"), caplog.at_level(logging.DEBUG, "otel_drift"):
        open_alerter(f"json://me:p4ssw0rd@{place(receiver)}/t0k3n").notify([sample_alert(1)])
        with receiver.failing(500), pytest.raises(SinkError):
            open_alerter(f"json://me:p4ssw0rd@{place(receiver)}/t0k3n").notify([sample_alert(1)])
    assert "p4ssw0rd" not in caplog.text
    assert "t0k3n" not in caplog.text


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setenv("OTEL_DRIFT_APPRISE_OPS", "json://localhost")
    with pytest.raises(ConfigError, match=r"pip install 'otel-drift\[alerts\]'"):
        AppriseAlerter("ops")
