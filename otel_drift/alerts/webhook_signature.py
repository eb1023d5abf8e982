"""Signs webhooks and verifies them, by the Standard Webhooks specification (https://www.standardwebhooks.com).

Three headers: ``webhook-id`` (the same for each repetition of a notification), ``webhook-timestamp`` (seconds since
the epoch, of the attempt) and ``webhook-signature`` (``v1,`` and the base64 HMAC-SHA256 of ``id.timestamp.body``).
Needs nothing but the standard library, so receivers can copy or import it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping

TOLERANCE = 300
"""Seconds a notification may be old, or ahead by another clock: the replay window."""
SHORTEST_SECRET = 24
"""Bytes, as the specification asks."""
_PREFIX = "whsec_"


class SignatureError(ValueError):
    """A webhook is not from who holds the secret, is too old, or is no webhook of this kind."""


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``.

    Raises:
        ValueError: the secret cannot be used; see `secret_bytes`.
    """
    digest = hmac.new(secret_bytes(secret), f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def verify(
    headers: Mapping[str, str], body: bytes, secret: str, tolerance: float = TOLERANCE, *, now: float | None = None
) -> str:
    """Check that a webhook comes from who holds the secret and is fresh.

    Args:
        headers: Those of the request; names in any case.
        body: The request's body as it came, byte by byte: parse it only after this.
        secret: ``whsec_…`` (base64) or any text; as the sender has it.
        tolerance: Seconds it may be old or ahead.
        now: Seconds since the epoch; the time it is, if None.

    Returns:
        The ``webhook-id``. A repetition has the same one: remember it for longer than `tolerance` and act once.

    Raises:
        SignatureError: it is not authentic, or not fresh.
        ValueError: the secret cannot be used.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, stamp, signatures = (given[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as error:
        raise SignatureError(f"the header {error.args[0]} is missing") from None
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 15):
        raise SignatureError("the header webhook-timestamp is no number of seconds")
    timestamp = int(stamp)
    apart = (time.time() if now is None else now) - timestamp
    if abs(apart) > tolerance:
        raise SignatureError(f"sent {abs(apart):.0f} s {'ago' if apart > 0 else 'ahead'}: outside the replay window")
    expected = sign(secret, message_id, timestamp, body).encode()
    # Several signatures while a secret is being changed; every one is compared, in constant time.
    if not any([hmac.compare_digest(expected, one.encode()) for one in signatures.split()]):  # noqa: C419
        raise SignatureError("no signature matches")
    return message_id


def secret_bytes(secret: str) -> bytes:
    """The key of a secret: ``whsec_`` and base64, or the bytes of any other text.

    Raises:
        ValueError: it is shorter than `SHORTEST_SECRET` bytes, or no base64. The message does not quote it.
    """
    if secret.startswith(_PREFIX):
        text = secret[len(_PREFIX) :]
        try:
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except ValueError:  # also of characters that are no ASCII
            raise ValueError("what follows whsec_ is not base64") from None
    else:
        key = secret.encode("utf-8", "surrogateescape")
    if len(key) < SHORTEST_SECRET:
        raise ValueError(
            f"a webhook secret has at least {SHORTEST_SECRET} bytes; make one: "
            "echo whsec_$(head -c 32 /dev/urandom | base64)"
        )
    return key
