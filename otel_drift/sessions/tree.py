"""Sessions: the span tree of one trace, cut into units, each the work on (part of) one turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from otel_drift.model import Span
from otel_drift.normalise import Step
from otel_drift.normalise.names import NOT_ASKED, QUESTION_KEYS, leaves
from otel_drift.normalise.values import fold
from otel_drift.sessions.user_text import works_on

WHOLE = 4
"""How rich (`_richness`) a call is of which both messages and answer were recorded."""


class Node:
    """A step in its trace's tree.

    `first` and `last` delimit its subtree in the trace's pre-order, `calls` says whether there are model calls in it.
    """

    __slots__ = ("call", "calls", "children", "first", "last", "parent", "step")

    first: int
    last: int

    def __init__(self, step: Step) -> None:
        self.step = step
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.call = self.calls = False


def order(span: Span) -> tuple[Any, ...]:
    """The one order of spans: time, outer before inner, then ids, so that arrival order never matters."""
    return span.start, -span.end, span.trace_id, span.span_id


def plant(steps: Sequence[Step]) -> list[Node]:
    """The tree(s) of one trace in pre-order; broken or cyclic parent links make roots.

    The steps come in their `order`, each once.
    """
    nodes = {step.span.span_id: Node(step) for step in steps}
    roots: list[Node] = []
    lost = False
    for node in nodes.values():
        parent_id = node.step.span.parent_id
        parent = nodes.get(parent_id) if parent_id else None
        if parent is None or parent is node:
            roots.append(node)
            node.step.cut_loose = parent is node
            lost = lost or bool(parent_id)
        else:
            node.parent = parent
            parent.children.append(node)
    if lost:
        roots = _with_lost_parents(roots)
    ordered = _walk(roots)
    if len(ordered) < len(nodes):
        roots.extend(_cycle_heads(nodes.values(), ordered))
        ordered = _walk(roots)
    _mark_calls(ordered)
    return ordered


def _walk(roots: list[Node]) -> list[Node]:
    """Pre-order, children in the order of time, which is that in which the steps came."""
    ordered: list[Node] = []
    stack = sorted(roots, key=_node_order, reverse=True) if len(roots) > 1 else list(roots)
    while stack:
        node = stack.pop()
        node.first = len(ordered)
        ordered.append(node)
        if node.children:
            stack.extend(reversed(node.children))
    for node in reversed(ordered):
        node.last = node.children[-1].last if node.children else node.first + 1
    return ordered


def _node_order(node: Node) -> tuple[Any, ...]:
    return order(node.step.span)


def _cycle_heads(nodes: Iterable[Node], reached: Sequence[Node]) -> list[Node]:
    """One node of each cycle of parent links, cut loose to be a root."""
    seen = {id(node) for node in reached}
    heads = []
    for node in sorted((n for n in nodes if id(n) not in seen), key=_node_order):
        if id(node) in seen:
            continue
        assert node.parent is not None
        node.parent.children.remove(node)
        node.parent = None
        node.step.cut_loose = True
        heads.append(node)
        seen.update(id(n) for n in _walk([node]))
    return heads


def _with_lost_parents(roots: list[Node]) -> list[Node]:
    """Spans whose common parent never arrived get it back as an empty node, so that they stay one piece of work."""
    lost: dict[str, list[Node]] = {}
    for root in roots:
        parent = root.step.span.parent_id
        if parent and parent != root.step.span.span_id:
            lost.setdefault(parent, []).append(root)
    kept = list(roots)
    for parent, orphans in lost.items():
        if len(orphans) < 2:
            continue
        first = min(orphans, key=lambda n: order(n.step.span)).step.span
        end = max(n.step.span.end for n in orphans)
        span = Span(first.trace_id, parent, None, "", first.start, end, resource=first.resource)
        node = Node(Step(span))
        for orphan in orphans:
            orphan.parent = node
            node.children.append(orphan)
            kept.remove(orphan)
        kept.append(node)
    return kept


def _mark_calls(ordered: Sequence[Node]) -> None:
    """Mark the model calls; of nested spans of one call (wrapper and client library) only the richest counts."""
    end = 0
    for node in ordered:
        if node.step.kind != "llm" or node.first < end:
            continue
        end = node.last
        nested = [n for n in ordered[node.first + 1 : end] if n.step.kind == "llm"] if node.children else []
        if not nested:
            _mark(node)
        else:
            inner = [n for n in nested if not any(m.step.kind == "llm" for m in ordered[n.first + 1 : n.last])]
            for n in [_richest([node, *nested])] if len(inner) == 1 else inner:
                _mark(n)


def _mark(call: Node) -> None:
    call.call = True
    node: Node | None = call
    while node is not None and not node.calls:
        node.calls = True
        node = node.parent


def _richest(calls: list[Node]) -> Node:
    """The call with the most content; of equal ones the innermost, no provider's raw request where there is another."""
    calls.sort(key=lambda n: (not n.step.shape.raw, n.first), reverse=True)
    whole = next((n for n in calls if _richness(n.step) == WHOLE), None)
    if whole is None:
        return max(calls, key=lambda n: _richness(n.step))
    for other in calls:
        if other.step.may_be_cut():
            _richness(other.step)  # its messages are read only to note what was cut, which concerns the passages too
    return whole


