"""The semantic checks of ``longform_drift``: does a well-formed answer hold against the sentences and the source?

Each check returns sentences that tell the judge exactly what to mend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from otel_drift.audits.factual_drift_quotes import LEAST_CLAIM_WORDS, find_quote, is_long_enough, stem_set, stems
from otel_drift.audits.longform_drift_answer import SentenceAnswer, SentencesAnswer
from otel_drift.faults import Fault
from otel_drift.longform.layout import PlacedSentence

_RESTATES = 0.75


def check_sentences(answer: SentencesAnswer, asked: Sequence[PlacedSentence], source: Sequence[str]) -> list[Fault]:
    """What is wrong with an answer about the sentences `asked`, whose source are the texts `source`."""
    texts = {sentence.index: sentence.text for sentence in asked}
    errors = [*_index_errors(answer, texts)]
    for one in answer.sentences:
        if one.index in texts:
            errors += [error.at(f"Sentence {one.index}") for error in _sentence_errors(one, source)]
    return [*errors, *_silence_errors(answer, texts, source)]


def excerpt_place(excerpt: str, source: Sequence[str]) -> tuple[int, int, int] | None:
    """Where an excerpt stands: the number of the text in `source`, start and end in it; None where it does not."""
    for number, text in enumerate(source):
        span = find_quote(text, excerpt)
        if span is not None:
            return number, *span
    return None


def _index_errors(answer: SentencesAnswer, texts: Mapping[int, str]) -> Iterator[Fault]:
    counted = Counter(one.index for one in answer.sentences)
    if unknown := sorted(index for index in counted if index not in texts):
        yield Fault(
            "reference",
            f"There is no sentence {_numbers(unknown)} among those given; judge {min(texts)} to {max(texts)} only.",
        )
    if missing := [index for index in texts if index not in counted]:
        yield Fault("coverage", f"No verdict on sentence {_numbers(missing)}: every index exactly once.")
    if doubled := [index for index in texts if counted[index] > 1]:
        yield Fault("duplicate", f"More than one verdict on sentence {_numbers(doubled)}: every index exactly once.")


def _sentence_errors(one: SentenceAnswer, source: Sequence[str]) -> Iterator[Fault]:
    if not one.makes_claim and one.status != "fully_grounded":
        yield Fault("status", f"it is {one.status}, so it makes a claim: makes_claim must be true.")
    if one.status == "ungrounded" and one.excerpt is not None:
        yield Fault("status", "ungrounded means that nothing in the source bears it out: excerpt must be null.")
    elif one.excerpt is None:
        if one.makes_claim and one.status != "ungrounded":
            yield Fault("status", f"{one.status} needs an excerpt copied from the source.")
    else:
        place = excerpt_place(one.excerpt, source)
        if place is None:
            yield Fault("quote", f"its excerpt {_shown(one.excerpt)} does not stand verbatim in the source.")
        elif not is_long_enough(source[place[0]], one.excerpt, LEAST_CLAIM_WORDS):
            yield Fault(
                "quote_length",
                f"its excerpt {_shown(one.excerpt)} is too short: at least three content words or a whole sentence.",
            )
    if one.status != "fully_grounded" and one.explanation is None:
        yield Fault(
            "missing_text", f"{one.status} needs an explanation: what the source does not say, or says otherwise."
        )


def _silence_errors(answer: SentencesAnswer, texts: Mapping[int, str], source: Sequence[str]) -> Iterator[Fault]:
    """Refuse "nothing is claimed" where sentences restate the source: what a hidden instruction would ask for."""
    if any(one.makes_claim for one in answer.sentences):
        return
    offered = frozenset[str]().union(*map(stem_set, source))
    claiming = [
        index
        for index, text in texts.items()
        if len(stems(text)) >= 4 and sum(stem in offered for stem in stems(text)) >= _RESTATES * len(stems(text))
    ]
    if claiming:
        yield Fault(
            "coverage",
            f"No sentence is said to make a claim, but sentence {_numbers(claiming)} states facts of the source.",
        )


def _numbers(indexes: Sequence[int]) -> str:
    return ", ".join(map(str, indexes[:20])) + (f" and {len(indexes) - 20} more" if len(indexes) > 20 else "")


def _shown(value: str) -> str:
    folded = " ".join(value.split())
    return f"“{folded if len(folded) <= 160 else folded[:159] + '…'}”"
