"""Which sentences of an answer claim something at all: pleasantries, questions, offers and refusals do not."""

from __future__ import annotations

import re
from collections.abc import Container

from otel_drift.text import content_words, dates, names, quantities, stem, words


def _any(*patterns: str, prefix: str = "") -> re.Pattern[str]:
    return re.compile(f"{prefix}(?:{'|'.join(patterns)})".replace("'", "['\u2019]"), re.IGNORECASE)


_FILLERS = (
    r"^\W*(?:(?:yes|yeah|yea|yep|no|nope|ok|okay|oh|ah|well|so|and|but|sure|great|right|true|exactly|indeed|certainly|"
    r"of course|absolutely|sorry|actually|haha|wow|hmm|me too|same here|that(?:'s| is) \w+)\W+)*"
)
_SMALL_TALK = _any(
    r"thanks?\b|thank you|you(?:'?re| are) (?:very |most )?welcome|welcome\b|hello|hi\b|hey\b|dear\b",
    r"good (?:morning|luck|day|question)|glad|happy to|my pleasure|no problem|no worries|enjoy\b|have a\b|all the best",
    r"best (?:of luck|regards|wishes)|(?:please )?let me know|(?:please )?feel free|do(?:n't| not) hesitate",
    r"if you (?:have|need|want|would like|'d like) (?:any |more |me |further )|would you|do you|(?:shall|should) i",
    r"can i help|here(?:'s| is| are)\b|i'?m? ?(?:am )?(?:glad|happy|sorry|afraid|here)\b|i hope|hope (?:this|that)",
    r"i can (?:help|also)|i(?:'?d| would) be (?:glad|happy)|stay safe|take care|bye\b|see you|congratulations",
    r"(?:to sum up|in (?:summary|short|conclusion)|remember|note|sure)\W*$",
    prefix=_FILLERS,
)
_FIRST_PERSON = _any(
    r"(?:i|i'?(?:m|ve|d|ll)|me|my|we'?(?:ve|d)?|mine|myself)\b"
    r"(?! (?:can confirm|confirmed|found that|see that|recommend)\b)",
    prefix=_FILLERS,
)
_REFUSAL = _any(
    r"\b(?:do|does|did|could|can|have|has|is|are|was)(?:n't| not|not)\b[^.;]{0,60}?\b(?:information|mention(?:ed)?|"
    r"answer|know|knowledge|specif(?:y|ied|ic)|detail(?:s|ed)?|say|state[ds]?|cover(?:ed)?|contain(?:ed)?|provid(?:e|ed)|find|"
    r"found|tell|determine|confirm|includ(?:e|ed)|available)\b",
    r"\b(?:no|any) (?:specific |further |relevant |additional |such )?"
    r"(?:information|mention|details?|data|answer|record)\b",
    r"\b(?:unable|not able) to\b|\bunfortunately\b[^.;]{0,20}\b(?:i|we)\b|\bi(?:'?m| am) (?:sorry|afraid|not sure)",
    r"\bcannot (?:tell|say|answer|confirm|determine|give|provide)\b",
    r"\bnot (?:mentioned|specified|stated|covered|provided|included) in\b",
)
_ABOUT_SOURCES = _any(
    r"\b(?:documents?|passages?|context|sources?|text|excerpts?|material|knowledge base|articles?|i|we|my|our|you may|"
    r"not sure|information (?:provided|given|available|i have))\b"
)
_CORRECTION = _any(
    r"\b(?:i|we) (?:have|need|had|want|must|should|would like) to (?:correct|apologi[sz]e|retract|take back|revise)",
    r"\b(?:i|we) (?:was|were|am|are) (?:wrong|mistaken|incorrect|in error)",
    r"\b(?:i|we) (?:made|gave)(?: you)? (?:an? |the )?(?:mistake|error|wrong|incorrect)",
    r"\bmy (?:earlier|previous|last|first) (?:answer|statement|message|reply|figure|information)",
    r"\b(?:correction|erratum)\b\s*[:\u2014-]",
    r"\b(?:i|we) (?:said|told you|stated|wrote|mentioned|misstated|misspoke|misread|mixed up|confused)\b[^.]*"
    r"\b(?:wrong|incorrect|mistake|error|not right|inaccurate|outdated)",
    r"\bthat (?:was|is) (?:wrong|incorrect|not correct|a mistake|an error|inaccurate)\b",
    r"\bi (?:misspoke|misstated|misread|stand corrected)|\bcontrary to what i (?:said|told)|\ballow me to correct\b",
    r"\blet me correct\b|\b(?:sorry|apologies|apologi[sz]e) (?:for|about) (?:the|my|that|any|giving)\b[^.]*"
    r"\b(?:mistake|error|confusion|earlier|wrong|incorrect|mix-?up)",
    r"\bas i (?:wrongly|mistakenly|incorrectly) (?:said|stated|told)|\bnot [^.;]{1,40} as i (?:said|told|wrote|stated)",
    r"\binstead of (?:the )?[^.;]{1,40} i (?:said|told|mentioned|gave)",
)
_COMMONPLACE = _any(
    r"\b(?:consult(?:ing)?|speak (?:to|with)|talk to|reach out to|contact|ask|check with|seek)\b[^.;]{0,40}"
    r"\b(?:professional|advis[eo]r|doctor|lawyer|attorney|expert|specialist|accountant|advice|consultant|pharmacist|"
    r"physician|support|provider|department|team)\b",
    r"\b(?:can|may|will|could) (?:vary|differ)\b|\bdepend(?:s|ing)? on\b|\byou can (?:choose|decide)\b",
    r"\bit(?:'?s| is) (?:also )?(?:always )?(?:important|essential|crucial|advisable|recommended|best|worth|helpful|"
    r"a good idea|necessary)\b",
    r"\b(?:some|several|various|many|different) (?:options|ways|factors|reasons|methods|things)\b",
    r"\bby (?:incorporating|following|using) these\b",
)
_META = _any(
    r"\b(?:the|your|these|both|all|my|two|our) (?:\w+ )?(?:sources?|documents?|passages?|texts?) (?:\w+ )?(?:disagree|"
    r"differ|conflict|contradict|agree|do|does|suggest|say|emphasi[sz]e|focus)",
    r"\bsources? (?:disagree|differ|conflict)|\bbased on the (?:\w+ )?(?:documents?|passages?|context|information)",
)


