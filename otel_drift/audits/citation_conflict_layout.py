"""How one turn is laid out for the judge of ``citation_conflict``: the short references and the data lines.

One JSON object a line, every text escaped, so that no text can pass for another passage or field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from otel_drift.citation.markers import Marks, find_marks
from otel_drift.citation.origins import origins
from otel_drift.citation.scope import Unmarked, unmarked
from otel_drift.model import Passage, Session, Turn


@dataclass(frozen=True, slots=True)
class CitedTurn:
    """One turn as it is judged.

    `sources` are the passages with text by the reference the judge sees, ``p2`` for the second passage of the turn;
    `origin` is the reference of the first passage that is the same text. `shown` is the answer without its marks.
    """

    session: Session
    turn: Turn
    sources: Mapping[str, Passage]
    origin: Mapping[str, str]
    marks: Marks
    shown: Unmarked

    @property
    def answer(self) -> str:
        """The answer as the trace has it."""
        return self.turn.answer or ""

    def ref_of(self, index: int) -> str | None:
        """The reference of ``turn.passages[index]``, None where its text is unknown."""
        ref = f"p{index + 1}"
        return ref if ref in self.sources else None


def case_of(session: Session, turn: Turn) -> CitedTurn:
    """Read a turn: its passages, the marks of its answer, and the answer without them."""
    sources = {f"p{rank}": passage for rank, passage in enumerate(turn.passages, 1) if passage.text}
    refs = list(sources)
    same = origins([passage.text or "" for passage in sources.values()])
    answer = turn.answer or ""
    marks = find_marks(answer, turn.passages)
    return CitedTurn(
        session=session,
        turn=turn,
        sources=sources,
        origin={ref: refs[first] for ref, first in zip(refs, same, strict=True)},
        marks=marks,
        shown=unmarked(answer, marks),
    )


def case_lines(case: CitedTurn) -> list[str]:
    """The question, the passages and the answer without its marks, one JSON object a line."""
    lines = source_lines(case.turn.user, case.sources)
    return [*lines, _line({"answer": case.shown.text})]


def source_lines(question: str | None, sources: Mapping[str, Passage]) -> list[str]:
    """The question and the passages; a text that was sent before is only referred to."""
    sent: dict[str, str] = {}
    lines = [_line({"question": question})]
    for ref, passage in sources.items():
        about: dict[str, Any] = {
            name: getattr(passage, name) for name in ("title", "source", "author", "date", "document_type")
        }
        laid_out = {"passage": ref, **{name: value for name, value in about.items() if value}}
        text = passage.text or ""
        lines.append(_line({**laid_out, "same_text_as": sent[text]} if text in sent else {**laid_out, "text": text}))
        sent.setdefault(text, ref)
    return lines


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
