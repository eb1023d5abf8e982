"""Normalise: the `Step` every convention is read into; sessions are built from steps and know no attribute name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from otel_drift.model import Span
from otel_drift.normalise.lazy import lazy, with_lazies
from otel_drift.normalise.owners import Owner
from otel_drift.normalise.reader import EMPTY, NO_SHAPE, Reader, Shape
from otel_drift.normalise.values import evaluated, lacks_end, load
from otel_drift.otlp.values import TRUNCATED

Kind: TypeAlias = Literal["llm", "retriever", "reranker", "tool", "embedding", "agent", "chain", "index", "other"]


class ToolUse(NamedTuple):
    """A tool call the model asked for; `arguments` as text (usually JSON)."""

    id: str | None
    name: str | None
    arguments: str | None


class ToolResult(NamedTuple):
    """What a tool call returned, as a message carried it: text or structured data."""

    id: str | None
    name: str | None
    content: Any


@dataclass(slots=True)
class ChatMessage:
    """One message; `role` is user, assistant, system or tool.

    Never changed once made; neither frozen nor a tuple, because those take longer to make and to read.
    """

    role: str
    text: str
    uses: tuple[ToolUse, ...] = ()
    results: tuple[ToolResult, ...] = ()
    documents: tuple[Document, ...] = ()
    """What was attached to it as documents, apart from its text."""


class Document(NamedTuple):
    """A retrieved document. `text` is None where only the id is known."""

    id: str | None
    text: str | None
    score: float | None = None
    title: str | None = None
    source: str | None = None
    author: str | None = None
    date: str | None = None
    document_type: str | None = None

    def with_score(self, score: float | None) -> Document:
        """The same document with another score."""
        return self._replace(score=score)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool run: name, arguments and result as they were written (None: not captured)."""

    name: str | None
    arguments: Any = None
    result: Any = None
    call_id: str | None = None


class Identity(NamedTuple):
    """Who a span belongs to: session id with its rank, user and tenant; and the conventions that know the span."""

    readers: tuple[Reader, ...]
    session: tuple[int, str] | None
    owners: tuple[Owner, ...] = ()


@with_lazies
class Step:
    """One span, read. Cheap facts are read at once, content only when asked for, each value parsed once."""

    def __init__(
        self,
        span: Span,
        shape: Shape = NO_SHAPE,
        identify: Callable[[Span, Sequence[str]], Identity] | None = None,
        session_attributes: Sequence[str] = (),
    ) -> None:
        self.span = span
        self.shape = shape
        self.readers = shape.readers
        self._identify = identify
        self._session_attributes = session_attributes
        self.truncated = False
        self.cut_length = 0
        self._cut: list[str] = []
        """The attributes whose JSON has no end."""
        if shape.cut and (cut := span.attributes[TRUNCATED]):
            self.truncated = True
            self.cut_length = max(_longest(span.attributes.get(key)) for key in cut)
        self.cut_loose = False
        """Whether its parent link closed a circle and was passed over."""
        self.notes: dict[str | tuple[str, ...], Any] = {}
        """What was read before: parsed attributes by their keys, and what readers keep of their work on this span."""
        best: Kind = "other"
        for read in shape.kinds:
            kind = read(self)
            if _SPECIFIC[kind] > _SPECIFIC[best]:
                best = kind
        if best == "other" and shape.guess is not None:
            best = shape.guess(self)
        self.kind: Kind = best

    @lazy
    def identity(self) -> Identity:
        """Who the span belongs to."""
        if self._identify is None:
            return Identity(self.readers, None)
        return self._identify(self.span, self._session_attributes)

    @property
    def session(self) -> tuple[int, str] | None:
        """The session id, with its rank."""
        return self.identity.session

    @property
    def owners(self) -> tuple[Owner, ...]:
        """User and tenant."""
        return self.identity.owners

    def json(self, key: str) -> Any:
        """The attribute `key`, parsed where it is JSON text (or a Python repr); the same object every time."""
        if key in self.notes:
            return self.notes[key]
        value = self.span.attributes.get(key)
        if isinstance(value, str):
            value = self.notes[key] = self.parse(value, key)
        return value

    def parse(self, value: str, key: str = "") -> Any:
        """`value`, of the attribute `key`, parsed where it is JSON, its messages too; notes whether it was cut."""
        parsed, cut = load(value)
        if isinstance(parsed, dict) and isinstance(messages := parsed.get("messages"), str):
            parsed = {**parsed, "messages": self.parse(messages, key)}
        if cut:
            self._cut.append(key)
            self.truncated = True
            self.cut_length = max(self.cut_length, len(value))
        elif parsed is value:
            return evaluated(value)
        return parsed

    def may_be_cut(self) -> bool:
        """Whether an attribute looks like JSON without its end; reading it tells."""
        return any(isinstance(value, str) and lacks_end(value) for value in self.span.attributes.values())

    def numbered(self, prefix: str) -> list[dict[str, Any]]:
        """The members of a flattened list in numeric order: the values of ``prefix.N.rest`` by ``rest``."""
        a = self.span.attributes
        return [{rest: a[key] for rest, key in member} for member in self.shape.numbered(prefix)]

    @property
    def longest(self) -> int:
        """Length of the longest text on the span, its events and its log records."""
        values = [*self.span.attributes.values()]
        for event in self.span.events:
            values.extend(event.attributes.values())
        for record in self.span.logs:
            values.extend(record.attributes.values())
            values.append(record.body)
        return max(map(_longest, values), default=0)

    @property
    def failed(self) -> bool:
        """Whether the span ended in an error."""
        return self.span.status == "error" or "error.type" in self.span.attributes

    @lazy
    def input_messages(self) -> tuple[ChatMessage, ...] | None:
        """Messages given."""
        found: tuple[ChatMessage, ...] | None = self._first("input_messages")
        return found

    @property
    def input_cut(self) -> bool:
        """Whether the messages given were read from a list without its end, so that the last of them are missing."""
        if not self.input_messages or not self.truncated:  # reading them tells
            return False
        return not any(self.numbered(flat) for flat in _FLAT) and not set(self._cut).isdisjoint(_LISTS)

    @lazy
    def output_messages(self) -> tuple[ChatMessage, ...] | None:
        """Messages answered."""
        found: tuple[ChatMessage, ...] | None = self._first("output_messages")
        return found

    @lazy
    def documents(self) -> tuple[Document, ...] | None:
        """Documents returned: the reading that has texts is preferred."""
        best: tuple[Document, ...] | None = None
        for read in self.shape.ways["documents"]:
            found: tuple[Document, ...] | None = read(self)
            if found is None:
                continue
            if any(d.text for d in found):
                return found
            if best is None:
                best = found
        return best

    @lazy
    def candidates(self) -> tuple[Document, ...] | None:
        """Documents a reranker was given."""
        found: tuple[Document, ...] | None = self._first("candidates")
        return found

    @property
    def incomplete(self) -> bool:
        """Whether its documents were cut or are only the first few."""
        if self.truncated:
            return True
        ways = self.shape.ways["incomplete"]
        return bool(ways) and any(read(self) for read in ways)

    @lazy
    def query(self) -> str | None:
        """What was searched for."""
        found = self._first("query")
        return found if isinstance(found, str) and found.strip() else None

    @lazy
    def tool(self) -> Tool | None:
        """The tool run."""
        best: Tool | None = None
        for read in self.shape.ways["tool"]:
            found: Tool | None = read(self)
            if found is None:
                continue
            if best is None:
                best = found
            else:
                best = Tool(
                    best.name or found.name,
                    best.arguments if best.arguments is not None else found.arguments,
                    best.result if best.result is not None else found.result,
                    best.call_id or found.call_id,
                )
        return best

    @lazy
    def input(self) -> Any:
        """What a wrapper was called with."""
        return self._first("input")

    @lazy
    def output(self) -> Any:
        """What a wrapper returned."""
        return self._first("output")

    @lazy
    def variables(self) -> Any:
        """Prompt template variables."""
        return self._first("variables")

    def fact(self, name: str) -> Any:
        """A single fact such as ``model``; see `Reader.fact`."""
        for reader in self.shape.facts.get(name, ()):
            value = reader.fact(self, name)
            if value or value not in EMPTY:
                return value
        return None

    @lazy
    def answer_text(self) -> str | None:
        """The text a model call answered, None where it called tools instead."""
        for message in reversed(self.output_messages or ()):
            if message.uses:
                return final_answer(message.uses)
            if message.text.strip():
                text: str = message.text
                return text
        return None

    @lazy
    def last_index(self) -> int:
        """Index of the last user message given, -1 for none."""
        return last_asked(self.input_messages or ())

    @property
    def last_user(self) -> str | None:
        """The last user message given, template and all."""
        return self.input_messages[self.last_index].text if self.last_index >= 0 and self.input_messages else None

    def _first(self, what: str) -> Any:
        for read in self.shape.ways[what]:
            value = read(self)
            if value or (value is not None and value != () and value != ""):
                return value
        return None


