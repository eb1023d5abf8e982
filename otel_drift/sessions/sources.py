"""Sessions: what searched in a turn: retrievers, rerankers, retrieval tools, and chains that do the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

from otel_drift.model import ToolCall
from otel_drift.normalise import Step
from otel_drift.normalise.builtin_search import builtin_search
from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.lazy import lazy
from otel_drift.normalise.remembered import LONGEST_NAME, of_names
from otel_drift.normalise.step import ChatMessage, ToolResult, ToolUse
from otel_drift.normalise.values import fold
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.source import Source, settle
from otel_drift.sessions.tool_results import tool_call, tool_source
from otel_drift.sessions.tree import Node
from otel_drift.sessions.unit import Unit

_RANKS = re.compile(r"rank|post_?process|compress|filter|select|fus", re.IGNORECASE)
"""Names of chains that may have reordered or thinned out what was retrieved."""


@of_names(4096)
def _ranks(name: str) -> bool:
    return _RANKS.search(name) is not None


_FETCHES = re.compile(
    r"(?:find|fetch|get|search|look_?up|load|retriev|query|top|relevant|similar)[A-Za-z]{0,40}[_\W]{0,10}(?:\w{1,100}_)?"
    r"(?:chunk|passage|doc|context|snippet|excerpt|article|source|knowledge|evidence|rule|polic|section|paragraph)"
    r"|^(?:retriev\w*|(?:vector|semantic|hybrid|knowledge|similarity)_?search)(?:\.(?:task|tool|workflow|agent))?$"
    r"|^(?!.*(?:history|conversation|message)).*retriever$",
    re.IGNORECASE,
)
"""Names of an application's own functions that fetch texts. Bounded: a sender may choose a name that takes long."""


@of_names(4096)
def _fetches(name: str) -> bool:
    return _FETCHES.search(name[:LONGEST_NAME]) is not None


_SEARCHING = frozenset({"tool", "retriever", "reranker"})


def sources_of(unit: Unit, options: ReconstructOptions) -> tuple[list[Source], tuple[ToolCall, ...]]:
    """Everything that searched for the turn, in the order of time, and all tools that ran."""
    search = _Search(unit, options)
    for node in [*unit.nodes, *unit.extra]:
        if node.call or node.step.kind in _SEARCHING:
            search.read_span(node)
    for message in search.messages:
        for result in message.results:
            search.read_message(result)
    search.read_attached()
    known = any(d.text for s in search.sources for d in s.documents or ())
    for source in _chain_sources(unit, search.sources, known):
        if not known or not any(d.text for d in source.documents or ()):
            search.sources.append(source)
    search.sources.sort(key=lambda s: s.start)
    return search.sources, tuple(search.tools)


class _Search:
    """What was found so far. Tools are read from their spans, then from messages where a call left no span."""

    def __init__(self, unit: Unit, options: ReconstructOptions) -> None:
        self.unit = unit
        self.options = options
        self.sources: list[Source] = []
        self.tools: list[ToolCall] = []
        self.messages = _current(unit)
        self._by_node: dict[int, Source] = {}
        self._spans: dict[str, int] = {}
        self._ids: set[str] = set()

    @lazy
    def _around_retrievers(self) -> set[int]:
        """The nodes within which a retriever ran and no model: what an agent returns that is a tool is its answer."""
        around: set[int] = set()
        for node in self.unit.nodes:
            outer = node.parent if node.step.kind == "retriever" else None
            while outer is not None and not outer.calls and id(outer) not in around:
                around.add(id(outer))
                outer = outer.parent
        return around

    @lazy
    def _results(self) -> dict[str, ToolResult]:
        return {r.id: r for m in self.messages for r in m.results if r.id}

    @lazy
    def _uses(self) -> dict[str, ToolUse]:
        return {u.id: u for m in self.unit.given for u in m.uses if u.id}

    def read_span(self, node: Node) -> None:
        step = node.step
        source: Source | None = None
        if step.kind == "tool" and step.tool is not None:
            source = self._tool_span(step, id(node) in self._around_retrievers)
        elif step.kind in {"retriever", "reranker"}:
            source = Source(
                step.documents,
                "reranker" if step.kind == "reranker" else "retriever",
                step.span.ref,
                step.span.start,
                partial=step.incomplete,
                candidates=step.candidates if step.kind == "reranker" else None,
            )
        elif node.call:
            found = builtin_search(step)
            if not isinstance(found, bool):
                source = Source(found, "tool", step.span.ref, step.span.start, partial=step.truncated)
            elif step.documents is not None:
                source = Source(step.documents, "retriever", step.span.ref, step.span.start, partial=step.incomplete)
        if source is not None:
            outer = _outer(node, self._by_node)
            if outer is not None:
                settle(outer, source)
            self._by_node[id(node)] = source
            self.sources.append(source)

    def _tool_span(self, step: Step, searches: bool) -> Source | None:
        tool = step.tool
        assert tool is not None
        result = tool.result
        if result is None and tool.call_id and tool.call_id in self._results:
            result = self._results[tool.call_id].content
        source = tool_source(tool.name, result, step.span.ref, step.span.start, self.options, step, searches)
        self.tools.append(tool_call(tool.name, tool.arguments, result, _retrieves(source), step.span.ref, self.options))
        if result is not None:
            self._spans[tool.name or ""] = self._spans.get(tool.name or "", 0) + 1
            if tool.call_id:
                self._ids.add(tool.call_id)
        return source

    def read_message(self, result: ToolResult) -> None:
        use = self._uses.get(result.id) if result.id else None
        name = result.name or (use.name if use else None)
        if result.id in self._ids:
            return
        if self._spans.get(name or "", 0) > 0:
            self._spans[name or ""] -= 1  # the span of this call has no id to know it by
            return
        ref = self.unit.call.span.ref if self.unit.call is not None else self.unit.root.span.ref
        start = self.unit.call.span.start if self.unit.call is not None else self.unit.start
        source = tool_source(name, result.content, ref, start, self.options, self.unit.call)
        bare = next((t for t in self.tools if t.name == name and t.result is None), None)
        if bare is not None:  # a span without content
            self.tools.remove(bare)
            ref = bare.span_ref or ref
            for other in self.sources:
                if other.ref == bare.span_ref and other.documents is None:
                    other.shadowed = True
                    if source is not None:
                        source.ref, source.start = other.ref, other.start
        arguments = use.arguments if use else bare.arguments if bare else None
        self.tools.append(tool_call(name, arguments, result.content, _retrieves(source), ref, self.options))
        if source is not None:
            if not source.structured and any(d.text for s in self.sources if not s.shadowed for d in s.documents or ()):
                source.shadowed = True
            self.sources.append(source)

    def read_attached(self) -> None:
        """The documents attached to what the user says in this turn, or to what comes after it."""
        unit = self.unit
        asking = unit.given[unit.last_index : unit.last_index + 1] if unit.last_index >= 0 else ()
        documents = tuple(d for m in (*asking, *self.messages) for d in m.documents)
        if documents and unit.call is not None:
            span = unit.call.span
            self.sources.append(Source(documents, "prompt", span.ref, span.start, partial=unit.call.truncated))


