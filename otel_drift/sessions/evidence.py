"""Sessions: the passages the model was really given in one turn, and which tools ran."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from otel_drift.model import ReadFrom, RetrievalState, ToolCall
from otel_drift.normalise import Step
from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.step import ChatMessage, Document
from otel_drift.normalise.values import fold, text_of
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.prompt import find_passages
from otel_drift.sessions.tree import Node
from otel_drift.sessions.unit import Unit

_RANKS = re.compile(r"rank|post_?process|compress|filter|select|fus", re.IGNORECASE)
"""Names of chains that may have reordered or thinned out what was retrieved."""
WEAK_FORMS = frozenset({"numbered", "bullets", "paragraphs", "metadata"})


@dataclass(slots=True)
class Source:
    """One retriever, reranker or retrieval tool that ran. `documents` is None where its result was not captured."""

    documents: tuple[Document, ...] | None
    stage: ReadFrom
    ref: str
    start: int
    partial: bool = False
    structured: bool = True
    text: str = ""
    shadowed: bool = False
    candidates: tuple[Document, ...] | None = None
    foreign: bool = False


@dataclass(slots=True)
class Evidence:
    """What a turn rests on; `form` says how passages were found in the prompt."""

    found: list[tuple[Document, ReadFrom, str]] = field(default_factory=list)
    state: RetrievalState = "no_retrieval"
    tools: tuple[ToolCall, ...] = ()
    form: str = ""
    ran: bool = False


def gather(unit: Unit, options: ReconstructOptions) -> Evidence:
    """The evidence of one turn, collected once."""
    if not isinstance(unit.evidence, Evidence):
        unit.evidence = _gather(unit, options)
    return unit.evidence


def _gather(unit: Unit, options: ReconstructOptions) -> Evidence:
    sources, tools = _sources(unit, options)
    evidence = Evidence(tools=tools, ran=bool(sources))
    prompt = _Prompt(unit)
    documents = _given(_active(sources), prompt)
    with_text = [item for item in documents if item[0].text]
    if with_text:
        known = {d.id: d for s in sources for d in s.documents or () if d.id and d.text}
        for index, item in enumerate(documents):
            if not item[0].text and item[0].id in known:
                documents[index] = (item[0]._replace(text=known[item[0].id].text), item[1], item[2])
        evidence.found = _completed([item for item in documents if item[0].text], sources)
        partial = any(s.partial and not s.shadowed for s in sources)
        missing = any(not item[0].text for item in documents)
        evidence.state = "partial" if partial or missing else "captured"
        return evidence
    in_prompt, form = _from_prompt(unit, options)
    ids = [item for item in documents if item[0].id]
    if in_prompt:
        call = unit.call
        ref = call.span.ref if call is not None else unit.root.span.ref
        evidence.found = [(_joined(d, i, ids, len(in_prompt)), "prompt", ref) for i, d in enumerate(in_prompt)]
        evidence.form = form
        evidence.state = "partial" if call is not None and call.truncated else "captured"
        return evidence
    if ids:
        evidence.found = ids
        evidence.state = "partial" if any(s.partial and not s.shadowed for s in sources) else "ids_only"
    elif (
        any(s.documents == () for s in sources) and not any(s.documents is None and not s.shadowed for s in sources)
    ) or form == "empty":
        evidence.state = "none"
    elif sources or (not unit.given and unit.calls):
        evidence.state = "not_captured"
    if any(s.partial for s in sources) and evidence.state in ("none", "not_captured"):
        evidence.state = "partial" if evidence.found else "not_captured"
    return evidence


def _sources(unit: Unit, options: ReconstructOptions) -> tuple[list[Source], tuple[ToolCall, ...]]:
    sources: list[Source] = []
    by_node: dict[int, Source] = {}
    tools: list[ToolCall] = []
    seen_calls: set[str] = set()
    messages = _current(unit)
    results = {r.id: r for m in messages for r in m.results if r.id}
    names = {u.id: u.name for m in unit.given for u in m.uses if u.id}
    for node in [*unit.nodes, *unit.extra]:
        step = node.step
        source: Source | None = None
        if step.kind == "tool" and step.tool is not None:
            tool = step.tool
            result = tool.result
            if result is None and tool.call_id in results:
                result = results[tool.call_id].content
            source = _tool_source(tool.name, result, step.span.ref, step.span.start, options, step)
            tools.append(_tool_call(tool.name, tool.arguments, result, source is not None, step.span.ref, options))
            if result is not None:
                seen_calls.add(tool.call_id or "")
                seen_calls.add((tool.name or "") + "\0" + fold(text_of(result) or "")[:200])
            else:
                seen_calls.add("?" + (tool.name or ""))
        elif step.kind in ("retriever", "reranker"):
            documents = step.documents
            source = Source(
                documents,
                "reranker" if step.kind == "reranker" else "retriever",
                step.span.ref,
                step.span.start,
                partial=step.incomplete,
                candidates=step.candidates if step.kind == "reranker" else None,
            )
        if source is not None:
            outer = _outer(node, by_node)
            if outer is not None:
                if outer.documents is None or (not outer.documents and source.documents and not outer.structured):
                    outer.shadowed = True
                    source.stage = source.stage if outer.stage != "tool" else "retriever"
                elif not outer.structured and any(d.text for d in source.documents or ()):
                    source.text = outer.text
                    outer.shadowed = True
                elif (
                    outer.documents
                    and not any(d.text for d in outer.documents)
                    and any(d.text for d in source.documents or ())
                ):
                    outer.shadowed = True
                else:
                    source.shadowed = True
            by_node[id(node)] = source
            sources.append(source)
    for message in messages:
        for result in message.results:
            name = result.name or (names.get(result.id) if result.id else None)
            key = (name or "") + "\0" + fold(text_of(result.content) or "")[:200]
            if (result.id and result.id in seen_calls) or key in seen_calls:
                continue
            ref = unit.call.span.ref if unit.call is not None else unit.root.span.ref
            start = unit.call.span.start if unit.call is not None else unit.start
            source = _tool_source(name, result.content, ref, start, options, unit.call)
            call = next((u for m in unit.given for u in m.uses if u.id and u.id == result.id), None)
            if "?" + (name or "") in seen_calls:
                tools = [t for t in tools if not (t.name == name and t.result is None)]
                for other in sources:
                    if other.stage == "tool" and other.documents is None:
                        other.shadowed = True
            tools.append(
                _tool_call(name, call.arguments if call else None, result.content, source is not None, ref, options)
            )
            if source is not None:
                if any(d.text for s in sources if not s.shadowed for d in s.documents or ()) and not source.structured:
                    source.shadowed = True
                sources.append(source)
    if not any(d.text for s in sources for d in s.documents or ()):
        sources.extend(_chain_sources(unit, sources))
    else:
        sources.extend(s for s in _chain_sources(unit, sources) if s.documents and not any(d.text for d in s.documents))
    sources.sort(key=lambda s: s.start)
    return sources, tuple(tools)


def _outer(node: Node, by_node: dict[int, Source]) -> Source | None:
    current = node.parent
    while current is not None:
        found = by_node.get(id(current))
        if found is not None:
            return found
        current = current.parent
    return None


def _tool_source(
    name: str | None, result: object, ref: str, start: int, options: ReconstructOptions, step: Step | None
) -> Source | None:
    """A tool run as a source, or None where it is no retrieval."""
    retrieval = options.is_retrieval_tool(name)
    cut = step.truncated if step is not None else False
    if result is None:
        return Source(None, "tool", ref, start) if retrieval else None
    documents = read_documents(result, strings=retrieval)
    if documents is not None and (retrieval or (documents and _looks_retrieved(documents))):
        return Source(documents, "tool", ref, start, partial=cut, text=text_of(result) or "")
    if not retrieval:
        return None
    text = _plain(result)
    if not text:
        return Source((), "tool", ref, start)
    found = find_passages(text, options.passage_pattern, options.pattern_seconds, whole=True)
    if found is not None and found.documents and found.form not in ("paragraphs", "bullets"):
        return Source(found.documents, "tool", ref, start, partial=cut, structured=False, text=text)
    if _says_nothing(text):
        return Source((), "tool", ref, start)
    return Source((Document(None, text.strip()),), "tool", ref, start, partial=cut, structured=False, text=text)


def _looks_retrieved(documents: Sequence[Document]) -> bool:
    """Whether a tool's result is a list of documents, not of orders or flights: texts of some length, with marks."""
    texts = [d for d in documents if d.text]
    marked = [d for d in texts if d.id or d.score is not None or d.source or d.title]
    return bool(texts) and len(marked) == len(documents) and max(len(d.text or "") for d in texts) >= 30


