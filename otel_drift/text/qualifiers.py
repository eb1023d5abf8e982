"""Explicit qualifiers of a statement, by class: what a faithful restatement must not lose.

Two lists a class. *Strong* markers qualify wherever they stand; their loss can be reported. *Soft* ones ("may", "if",
"usual") are often something else (a permission, a situation), so they only count as a qualification that was kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from otel_drift.text.remembered import remembered

QualifierClass = Literal["likelihood", "frequency", "time_scope", "condition", "approximation", "estimate"]


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A marker found in a text, verbatim, with its class and span."""

    kind: QualifierClass
    text: str
    start: int
    end: int


_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_PERIOD = (
    r"(?:(?:the\s+)?(?:end|start|beginning|middle)\s+of\s+)?"
    rf"(?:(?:\d{{1,2}}\s+)?(?:{_MONTHS})(?:\s+\d{{1,2}},)?(?:\s+\d{{4}})?|Q[1-4](?:\s+\d{{4}})?|\d{{4}}(?:-\d\d-\d\d)?)"
)
_STATE = rf"(?:{_PERIOD}|(?:release|version|edition)\s+[\w.]*\d|now|today|writing|this\s+\w+)"
_SPELLED = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|half|an?"
_EFFECTS = (
    "cause|increase|decrease|reduce|raise|lower|affect|lead|result|contribute|improve|worsen|occur|arise|fall|rise|"
    "explain|indicate|make|help|delay|not be|be associated|be related|be linked|be due"
)

_STRONG: dict[QualifierClass, tuple[str, ...]] = {
    "likelihood": (
        r"(?:most |very |highly |quite )?likely|unlikely|probabl[ey]|possibl[ey]|perhaps|maybe|presumably|apparently",
        r"potentially|conceivably|supposedly|reportedly|allegedly|might|appear(?:s|ed)? to|seem(?:s|ed)? to",
        r"(?:is|are|was|were) (?:thought|believed|suspected|assumed) to|tends? to|suggest(?:s|ed)? that",
        rf"may (?:also |well )?(?:{_EFFECTS})",
    ),
    "frequency": (
        r"in (?:most|many|some|nearly all|almost all|certain|a few|exceptional|the majority of) "
        r"(?:cases|people|patients|circumstances|situations|instances)",
        r"usually|normally|typically|generally|in general|as a rule|often|sometimes|mostly|for the most part",
        r"most of the time|frequently|occasionally|commonly|rarely|seldom",
    ),
    "time_scope": (
        rf"as (?:of|at|from) {_STATE}|until {_PERIOD}|until further notice|at the time of writing|currently",
        r"at present|presently|at the moment|for now|for the time being|so far|to date|at this time",
        rf"(?:valid|effective|applicable) (?:from|since|until|as of) {_STATE}",
    ),
    "condition": (
        r"provid(?:ed|ing)(?: that)?(?= (?:the|an?|that|you|it|they|all|both|he|she|no|your|we)\b)",
        r"(?:as|so) long as|on (?:the )?condition that|only (?:if|when)|unless|assuming(?: that)?",
        r"subject to (?!.{0,25}\b(?:tax(?:es|ation)?|dut(?:y|ies)|fees?|charges?|vat|law)\b)",
        r"except (?:for|in|when|where|that)|with the exception of|in the absence of",
    ),
    "approximation": (
        r"(?:about|approximately|approx\.|around|roughly|nearly|almost|circa|ca\.|some) (?=[€$£]?\d)|~ ?(?=\d)",
        rf"(?:about|approximately|around|roughly|nearly|almost) (?=(?:{_SPELLED})\b)",
    ),
    "estimate": (
        r"estimates? (?:suggest|indicate|show|put|say)s?|according to (?:\w+ )?estimates|an estimated",
        r"(?:is|are|was|were) (?:estimated|(?:expected|projected|forecast|predicted|anticipated) to)",
        r"estimated (?:at|to)|provisional(?:ly)?|preliminary|tentative(?:ly)?",
        r"(?:projection|forecast)s? (?:suggest|indicate|show)s?",
    ),
}
_SOFT: dict[QualifierClass, tuple[str, ...]] = {
    "likelihood": (
        r"may|could|can|should|would|suggest\w*|indicat\w+|chance|risk|potential|possib\w+|likelihood|uncertain\w*",
        r"unclear|appear\w*|seem\w*|estimat\w+|expect\w*|suspect\w*|consistent with|believ\w+|think|thought",
        r"cannot be excluded|not (?:certain|sure|clear)",
    ),
    "frequency": (
        r"most|many|some|usual|normal|typical|general|common|average|several|majority|tend\w*|may|can|in part|partly",
        r"largely|not (?:always|all)|(?:almost|nearly) always|exceptions?",
    ),
    "time_scope": (
        r"now|today|current|present|this (?:year|month|week|quarter|edition|release)|(?:19|20)\d\d|since|until|latest",
        rf"still|yet|release|version|edition|{_MONTHS.replace('|May|', '|')}|Q[1-4]",
    ),
    "condition": (
        r"if|when|whenever|once|in case|in the event|depend\w*|require\w*|with|without|only|for those|otherwise",
        r"except\w*|condition\w*|(?:^|(?<=, ))should",
    ),
    "approximation": (
        r"about|approx\w*|around|rough\w*|near\w*|almost|circa|some|or so|up to|at least|at most|more than|less than",
        r"over|under|just|close to|between|estimat\w+|average|~",
    ),
    "estimate": (
        r"estimat\w+|expect\w*|project\w*|forecast\w*|predict\w*|anticipat\w*|likely|probabl\w+|possibl\w+|may|might",
        r"could|perhaps|should|suggest\w*|provisional\w*|preliminary|tentative\w*|plan\w*|appear\w*|seem\w*",
    ),
}
_STRONG_PATTERNS = {
    kind: re.compile(rf"(?<![\w-])(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)
    if kind != "approximation"
    else re.compile(rf"(?<![\w-])(?:{'|'.join(patterns)})", re.IGNORECASE)
    for kind, patterns in _STRONG.items()
}
_SOFT_PATTERNS = {
    kind: re.compile(rf"(?<![\w-])(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE) for kind, patterns in _SOFT.items()
}
_NEGATED = re.compile(r"\b(?:not|never)\s+$", re.IGNORECASE)


@remembered(8192)
def qualifiers(text: str) -> tuple[Qualifier, ...]:
    """Return the explicit (strong) qualifiers of `text` in order."""
    found = [
        Qualifier(kind, match.group().strip(), match.start(), match.end())
        for kind, pattern in _STRONG_PATTERNS.items()
        for match in pattern.finditer(text)
        if not _NEGATED.search(text[: match.start()])
    ]
    return tuple(sorted(found, key=lambda q: (q.start, q.kind)))


@remembered(8192)
def keeps(text: str, kind: QualifierClass) -> bool:
    """Whether `text` holds any marker, strong or soft, of the class `kind`."""
    return bool(_STRONG_PATTERNS[kind].search(text) or _SOFT_PATTERNS[kind].search(text))
