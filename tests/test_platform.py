"""The HTTP client of the connectors: what it takes for a URL, which proxies it uses, answers without an end."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from http_serving import served
from otel_drift import platform, retry
from otel_drift.errors import ConfigError, PlatformError
from otel_drift.platform import Platform, Target


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server whose answer has no end: a byte, and another, until the client has gone."""

    class Dripping(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" ")
            except OSError:
                pass

        def log_message(self, *_: object) -> None:
            pass

    with served(Dripping) as url:
        yield url


@pytest.mark.parametrize(
    "text",
    ["http://[::1", "http://a..b", f"http://{'a' * 300}.com", "http://xn--", "http://host/\x00a", "http://ho\nst"],
)
def test_what_no_client_takes_is_no_url(text: str) -> None:
    """It is said at once, and not by a traceback when the first request is sent."""
    with pytest.raises(ConfigError, match="is no URL"):
        Target.parse("phoenix", f"{text}?project=k3y", options=("project",))


@pytest.mark.parametrize("text", ["http://localhost:5000/#/experiments/1", "http://localhost:6006?project=C#"])
def test_what_follows_a_hash_is_not_passed_over(text: str) -> None:
    """Else the project "C" would be read instead of "C#", or the default one instead of the page's."""
    with pytest.raises(ConfigError, match="write # in a name as %23"):
        Target.parse("phoenix", text, options=("project",))
    assert Target.parse("phoenix", "http://h?project=C%23 👩‍🚒", options=("project",)).options == {"project": "C# 👩‍🚒"}


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch, dripping: str) -> None:
    """Over plain http it would get the key, which may travel unencrypted on this machine only."""
    monkeypatch.setenv("HTTP_PROXY", dripping)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    local = Platform("phoenix", "http://localhost:1", headers={"authorization": "k"}, policy=retry.NO_RETRY)
    with pytest.raises(PlatformError, match="cannot be reached"):
        local.get("/")
    local.close()


@pytest.mark.parametrize("proxy", ["nonsense://user:s3cret@h", "socks5://user:s3cret@h:1", "http://user:s3cret@h:port"])
def test_a_proxy_that_cannot_be_used_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """And its password is not in it."""
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ConfigError, match="proxy of the environment") as raised:
        Platform("phoenix", "https://phoenix.example")
    assert "s3cret" not in str(raised.value)


def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch, dripping: str) -> None:
    """Each byte comes in time, so no time-out of a read ends it."""
    monkeypatch.setattr(platform, "_LONGEST", 0.01)
    client = Platform("phoenix", dripping, policy=retry.NO_RETRY, timeout=5)
    with pytest.raises(PlatformError, match="does not come to an end"):
        client.get("/")
    client.close()
