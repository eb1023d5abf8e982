"""Numbers with their units: what can be said to differ without understanding a sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from otel_drift.text.dates import MONTHS, dates
from otel_drift.text.lexicon import LABELS, STOPWORDS
from otel_drift.text.remembered import remembered
from otel_drift.text.tokens import WORD, stem

QuantityRole = Literal["most", "least", "approx", ""]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in a text.

    `unit` is canonical (``%``, ``eur``, ``gb``, ``month``, ``mg/l``), for a counted thing the stem of its noun, and
    empty where none follows; `value` is in that unit (two weeks: 14 ``day``; times of day: minutes, ``clock``). `per`
    is the denominator (``day`` in
    "3 EUR per day"). `label` is the stem of the word the number names rather than counts ("Zone 2", "form ER-2") or
    ``/`` in a pair such as "180/105 mmHg": such numbers are names. `role` says which end it marks: most, least, about.
    """

    value: float
    unit: str
    per: str
    label: str
    role: QuantityRole
    text: str
    start: int
    end: int


_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_TENS = ("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_NUMBER_WORDS = {word: float(n) for n, word in enumerate(_ONES)}
_NUMBER_WORDS.update({word: 30.0 + 10 * n for n, word in enumerate(_TENS)})
_MULTIPLIERS = {"hundred": 100.0, "thousand": 1e3, "k": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9}
_NUMBER = re.compile(
    r"(?P<money>[€$£¥]\s?)?(?<![\w])(?P<digits>\d+(?:[.,\u00a0\u202f]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?|"
    rf"(?:twenty|{'|'.join(_TENS)})[-\s](?:{'|'.join(_ONES[1:10])})|"
    + "|".join(sorted(_NUMBER_WORDS, key=len, reverse=True))
    + r")(?P<multiplier>\s?(?:hundred|thousand|million|billion|bn)\b|[kK]\b)?(?![^\W\d_]*\d)",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?<![\w:.,])(?P<hour>[01]?\d|2[0-3])(?:[:.](?P<minute>[0-5]\d))?\s?(?P<half>[ap]\.?m\b\.?)"
    r"|(?<![\w:.,])(?P<hour24>[01]?\d|2[0-3]):(?P<minute24>[0-5]\d)(?![\d:])",
    re.IGNORECASE,
)
_CITATION = re.compile(r"\[\^?\d[\d,\s\-\u2013]*\]")

_UNITS = {
    "%": "% percent pct percentage", "eur": "eur € euro euros", "usd": "usd $ dollar dollars us$",
    "gbp": "gbp £ pound pounds", "chf": "chf", "jpy": "jpy ¥ yen", "cent": "cent cents", "pence": "pence",
    "b": "byte bytes", "kb": "kb kilobyte kilobytes", "mb": "mb megabyte megabytes", "gb": "gb gigabyte gigabytes",
    "tb": "tb terabyte terabytes", "kib": "kib", "mib": "mib", "gib": "gib", "tib": "tib",
    "mg": "mg milligram milligrams", "g": "g gram grams", "kg": "kg kilogram kilograms kilo kilos",
    "µg": "µg μg mcg ug microgram micrograms", "ng": "ng", "ml": "ml millilitre millilitres milliliter milliliters",
    "l": "l litre litres liter liters", "mmol": "mmol", "km": "km kilometre kilometres kilometer kilometers",
    "cm": "cm", "mm": "mm", "m": "metre metres meter meters m", "mile": "mile miles", "ft": "ft feet",
    "second": "s sec second seconds", "ms": "ms millisecond milliseconds", "minute": "min mins minute minutes",
    "hour": "h hr hrs hour hours", "day": "day days", "week": "week weeks", "month": "month months",
    "year": "year years yr yrs", "°c": "°c celsius", "°f": "°f fahrenheit", "°": "° degree degrees",
    "mmhg": "mmhg", "w": "w watt watts", "kw": "kw", "kwh": "kwh", "mbit": "mbit mbps", "kbit": "kbit kbps",
    "gbit": "gbit gbps", "µs": "µs μs",
}  # fmt: skip
_UNIT_OF = {form: unit for unit, forms in _UNITS.items() for form in forms.split()}
_CANONICAL = {  # exact conversions only: a quarter is not always ninety days
    "week": ("day", 7.0), "year": ("month", 12.0), "minute": ("second", 60.0), "hour": ("second", 3600.0),
    "ms": ("second", 0.001), "kg": ("g", 1000.0), "mg": ("g", 0.001), "µg": ("g", 1e-6), "l": ("ml", 1000.0),
    "km": ("m", 1000.0), "cm": ("m", 0.01), "mm": ("m", 0.001), "tb": ("gb", 1000.0), "mb": ("gb", 0.001),
    "mib": ("kib", 1024.0), "gib": ("kib", 1048576.0),
}  # fmt: skip
MEASURES = frozenset(_UNITS) | {"clock", "age"}
"""Units of measure, as against counted nouns; a unit with a slash (``mg/l``) is one too."""
MONEY = frozenset({"eur", "usd", "gbp", "chf", "jpy", "cent", "pence"})
"""Currencies."""

