"""Words, stems and names: what two sentences are compared by."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

from otel_drift.text.lexicon import ENGLISH_FUNCTION_WORDS, IRREGULAR, OTHER_FUNCTION_WORDS, STOPWORDS
from otel_drift.text.remembered import remembered

WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_][^\W_]*(?:['\u2019][^\W\d_]+)*")
"""A word, or a number with its separators. Hyphens separate (``carried-over`` is two words); ``X200`` is one."""


_SUFFIXES = ("ations", "ation", "tions", "tion", "ions", "ion", "ments", "ment", "ings", "ing", "edly", "ied", "ies",
             "ness", "ally", "ly", "ed", "es", "er", "ers", "s", "y", "e")  # fmt: skip


_SHIP = re.compile(r"(?<=[^\W\d_]{4})ships?$")


@remembered(65536)
def stem(word: str) -> str:
    """Return the folded stem of one word: case, accents, inflection and common derivation removed.

    A light stemmer on purpose: ``reduction`` and ``reduced`` meet in ``reduc``; numbers stay as they are.
    """
    folded = unicodedata.normalize("NFKD", word.casefold().replace("\u2019", "'"))
    if not folded.isascii():
        folded = "".join(c for c in folded if not unicodedata.combining(c))
    if folded.endswith("'s"):
        folded = folded[:-2]
    if folded[:1].isdigit():
        return folded
    if folded in IRREGULAR:
        folded = IRREGULAR[folded]
    folded = _SHIP.sub("", folded)
    for suffix in _SUFFIXES:
        if folded.endswith(suffix) and len(folded) - len(suffix) >= 3 and not folded.endswith("ss"):
            folded = folded[: -len(suffix)]
            break
    if len(folded) > 3 and folded[-1] == folded[-2] and folded[-1] not in "aeiou":
        folded = folded[:-1]
    if len(folded) > 5 and folded[-1] in "te":
        folded = folded[:-1]
    return folded


def words(text: str) -> list[str]:
    """Return the words and numbers of `text` as written."""
    return WORD.findall(text)


@remembered(65536)
def _read(word: str) -> tuple[str, bool]:
    return stem(word), is_content(word)


def stems(text: str) -> tuple[list[str], list[str]]:
    """Return the stems of all words of `text`, and of its content words, in order: one pass for both."""
    read = [_read(w) for w in WORD.findall(text)]
    return [s for s, _ in read], [s for s, content in read if content]


def content_words(text: str) -> list[str]:
    """Return the words of `text` that carry content: no function words; numbers count."""
    return [w for w in WORD.findall(text) if _read(w)[1]]


def is_content(word: str) -> bool:
    """Whether `word` carries content: a number, or a word of at least two letters that is no function word."""
    return word[:1].isdigit() or (len(word) > 1 and word.casefold().replace("\u2019", "'") not in STOPWORDS)


def content_stems(text: str) -> list[str]:
    """Return the stems of the content words of `text`, in order, repeats kept."""
    return stems(text)[1]


def names(sentence: str) -> list[str]:
    """Return the words of `sentence` that look like (parts of) proper nouns.

    Capitalised words that do not open the sentence, and words with an inner capital or a digit beside letters
    (``iPhone``, ``MW``). A text all in capitals, or all in lower case, has none that can be told.
    """
    if sentence.isupper():
        return []
    found = []
    opening = True
    for match in WORD.finditer(sentence):
        word = match.group()
        if word[0].isdigit():
            opening = False
            continue
        inner = any(c.isupper() or c.isdigit() for c in word[1:])
        before = sentence[: match.start()].rstrip()
        opening = opening or before[-1:] in ("", ".", "!", "?", ":", '"', "\u201c", "*", "#", "-", "\u2022")
        if len(word) > 1 and (inner or (word[0].isupper() and not opening)) and is_content(word):
            found.append(word)
        opening = False
    return found


def is_english(text: str) -> bool:
    """Whether the lexical rules may speak about `text` at all.

    False for scripts other than Latin and where another language's function words outnumber the English ones.
    Short texts without function words pass.
    """
    if not text.isascii():
        letters = [c for c in text if c.isalpha()]
        latin = sum(1 for c in letters if c < "\u0250" or "\u1e00" <= c <= "\u1eff" or c in "µμΩ")
        if latin < 0.8 * len(letters):
            return False
    lowered = set(WORD.findall(text.casefold()))
    return len(lowered & ENGLISH_FUNCTION_WORDS) >= len(lowered & OTHER_FUNCTION_WORDS)


def bigrams(stems: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of neighbouring stems."""
    return list(pairwise(stems))