def _richness(step: Step) -> int:
    given, said = step.input_messages, step.output_messages
    return (2 if given and any(m.text for m in given) else 0) + (
        2 if said and any(m.text or m.uses for m in said) else 0
    )


def cut(ordered: list[Node]) -> list[list[Node]]:
    """The trace's nodes in groups: one a turn, or one a part of a turn that stands alone."""
    groups: list[list[Node]] = []
    index = 0
    while index < len(ordered):
        root = ordered[index]
        groups.extend(_split(ordered, root, 0))
        index = root.last
    return groups


def _split(ordered: list[Node], node: Node, level: int) -> list[list[Node]]:
    subtree = ordered[node.first : node.last]
    calls = [n for n in subtree if n.call] if node.calls else []
    if level > 60 or not _several_turns(node, subtree, calls):
        return [subtree]
    groups: list[list[Node]] = [[node]]
    for child in node.children:
        groups.extend(_split(ordered, child, level + 1))
    return groups


def _several_turns(node: Node, subtree: Sequence[Node], calls: Sequence[Node]) -> bool:
    """Whether a wrapper holds more than one turn: by the history its calls resend, else by what its parts say."""
    grows = len(calls) >= 2 and _history_grows(calls)
    while True:
        if node.call or not node.children:
            return False
        if len(calls) >= 2 and _is_one_run(node, calls):
            return False
        if grows:
            return True
        if len(node.children) > 1:
            if len(calls) < 2 and sum(child.step.kind in {"chain", "agent"} for child in node.children) < 2:
                return False
            if has_content(node.step):
                return False
            break
        if has_content(node.step):
            return False
        node = node.children[0]
    if _turn_wrappers(node) >= 2 or (len(calls) >= 2 and _unrelated(calls, subtree)):
        return True
    return node.step.kind in {"other", "chain"} and len(calls) >= 2 and _repeats(node, calls)


def _repeats(node: Node, calls: Sequence[Node]) -> bool:
    """Without any content: whether a span holds the same kind of work several times over and nothing else.

    An agent's steps are no such thing: between two of its model calls there is a tool.
    """
    if any(_richness(call.step) for call in calls):
        return False
    names = {child.step.span.name for child in node.children}
    return len(names) == 1 and all(child.calls and not child.call for child in node.children)


def has_content(step: Step) -> bool:
    """Whether a wrapper says what it was asked and what it answered."""
    return step.kind in {"chain", "agent"} and bool(texts(step.input)) and bool(texts(step.output))


def texts(value: Any) -> bool:
    """Whether a wrapper's input or output holds anything."""
    return bool(value) or value not in (None, "", [], {})