_UNIT_TEXT = re.compile(
    r"[\s\u00a0\u202f-]?(?:(?P<symbol>[%€$£¥]|per\s?cent\b|°\s?[CF]?\b|°)|(?P<word>[^\W\d_]+(?:/[^\W\d_]+)?))"
)
_PER = re.compile(
    r"\s*(?:of\s+\w+(?:\s\w+)?\s+)?(?:/|\b(?:per|for each|for every|each|every|an?|in any)\s)\s*"
    r"(?:calendar |full |single |extra |additional |completed |billing )?"
    r"(?P<per>day|week|month|year|hour|minute|second|night|person|user|member|child|account|region|gb|mb|kg|item|"
    r"transaction|illness|annum)s?\b",
    re.IGNORECASE,
)
_ADVERB_PER = re.compile(r"\s*(?:\w+\s+){0,3}?(?P<adverb>daily|weekly|monthly|yearly|annually|hourly)\b", re.IGNORECASE)
_PERIOD = {"annum": "year", "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "annually": "year",
           "hourly": "hour"}  # fmt: skip
_LABEL = re.compile(r"(?P<label>[^\W\d_]{1,20})[\s-]$")
_ARTICLES = r"\s+(?:an? |the )?(?:total of |maximum of |minimum of )?$"
_MOST = re.compile(
    r"\b(?:up to|at most|(?:no|not) more than|max(?:imum)?(?: of)?|limit(?:ed)? (?:to|of)|within|not exceed(?:ing)?|"
    rf"below|under|less than|fewer than|until){_ARTICLES}",
    re.IGNORECASE,
)
_LEAST = re.compile(
    r"\b(?:at least|min(?:imum)?(?: of)?|(?:no|not) less than|more than|over|above|exceed(?:s|ing)?|longer than|"
    rf"older than|from){_ARTICLES}",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|some|circa|ca\.?|estimated)\s+|~\s?)$",
    re.IGNORECASE,
)


def is_unit(word: str) -> bool:
    """Whether `word` is a unit of measure as written: ``EUR``, ``GB``."""
    return word.casefold() in _UNIT_OF


@remembered(8192)
def quantities(text: str) -> tuple[Quantity, ...]:
    """Return the numbers of `text` with their units in order; dates and citation markers left out.

    A number word counts where a unit follows ("eight weeks"; not "one of them").
    """
    taken = [(d.start, d.end) for d in dates(text)] + [m.span() for m in _CITATION.finditer(text)]
    found = []
    for match in _CLOCK.finditer(text):
        found.append(_clock(match))
        taken.append(match.span())
    for match in _NUMBER.finditer(text):
        if not any(match.start("digits") < end and match.end() > start for start, end in taken):
            quantity = _quantity(text, match)
            if quantity is not None:
                found.append(quantity)
    return tuple(sorted(found, key=lambda q: q.start))


def _clock(match: re.Match[str]) -> Quantity:
    hour = int(match["hour"] or match["hour24"])
    if match["half"]:
        hour = hour % 12 + (12 if match["half"][0] in "pP" else 0)
    minutes = 60 * hour + int(match["minute"] or match["minute24"] or 0)
    return Quantity(float(minutes), "clock", "", "", "", match.group(), match.start(), match.end())


@remembered(8192)
def number_values(text: str) -> frozenset[float]:
    """Return every number `text` holds, in every reading: dates, labels and number words included."""
    return frozenset(value for match in _NUMBER.finditer(_CITATION.sub(" ", text)) for value in _readings(match))


@remembered(8192)
def bare_numbers(text: str) -> frozenset[float]:
    """Return the numbers of `text` that no unit of measure follows, in every reading: they may stand for any unit."""
    measured = [(q.start, q.end) for q in quantities(text) if not q.label and (q.unit in MEASURES or "/" in q.unit)]
    return frozenset(
        value
        for match in _NUMBER.finditer(_CITATION.sub(lambda m: " " * len(m.group()), text))
        if not any(match.start() < end and match.end() > start for start, end in measured)
        for value in _readings(match)
    )