def _plain(result: object) -> str:
    if isinstance(result, dict):
        for key in ("content", "data", "result", "output", "text"):
            inner = result.get(key)
            if isinstance(inner, str):
                return inner
            if isinstance(inner, dict) and isinstance(inner.get("content"), str):
                return str(inner["content"])
    return text_of(result) or ""


def _says_nothing(text: str) -> bool:
    folded = fold(text).lower().strip(" .!\"'[](){}")
    return folded in ("", "null", "none") or (
        len(folded) < 80
        and folded.startswith(("no result", "no document", "no passage", "no match", "nothing found", "no relevant"))
    )


def _tool_call(
    name: str | None, arguments: object, result: object, retrieval: bool, ref: str, options: ReconstructOptions
) -> ToolCall:
    limit = options.max_text
    said, returned = text_of(arguments), text_of(result)
    return ToolCall(
        name or "tool",
        said[:limit] if said is not None else None,
        returned[:limit] if returned is not None else None,
        retrieval,
        ref,
    )


def _current(unit: Unit) -> list[ChatMessage]:
    """Messages of this turn only: what comes after the last user message of each call (never resent history)."""
    found: list[ChatMessage] = list(unit.given[unit.last_index + 1 :]) if unit.last_index >= 0 else []
    asked = fold(unit.last_message or "")
    for call in unit.calls:
        if call is unit.call:
            continue
        messages = call.input_messages or ()
        last = max((i for i, m in enumerate(messages) if m.role == "user" and m.text.strip()), default=-1)
        if last >= 0 and fold(messages[last].text) == asked:
            have = {r.id for m in found for r in m.results}
            found.extend(m for m in messages[last + 1 :] if m.results and not all(r.id in have for r in m.results))
    return found


