"""Normalise: how one convention is read (`Reader`), and what a set of attribute names says (`Shape`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from otel_drift.model import Attributes
from otel_drift.normalise.names import SESSION_DELIBERATE, numbered
from otel_drift.normalise.owners import OwnerKeys
from otel_drift.otlp.values import PARTIAL_TRACE, TRUNCATED

if TYPE_CHECKING:
    from otel_drift.normalise.step import ChatMessage, Document, Kind, Step, Tool

EMPTY: tuple[Any, ...] = (None, "", [], ())
"""Values that say nothing."""


class Reader:
    """How one convention is read. Every method says what the span holds, or None where it holds nothing of it."""

    name = ""
    raw = False
    """Whether the convention keeps the provider's raw request: the last choice where a call was read twice."""

    facts: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The names that `fact` knows, each with the attributes that hold it; none where the attributes do not tell."""
    needs: ClassVar[Mapping[str, str]] = {}
    """Of what is read (``variables``, …) only from attributes whose names begin so: how they begin."""
    last_resort = False
    """Whether the reader is asked only where no other knows the span's role."""

    def kind(self, step: Step) -> Kind:
        """The role of the span."""
        return "other"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """Which of a span's attribute keys hold a session id, with their rank: lower is more deliberate."""
        return []

    def nested_session(self, a: Attributes) -> tuple[int, str] | None:
        """A session id inside a structured attribute, with its rank; asked only where no key holds one."""
        return None

    def input_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Messages the model (or agent) was given."""
        return None

    def output_messages(self, step: Step) -> tuple[ChatMessage, ...] | None:
        """Messages the model answered."""
        return None

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """Documents a retriever, reranker or tool returned; None = not captured, () = none found."""
        return None

    def candidates(self, step: Step) -> tuple[Document, ...] | None:
        """Documents a reranker was given."""
        return None

    def incomplete(self, step: Step) -> bool:
        """Whether the instrumentation reports only some of the documents."""
        return False

    def query(self, step: Step) -> str | None:
        """What was searched for or embedded."""
        return None

    def tool(self, step: Step) -> Tool | None:
        """The tool run."""
        return None

    def input(self, step: Step) -> Any:
        """What a wrapper was called with: text, or parsed data."""
        return None

    def output(self, step: Step) -> Any:
        """What a wrapper returned: text, or parsed data."""
        return None

    def variables(self, step: Step) -> Any:
        """Prompt template variables by name."""
        return None

    def fact(self, step: Step, name: str) -> Any:
        """A single fact: model, app_version, prompt_name, prompt_version, environment, project, tags, feedback."""
        a = step.span.attributes
        for key in self.facts[name]:
            value = a.get(key)
            if value or value not in EMPTY:
                return value
        return None


Way: TypeAlias = "Callable[[Step], Any]"
_WAYS = (
    "input_messages", "output_messages", "documents", "candidates", "incomplete", "query", "tool", "input", "output",
    "variables",
)  # fmt: skip


class Shape:
    """What a set of attribute keys says: which readers know it, and where things are. The same for thousands of spans.

    Attributes:
        readers: the readers that know the span, richest first.
        ways: how each thing may be read: the methods of the readers that have one of their own.
        kinds: how the span's role may be read.
        guess: how it may be read where those know none.
        sessions: the keys that hold a session id, with their rank, best first.
        nested: the readers that know of a session id inside the metadata.
        owners: the keys that name user and tenant.
        anonymous: whether the span itself says nothing of whose it is.
        facts: the readers that may know a fact, by its name.
        raw: whether only a provider's raw request is known.
        cut: whether values may have been cut when they were read.
        part_of_trace: whether the store gave only a part of the trace.
        scrubbed: whether logfire replaced values that look secret.
    """

    def __init__(self, keys: Sequence[str], readers: tuple[Reader, ...] = ()) -> None:
        self.readers = readers
        self.ways: dict[str, tuple[Way, ...]] = {
            what: tuple(
                getattr(r, what)
                for r in readers
                if getattr(type(r), what) is not getattr(Reader, what)
                and (what not in r.needs or any(key.startswith(r.needs[what]) for key in keys))
            )
            for what in _WAYS
        }
        self.kinds: tuple[Callable[[Step], Kind], ...] = tuple(r.kind for r in readers if not r.last_resort)
        self.guess = next((r.kind for r in readers if r.last_resort), None)
        named = {found for reader in readers for found in reader.sessions(keys) if found[1] in keys}
        if len(readers) > 1 and "session.id" in keys:
            named.add((SESSION_DELIBERATE, "session.id"))
        self.sessions = tuple(sorted(named, key=_by_rank))
        self.nested = tuple(
            r for r in readers if type(r).nested_session is not Reader.nested_session and "metadata" in keys
        )
        self.owners = OwnerKeys(keys)
        self.anonymous = not (self.sessions or self.nested or self.owners.named)
        self.facts: dict[str, list[Reader]] = {}
        for reader in readers:
            for name, sources in reader.facts.items():
                if not sources or not set(sources).isdisjoint(keys):
                    self.facts.setdefault(name, []).append(reader)
        self.raw = all(reader.raw or reader.name == "app" for reader in readers)
        self.cut = TRUNCATED in keys
        self.part_of_trace = PARTIAL_TRACE in keys
        self.scrubbed = "logfire.scrubbed" in keys
        self._keys = tuple(keys)
        self._among: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._below: dict[str, tuple[tuple[str, str], ...]] = {}
        self._lists: dict[str, tuple[tuple[tuple[str, str], ...], ...]] = {}

    def among(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of `names` that are keys."""
        found = self._among.get(names)
        if found is None:
            found = self._among[names] = tuple(name for name in names if name in self._keys)
        return found

    def below(self, prefix: str) -> tuple[tuple[str, str], ...]:
        """What follows `prefix` in each key that begins with it, and the key."""
        found = self._below.get(prefix)
        if found is None:
            keys = (key for key in self._keys if key.startswith(prefix))
            found = self._below[prefix] = tuple((key[len(prefix) :], key) for key in keys)
        return found

    def numbered(self, prefix: str) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The members of a flattened list in numeric order: what follows ``prefix.N.`` in each key, and the key."""
        found = self._lists.get(prefix)
        if found is None:
            found = self._lists[prefix] = numbered(self._keys, prefix)
        return found


def _by_rank(found: tuple[int, str]) -> tuple[int, int, str]:
    return found[0], len(found[1]), found[1]


NO_SHAPE = Shape(())
"""Of a span that never arrived."""
