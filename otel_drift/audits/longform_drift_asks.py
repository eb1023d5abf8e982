"""What is asked in ``longform_drift``: an answer's source and sentences laid out, cut so that a judge can take them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from otel_drift import prompting, text
from otel_drift.errors import UnitError
from otel_drift.longform.chunking import LEAST_TOKENS, MOST_TOKENS, chunks
from otel_drift.longform.layout import Layout, count_words, read_layout
from otel_drift.model import Passage, Session, Turn
from otel_drift.protocols import AuditSettings, Forecast

SENTENCES_PROMPT = "longform_drift/sentences"
SECOND_PROMPT = "longform_drift/second"
INPUTS = frozenset({"source", "question", "sentences"})

LEAST_WORDS = 200

_FRAME_TOKENS = 150
_REPAIR_TOKENS = 800
_ANSWER_BASE_TOKENS = 200
_VERDICT_TOKENS = 60
_EMBEDDED_TOKENS = 20_000
"""The embedded judge has no window, but one answer may not list more than 5,000 sentences."""
_SMALLER = (MOST_TOKENS, 3_000, LEAST_TOKENS, 1_000, 500, 250)


def long_turn(session: Session) -> Turn:
    """The turn a unit is about: the pipeline gives sessions of one turn; of several the first that is eligible."""
    for turn in session.turns:
        if turn.answered and is_long(turn) and source_of(turn):
            return turn
    return session.turns[0]


def is_long(turn: Turn) -> bool:
    """Whether an answer has 200 words and more, and a sentence among them: headings and code alone are none."""
    answer = turn.answer or ""
    return count_words(answer) >= LEAST_WORDS and bool(read_layout(answer).sentences)


def source_of(turn: Turn) -> list[Passage]:
    """The passages with a text, each text once."""
    if turn.retrieval != "captured":
        return []
    once = {text.fold(passage.text): passage for passage in reversed(turn.passages) if passage.text}
    return [passage for passage in turn.passages if passage.text and once.get(text.fold(passage.text)) is passage]


def inputs_of(part: range, layout: Layout, turn: Turn) -> dict[str, str]:
    """The three blocks of data of an ask about the sentences of `part`."""
    return {
        "source": "\n".join(_source_lines(turn)),
        "question": _line({"question": turn.user}),
        "sentences": "\n".join(_sentence_lines(part, layout)),
    }


def parts_of(layout: Layout, turn: Turn, settings: AuditSettings) -> list[range]:
    """The chunks of an answer: one where it fits, else of 2,000 to 4,000 tokens, smaller where the judge takes less.

    Raises:
        UnitError: not even a small chunk fits beside the source, or one sentence alone is too large.
    """
    count = _counter(settings)
    tokens = [count(sentence.text) for sentence in layout.sentences]
    parts: list[range] = []
    for most in _SMALLER:
        parts = chunks(tokens, _EMBEDDED_TOKENS if settings.embedded_judge else most)
        if all(_fits(part, layout, turn, settings) for part in parts):
            return parts
    if max(tokens) <= _SMALLER[-1] and _answers_fit(tokens, settings):
        raise UnitError(
            f"longform_drift: the source of turn {turn.number} is larger than the judge reads beside a part of the "
            f"answer ({settings.limits.input_tokens} tokens)",
            reason="source_exceeds_window",
        )
    raise UnitError(
        f"longform_drift: a sentence of turn {turn.number} is larger than the judge can read or answer",
        reason="turn_exceeds_window",
    )


def estimate(prompt_id: str, part: range, layout: Layout, turn: Turn, settings: AuditSettings) -> Forecast:
    """Tokens of an ask: in the answer each sentence takes an excerpt of about its own length, and the frame of JSON."""
    count = _counter(settings)
    prompt = prompting.chosen(prompt_id, settings)
    data = sum(count(value) for value in inputs_of(part, layout, turn).values())
    said = sum(count(layout.sentences[index].text) for index in part)
    return Forecast(count(prompt.text) + _FRAME_TOKENS + data, _output(said, len(part)))


def _source_lines(turn: Turn) -> list[str]:
    lines = []
    for number, passage in enumerate(source_of(turn), 1):
        about = {"title": passage.title, "date": passage.date}
        told = {key: value for key, value in about.items() if value}
        lines.append(_line({"passage": f"p{number}", **told, "text": passage.text}))
    return lines


def _sentence_lines(part: range, layout: Layout) -> list[str]:
    titles = {
        max(section.first, part.start): section.title for section in layout.sections if section.last >= part.start
    }
    lines = []
    for index in part:
        if titles.get(index):
            lines.append(_line({"heading": titles[index]}))
        lines.append(_line({"index": index, "text": layout.sentences[index].text}))
    return lines


def _answers_fit(tokens: Sequence[int], settings: AuditSettings) -> bool:
    """Whether the judge may write as much as the verdicts on the smallest chunks take."""
    limit = settings.limits.output_tokens
    return limit is None or all(
        _output(sum(tokens[index] for index in part), len(part)) <= limit for part in chunks(tokens, _SMALLER[-1])
    )


def _fits(part: range, layout: Layout, turn: Turn, settings: AuditSettings) -> bool:
    """Whether the ask, its answer and a repair ask fit."""
    limits = settings.limits
    ask = estimate(SENTENCES_PROMPT, part, layout, turn, settings)
    if limits.output_tokens is not None and ask.output_tokens > limits.output_tokens:
        return False
    return limits.input_tokens is None or ask.input_tokens + ask.output_tokens + _REPAIR_TOKENS <= limits.input_tokens


def _output(said: int, sentences: int) -> int:
    return _ANSWER_BASE_TOKENS + said + said // 2 + _VERDICT_TOKENS * sentences


def _counter(settings: AuditSettings) -> Callable[[str], int]:
    counter: Callable[[str], int] | None = settings.count_tokens
    return counter or (lambda words: len(words) // 4 + 1)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
