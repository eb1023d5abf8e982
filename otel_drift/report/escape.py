"""Makes untrusted text harmless for the place it is shown in: terminal, HTML, spreadsheet, chat.

Each function replaces what is dangerous by something visible, so that a reader sees that it was there. All map
character by character (or add around a match), so a quote of a text stays a quote of the escaped text under
`terminal_safe` and `html_safe`.
"""

from __future__ import annotations

import html
import json
import re

from otel_drift.errors import OtelDriftError

_INVISIBLE = re.compile(
    "["
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiner, Arabic mark, fillers, selectors
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, marks, separators, bidi embeddings and isolates
    "\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"  # blank letters, variation selectors, BOM, annotations
    "\ud800-\udfff"  # lone surrogates: no encoding can print them
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # format controls of scripts
    "\U000e0000-\U000e0fff"  # tags and variation selectors: text smuggled invisibly
    "]"
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_C1 = re.compile("[\x80-\x9f]")
_LINE_END = re.compile("\r\n|\n")
_BREAKS = {"\n": "⏎ ", "\t": " "}

_FORMULA = re.compile(r"^[\s\u0000-\u001f\u00a0\u200b-\u200f\u2060\ufeff]*[=+\-@\t\r＝＋－＠|%]")

_SCHEME = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*):(?=[/\\\w%+#?])(//)?")
_DOMAIN_DOT = re.compile(r"(?<=[\w-])\.(?=[^\W\d_][\w-])")
_MENTIONS = str.maketrans({"@": "＠", "<": "‹", ">": "›", "|": "¦", "`": "ˋ"})


def terminal_safe(text: str, *, multiline: bool = False) -> str:
    r"""Neutralise everything that could steer a terminal or hide text.

    C0 controls become control pictures (``␛``), C1 controls, bidi controls, zero-width and other invisible
    characters and lone surrogates become escapes such as ``\u202e``; tabs become spaces. Visible text of any
    script is left alone.

    Args:
        text: Untrusted text.
        multiline: Keep line feeds (also those of CR LF) as line breaks; otherwise they show as ``⏎``.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_END.sub("\n", text)
    text = _CONTROL.sub(lambda m: _visible_control(m[0], multiline), text)
    return _INVISIBLE.sub(lambda m: _escape(m[0]), text)


def json_safe(data: bytes) -> bytes:
    r"""The same JSON with everything that could steer a terminal or hide text written as its escape (``\u009b``)."""
    if data.isascii():  # the other controls may stand in no JSON text
        return data
    text = _C1.sub(_json_escape, data.decode())
    return _INVISIBLE.sub(_json_escape, text).encode()


def _json_escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def html_safe(text: str, *, multiline: bool = True) -> str:
    """Escape text for HTML element content and quoted attributes, with invisible characters made visible."""
    return html.escape(terminal_safe(text, multiline=multiline), quote=True)


def spreadsheet_safe(text: str) -> str:
    """Defuse a cell that a spreadsheet would run as a formula: a leading apostrophe makes it text.

    Source: OWASP "CSV Injection"; white space and full-width signs before or instead of the sign count as well.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def inert(text: str, *, domains: bool = False) -> str:
    """Make text safe to send to a chat: nobody is mentioned, nothing becomes a link, markup stays letters.

    ``@`` and ``<`` are replaced by look-alikes, ``https://a.example`` reads ``https[:]//a[.]example``.

    Args:
        text: Untrusted text.
        domains: Leave the dots of domain names alone, for names that programs compare; chats may link those.
    """
    text = terminal_safe(text, multiline=True)
    text = text.replace("](", "] (").replace("![", "! [")
    text = _SCHEME.sub(lambda m: f"{m[1]}[:]{m[2] or ''}", text)
    if not domains:
        text = _DOMAIN_DOT.sub("[.]", text)
    return text.translate(_MENTIONS)


def _visible_control(character: str, multiline: bool) -> str:
    if multiline and character == "\n":
        return character
    if character in _BREAKS:
        return _BREAKS[character]
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else _escape(character)


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def said_of(error: Exception, culprit: str) -> str:
    """What may be said of an error: of one not raised on purpose only its kind, as its message may quote anything.

    Args:
        error: What went wrong.
        culprit: Whose fault it is if nobody raised it on purpose: ``the sink``.
    """
    if isinstance(error, OtelDriftError):
        return terminal_safe(str(error))
    return f"unexpected {type(error).__name__} (a fault of {culprit}; run with debug logging)"
