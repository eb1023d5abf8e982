"""What the checks of ``factual_drift`` read off quotes: where they stand, what they hold, what they restate."""

from __future__ import annotations

import re
from collections.abc import Mapping

from otel_drift import text
from otel_drift.text.lexicon import ENGLISH_FUNCTION_WORDS
from otel_drift.text.remembered import remembered

LEAST_EVIDENCE_WORDS = 4
LEAST_CLAIM_WORDS = 3
"""Answers state facts in fewer words than passages prove them, so a claim's quote may be a word shorter."""

_MOST_TRIES = 50

_NEGATION = re.compile(r"\b(?:no|not|never|none|neither|nor|without|cannot|\w+n['’]t)\b", re.IGNORECASE)
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_LIST_MARK = re.compile(r"^\s*(?:>\s*)?(?:[-*+•·]\s+|\(?\d{1,3}[.)]\s+)?")

_NUMBER = (
    r"(?:[€$£]?\d|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|half|noon|midnight"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty"
    r"|an? (?:dozen|hundred|thousand|million|half|third|quarter|hour|day|week|month|year))\b)"
)
"""What ``about`` and ``around`` make approximate; "about the plan", "around the clock" qualify nothing."""

_PLAIN_QUALIFIERS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(rf"(?<![\w-])(?:{pattern})(?!\w)", re.IGNORECASE)
    for kind, pattern in {
        "likelihood": r"(?-i:may)|might|could|uncertain|unclear|not (?:certain|sure|clear|guaranteed)",
        "frequency": r"most|many|some|on average|in part|partly|largely|not (?:always|all)|tends? to",
        "time_scope": r"now|today|current|this (?:year|month|week|quarter)|until|since",
        "condition": r"if|when|whenever|once|in case|depend(?:s|ing) on|only|otherwise|except|excluding|provided",
        "approximation": r"up to|at least|at most|more than|less than|close to|or so|approximate(?:ly)?"
        rf"|(?:about|around)(?= {_NUMBER})",
        "estimate": r"estimate[sd]?|expected|projected|forecast|planned|provisional",
    }.items()
}


def find_quote(source: str, quote: str) -> tuple[int, int] | None:
    """Where `quote` stands verbatim in `source` (folded as `otel_drift.text` does), not cut out of a word or number."""
    start = source.find(quote) if quote and quote == quote.strip() else -1
    if start >= 0 and not _cuts(source, start, start + len(quote)):
        return start, start + len(quote)
    offset = 0
    for _ in range(_MOST_TRIES):
        span = text.locate(source[offset:], quote)
        if span is None:
            return None
        start, end = span[0] + offset, span[1] + offset
        if not _cuts(source, start, end):
            return start, end
        offset = start + 1
    return None


def is_long_enough(source: str, quote: str, least: int) -> bool:
    """Whether `quote` says something: `least` content words, or a whole sentence or line, or all of `source`."""
    if _content_length(quote) >= least:
        return True
    wanted = _bare(quote)
    return bool(wanted) and (wanted in _wholes(source) or _is_sentence(source, quote))


@remembered(2048)
def covering_sentences(source: str, quote: str, neighbours: int = 0) -> str:
    """The sentences of `source` that `quote` stands in, with so many neighbours on each side."""
    span = find_quote(source, quote)
    if span is None:
        return quote
    all_sentences = sentence_spans(source)
    touched = [n for n, (start, end) in enumerate(all_sentences) if start < span[1] and end > span[0]]
    if not touched:
        return quote
    first, last = max(0, touched[0] - neighbours), min(len(all_sentences) - 1, touched[-1] + neighbours)
    start, end = min(span[0], all_sentences[first][0]), max(span[1], all_sentences[last][1])
    return source[start:end]


def is_restatement(later: str, earlier: str) -> bool:
    """Whether `later` says nothing that `earlier` does not, as far as words can tell: deliberately narrow.

    The content words in the same order, at least half of them, as many negations, no qualifier lost.
    """
    new, old = stems(later), stems(earlier)
    if len(new) < 2 or 2 * len(new) < len(old):
        return False
    rest = iter(old)
    if not all(stem in rest for stem in new):
        return False
    as_negated = len(_NEGATION.findall(later)) == len(_NEGATION.findall(earlier))
    return as_negated and qualifier_classes(earlier) <= qualifier_classes(later)


@remembered(2048)
def stems(piece: str) -> tuple[str, ...]:
    """The content stems of a text, kept for the next question about it."""
    return tuple(text.content_stems(piece))


@remembered(2048)
def stem_set(piece: str) -> frozenset[str]:
    """The content stems of a text without order."""
    return frozenset(stems(piece))


def holds_any_case(source: str, piece: str) -> bool:
    """Whether `piece` stands in `source`, whatever the case of its letters."""
    return text.holds(source.casefold(), piece.casefold())


@remembered(1024)
def qualifier_classes(sentence: str) -> frozenset[str]:
    """The classes of explicit qualifiers in `sentence`: the strong ones of `otel_drift.text` and the plain words."""
    strong = {qualifier.kind for qualifier in text.qualifiers(sentence)}
    plain = {kind for kind, pattern in _PLAIN_QUALIFIERS.items() if pattern.search(sentence)}
    return frozenset(strong | plain)


def _is_sentence(source: str, quote: str) -> bool:
    """Whether `quote` begins after the end of a sentence and ends one, by its punctuation alone."""
    span = find_quote(source, quote)
    if span is None:
        return False
    before, last = source[: span[0]].rstrip(" *_\"'“‘("), source[: span[1]].rstrip(" *_\"'”’)")[-1:]
    return (not before or before[-1] in ".!?…。\n") and last in (".", "!", "?", "。")


@remembered(256)
def _wholes(source: str) -> frozenset[str]:
    """The lines and sentences of `source`, and all of it, bare."""
    spans = (source[start:end] for start, end in sentence_spans(source))
    return frozenset(map(_bare, [source, *source.splitlines(), *spans]))


@remembered(256)
def sentence_spans(source: str) -> tuple[tuple[int, int], ...]:
    """Where the sentences of `source` begin and end."""
    return tuple((sentence.start, sentence.end) for sentence in text.sentences(source))


def _cuts(source: str, start: int, end: int) -> bool:
    """Whether source[start:end] begins or ends inside a (Latin) word or a number."""
    before, first = source[:start][-2:], source[start]
    after, last = source[end : end + 2], source[end - 1]
    if _is_latin(first) and before and _is_latin(before[-1]):
        return True
    if _is_latin(last) and after and _is_latin(after[0]):
        return True
    if first.isdigit() and len(before) == 2 and before[0].isdigit() and before[1] in ".,":
        return True
    return last.isdigit() and len(after) == 2 and after[0] in ".," and after[1].isdigit()


def _is_latin(char: str) -> bool:
    return char.isalnum() and not _WIDE.match(char)


def _content_length(quote: str) -> int:
    """Words that are no mere function words ("need", "more" and numbers count); two characters a word in CJK."""
    latin = [word for word in text.words(_WIDE.sub(" ", quote)) if word.casefold() not in ENGLISH_FUNCTION_WORDS]
    return len(latin) + len(_WIDE.findall(quote)) // 2


def _bare(piece: str) -> str:
    """A sentence without list marks, quotation marks and closing punctuation."""
    return _LIST_MARK.sub("", text.fold(piece)).strip(" .!?:;,*_\"'()[]|。！？")
