"""Sessions: a unit of work (a turn, or a part of one) with its question, answer and history read out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from otel_drift.normalise import Step
from otel_drift.normalise.lazy import lazy, with_lazies
from otel_drift.normalise.messages import read_messages
from otel_drift.normalise.names import NOT_ASKED, QUESTION_KEYS, leaves
from otel_drift.normalise.step import ChatMessage, last_asked
from otel_drift.normalise.values import fold, structured
from otel_drift.sessions.answers import alike, checks, matching, named_answer, said_by, unwrapped, variants
from otel_drift.sessions.history import Pair, first_line, histories, history_pairs, pairs_of, transcribed, worked_on
from otel_drift.sessions.tree import Node, instructions, texts
from otel_drift.sessions.user_text import from_template, user_text


@with_lazies
class Unit:
    """Nodes of one trace that belong together, all of them below the first; other traces' nodes may be added."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.extra: list[Node] = []
        first = nodes[0].step.span
        self.start, self.end = first.start, first.end
        self.calls: list[Step] = []
        """Model calls in order of time."""
        for node in nodes:
            span = node.step.span
            if span.start < self.start:
                self.start = span.start
            if span.end > self.end:
                self.end = span.end
            if node.call:
                self.calls.append(node.step)
        if len(self.calls) > 1:
            self.calls.sort(key=_time)
        self.traces: list[str] = [first.trace_id]
        self.chosen: str | None = None
        self.told = False
        """Whether a wrapper's own output says which answer was given."""
        self.evidence: Any = None
        self.question_lost = False
        """Whether it is known that its last user message is another turn's: its own was cut off."""

    @lazy
    def root(self) -> Step:
        """The outermost step that arrived."""
        first = self.nodes[0].step
        return first if first.readers else next((n.step for n in self.nodes if n.step.readers), first)

    @lazy
    def finals(self) -> list[Step]:
        """Model calls that answered with text."""
        return [call for call in self.calls if call.answer_text]

    @lazy
    def path(self) -> list[Step]:
        """Wrappers around the last model call, outermost first; without calls, the chains in order."""
        if not self.calls:
            return [n.step for n in self.nodes if n.step.kind in {"chain", "agent"}][:6]
        path: list[Step] = []
        current: Node | None = next(n for n in reversed(self.nodes) if n.call)
        while current is not None and current is not self.nodes[0]:
            current = current.parent
            if current is not None and current.step.kind in {"chain", "agent"}:
                path.append(current.step)
        path.reverse()
        return path[:6]

    @lazy
    def answer_pair(self) -> tuple[str | None, Step | None]:
        """The answer's text and the model call that gave it."""
        told: str | None = None
        for wrapper in self.path:
            plain, said = said_by(wrapper.output)
            if not said:
                continue
            if not self.calls and not plain and (named := named_answer(wrapper.output)) is not None:
                return named, None
            found = matching(said, self.finals)
            if found is not None:
                self.told = True
                return found
            if plain and not self.finals:
                return said[0], self.calls[-1] if self.calls else None
            if plain and self.finals and alike(said[0], self.finals[-1].answer_text or ""):
                return said[0], self.finals[-1]
            told = told or (said[0] if plain else named_answer(wrapper.output))
        if not self.finals:
            return None, None
        if told and all(fold(c.answer_text or "") in self.queries for c in self.finals):
            self.told = True
            return told, None  # the calls only said what to search for
        call = self._likely_answer()
        if self.chosen is not None:
            call = next((c for c in reversed(self.finals) if self.chosen in variants(c.answer_text or "")), call)
        text = call.answer_text or ""
        return unwrapped(text), call

    def _likely_answer(self) -> Step:
        """The last call that was given what was retrieved; calls after it (titles, checks, summaries) were not."""
        finals = self.finals
        if len(finals) > 1:
            known = {fold(call.answer_text or "") for call in finals}
            finals = [call for call in finals if worked_on(call.input_messages or ()) not in known] or finals
            finals = [c for i, c in enumerate(finals) if not any(checks(c, one) for one in finals[:i])]
        last = finals[-1]
        if len(finals) == 1:
            return last
        texts = self.retrieved_texts()
        tools = any(n.step.kind == "tool" for n in self.nodes)
        if texts or tools:
            for call in reversed(finals):
                given = (call.input_messages or ())[max(call.last_index, 0) :]
                system = [m for m in call.input_messages or () if m.role == "system"]
                if any(m.results for m in given) or any(t in m.text for t in texts for m in (*system, *given)):
                    return call
        return max(reversed(finals), key=_length)  # a guard or a router is not given the conversation

    @lazy
    def works_on(self) -> str | None:
        """The answer that its model call was only given to work on (a title, suggestions, a check), folded."""
        return None if self.cut else worked_on(self.given)

    @lazy
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
        messages = (self.call.input_messages if self.call else None) or ()
        if not messages:
            for wrapper in self.path:  # of wrappers that were asked the same, the one that was given the conversation
                given = wrapper.input_messages or ()
                if not messages or (len(given) > len(messages) and _asked(given) == _asked(messages)):
                    messages = given
        return messages

    @lazy
    def last_index(self) -> int:
        """Index of the last user message in `given`, -1 for none."""
        if self.question_lost or (self.cut and worked_on(self.given) is not None):
            return -1  # what was answered before, the list of messages was cut behind it
        return last_asked(self.given)

    @property
    def question_cut(self) -> bool:
        """Whether what the user says last was cut off, and with it what tools returned since."""
        return self.last_index < 0 and self.cut

    @property
    def cut(self) -> bool:
        """Whether the messages of its answering call are without their end."""
        return self.call is not None and self.call.input_cut

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
            if texts(value) and not (self.question_cut and wrapper.input_cut):
                if isinstance(value, str) and value.strip() and not value.startswith(("{", "[{")):
                    root = None if self._only_repeats(wrapper, value) else value
                break
        found = user_text(self.last_message, self._candidates(), root)
        return self._before_rewriting(found) if root is None and found and len(self.calls) > 1 else found

    def _before_rewriting(self, text: str) -> str:
        """The user's text where `text` is what an earlier call of the unit made of it (a question made standalone).

        So too where the answering call was not given the question itself, but an earlier call was.
        """
        short = fold(text)
        called = self._called
        part = fold(called)
        absent = bool(part) and part not in fold(self.last_message or "")
        for call in self.calls:
            if call is self.call:
                break
            if call.last_user:
                rewritten = fold(call.answer_text or "") == short
                if (rewritten or absent) and part and part in fold(call.last_user):
                    return called
                if rewritten:
                    return from_template(call.last_user) or (call.last_user if instructions(call) else text)
        return text

    @property
    def _called(self) -> str:
        """What the outermost wrapper was called with, empty where it does not say."""
        outermost = self.path[0].input if self.path else None
        if isinstance(outermost, dict) and isinstance(outermost.get("messages"), list):
            asked = _asked(read_messages(outermost["messages"]))
            outermost = structured(asked) if asked[:1] == "{" else asked  # a chain's inputs, written as one message
            if isinstance(outermost, str):
                return outermost
        return next(iter(leaves(outermost, QUESTION_KEYS, NOT_ASKED)), "")

    def _only_repeats(self, wrapper: Step, text: str) -> bool:
        """Whether a wrapper's input is the model's message again: an SDK's outer span knows nothing of its own."""
        return bool(wrapper.input_messages) and fold(text) == fold(self.last_message or "")

    def _candidates(self) -> Iterator[tuple[str, bool]]:
        if self.path and isinstance(self.path[0].input, dict) and (called := self._called):
            yield called, True
        for wrapper in self.path:
            if isinstance(wrapper.input, str) and self._only_repeats(wrapper, wrapper.input):
                continue
            if self.question_cut and wrapper.input_cut:
                continue
            for text in leaves(wrapper.input, QUESTION_KEYS, NOT_ASKED)[:12]:
                yield text, True
        for variables in self.variables:
            for text in leaves(variables, QUESTION_KEYS, NOT_ASKED)[:8]:
                yield text, True
        for node in self.nodes:
            if node.step.kind in {"retriever", "embedding", "reranker"} and node.step.query:
                yield node.step.query, False
        for call in self.calls:
            if call is not self.call and not call.input_cut:
                asked = call.last_user
                if asked and asked != self.last_message:
                    yield asked, True

    @lazy
    def variables(self) -> list[Any]:
        """The variables of its prompt templates."""
        return [n.step.variables for n in self.nodes if n.step.shape.ways["variables"] and n.step.variables]

    @lazy
    def history(self) -> list[Pair]:
        """Earlier questions and answers that were resent, oldest first."""
        earlier = self.given if self.question_cut else self.given[: max(self.last_index, 0)]
        pairs = pairs_of(earlier)
        if pairs:
            return pairs
        for wrapper in self.path:
            for value in histories(wrapper.input):
                pairs = history_pairs(value)
                if pairs:  # what a memory holds may have been written down after the turn was added to it
                    own = fold(self.user or ""), fold(self.answer or "")
                    return pairs[:-1] if pairs[-1] == own else pairs
        system = next((m.text for m in self.given if m.role == "system"), None)
        for text in [self.last_message, system, *(c.last_user for c in self.calls if c is not self.call)]:
            pairs = transcribed(text) if text and "\n" in text else []
            if pairs:
                return pairs
        return []

    @property
    def asked_before(self) -> frozenset[str]:
        """What the user had said since the last answer, in the conversation that its model call was given, folded."""
        earlier = reversed(self.given[: max(self.last_index, 0)])
        since = itertools.takewhile(lambda m: m.role != "assistant" or not m.text.strip(), earlier)
        return frozenset(fold(m.text) for m in since if m.role == "user")

    @lazy
    def resent(self) -> frozenset[str]:
        """The last answers of the conversations that its model calls were given, folded."""
        pairs = [pairs_of((c.input_messages or ())[: max(c.last_index, 0)]) for c in self.calls]
        return frozenset(found[-1][1] for found in pairs if found)

    @property
    def ending(self) -> list[Pair]:
        """All pairs its model call was given, the last one included that it only works on."""
        return pairs_of(self.given)

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
        return bool(self.path) and any(texts(w.input) or texts(w.output) for w in self.path)

    @lazy
    def has_sources(self) -> bool:
        """Whether anything was retrieved in it."""
        return any(n.step.kind in {"retriever", "reranker", "tool"} for n in self.nodes)

    def retrieved_texts(self) -> list[str]:
        """The texts that its retrievers and rerankers found, the first eight of each."""
        return [
            document.text
            for node in self.nodes
            if node.step.kind in {"retriever", "reranker"}
            for document in (node.step.documents or ())[:8]
            if document.text
        ]

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

    def lose_question(self) -> None:
        """Take the last user message for another turn's."""
        self.question_lost = True
        self.evidence = None
        for name in _ASKED:
            self.__dict__.pop(name, None)

    @lazy
    def pairs_after(self) -> frozenset[Pair]:
        """What a later turn's last history pair may be: this question and answer, raw or as sent."""
        users = {fold(t) for t in (self.user, self.last_message) if t}
        answers = {fold(t) for t in (self.answer, *(c.answer_text for c in self.finals)) if t}
        if self.user and "\n" in self.user:
            users.add(first_line(self.user))
        if self.answer and "\n" in self.answer:
            answers.add(first_line(self.answer))
        return frozenset((u, a) for u in users or {""} for a in answers)


_ASKED = ("last_index", "last_message", "user", "history", "pairs_after")
_DERIVED = ("answer_pair", "answer", "call", "given", "works_on", *_ASKED)


def _asked(messages: Sequence[ChatMessage]) -> str:
    index = last_asked(messages)
    return messages[index].text if index >= 0 else ""


def _time(call: Step) -> tuple[int, int]:
    return call.span.start, call.span.end


def _length(call: Step) -> int:
    """How many answers the conversation holds that a call was given."""
    return sum(m.role == "assistant" and not m.uses and bool(m.text.strip()) for m in call.input_messages or ())
