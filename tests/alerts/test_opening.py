"""From the settings to who is told of what."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from alert_receiver import alert_receiver
from alerting import Desk, critical, result
from otel_drift.alerts import alert_duty
from otel_drift.alerts.webhook_signature import verify
from otel_drift.config import load_settings
from otel_drift.errors import ConfigError
from otel_drift.ledger import Ledger
from otel_drift.links import Links

SECRET = "a secret of more than 24 letters"


def settings(tmp_path: Path, text: str) -> Any:
    file = tmp_path / "otel-drift.toml"
    file.write_text(text)
    return load_settings(file)


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_DRIFT_WEBHOOK_SECRET", SECRET)


def test_settings_name_who_is_told_and_what_leaves(tmp_path: Path, open_desk: Callable[..., Desk]) -> None:
    """The whole way: settings, ledger, reconciliation, HTTP, signature."""
    desk = open_desk()
    with alert_receiver() as receiver:
        chosen = settings(
            tmp_path,
            f"""
            [alerts]
            to = ["webhook:{receiver.url}/alerts"]
            severity = "major"
            group_seconds = 0
            [actions]
            longform = ["webhook:{receiver.url}/alerts"]
            """,
        )
        asked: list[str] = []

        def links_for(trace_id: str) -> Links:
            asked.append(trace_id)
            return Links("https://traces.example/{trace_id}")

        desk.commit(result(1, critical(1)))
        with closing(alert_duty(chosen, desk.ledger, links_for)) as duty:
            assert (duty.name, duty.every) == ("alerts", 2.0)
            desk.commit(result(2, critical(2, severity="MAJOR", quotes=("CANARY",))))
            desk.commit(result(3, critical(3, severity="MINOR")))
            while duty.step():
                pass
    (posted,) = receiver.taken
    verify(posted.headers, posted.body, SECRET)
    (alert,) = posted.json["data"]["alerts"]
    assert alert["session_id"] == "s2"
    assert alert["link"] == f"https://traces.example/{3:032x}"
    assert asked == [f"{3:032x}"]
    assert b"CANARY" not in posted.body


def test_without_alerters_there_is_nothing_to_do(tmp_path: Path, open_desk: Callable[..., Desk]) -> None:
    duty = alert_duty(settings(tmp_path, ""), open_desk().ledger, lambda _trace: Links())
    assert duty.channels == ()
    assert duty.step() is False


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[alerts]\nto = ["pager:x"]', "no alerter called 'pager'; installed: alertmanager, apprise, webhook"),
        ('[alerts]\nto = ["webhook:http://hooks.example/"]', "plain http"),
        ('[alerts]\nto = ["alertmanager"]\n[connectors.alertmanager]\nnonsense = 1', r"\[connectors.alertmanager\]"),
        ('[alerts]\nto = ["alertmanager", "alertmanager:http://localhost:9093/"]', "is named twice"),
        ('[alerts]\nto = ["apprise:ops"]', "set OTEL_DRIFT_APPRISE_OPS"),
        ('[actions]\nlongform = ["webhook:nowhere"]', "is no URL"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, open_desk: Callable[..., Desk], text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        alert_duty(settings(tmp_path, text), open_desk().ledger, lambda _trace: Links())


def test_the_defaults_of_the_setting_are_the_policy_s(tmp_path: Path) -> None:
    from otel_drift.policy import AlertRule

    alerts = settings(tmp_path, "").alerts
    assert AlertRule(alerts.severity.upper(), alerts.confidence, alerts.embedded) == AlertRule()


def test_importing_alerts_is_cheap() -> None:
    import subprocess
    import sys

    heavy = "[m for m in ('sqlalchemy', 'httpx', 'apprise', 'pydantic_settings', 'litellm') if m in sys.modules]"
    code = f"import sys, otel_drift.alerts, otel_drift_connectors.webhook; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_ledger_that_was_opened_twice_has_one_alerter(tmp_path: Path, open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    with Ledger.open(desk.file) as other:
        chosen = settings(tmp_path, '[alerts]\nto = ["alertmanager"]')
        for ledger in (desk.ledger, other):
            alert_duty(chosen, ledger, lambda _trace: Links()).close()
