"""What may leave: texts of a session replaced before a judge, the ledger or an output sees them.

Quotes are checked against the redacted text, so a finding never brings back what was taken out. Identifiers (session,
trace, span and passage ids) stay: they are what findings are written back to.
"""

from __future__ import annotations

import hashlib
import importlib
import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from otel_drift.errors import ConfigError
from otel_drift.model import Passage, Session, ToolCall, Turn

Redactor: TypeAlias = Callable[[str], str]
_OPAQUE = "sha256:"


def load_redactor(spec: str | Iterable[str]) -> Redactor:
    """Build a redactor from named patterns (``email``, ``phone``, ``card``, ``iban``, ``ip``) and ``module:callable``.

    Args:
        spec: one comma-separated string or a list; applied in the order given. A callable takes and returns text.

    Raises:
        ConfigError: unknown pattern, or a callable that cannot be imported.
    """
    parts = [part.strip() for one in ([spec] if isinstance(spec, str) else spec) for part in one.split(",")]
    steps = [_named(part) for part in parts if part]
    if not steps:
        raise ConfigError(f"redaction names nothing: use {', '.join(sorted(_PATTERNS))} or package.module:callable")

    def redact(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return redact


def redact_session(session: Session, redactor: Redactor) -> Session:
    """Return `session` with every text of it passed through `redactor`.

    Raises whatever the redactor raises, and TypeError when it returns something else than text: then nothing of the
    session may go out.
    """

    def clean(text: str | None) -> str | None:
        if text is None:
            return None
        cleaned = redactor(text)
        if not isinstance(cleaned, str):
            raise TypeError(f"the redactor returned {type(cleaned).__name__}, not text")
        return cleaned

    key = session.key if clean(session.key) == session.key else opaque(session.key)
    turns = tuple(_turn(turn, clean) for turn in session.turns)
    return replace(session, key=key, user=clean(session.user), tenant=clean(session.tenant), turns=turns)


def withhold(session: Session) -> Session:
    """Return `session` without any text: ids, times and states only."""
    key = opaque(session.key)
    turns = tuple(_turn(turn, lambda _: None) for turn in session.turns)
    return replace(session, key=key, user=None, tenant=None, turns=turns)


def opaque(key: str) -> str:
    """Return a hash in place of a session key, which may hold private text; a hash given is returned as it is."""
    if key.startswith(_OPAQUE) and len(key) == len(_OPAQUE) + 32:
        return key
    return _OPAQUE + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_Clean: TypeAlias = Callable[[str | None], str | None]


def _turn(turn: Turn, clean: _Clean) -> Turn:
    return replace(
        turn,
        user=clean(turn.user),
        answer=clean(turn.answer),
        passages=tuple(_passage(passage, clean) for passage in turn.passages),
        tool_calls=tuple(_tool_call(call, clean) for call in turn.tool_calls),
        tags=tuple(cleaned for tag in turn.tags if (cleaned := clean(tag)) is not None),
        feedback=clean(turn.feedback),
        error=clean(turn.error),
        alternatives=tuple(_turn(alternative, clean) for alternative in turn.alternatives),
    )


def _passage(passage: Passage, clean: _Clean) -> Passage:
    return replace(
        passage,
        text=clean(passage.text),
        title=clean(passage.title),
        source=clean(passage.source),
        author=clean(passage.author),
    )


def _tool_call(call: ToolCall, clean: _Clean) -> ToolCall:
    return replace(call, arguments=clean(call.arguments), result=clean(call.result))


def _named(part: str) -> Redactor:
    if ":" in part:
        return _imported(part)
    if part not in _PATTERNS:
        known = ", ".join(sorted(_PATTERNS))
        raise ConfigError(f"redaction {part!r} is unknown: use {known}, or package.module:callable")
    return _PATTERNS[part]


def _imported(path: str) -> Redactor:
    module_name, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"redaction {path!r} cannot be imported: {error}") from error
    if not callable(found):
        raise ConfigError(f"redaction {path!r} is no callable")
    redactor: Redactor = found
    return redactor


# Every pattern is linear: repeats are bounded and what follows a repeat cannot be matched by it.
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?!\w)")
_IPV4 = re.compile(r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{2,39}(?![\w:])")
_CARD = re.compile(r"(?<![\d-])\d(?:[ -]?\d){12,18}(?![\d-])")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{1,4}){3,8}(?![A-Za-z0-9])")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:\+|00|\(?0|\()\d(?:[ ()./-]{0,2}\d){6,14}(?![\w-])|(?<![\w.-])\d{3}[ .-]\d{3}[ .-]\d{4}(?![\w-])"
)


def _email(text: str) -> str:
    return _EMAIL.sub("[email]", text)


def _ip(text: str) -> str:
    return _IPV6.sub(lambda found: "[ip]" if _is_ipv6(found[0]) else found[0], _IPV4.sub("[ip]", text))


def _card(text: str) -> str:
    return _CARD.sub(lambda found: "[card]" if _luhn(found[0]) else found[0], text)


def _iban(text: str) -> str:
    return _IBAN.sub(lambda found: "[iban]" if _mod97(found[0]) else found[0], text)


def _phone(text: str) -> str:
    return _PHONE.sub("[phone]", text)


def _is_ipv6(text: str) -> bool:
    try:
        return text.count(":") >= 2 and text != "::" and bool(ipaddress.IPv6Address(text))
    except ValueError:
        return False


def _luhn(number: str) -> bool:
    digits = [int(c) for c in number if c.isdigit()]
    doubled = [
        digit if n % 2 == 0 else (2 * digit - 9 if digit > 4 else 2 * digit) for n, digit in enumerate(digits[::-1])
    ]
    return sum(doubled) % 10 == 0


def _mod97(iban: str) -> bool:
    """ISO 13616: the check digits of an IBAN."""
    plain = iban.replace(" ", "")
    return 15 <= len(plain) <= 34 and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


_PATTERNS: dict[str, Redactor] = {"email": _email, "phone": _phone, "card": _card, "iban": _iban, "ip": _ip}
