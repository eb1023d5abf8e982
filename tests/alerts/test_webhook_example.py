"""The receiver of the guide: what it takes, what it takes once, what it refuses."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from otel_drift.errors import ConfigError
from otel_drift.testing import sample_alert
from otel_drift_connectors.webhook import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
FILE = Path(__file__).resolve().parents[2] / "examples" / "webhook_receiver.py"


@pytest.fixture
def receiver() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("webhook_receiver", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.Receiver(0, SECRET) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def tell(receiver: Any, *alerts: Any, secret: str = SECRET) -> None:
    with closing(Webhook(f"http://127.0.0.1:{receiver.server_address[1]}/", secret=secret)) as alerter:
        alerter.notify(alerts)


def test_it_acts_once_on_each_alert(receiver: Any, capsys: pytest.CaptureFixture[str]) -> None:
    firing, ended = sample_alert(1), sample_alert(1, state="resolved", ended=1_790_000_060_000_000_000)
    tell(receiver, firing)
    tell(receiver, firing)
    tell(receiver, firing, sample_alert(2))
    tell(receiver, ended)
    tell(receiver, ended)
    said = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert said == ["FIRING", "FIRING", "RESOLVED"]


def test_it_refuses_what_is_forged(receiver: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="does the receiver know the secret"):
        tell(receiver, sample_alert(1), secret="another secret of 24 letters or more")
    url = f"http://127.0.0.1:{receiver.server_address[1]}/"
    assert httpx.post(url, content=b"{}", trust_env=False, timeout=60).status_code == 401
    assert capsys.readouterr().out == ""