def _chain_sources(unit: Unit, sources: Sequence[Source]) -> list[Source]:
    """Chains that return documents: custom retrievers (texts) and custom rerankers (ids and scores only)."""
    found: list[Source] = []
    known = any(d.text for s in sources for d in s.documents or ())
    last_call = unit.call.span.start if unit.call is not None else unit.end
    for node in unit.nodes:
        step = node.step
        if step.kind != "chain" or node.calls or step.span.start > last_call:
            continue
        if known and not _RANKS.search(step.span.name):
            continue
        output = step.output
        if not isinstance(output, list) and not (isinstance(output, dict) and len(output) <= 3):
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


def _active(sources: Sequence[Source]) -> list[Source]:
    """Sources that count: not nested in another, not replaced by a reranker after them."""
    active = [s for s in sources if not s.shadowed]
    for index, reranker in enumerate(active):
        if reranker.stage != "reranker" or reranker.documents is None:
            continue
        keys = _keys(reranker.documents)
        considered = _keys(reranker.candidates) if reranker.candidates else None
        known = {d.id: d for s in active[:index] for d in s.documents or () if d.id}
        reranker.documents = tuple(
            known[d.id]._replace(score=d.score) if not d.text and d.id in known else d for d in reranker.documents
        )
        for before in active[:index]:
            if before.documents is None:
                continue
            before.documents = tuple(
                d
                for d in before.documents
                if not (_keys([d]) & keys) and considered is not None and not (_keys([d]) & considered)
            )
            if not before.documents:
                before.foreign = True
    return [s for s in active if not (s.foreign and s.documents == ())]


def _keys(documents: Iterable[Document]) -> set[str]:
    found = set()
    for d in documents:
        if d.text:
            found.add("t" + fold(d.text))
        if d.id:
            found.add("i" + d.id)
    return found


