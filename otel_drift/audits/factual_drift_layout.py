"""How a session is laid out for the judge: one JSON line a turn, every text escaped, nothing sent twice.

JSON strings cannot be left from inside, so no text of a trace can pass for another turn, another field or an
instruction of ours; the delimiters around the lines are `prompting`'s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from otel_drift.model import Passage, Turn

NOT_GROUNDABLE_STATES = frozenset({"not_captured", "ids_only", "partial"})

_RETRIEVAL_IN_WORDS = {
    "captured": "the passages below",
    "none": "a retriever ran and returned nothing",
    "no_retrieval": "no retriever ran",
    "not_captured": "passages not recorded: claims are NOT_GROUNDABLE",
    "ids_only": "only ids of passages recorded: claims are NOT_GROUNDABLE",
    "partial": "passages recorded in part: claims are NOT_GROUNDABLE",
}
_LONGEST_TOOL_RESULT = 2_000
_LONGEST_USER_TEXT = 500


def turn_lines(turns: Iterable[Turn]) -> list[str]:
    """One JSON object a turn; a passage that was sent for an earlier turn is only referred to."""
    sent: dict[str, str] = {}
    return [_line(_turn(turn, sent)) for turn in turns]


def claim_lines(turns: Sequence[Turn], claims: Sequence[dict[str, Any]]) -> list[str]:
    """One JSON object a turn that has claims: what the user said (shortened where long) and the claims."""
    lines = []
    for turn in turns:
        own = [claim for claim in claims if claim["turn"] == turn.ref]
        if own:
            stripped = [{key: value for key, value in claim.items() if key != "turn"} for claim in own]
            lines.append(_line({"turn": turn.ref, "user": _cut(turn.user, _LONGEST_USER_TEXT), "claims": stripped}))
    return lines


def groups(turns: Sequence[Turn], fits: Callable[[Sequence[Turn]], bool]) -> list[tuple[Turn, ...]]:
    """Cut `turns` into runs that fit, as few as going greedily gives. A single turn that does not fit is its own."""
    found: list[tuple[Turn, ...]] = []
    current: tuple[Turn, ...] = ()
    for turn in turns:
        if current and not fits((*current, turn)):
            found.append(current)
            current = ()
        current = (*current, turn)
    return [*found, current] if current else found


def _turn(turn: Turn, sent: dict[str, str]) -> dict[str, Any]:
    laid_out: dict[str, Any] = {"turn": turn.ref, "user": turn.user, "retrieval": _RETRIEVAL_IN_WORDS[turn.retrieval]}
    if turn.retrieval == "captured":
        laid_out["passages"] = [
            _passage(turn.passage_ref(index), passage, sent) for index, passage in enumerate(turn.passages)
        ]
    tools = [
        {"name": call.name, "result": _cut(call.result, _LONGEST_TOOL_RESULT)}
        for call in turn.tool_calls
        if not call.is_retrieval and call.result
    ]
    if tools:
        laid_out["other_tools"] = tools
    laid_out["answer"] = turn.answer if turn.answered else None
    return laid_out


def _passage(ref: str, passage: Passage, sent: dict[str, str]) -> dict[str, Any]:
    about = {"title": passage.title, "source": passage.source, "date": passage.date}
    laid_out: dict[str, Any] = {"ref": ref, **{key: value for key, value in about.items() if value}}
    if passage.text is None:
        return {**laid_out, "text": None}
    if passage.text in sent:
        return {**laid_out, "same_text_as": sent[passage.text]}
    sent[passage.text] = ref
    return {**laid_out, "text": passage.text}


def _cut(text: str | None, longest: int) -> str | None:
    if text is None or len(text) <= longest:
        return text
    return f"{text[:longest]} […]"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