def _readings(match: re.Match[str]) -> list[float]:
    raw = re.sub("[\u00a0\u202f]", "", match["digits"].casefold())
    factor = _MULTIPLIERS.get((match["multiplier"] or "").strip().casefold(), 1.0)
    if not raw[0].isdigit():
        tens, _, ones = re.sub(r"[\s-]+", " ", raw).partition(" ")
        return [(_NUMBER_WORDS[tens] + _NUMBER_WORDS.get(ones, 0.0)) * factor]
    readings = []
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", raw):
        readings.append(raw.replace(",", ""))
    elif re.fullmatch(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?", raw) and (raw.count(".") > 1 or "," in raw):
        readings.append(raw.replace(".", "").replace(",", "."))
    elif re.fullmatch(r"\d+,\d+", raw):
        readings.append(raw.replace(",", "."))
    elif re.fullmatch(r"\d+(?:\.\d+)?", raw):
        readings.append(raw)
        if re.fullmatch(r"\d{1,3}\.\d{3}", raw):  # 30.000 is thirty thousand in much of Europe
            readings.append(raw.replace(".", ""))
    return [float(reading) * factor for reading in readings if len(reading) < 16]


def _quantity(text: str, match: re.Match[str]) -> Quantity | None:
    readings = _readings(match)
    if not readings:
        return None
    start, end = match.start("digits"), match.end()
    spelled = not match["digits"][0].isdigit()
    before = text[max(0, start - 48) : start]
    label = "" if spelled else _label(text, start, end)
    unit, unit_end = _unit(text, end)
    if label and (unit in MEASURES or "/" in unit) and label != "/":
        label = ""  # "a double room 120 EUR"
    elif label:
        unit, unit_end = "", end
    if label == "age" and not unit:  # "from age 55" counts years; "Zone 2" is a name
        label, unit = "", "age"
    if match["money"]:
        unit, start = _UNIT_OF[match["money"].strip()], match.start()
        before = text[max(0, start - 48) : start]
    elif not label and (code := re.search(r"\b(EUR|USD|GBP|CHF|JPY)\s$", before)):
        unit, unit_end = code.group(1).casefold(), end
    if spelled and (not unit or (readings[0] == 1 and unit not in MEASURES)):
        return None
    role: QuantityRole = ""
    if _ABOUT.search(before):
        role = "approx"
    elif _MOST.search(before):
        role = "most"
    elif _LEAST.search(before):
        role = "least"
    base, factor = _CANONICAL.get(unit, (unit, 1.0))
    value = round(readings[0] * factor, 9)
    per = _per(text, unit_end)
    return Quantity(value, base, per, label, role, text[start:unit_end].strip(), start, unit_end)


def _per(text: str, position: int) -> str:
    rest = text[position : position + 40]
    match = _PER.match(rest)
    if match:
        word = match["per"].casefold()
        return _PERIOD.get(word, word)
    adverb = _ADVERB_PER.match(rest)
    return _PERIOD[adverb["adverb"].casefold()] if adverb else ""


def _label(text: str, start: int, end: int) -> str:
    if "/" in (text[start - 1 : start], text[end : end + 1]) and re.search(
        r"\d\s?/\s?\d", text[max(0, start - 6) : end + 4]
    ):
        return "/"
    match = _LABEL.search(text, max(0, start - 24), start)
    if match is None:
        return ""
    word = match["label"]
    folded = word.casefold()
    if folded in LABELS or (text[start - 1] == "-" and word.isupper()):
        return stem(word)
    if word[0].isupper() and folded not in STOPWORDS and folded not in _UNIT_OF and not _ABOUT.search(f"{word} "):
        return stem(word)  # "Tide 40": a capitalised word names with its number
    return ""


def _unit(text: str, end: int) -> tuple[str, int]:
    match = _UNIT_TEXT.match(text, end)
    if match is None:
        return "", end
    if match["symbol"]:
        symbol = re.sub(r"\s", "", match["symbol"].casefold())
        return _UNIT_OF.get(symbol, "%" if symbol == "percent" else symbol), match.end()
    word = match["word"].casefold()
    if "/" in word:
        return word.replace("μ", "µ"), match.end()
    if word in _UNIT_OF:
        if len(word) == 1 and match["word"].isupper() and word not in ("l", "w"):
            return "", end
        return _UNIT_OF[word], match.end()
    if word in STOPWORDS or word in MONTHS:
        return "", end
    return _noun(text, match.start("word"))


def _noun(text: str, start: int) -> tuple[str, int]:
    """The counted noun: of up to four words the first that is a unit or looks plural, else the first word."""
    first: tuple[str, int] = ("", start)
    position = start
    for _ in range(4):
        match = WORD.match(text, position)
        if match is None or match.group()[0].isdigit() or match.group().casefold() in STOPWORDS:
            break
        word = match.group().casefold()
        if word in _UNIT_OF and len(word) > 2:
            return _UNIT_OF[word], match.end()
        first = first if first[0] else (stem(word), match.end())
        if word.endswith("s") and not word.endswith(("ss", "us", "is", "ous")):
            return stem(word), match.end()
        if text[match.end() : match.end() + 1] not in (" ", "-"):
            break
        position = match.end() + 1
    return first