def is_claim(sentence: str, known: Container[str] = frozenset()) -> bool:
    """Whether `sentence` states something that evidence could bear out.

    No claims: questions, thanks, offers, refusals, first-person chat, lead-ins ending in a colon, and sentences without
    a number or a name that have fewer than four content words (three, where two of them are `known`: stems of what
    the passages and the earlier answers talk about).
    """
    text = sentence.strip().strip("*_ ")
    if text.rstrip("\"'\u201d\u2019)*_ ").endswith(("?", "\uff1f", "\u061f", ":")):
        return False
    if _SMALL_TALK.match(text) or _FIRST_PERSON.match(text) or is_refusal(text) or is_correction(text):
        return False
    content = [w for w in content_words(text) if not w[0].isdigit()]
    if len(words(text)) < 3 or not content:
        return False
    if len(content) >= 4 or (len(content) == 3 and sum(stem(w) in known for w in content) >= 2):
        return True
    return len(content) >= 2 and bool(names(text) or quantities(text) or dates(text))


def is_refusal(sentence: str) -> bool:
    """Whether `sentence` says that the assistant or its documents cannot answer."""
    return bool(_REFUSAL.search(sentence)) and bool(_ABOUT_SOURCES.search(sentence))


def is_correction(sentence: str) -> bool:
    """Whether `sentence` openly takes back what the assistant said before."""
    return bool(_CORRECTION.search(sentence))


def is_commonplace(sentence: str) -> bool:
    """Whether `sentence` is general advice or talk about the sources: nothing that a passage would have to hold."""
    return bool(_COMMONPLACE.search(sentence) or _META.search(sentence))
