"""Sessions: a unit of work (a turn, or a part of one) with its question, answer and history read out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from otel_drift.normalise import Step
from otel_drift.normalise.lazy import lazy
from otel_drift.normalise.messages import read_messages
from otel_drift.normalise.names import ANSWER_KEYS, CONTEXT_KEYS, HISTORY_KEYS, QUESTION_KEYS, leaves
from otel_drift.normalise.step import ChatMessage, final_answer, last_asked
from otel_drift.normalise.values import fold, load
from otel_drift.sessions.tree import OBSERVATIONS, Node, instructions
from otel_drift.sessions.user_text import dspy_fields, from_template, transcript, user_text, works_on

_NOT_ANSWER = frozenset({"reasoning", "rationale", "thought", "thoughts", "completed", "explanation"})
Pair = tuple[str, str]
"""A question and its answer, white space folded."""


class Unit:
    """Nodes of one trace that belong together; other traces' nodes may be added as further evidence."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)
        self.extra: list[Node] = []
        self.start = min(n.step.span.start for n in nodes)
        self.end = max(n.step.span.end for n in nodes)
        self.traces: list[str] = [nodes[0].step.span.trace_id]
        self.chosen: str | None = None
        self.told = False
        """Whether a wrapper's own output says which answer was given."""
        self.evidence: Any = None

    @lazy
    def root(self) -> Step:
        """The outermost step that arrived."""
        return next((n.step for n in self.nodes if n.step.readers), self.nodes[0].step)

    @lazy
    def calls(self) -> list[Step]:
        """Model calls in order of time."""
        return [
            n.step
            for n in sorted((n for n in self.nodes if n.call), key=lambda n: (n.step.span.start, n.step.span.end))
        ]

    @lazy
    def finals(self) -> list[Step]:
        """Model calls that answered with text."""
        return [call for call in self.calls if call.answer_text]

    @lazy
    def path(self) -> list[Step]:
        """Wrappers around the last model call, outermost first; without calls, the chains in order."""
        target = next((n for n in reversed(self.nodes) if n.call), None)
        if target is None:
            return [n.step for n in self.nodes if n.step.kind in ("chain", "agent")][:6]
        inside = {id(n) for n in self.nodes}
        path = []
        current = target.parent
        while current is not None and id(current) in inside:
            if current.step.kind in ("chain", "agent"):
                path.append(current.step)
            current = current.parent
        path.reverse()
        return path[:6]

    @lazy
    def answer_pair(self) -> tuple[str | None, Step | None]:
        """The answer's text and the model call that gave it."""
        for wrapper in self.path:
            plain, said = _said(wrapper.output)
            if not said:
                continue
            if not self.calls and not plain and (named := _named_answer(wrapper.output)) is not None:
                return named, None
            found = _matching(said, self.finals)
            if found is not None:
                self.told = True
                return found
            if plain and not self.finals:
                return said[0], self.calls[-1] if self.calls else None
            if plain and self.finals and _alike(said[0], self.finals[-1].answer_text or ""):
                return said[0], self.finals[-1]
        if not self.finals:
            return None, None
        call = self._likely_answer()
        if self.chosen is not None:
            call = next((c for c in reversed(self.finals) if self.chosen in _variants(c.answer_text or "")), call)
        text = call.answer_text or ""
        return unwrapped(text), call

    def _likely_answer(self) -> Step:
        """The last call that was given what was retrieved; calls after it (titles, checks, summaries) were not."""
        finals = self.finals
        if len(finals) > 1:
            known = {fold(call.answer_text or "") for call in finals}
            finals = [call for call in finals if worked_on(call.input_messages or ()) not in known] or finals
            finals = [c for i, c in enumerate(finals) if not any(_checks(c, one) for one in finals[:i])]
        last = finals[-1]
        if len(finals) == 1:
            return last
        texts = [
            d.text
            for n in self.nodes
            if n.step.kind in ("retriever", "reranker")
            for d in (n.step.documents or ())[:8]
            if d.text
        ]
        tools = any(n.step.kind == "tool" for n in self.nodes)
        if texts or tools:
            for call in reversed(finals):
                given = (call.input_messages or ())[max(call.last_index, 0) :]
                system = [m for m in call.input_messages or () if m.role == "system"]
                if any(m.results for m in given) or any(t in m.text for t in texts for m in (*system, *given)):
                    return call
        return last

    @lazy
    def works_on(self) -> str | None:
        """The answer that its model call was only given to work on (a title, suggestions, a check), folded."""
        return worked_on(self.given)

    @property
    def answer(self) -> str | None:
        """The answer's text."""
        return self.answer_pair[0]

    @lazy
    def call(self) -> Step | None:
        """The model call that answered, or the last one that was tried."""
        return self.answer_pair[1] or (self.calls[-1] if self.calls else None)

    @lazy
    def given(self) -> tuple[ChatMessage, ...]:
        """Messages of the answering call."""
        messages = self.call.input_messages if self.call else None
        if not messages:
            messages = next((w.input_messages for w in self.path if w.input_messages), None)
        return messages or ()

    @lazy
    def last_index(self) -> int:
        """Index of the last user message in `given`, -1 for none."""
        return last_asked(self.given)

    @lazy
    def last_message(self) -> str | None:
        """The last user message the model was given, template and all."""
        return self.given[self.last_index].text if self.last_index >= 0 else None

    @lazy
    def user(self) -> str | None:
        """The user's own text."""
        root = None
        for wrapper in self.path:
            value = wrapper.input
            if value not in (None, "", [], {}):
                if isinstance(value, str) and value.strip() and not value.startswith(("{", "[{")):
                    root = None if self._only_repeats(wrapper, value) else value
                break
        return user_text(self.last_message, self._candidates(), root)

    def _only_repeats(self, wrapper: Step, text: str) -> bool:
        """Whether a wrapper's input is the model's message again: an SDK's outer span knows nothing of its own."""
        return bool(wrapper.input_messages) and fold(text) == fold(self.last_message or "")

    def _candidates(self) -> Iterator[tuple[str, bool]]:
        for wrapper in self.path:
            if isinstance(wrapper.input, str) and self._only_repeats(wrapper, wrapper.input):
                continue
            for text in leaves(wrapper.input, QUESTION_KEYS, CONTEXT_KEYS | HISTORY_KEYS)[:12]:
                yield text, True
        for node in self.nodes:
            variables = node.step.variables
            if variables:
                for text in leaves(variables, QUESTION_KEYS, CONTEXT_KEYS | HISTORY_KEYS)[:8]:
                    yield text, True
        for node in self.nodes:
            if node.step.kind in ("retriever", "embedding", "reranker") and node.step.query:
                yield node.step.query, False
        for call in self.calls:
            if call is not self.call:
                asked = call.last_user
                if asked and asked != self.last_message:
                    yield asked, True

    @lazy
    def history(self) -> list[Pair]:
        """Earlier questions and answers that were resent, oldest first."""
        pairs = _pairs(self.given[: max(self.last_index, 0)])
        if pairs:
            return pairs
        for wrapper in self.path:
            for value in _histories(wrapper.input):
                pairs = _history_pairs(value)
                if pairs:
                    return pairs
        system = next((m.text for m in self.given if m.role == "system"), None)
        for text in [self.last_message, system, *(c.last_user for c in self.calls if c is not self.call)]:
            pairs = _transcribed(text) if text and "\n" in text else []
            if pairs:
                return pairs
        return []

    @property
    def ending(self) -> list[Pair]:
        """All pairs its model call was given, the last one included that it only works on."""
        return _pairs(self.given)

    @property
    def failed(self) -> bool:
        """Whether it ended in an error and without an answer."""
        return self.answer is None and any(n.step.failed for n in self.nodes)

    @property
    def answered(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None

    @lazy
    def queries(self) -> list[str]:
        """What was searched for or embedded, and arguments of tools, folded."""
        found = []
        for node in self.nodes:
            step = node.step
            if step.query:
                found.append(fold(step.query))
            elif step.kind == "tool" and step.tool is not None:
                found.extend(fold(text) for text in leaves(step.tool.arguments, QUESTION_KEYS, frozenset())[:5])
        return found

    @lazy
    def wrapped(self) -> bool:
        """Whether a wrapper with content holds the unit together."""
        return any(w.input not in (None, "", [], {}) or w.output not in (None, "", [], {}) for w in self.path)

    @lazy
    def has_sources(self) -> bool:
        """Whether anything was retrieved in it."""
        return any(n.step.kind in ("retriever", "reranker", "tool") for n in self.nodes)

    def absorb(self, other: Unit) -> None:
        """Take another unit's nodes as further evidence of this turn."""
        self.evidence = None
        self.extra.extend(other.nodes)
        self.extra.extend(other.extra)
        for trace in other.traces:
            if trace not in self.traces:
                self.traces.append(trace)
        self.start = min(self.start, other.start)
        self.end = max(self.end, other.end)

    def choose(self, said: str) -> None:
        """Make the call that said `said` the answering one."""
        self.chosen = said
        self.evidence = None
        for name in _DERIVED:
            self.__dict__.pop(name, None)

    @lazy
    def pairs_after(self) -> frozenset[Pair]:
        """What a later turn's last history pair may be: this question and answer, raw or as sent."""
        users = {fold(t) for t in (self.user, self.last_message) if t}
        answers = {fold(t) for t in (self.answer, *(c.answer_text for c in self.finals)) if t}
        users.update(first_line(t) for t in (self.user,) if t and "\n" in t)
        answers.update(first_line(t) for t in (self.answer,) if t and "\n" in t)
        return frozenset((u, a) for u in users or {""} for a in answers)


_DERIVED = ("answer_pair", "call", "given", "works_on", "last_index", "last_message", "user", "history", "pairs_after")


def _checks(call: Step, answering: Step) -> bool:
    """Whether a call was given another's question and answer as one text and said something else than the answer."""
    asked, said = answering.last_user or "", answering.answer_text or ""
    if not works_on(call.last_user or "", from_template(asked) or asked, said):
        return False
    return instructions(call) != instructions(answering) and not _alike(call.answer_text or "", said)


def worked_on(messages: Sequence[ChatMessage]) -> str | None:
    """The answer that ends what a model was given, folded; None where the user or a tool has the last word."""
    for message in reversed(messages):
        if message.role != "system":
            spoken = message.role == "assistant" and not message.uses and message.text.strip()
            return fold(message.text) if spoken else None
    return None


def _pairs(messages: Sequence[ChatMessage]) -> list[Pair]:
    pairs: list[Pair] = []
    asked, said = "", ""
    for message in messages:
        text = message.text
        if message.role == "user" and text.strip() and not text.lstrip().lower().startswith(OBSERVATIONS):
            if said:
                pairs.append((asked, said))
            if "[[ ## " in text:
                text = from_template(text) or text
            asked, said = fold(text), ""  # of several in a row (context, then question) the last one asks
        elif message.role == "assistant" and text.strip():
            said = fold(unwrapped(text) if "[[ ## " in text else text)
        elif message.uses and (final := final_answer(message.uses)):
            said = fold(final)
    if said:
        pairs.append((asked, said))
    return pairs


def first_line(text: str) -> str:
    """What of a text is compared with a conversation that was written into a prompt: where it ends there is unclear."""
    return fold(text.strip().partition("\n")[0])


def _transcribed(text: str, names: bool = False) -> list[Pair]:
    """The pairs of a conversation written as text, each text's first line."""
    said = transcript(text, names)
    return _pairs([ChatMessage(role, first_line(body)) for role, body in said])


def _histories(value: Any, depth: int = 0) -> Iterator[Any]:
    """What stands under the names that a history usually has, in a wrapper's (nested) input."""
    if not isinstance(value, dict) or depth > 3:
        return
    for key, inner in value.items():
        if inner and isinstance(key, str) and key.lower() in HISTORY_KEYS:
            if isinstance(inner, dict) and isinstance(inner.get("messages"), list):
                inner = inner["messages"]
            yield inner
        elif isinstance(inner, dict):
            yield from _histories(inner, depth + 1)


def _history_pairs(value: Any) -> list[Pair]:
    """The pairs of a history: messages, mappings or pairs of a question and an answer, or text."""
    if isinstance(value, str):
        return _transcribed(value, names=True) if "\n" in value else []
    if not isinstance(value, list):
        return []
    pairs = _pairs(read_messages(value, "user"))
    if pairs:
        return pairs[:-1] if pairs[-1][1] == "" else pairs
    for item in value:
        if isinstance(item, dict) and "role" not in item and "type" not in item:
            item = list(item.values())
        if not isinstance(item, list | tuple) or len(item) < 2:
            return []
        if not isinstance(item[0], str) or not isinstance(item[-1], str):
            return []
        pairs.append((fold(item[0]), fold(item[-1])))
    return pairs


def _said(value: Any) -> tuple[bool, list[str]]:
    """Texts in a wrapper's output, and whether it was plain text."""
    if isinstance(value, str):
        if _REPR.match(value):
            written = _written(value)
            return len(written) == 1, written
        return True, [value] if value.strip() else []
    if isinstance(value, dict | list):
        if isinstance(value, dict) and isinstance(value.get("messages"), list):
            messages = read_messages(value["messages"], "assistant")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            messages = read_messages(value, "assistant")
        else:
            messages = (
                read_messages(value, "assistant")
                if isinstance(value, dict)
                and ("choices" in value or "generations" in value or "role" in value or "lc" in value)
                else ()
            )
        spoken = [m.text for m in messages if m.role == "assistant" and m.text.strip() and not m.uses]
        if spoken:
            return False, [spoken[-1]]
        return False, leaves(value, ANSWER_KEYS, HISTORY_KEYS | CONTEXT_KEYS)[:12]
    return False, []


def _matching(said: Sequence[str], finals: Sequence[Step]) -> tuple[str, Step] | None:
    for call in reversed(finals):
        text = call.answer_text or ""
        whole = fold(text)
        for candidate in said:
            if fold(candidate) == whole:
                return text, call
    for call in reversed(finals):
        variants = _variants(call.answer_text or "")
        for candidate in said:
            short = fold(candidate)
            if short in variants:
                return candidate, call
            if len(said) == 1 and len(short) >= 8:
                whole = fold(call.answer_text or "")
                if short in whole and 2 * len(short) >= len(whole):
                    return candidate, call
                if whole and whole in short:
                    added = short.startswith(whole) or short.endswith(whole)  # sources or a notice beside the answer
                    return (candidate if added else unwrapped(call.answer_text or "")), call
    return None


_REPR = re.compile(r"\s*[A-Z]\w*\(\w+=")
_REPR_TEXT = re.compile(r"\b_?(?:text|content|response|raw)=(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")


def _written(text: str) -> list[str]:
    """The texts in a Python repr of message objects, such as LlamaIndex's and Haystack's."""
    found: list[str] = []
    for match in _REPR_TEXT.finditer(text[:200_000]):
        try:
            value = ast.literal_eval(match["text"])
        except (SyntaxError, ValueError):
            continue
        if isinstance(value, str) and value.strip() and value not in found:
            found.append(value)
    return found[:12]


def _named_answer(value: Any) -> str | None:
    """The answer in a wrapper's structured output, by the names it usually has."""
    if not isinstance(value, dict):
        return None
    for key in ("answer", "final_answer", "response", "reply", "answer_text", "output_text", "raw"):
        text = value.get(key)
        if isinstance(text, str) and text.strip():
            return text
    return None


_THINKING = re.compile(r"\s*<(think(?:ing)?)>.*?</\1>\s*", re.DOTALL | re.IGNORECASE)


def _spoken(text: str) -> str:
    """`text` without the thinking that some models write in front of the answer."""
    match = _THINKING.match(text)
    return text[match.end() :] if match and match.end() < len(text) else text


def _variants(text: str) -> set[str]:
    """The texts that `text` may stand for: itself, what follows its thinking, its JSON's or template's fields."""
    found = {fold(text), fold(_spoken(text))}
    for _, body in dspy_fields(text):
        found.add(fold(body))
    if text.lstrip()[:1] == "{" or "```" in text:
        value = _json_in(text)
        if value is not None:
            found.update(fold(leaf) for leaf in leaves(value, ANSWER_KEYS, frozenset()))
    found.discard("")
    return found


def _json_in(text: str) -> Any:
    body = text.strip()
    if body.startswith("```"):
        body = body.strip("`").strip()
        body = body[body.find("{") :] if "{" in body else body
        body = body[: body.rfind("}") + 1]
    value, _ = load(body)
    return value if isinstance(value, dict) else None


def unwrapped(text: str) -> str:
    """The answer behind thinking, inside DSPy's fields or a JSON object with an answer field; else `text`."""
    text = _spoken(text)
    fields = [(n, b) for n, b in dspy_fields(text) if n not in _NOT_ANSWER and b]
    if fields:
        return fields[-1][1]
    if text.lstrip()[:1] == "{" or text.lstrip().startswith("```json"):
        value = _json_in(text)
        if value is not None:
            for key in (
                "answer",
                "final_answer",
                "response",
                "reply",
                "answer_text",
                "output",
                "message",
                "text",
                "content",
            ):
                inner = value.get(key)
                if isinstance(inner, str) and inner.strip():
                    return inner
    return text


def _alike(one: str, other: str) -> bool:
    first, second = set(one.lower().split()), set(other.lower().split())
    return bool(first) and len(first & second) >= 0.4 * min(len(first), len(second)) and len(first) > 2
