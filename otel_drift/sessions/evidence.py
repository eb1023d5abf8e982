"""Sessions: the passages the model was really given in one turn, and which tools ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring, encode_basestring_ascii

from otel_drift.model import ReadFrom, RetrievalState, ToolCall
from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.lazy import lazy
from otel_drift.normalise.step import Document
from otel_drift.normalise.values import fold, text_of
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.prompt import find_passages
from otel_drift.sessions.prompt_found import is_material, says_nothing
from otel_drift.sessions.source import Source
from otel_drift.sessions.sources import sources_of
from otel_drift.sessions.unit import Unit

WEAK_FORMS = frozenset({"numbered", "bullets", "paragraphs", "metadata", "headed", "ruled"})


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
        if unit.evidence.state == "no_retrieval" and unit.question_cut:
            unit.evidence.state = "not_captured"  # what tools returned was cut off
        if True in [n.step.shape.part_of_trace for n in unit.nodes] and unit.evidence.state != "ids_only":
            unit.evidence.state = "partial" if unit.evidence.found else "not_captured"  # a retrieval may be missing
    return unit.evidence


def _gather(unit: Unit, options: ReconstructOptions) -> Evidence:
    sources, tools = sources_of(unit, options)
    evidence = Evidence(tools=tools, ran=bool(sources))
    prompt = _Prompt(unit)
    documents = _given(_active(sources), prompt)
    with_text = [item for item in documents if item[0].text]
    if with_text:
        if len(with_text) < len(documents):
            documents = _with_texts(documents, sources)
            with_text = [item for item in documents if item[0].text]
        evidence.found = _completed(with_text, sources)
        partial = len(with_text) < len(documents) or any(s.partial and not s.shadowed for s in sources)
        cut = {n.step.cut_length for n in unit.nodes if n.step.truncated}
        if cut:
            partial = partial or any(len(item[0].text or "") in cut for item in evidence.found)
        if partial and not cut:
            whole = _whole_from_prompt(unit, evidence.found, options)
            if whole:
                evidence.found, partial = whole, False
        evidence.state = "partial" if partial else "captured"
        return evidence
    in_prompt, form = _from_prompt(unit, options)
    evidence.form = form
    ids = [item for item in documents if item[0].id]
    if in_prompt and form in WEAK_FORMS and ids and len(ids) != len(in_prompt):
        in_prompt = _as_many(in_prompt, len(ids))
    if in_prompt:
        call = unit.call
        ref = call.span.ref if call is not None else unit.root.span.ref
        evidence.found = [(_joined(d, i, ids, len(in_prompt)), "prompt", ref) for i, d in enumerate(in_prompt)]
        lengths = {n.step.cut_length for n in unit.nodes if n.step.truncated}
        cut_prompt = any(len(m.text) in lengths for m in unit.given)
        evidence.state = "partial" if cut_prompt or (call is not None and call.truncated) else "captured"
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


def _with_texts(
    documents: Sequence[tuple[Document, ReadFrom, str]], sources: Sequence[Source]
) -> list[tuple[Document, ReadFrom, str]]:
    """Documents of which only the id is known with the texts that another source has for these ids."""
    known = {d.id: d.text for s in sources for d in s.documents or () if d.id and d.text}
    return [
        (d if d.text or d.id not in known else d._replace(text=known[d.id]), stage, ref) for d, stage, ref in documents
    ]


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

    @lazy
    def text(self) -> str:
        """What the messages of this turn say."""
        parts: list[str] = []
        for call in self.calls:
            messages = call.input_messages or ()
            last = max(call.last_index, 0)
            for message in (*[m for m in messages[:last] if m.role == "system"], *messages[last:]):
                parts.append(message.text)
                if message.results:
                    parts.extend([text_of(r.content) or "" for r in message.results])
                if message.documents:
                    parts.extend([d.text or "" for d in message.documents])
        return " ".join(parts)

    @lazy
    def _folded(self) -> str:
        return fold(self.text)

    def holds(self, text: str) -> bool:
        if text in self.text:
            return True
        if fold(text) in self._folded:
            return True
        return any(fold(escaped) in self._folded for escaped in _escaped(text))


def _given(active: Sequence[Source], prompt: _Prompt) -> list[tuple[Document, ReadFrom, str]]:
    """Documents of the active sources that reached the prompt, each once; all where the prompt shows none of them."""
    items: list[tuple[Document, ReadFrom, str, str]] = []
    texts: set[str] = set()
    ids: set[str] = set()
    for source in active:
        own = source.stage == "tool" and source.structured  # read out of the tool's result itself
        returned = "" if own else source.text
        for d in source.documents or ():
            if d.text:
                folded = fold(d.text)
                if folded in texts:
                    continue
                texts.add(folded)
                if d.id:
                    ids.add(d.id)
            elif (d.id or "") in ids:
                continue
            else:
                ids.add(d.id or "")
            items.append((d, source.stage, source.ref, returned))
    if not texts:
        return [(d, stage, ref) for d, stage, ref, _ in items]
    truncated = any(c.truncated for c in prompt.calls)
    kept: list[tuple[Document, ReadFrom, str]] = []
    if prompt.text and not truncated:
        for d, stage, ref, returned in items:
            if d.text and (
                (stage == "tool" and not returned)
                or prompt.holds(d.text)
                or (returned and _stands_in(d.text, returned))
            ):
                kept.append((d, stage, ref))
    return kept or [(d, stage, ref) for d, stage, ref, _ in items]


def _stands_in(text: str, returned: str) -> bool:
    """Whether a tool's result holds a text, as it is or escaped as JSON escapes it."""
    if text in returned or fold(text) in fold(returned):
        return True
    return any(escaped in returned for escaped in _escaped(text))