def _outer(node: Node, by_node: dict[int, Source]) -> Source | None:
    current = node.parent
    while current is not None:
        found = by_node.get(id(current))
        if found is not None:
            return found
        current = current.parent
    return None


def _retrieves(source: Source | None) -> bool:
    return source is not None and not source.unsure


def _current(unit: Unit) -> list[ChatMessage]:
    """Messages of this turn only: what comes after the last user message of each call (never resent history).

    Of the other calls those count that were asked the same, or the user's words in a template of their own.
    """
    found: list[ChatMessage] = list(unit.given[unit.last_index + 1 :]) if unit.last_index >= 0 else []
    others = [call for call in unit.calls if call is not unit.call]
    asked = fold(unit.last_message or "") if others else ""
    own = fold(unit.user or "") if others else ""
    for call in others:
        messages = call.input_messages or ()
        places = range(len(messages) - 1, -1, -1)
        last = next((i for i in places if messages[i].role == "user" and messages[i].text.strip()), -1)
        text = fold(messages[last].text) if last >= 0 else ""
        if text and (text == asked or (own and own in text)):
            have = {r.id for m in found for r in m.results}
            found.extend(m for m in messages[last + 1 :] if m.results and not all(r.id in have for r in m.results))
    return found


def _was_given(step: Step, unit: Unit) -> bool:
    """Whether a chain that seems to have run after the call returned what the call was given: clocks differ."""
    if not isinstance(step.output, list | dict):
        return False
    texts = [d.text for d in read_documents(step.output, strings=True) or () if d.text]
    return any(text in m.text for text in texts[:8] for m in unit.given)


def _chain_sources(unit: Unit, sources: Sequence[Source], known: bool) -> list[Source]:
    """Chains that return documents: custom retrievers (texts) and custom rerankers (ids and scores only).

    `known` tells whether one of the sources has texts.
    """
    found: list[Source] = []
    ran = bool(sources)
    last_call = unit.call.span.start if unit.call is not None else unit.end
    for node in (*unit.nodes, *unit.extra):
        step = node.step
        if step.kind != "chain" or node.calls or (step.span.start > last_call and not _was_given(step, unit)):
            continue
        if known and not _ranks(step.span.name):
            continue
        output = step.output
        if not isinstance(output, list) and not (isinstance(output, dict) and len(output) <= 3):
            continue
        if not known and _fetches(step.span.name):
            documents = read_documents(output, strings=True)
            if documents is not None and (documents or not ran) and all(d.text or d.id for d in documents):
                found.append(Source(documents, "retriever", step.span.ref, step.span.start, partial=step.truncated))
                continue
        documents = read_documents(output)
        if not documents or not (any(d.id or d.score is not None or d.source for d in documents)):
            continue
        texts = any(d.text for d in documents)
        if texts or any(s.documents for s in sources):
            found.append(
                Source(
                    documents,
                    "retriever" if texts else "reranker",
                    step.span.ref,
                    step.span.start,
                    partial=step.truncated,
                )
            )
    for inner in found[:-1]:
        if any(d.text for d in inner.documents or ()):
            inner.shadowed = True
    return found
