"""The part of TraceQL that is sent to Tempo: parsed strictly, and evaluated over stored spans."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from trace_store import Stored

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<number>-?\d+)|(?P<op>&&|\|\||!=|=|[{}(),|])
    |(?P<attribute>(?:span|resource)?\.(?:[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\\n]|\\.)*"))|(?P<word>nil|select))""",
    re.VERBOSE,
)
MAX_BYTES = 128 * 1024

Condition = Callable[[Stored], bool]


class Query(NamedTuple):
    """A span set for each pair of braces, and the attributes selected."""

    sets: list[Condition]
    selected: list[tuple[str, str]]

    def matches(self, spans: Sequence[Stored]) -> list[Stored]:
        """The matching spans of a trace; none where a span set is empty."""
        found = [[span for span in spans if condition(span)] for condition in self.sets]
        return [span for matching in found for span in matching] if all(found) else []


def parse(text: str) -> Query:
    """Parse a query; ValueError says where it is wrong."""
    if len(text.encode()) > MAX_BYTES:
        raise ValueError("expression too long")
    parser = _Parser(text)
    sets = [parser.span_set()]
    while parser.take("&&"):
        sets.append(parser.span_set())
    selected = []
    if parser.take("|"):
        parser.need("select")
        parser.need("(")
        selected.append(parser.attribute())
        while parser.take(","):
            selected.append(parser.attribute())
        parser.need(")")
    if parser.tokens:
        raise ValueError(f"syntax error: unexpected {parser.tokens[0][1]}")
    return Query(sets, selected)


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"syntax error at {at}")
            assert match.lastgroup is not None
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()

    def take(self, text: str) -> bool:
        if self.tokens and self.tokens[0][1] == text:
            self.tokens.pop(0)
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            raise ValueError(f"syntax error: expected {text} at {self.tokens[:1]}")

    def span_set(self) -> Condition:
        self.need("{")
        condition = self.either()
        self.need("}")
        return condition

    def either(self) -> Condition:
        parts = [self.both()]
        while self.take("||"):
            parts.append(self.both())
        return lambda span: any(part(span) for part in parts)

    def both(self) -> Condition:
        parts = [self.comparison()]
        while self.take("&&"):
            parts.append(self.comparison())
        return lambda span: all(part(span) for part in parts)

    def comparison(self) -> Condition:
        if self.take("("):
            inner = self.either()
            self.need(")")
            return inner
        scope, name = self.attribute()
        negated = self.take("!=")
        if not negated:
            self.need("=")
        value = self.value()

        def holds(span: Stored) -> bool:
            own = span.value(name, scope)
            values = own if isinstance(own, list) else [own]
            same = any(type(one) is type(value) and one == value for one in values)
            return own is not None and same != negated

        return (lambda span: span.value(name, scope) is not None) if negated and value is None else holds

    def attribute(self) -> tuple[str, str]:
        kind, text = self.tokens.pop(0) if self.tokens else ("", "")
        if kind != "attribute":
            raise ValueError(f"syntax error: no attribute: {text}")
        scope, _, name = text.partition(".")
        return scope, json.loads(name) if name.startswith('"') else name

    def value(self) -> Any:
        kind, text = self.tokens.pop(0) if self.tokens else ("", "")
        if kind == "string":
            return json.loads(text)
        if kind == "number":
            return int(text)
        if text == "nil":
            return None
        raise ValueError(f"syntax error: no value: {text}")
