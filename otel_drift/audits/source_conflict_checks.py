"""The semantic checks of ``source_conflict``: does a well-formed answer hold against the passages and the answer?

Each check returns sentences that tell the judge exactly what to mend; they never repair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from otel_drift import text
from otel_drift.audits.factual_drift_quotes import (
    LEAST_CLAIM_WORDS,
    LEAST_EVIDENCE_WORDS,
    covering_sentences,
    find_quote,
    is_long_enough,
    is_restatement,
)
from otel_drift.audits.source_conflict_answer import ConflictAnswer, ConflictsAnswer
from otel_drift.audits.source_conflict_sources import Sources
from otel_drift.faults import Fault
from otel_drift.model import Turn

MARKER = re.compile(r"\[(t\d+\.p\d+)\]")

_DISAGREEMENT = re.compile(
    r"\b(?:disagree\w*|differ\w*|conflict\w*|contradict\w*|inconsisten\w*|discrepan\w*|diverg\w*|contrast\w*|vary|varies"
    r"|while|whereas|although|though|however|but|yet|unlike|instead|rather|versus|vs|other|others|another|both|either"
    r"|second|different\w*|unclear|uncertain|not (?:agree|match|clear)|cannot (?:tell|say|both)"
    r"|two (?:\w+ )?(?:positions|answers|figures|sources|versions|rules)|older|newer|outdated|superseded"
    r"|according to|depend\w*|check|confirm\w*)\b",
    re.IGNORECASE,
)
"""Words without which an English text hardly voices a disagreement: deliberately many."""


def check_conflicts(answer: ConflictsAnswer, known: Sources, turn: Turn) -> list[Fault]:
    """What is wrong with the conflicts a judge lists, one sentence each."""
    errors = [
        error.at(f"conflicts[{index}]")
        for index, conflict in enumerate(answer.conflicts)
        for error in _conflict_errors(conflict, known, turn)
    ]
    if answer.conflicts and not answer.conflict_notes.strip():
        errors.append(
            Fault(
                "missing_text",
                "conflict_notes is empty although conflicts are listed; say in one to three sentences what they are.",
            )
        )
    return errors


def check_written(answer: str, conflicts: Sequence[ConflictAnswer], passages: Mapping[str, object]) -> list[Fault]:
    """What is wrong with an answer written from passages: markers that lead nowhere, positions without their source."""
    cited = set(MARKER.findall(answer))
    errors = [
        Fault("reference", f"The answer cites [{ref}], which is no passage you were given.")
        for ref in sorted(cited - set(passages))
    ]
    if not cited & set(passages):
        errors.append(
            Fault("citation", "The answer cites no passage; put a marker such as [t1.p1] after each statement.")
        )
    for conflict in conflicts:
        missing = [ref for ref in (conflict.source_a, conflict.source_b) if ref not in cited]
        if missing:
            errors.append(
                Fault(
                    "disclosure",
                    f"The sources {conflict.source_a} and {conflict.source_b} disagree, but the answer does not "
                    f"attribute the position of {' and '.join(missing)}; name both positions, each with its marker.",
                )
            )
    if conflicts and text.is_english(answer) and not _DISAGREEMENT.search(answer):
        errors.append(Fault("disclosure", "The answer does not say that its sources disagree."))
    return errors


def _conflict_errors(conflict: ConflictAnswer, known: Sources, turn: Turn) -> Iterator[Fault]:
    sides = ((conflict.source_a, conflict.quote_a, "a"), (conflict.source_b, conflict.quote_b, "b"))
    unknown = [ref for ref, _, _ in sides if ref not in known.passages]
    for ref in unknown:
        yield Fault("reference", f"there is no passage {_shown(ref)}; use the references given, such as {turn.ref}.p1.")
    misquoted = [
        error for ref, quote, side in sides if ref not in unknown for error in _quote_errors(ref, quote, side, known)
    ]
    yield from misquoted
    if unknown:
        return
    if conflict.source_a == conflict.source_b:
        yield Fault("pair", f"both sides name {_shown(conflict.source_a)}; a conflict needs two passages.")
    elif known.copy_of[conflict.source_a] == known.copy_of[conflict.source_b]:
        yield Fault(
            "pair",
            f"{conflict.source_a} and {conflict.source_b} are copies of one text: they cannot conflict. Drop it.",
        )
    elif not misquoted and _say_the_same(conflict.quote_a, conflict.quote_b):
        yield Fault(
            "restatement",
            "the two quotes say the same: no conflict. Drop it, or quote the words that cannot both be right.",
        )
    yield from _disclosure_errors(conflict, turn)


def _quote_errors(ref: str, quote: str, side: str, known: Sources) -> Iterator[Fault]:
    source = known.passages[ref].text or ""
    if find_quote(source, quote) is None:
        holder = next((other for other, one in known.passages.items() if find_quote(one.text or "", quote)), None)
        hint = f" (it stands in {holder})" if holder else ""
        yield Fault("quote", f"quote_{side} {_shown(quote)} does not stand verbatim in passage {ref}{hint}.")
    elif not is_long_enough(source, quote, LEAST_EVIDENCE_WORDS):
        yield Fault(
            "quote_length",
            f"quote_{side} {_shown(quote)} is too short: quote at least four content words or a whole sentence.",
        )


def _say_the_same(a: str, b: str) -> bool:
    return text.fold(a).casefold() == text.fold(b).casefold() or (is_restatement(a, b) and is_restatement(b, a))


def _disclosure_errors(conflict: ConflictAnswer, turn: Turn) -> Iterator[Fault]:
    quote = conflict.disclosure_quote
    if not conflict.disclosed:
        if quote is not None:
            yield Fault("disclosure", "disclosure_quote must be null unless disclosed is true.")
        return
    if not turn.answered or turn.answer is None:
        yield Fault("disclosure", "there is no answer, so disclosed must be false.")
    elif quote is None:
        yield Fault(
            "disclosure",
            "disclosed is true, so disclosure_quote must hold the words of the answer that voice the disagreement.",
        )
    elif find_quote(turn.answer, quote) is None:
        yield Fault("quote", f"disclosure_quote {_shown(quote)} does not stand verbatim in the answer.")
    elif not is_long_enough(turn.answer, quote, LEAST_CLAIM_WORDS):
        yield Fault(
            "quote_length",
            f"disclosure_quote {_shown(quote)} is too short: quote at least four content words or a whole sentence.",
        )
    elif text.is_english(turn.answer) and not _DISAGREEMENT.search(
        covering_sentences(turn.answer, quote, neighbours=1)
    ):
        yield Fault(
            "disclosure",
            f"disclosure_quote {_shown(quote)} does not say that sources disagree: disclosed must be false.",
        )


def _shown(value: str) -> str:
    folded = " ".join(value.split())
    return f"“{folded if len(folded) <= 160 else folded[:159] + '…'}”"