class _Prompt:
    """The text of this turn that the model was given; asked whether it holds a passage."""

    def __init__(self, unit: Unit) -> None:
        self.calls = unit.calls
        parts: list[str] = []
        for call in self.calls:
            last = max(call.last_index, 0)
            for index, message in enumerate(call.input_messages or ()):
                if message.role == "system" or index >= last:
                    parts.append(message.text)
                    parts.extend(text_of(r.content) or "" for r in message.results)
        self.text = " ".join(parts)
        self._folded: str | None = None

    def holds(self, text: str) -> bool:
        if text in self.text:
            return True
        if self._folded is None:
            self._folded = fold(self.text)
        if fold(text) in self._folded:
            return True
        return any(fold(json.dumps(text, ensure_ascii=a)[1:-1]) in self._folded for a in (False, True))


def _given(active: Sequence[Source], prompt: _Prompt) -> list[tuple[Document, ReadFrom, str]]:
    """Documents of the active sources that reached the prompt, each once; all where the prompt shows none of them."""
    items: list[tuple[Document, ReadFrom, str, str]] = []
    seen: dict[str, int] = {}
    for source in active:
        for d in source.documents or ():
            key = "t" + fold(d.text) if d.text else "i" + (d.id or "")
            if key in seen:
                continue
            if not d.text and d.id and any(i[0].id == d.id for i in items):
                continue
            seen[key] = len(items)
            items.append((d, source.stage, source.ref, source.text))
    if not any(d.text for d, *_ in items):
        return [(d, stage, ref) for d, stage, ref, _ in items]
    truncated = any(c.truncated for c in prompt.calls)
    kept = []
    if prompt.text and not truncated:
        for d, stage, ref, returned in items:
            if d.text and (
                prompt.holds(d.text)
                or (stage == "tool" and not returned)
                or (returned and fold(d.text) in fold(returned))
            ):
                kept.append((d, stage, ref))
    if kept and any(stage == "tool" for _, stage, _, _ in items):
        pass
    return kept or [(d, stage, ref) for d, stage, ref, _ in items]


def _completed(
    found: Sequence[tuple[Document, ReadFrom, str]], sources: Sequence[Source]
) -> list[tuple[Document, ReadFrom, str]]:
    """Fill in ids, scores and metadata that another span has for the same text."""
    by_text: dict[str, list[Document]] = {}
    scores: dict[str, float] = {}
    for source in sources:
        for d in source.documents or ():
            if d.text:
                by_text.setdefault(fold(d.text), []).append(d)
            elif d.id and d.score is not None:
                scores[d.id] = d.score
    completed = []
    for d, stage, ref in found:
        for other in by_text.get(fold(d.text or ""), ()):
            if other is not d:
                d = Document(
                    d.id or other.id,
                    d.text,
                    d.score if d.score is not None else other.score,
                    d.title or other.title,
                    d.source or other.source,
                    d.author or other.author,
                    d.date or other.date,
                    d.document_type or other.document_type,
                )
        if d.id in scores and stage != "reranker":
            d = d._replace(score=scores[d.id])
        completed.append((d, stage, ref))
    return completed


def _from_prompt(unit: Unit, options: ReconstructOptions) -> tuple[tuple[Document, ...], str]:
    texts = [m.text for m in unit.given if m.role == "system" and m.text]
    if unit.last_message:
        texts.append(unit.last_message)
    empty = ""
    for text in texts:
        found = find_passages(text, options.passage_pattern, options.pattern_seconds)
        if found is None:
            continue
        if found.documents:
            asked = fold(unit.user or "")
            documents = tuple(d for d in found.documents if not asked or fold(d.text or "") != asked)
            if documents:
                return documents, found.form
        empty = "empty"
    return (), empty


def _joined(d: Document, index: int, ids: Sequence[tuple[Document, ReadFrom, str]], total: int) -> Document:
    """A passage of the prompt with the id and score that a retriever span has for it: by id, else by place."""
    if d.id is not None:
        other = next((i[0] for i in ids if i[0].id == d.id), None)
    else:
        other = ids[index][0] if len(ids) == total else None
    if other is None:
        return d
    return d._replace(
        id=other.id,
        score=other.score if other.score is not None else d.score,
        title=d.title or other.title,
        source=d.source or other.source,
    )