def _escaped(text: str) -> set[str]:
    """A text as JSON escapes it, where that is not the text itself."""
    return {encode_basestring(text)[1:-1], encode_basestring_ascii(text)[1:-1]} - {text}


def _completed(
    found: Sequence[tuple[Document, ReadFrom, str]], sources: Sequence[Source]
) -> list[tuple[Document, ReadFrom, str]]:
    """Fill in ids, scores and metadata that another span has for the same text."""
    documents = [d for source in sources for d in source.documents or ()]
    if len(documents) == len(found) and all(d.text for d in documents):
        return list(found)  # each is there once
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


def _as_many(documents: tuple[Document, ...], count: int) -> tuple[Document, ...]:
    """The same text as just so many passages as were retrieved, where only one way of dividing it gives that many."""
    if count == 1:
        return (Document(None, "\n\n".join(d.text or "" for d in documents)),)
    lines = [line.strip() for d in documents for line in (d.text or "").splitlines() if line.strip()]
    return tuple(Document(None, line) for line in lines) if len(lines) == count else documents


def _from_variables(unit: Unit, options: ReconstructOptions) -> tuple[tuple[Document, ...], str]:
    """Passages in the variable of a prompt template that is named as material (``context``, ``docs``, …)."""
    empty = ""
    for variables in unit.variables:
        if not isinstance(variables, dict):
            continue
        for name, value in variables.items():
            if not isinstance(name, str) or not is_material(name) or value is None:
                continue
            if isinstance(value, str) and says_nothing(value):
                empty = "empty"
                continue
            documents = read_documents(value, strings=True)
            if documents is None and isinstance(value, str) and len(value) >= 30:
                found = find_passages(value, options.passage_pattern, options.pattern_seconds, whole=True)
                documents = found.documents if found is not None else (Document(None, value.strip()),)
                if found is not None and documents:
                    return documents, found.form
            if documents and any(d.text for d in documents):
                return tuple(d for d in documents if d.text), "variable"
            if documents == ():
                empty = "empty"
    return (), empty


def _from_prompt(unit: Unit, options: ReconstructOptions) -> tuple[tuple[Document, ...], str]:
    given, empty = _from_variables(unit, options)
    if given:
        return given, empty
    texts = [m.text for m in unit.given if m.role == "system" and m.text]
    if unit.last_message:
        texts.append(unit.last_message)
    for message in reversed(
        unit.given[: max(unit.last_index, 0)]
    ):  # context in a message of its own, before the question
        if message.role == "assistant":
            break
        if message.role == "user" and message.text:
            texts.append(message.text)
    for text in texts:
        found = find_passages(text, options.passage_pattern, options.pattern_seconds)
        if found is None:
            continue
        if found.form in WEAK_FORMS and text == unit.last_message == unit.user:
            continue  # no template around the user's words: the list is the user's own
        if found.form in WEAK_FORMS and found.documents and _said_before(unit, found.documents[0]):
            continue  # handed on by another agent or step
        if found.documents:
            asked = fold(unit.user or "")
            documents = tuple(d for d in found.documents if not asked or fold(d.text or "") != asked)
            if documents:
                return documents, found.form
        empty = "empty"
    return (), empty


def _said_before(unit: Unit, document: Document) -> bool:
    """Whether a text is an earlier model call's own words: it said so, and was given nothing of the kind."""
    text = fold(document.text or "")
    for call in unit.calls:
        if call is unit.call:
            break
        if text in fold(call.answer_text or ""):
            given = call.input_messages or ()
            return not any(
                text in fold(said) for m in given for said in (m.text, *(text_of(r.content) or "" for r in m.results))
            )
    return False


def _whole_from_prompt(
    unit: Unit, found: Sequence[tuple[Document, ReadFrom, str]], options: ReconstructOptions
) -> list[tuple[Document, ReadFrom, str]]:
    """All passages as the prompt lists them, where a span reports only the first few of them or their beginnings."""
    documents, _ = _from_prompt(unit, options)
    if len(documents) < len(found) or unit.call is None or unit.call.truncated:
        return []
    texts = [fold(d.text or "") for d in documents]
    known: dict[int, Document] = {}
    for d, *_ in found:
        start = fold(d.text or "").rstrip(".…")
        place = next((i for i, text in enumerate(texts) if text.startswith(start)), None)
        if place is None:
            return []
        known[place] = d
    ref = unit.call.span.ref
    return [(_merged(d, known.get(i)), "prompt", ref) for i, d in enumerate(documents)]


def _merged(d: Document, other: Document | None) -> Document:
    if other is None:
        return d
    return d._replace(
        id=d.id or other.id, score=other.score, title=d.title or other.title, source=d.source or other.source,
        author=d.author or other.author, date=d.date or other.date,
        document_type=d.document_type or other.document_type,
    )  # fmt: skip


def _joined(d: Document, index: int, ids: Sequence[tuple[Document, ReadFrom, str]], total: int) -> Document:
    """A passage of the prompt with the id and score that a retriever span has for it: by id, else by place."""
    if not ids:
        return d
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