def _is_one_run(node: Node, calls: Sequence[Node]) -> bool:
    """Whether the wrapper's own question is the first call's and its own answer the last call's."""
    step = node.step
    if not has_content(step):
        return False
    asked, said = step.input, step.output
    first, last = calls[0].step.last_user, calls[-1].step.answer_text
    if not first or not last:
        return False
    return (
        _holds(asked, first) and _holds(said, last) and not _holds(asked, calls[-1].step.last_user or first, only=first)
    )


def _holds(value: Any, text: str, only: str | None = None) -> bool:
    if only is not None and fold(only) == fold(text):
        return False
    if isinstance(value, str):
        return bool(fold(value)) and (fold(value) in fold(text) or fold(text) in fold(value))
    if isinstance(value, dict):
        return any(_holds(inner, text) for inner in value.values() if isinstance(inner, str))
    if isinstance(value, list):
        return any(_holds(inner, text) for inner in value[:50] if isinstance(inner, str))
    return False


_OBSERVATIONS = ("observation", "tool result", "function result", "tool response", "result:")


def is_observation(text: str) -> bool:
    """Whether a user message is what a tool returned, as agents send it that write their memory as text."""
    return text.lstrip()[:20].lower().startswith(_OBSERVATIONS)


def _history_grows(calls: Sequence[Node]) -> bool:
    """Whether a later call was given an earlier call's answer as history, and a new user message after it."""
    answers = {fold(text) for call in calls[:-1] if (text := call.step.answer_text)}
    if not answers:
        return False
    for call in calls[1:]:
        messages = call.step.input_messages or ()
        for index, message in enumerate(messages):
            if message.role == "assistant" and message.text and not message.uses and fold(message.text) in answers:
                later = [m for m in messages[index + 1 :] if m.role == "user" and m.text.strip()]
                if later and not is_observation(later[0].text):
                    return True
    return False


def _turn_wrappers(node: Node) -> int:
    """How many different turns the node's children are by themselves, each with its own question and answer."""
    found: list[tuple[str, str]] = []
    for child in node.children:
        step = child.step
        if step.kind in {"chain", "agent"} and has_content(step):
            found.append((_spoken(step.input), _spoken(step.output)))
    different = 0
    for index, (asked, _) in enumerate(found):
        before = found[:index]
        if not any(
            _same(asked, other) or (said and said in asked and not _transcribed(said, asked)) for other, said in before
        ):
            different += 1
    return different


def _transcribed(said: str, asked: str) -> bool:
    return len(asked) > 2 * len(said) + 20


def _spoken(value: Any) -> str:
    return fold(next(iter(leaves(value, QUESTION_KEYS, NOT_ASKED)), ""))


def _same(one: str, other: str) -> bool:
    return not one or not other or one in other or other in one


def _unrelated(calls: Sequence[Node], subtree: Sequence[Node]) -> bool:
    """Whether the calls under a wrapper without content are turns of their own: nothing of one is used by the next."""
    for one, other in itertools.pairwise(calls):
        asked, said, then = one.step.last_user, one.step.answer_text, other.step.last_user
        if not asked or not then or not said:
            return False
        if _same(fold(asked), fold(then)):
            given = fold(" ".join(m.text for m in other.step.input_messages or ()))
            if not (
                fold(said) in given and len(fold(said)) > 20 and fold(asked) in given and fold(asked) != fold(then)
            ):
                return False
            if instructions(one.step) != instructions(other.step) and works_on(then, asked, said):
                return False
            continue
        if fold(said) in fold(then) or _used_as_query(said, subtree):
            return False
    return True


def instructions(step: Step) -> str:
    """How the first system message of a model call begins: it tells one task from another."""
    return next((m.text for m in step.input_messages or () if m.role == "system"), "")[:60]


def _used_as_query(said: str, nodes: Iterable[Node]) -> bool:
    folded = fold(said)
    for node in nodes:
        query = node.step.query
        if query and fold(query) and (fold(query) == folded or (len(query) > 8 and fold(query) in folded)):
            return True
    return False