_FLAT = ("llm.input_messages.", "gen_ai.prompt.")
_LISTS = frozenset(
    {"gen_ai.input.messages", "gen_ai.prompt", "langfuse.observation.input", "ai.prompt.messages", "ai.prompt",
     "mlflow.spanInputs", "input.value", "traceloop.entity.input", "pydantic_ai.all_messages", "request_data", "events"}
)  # fmt: skip
"""Attributes that may hold the messages given, as JSON."""


def last_asked(messages: Sequence[ChatMessage]) -> int:
    """Index of the last message in which the user says something, -1 for none.

    Agents that write memory as text send what a tool returned as the user's message; it begins with "Observation:".
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and message.text.strip():
            if index and message.text.startswith("Observation:") and messages[index - 1].role == "assistant":
                continue
            return index
    return -1


def final_answer(uses: Sequence[ToolUse]) -> str | None:
    """The answer that an agent gives by calling a tool for it (smolagents and others), None for other tools."""
    arguments = _final(uses)
    for key in ("answer", "final_answer", "response", "output", "text"):
        text = arguments.get(key)
        if isinstance(text, str) and text.strip():
            return text
    return None


def ends_silent(uses: Sequence[ToolUse]) -> bool:
    """Whether an agent ended with an answer that is empty."""
    arguments = _final(uses)
    return bool(arguments) and all(isinstance(value, str) and not value.strip() for value in arguments.values())


def _final(uses: Sequence[ToolUse]) -> dict[str, Any]:
    """What the tool was called with that gives an agent's answer; empty for other tools."""
    if len(uses) != 1 or uses[0].name not in ("final_answer", "final_result", "final_response"):
        return {}
    arguments, _ = load(uses[0].arguments or "")
    return arguments if isinstance(arguments, dict) else {}


def _longest(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return max(map(_longest, value.values()), default=0)
    if isinstance(value, list | tuple):
        return max(map(_longest, value), default=0)
    return 0


_SPECIFIC: dict[str, int] = {
    "other": 0,
    "chain": 1,
    "agent": 2,
    "tool": 3,
    "embedding": 4,
    "retriever": 4,
    "index": 5,
    "reranker": 5,
    "llm": 4,
}
