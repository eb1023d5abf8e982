"""Signatures are those of the Standard Webhooks specification, by its own reference library, and refuse the rest."""

from __future__ import annotations

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from otel_drift.alerts.webhook_signature import SignatureError, sign, verify

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NOW = 1_790_000_000
BODY = '{"type": "drift.alerts", "data": {"text": "ä"}}'.encode()


def headers(
    body: bytes = BODY, secret: str = SECRET, message_id: str = "msg_1", at: int | None = None
) -> dict[str, str]:
    timestamp = int(time.time()) if at is None else at
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, message_id, timestamp, body),
    }


def test_the_specification_s_own_example() -> None:
    """From the test vectors of its libraries."""
    signature = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(
    st.binary(min_size=24, max_size=64),
    st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1),
    st.text(),
)
def test_their_library_takes_ours_and_ours_takes_theirs(key: bytes, message_id: str, text: str) -> None:
    secret, body, now = "whsec_" + base64.b64encode(key).decode(), text.encode("utf-8", "replace"), int(time.time())
    made = headers(body, secret, message_id, now)
    theirs = Webhook(secret)
    theirs.verify(body, made, json_parse=False)
    assert verify(made, body, secret) == message_id
    import datetime

    at = datetime.datetime.fromtimestamp(now, datetime.UTC)
    made["webhook-signature"] = theirs.sign(message_id, at, body.decode())
    assert verify(made, body, secret) == message_id


def test_a_secret_that_is_plain_text_is_its_bytes() -> None:
    secret = "a secret of more than 24 letters"
    theirs = Webhook(base64.b64encode(secret.encode()).decode())
    theirs.verify(BODY, headers(secret=secret), json_parse=False)
    assert verify({name.title(): value for name, value in headers(secret=secret).items()}, BODY, secret) == "msg_1"


def test_one_of_several_signatures_is_enough() -> None:
    """While a secret is being changed."""
    made = headers()
    made["webhook-signature"] = f"v1a,other v1,AAAA {made['webhook-signature']}"
    assert verify(made, BODY, SECRET) == "msg_1"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"webhook-id": "msg_2"}, "no signature matches"),
        ({"webhook-timestamp": str(NOW - 1)}, "no signature matches"),
        ({"webhook-signature": "v1,AAAA"}, "no signature matches"),
        ({"webhook-signature": ""}, "no signature matches"),
        ({"webhook-signature": "ä"}, "no signature matches"),
        ({"webhook-timestamp": "soon"}, "no number of seconds"),
        ({"webhook-timestamp": "9" * 400}, "no number of seconds"),
        ({"webhook-timestamp": "٣"}, "no number of seconds"),
    ],
)
def test_what_was_changed_is_refused(change: dict[str, str], says: str) -> None:
    with pytest.raises(SignatureError, match=says):
        verify({**headers(at=NOW), **change}, BODY, SECRET, now=NOW)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_header_that_is_missing_is_named(missing: str) -> None:
    made = headers()
    del made[missing]
    with pytest.raises(SignatureError, match=missing):
        verify(made, BODY, SECRET)


def test_another_body_or_secret_is_refused() -> None:
    with pytest.raises(SignatureError):
        verify(headers(), BODY + b" ", SECRET)
    with pytest.raises(SignatureError):
        verify(headers(), BODY, "another secret of 24 letters or more")


@pytest.mark.parametrize(("late", "taken"), [(299, True), (301, False), (-299, True), (-301, False)])
def test_a_replay_outside_the_window_is_refused(late: int, taken: bool) -> None:
    at = 1_790_000_000
    made = headers(at=at)
    if taken:
        assert verify(made, BODY, SECRET, now=at + late) == "msg_1"
        with pytest.raises(WebhookVerificationError):  # theirs, by the true time
            Webhook(SECRET).verify(BODY, headers(at=int(time.time()) - 400))
    else:
        with pytest.raises(SignatureError, match="outside the replay window"):
            verify(made, BODY, SECRET, now=at + late)


@pytest.mark.parametrize("secret", ["", "short", "whsec_", "whsec_AAAA", "whsec_***", "whsec_ä"])
def test_a_secret_that_is_none_is_refused_and_not_quoted(secret: str) -> None:
    with pytest.raises(ValueError, match=r"secret|base64") as error:
        sign(secret, "msg_1", 1, BODY)
    assert not secret.removeprefix("whsec_") or secret.removeprefix("whsec_") not in str(error.value)
