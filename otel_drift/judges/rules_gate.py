"""Which sentences of an answer claim something at all: pleasantries, questions, offers and refusals do not."""

from __future__ import annotations

import re

from otel_drift.text import content_words, names, quantities, words
from otel_drift.text.dates import dates

_SMALL_TALK = re.compile(
    r"^\W*(?:(?:yes|no|ok|okay|sure|well|oh|great|right|indeed|certainly|of course|absolutely|sorry)\W+)*"
    r"(?:thanks?\b|thank you|you(?:'|\u2019)?(?:re| are) (?:very )?welcome|welcome|hello|hi\b|hey\b|dear\b|good (?:morning|luck|day|question)"
    r"|glad|happy to|my pleasure|no problem|no worries|enjoy\b|have a|all the best|best (?:of luck|regards|wishes)"
    r"|(?:please )?let me know|feel free|do(?:n't| not) hesitate|if you (?:have|need|want|would like|'d like) (?:any |more |me |further )"
    r"|(?:is|are) there any|would you|do you|shall i|should i|can i help|here(?:'s|\u2019s| is| are)\b|to sum up\W*$|in (?:summary|short|conclusion)\W*$"
    r"|i(?:'|\u2019)?(?:m| am) (?:glad|happy|sorry|afraid|here)|i hope|hope (?:this|that)|i can (?:help|also)|i(?:'|\u2019)?(?:d| would) be (?:glad|happy)"
    r"|stay safe|take care|bye|see you|congratulations|remember,?\W*$|note:?\W*$|sure\b\W*$)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(
    r"^\W*(?:(?:yes|yeah|yea|yep|no|nope|ok|okay|oh|ah|well|so|and|but|sure|right|true|exactly|actually|haha|wow|hmm|me too|same here|that(?:'s| is) \w+)\W+)*"
    r"(?:(?:i|i(?:'|\u2019)?(?:m|ve|d|ll)|me|my|we(?:'|\u2019)?(?:ve|d)?|mine|myself)\b(?!\s+(?:can confirm|confirmed|found that|see that|recommend)\b))",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"(?:\b(?:do|does|did|could|can|can|have|has|is|are|was)(?:n't|n\u2019t| not|not)\b[^.;]{0,60}?\b(?:information|mention(?:ed)?|answer|know|knowledge|"
    r"specif(?:y|ied|ic)|detail(?:s|ed)?|say|state[ds]?|cover(?:ed)?|contain(?:ed)?|provid(?:e|ed)|find|found|tell|determine|confirm|includ(?:e|ed)|available)\b"
    r"|\b(?:no|any) (?:specific |further |relevant |additional |such )?(?:information|mention|details?|data|answer|record)\b"
    r"|\b(?:unable|not able) to\b|\bunfortunately\b[^.;]{0,20}\b(?:i|we)\b|\bi(?:'|\u2019)?(?:m| am) (?:sorry|afraid|not sure|not able|unable)"
    r"|\bcannot (?:tell|say|answer|confirm|determine|give|provide)\b|\bnot (?:mentioned|specified|stated|covered|provided|included) in\b)",
    re.IGNORECASE,
)
_SOURCE_TALK = re.compile(
    r"\b(?:documents?|passages?|context|sources?|text|information (?:provided|given|available|i have)|excerpts?|material|knowledge base|articles?|"
    r"i|we|my|our|you may|not sure)\b",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:i|we) (?:have|need|had|want|must|should|would like) to (?:correct|apologi[sz]e|retract|take back|revise|clarify)"
    r"|\b(?:i|we) (?:was|were|am|are) (?:wrong|mistaken|incorrect|in error)|\b(?:i|we) (?:made|gave) (?:a|an|you) (?:mistake|error|wrong|incorrect)"
    r"|\bmy (?:earlier|previous|last|first) (?:answer|statement|message|reply|figure|information)|\b(?:correction|erratum)\b\s*[:\u2014-]"
    r"|\b(?:i|we) (?:said|told you|stated|wrote|mentioned|misstated|misspoke|misread|mixed up|confused)\b[^.]*\b(?:wrong|incorrect|mistake|error|not right|inaccurate|outdated)"
    r"|\bthat (?:was|is) (?:wrong|incorrect|not correct|a mistake|an error|inaccurate)\b|\bi (?:misspoke|misstated|misread|stand corrected)"
    r"|\b(?:sorry|apologies|apologi[sz]e) (?:for|about) (?:the|my|that|any|giving)\b[^.]*\b(?:mistake|error|confusion|earlier|wrong|incorrect|mix-?up)"
    r"|\bcontrary to what i (?:said|told)|\b(?:let me|allow me to) correct\b|\bnot [^.;]{1,40} as i (?:said|told|wrote|stated)"
    r"|\bas i (?:wrongly|mistakenly|incorrectly) (?:said|stated|told)|\binstead of (?:the )?[^.;]{1,40} i (?:said|told|mentioned|gave)",
    re.IGNORECASE,
)


def is_claim(sentence: str) -> bool:
    """Whether `sentence` states something that evidence could bear out.

    No claims: questions, thanks, offers, refusals, first-person chat, lead-ins ending in a colon, and sentences without
    a number or a name that have fewer than four content words.
    """
    text = sentence.strip().strip("*_ ")
    if text.rstrip("\"'\u201d\u2019)*_ ").endswith(("?", "\uff1f", "\u061f", ":")):
        return False
    if _SMALL_TALK.match(text) or _FIRST_PERSON.match(text) or is_refusal(text) or is_correction(text):
        return False
    content = [w for w in content_words(text) if not w[0].isdigit()]
    if len(words(text)) < 3 or not content:
        return False
    return len(content) >= 4 or (len(content) >= 2 and bool(names(text) or quantities(text) or dates(text)))


def is_refusal(sentence: str) -> bool:
    """Whether `sentence` says that the assistant or its documents cannot answer."""
    return bool(_REFUSAL.search(sentence)) and bool(_SOURCE_TALK.search(sentence))


def is_correction(sentence: str) -> bool:
    """Whether `sentence` openly takes back what the assistant said before."""
    return bool(_CORRECTION.search(sentence))


_COMMONPLACE = re.compile(
    r"\b(?:consult(?:ing)?|speak (?:to|with)|talk to|reach out to|contact|ask|check with|seek)\b[^.;]{0,40}\b(?:professional|advis[eo]r|"
    r"doctor|lawyer|attorney|expert|specialist|accountant|advice|consultant|pharmacist|physician|support|provider|department|team)\b"
    r"|\b(?:can|may|will|could) (?:vary|differ)\b|\bdepend(?:s|ing)? on\b|\bit(?:'|\u2019)?(?:s| is) (?:also )?(?:always )?(?:important|essential|crucial|advisable|"
    r"recommended|best|worth|helpful|a good idea|necessary)\b|\b(?:some|several|various|many|different) (?:options|ways|factors|reasons|methods|things)\b"
    r"|\bby (?:incorporating|following|using) these\b|\byou can (?:choose|decide)\b",
    re.IGNORECASE,
)
_META = re.compile(
    r"\b(?:the|your|these|both|all|my|two|our) (?:\w+ )?(?:sources?|documents?|passages?|texts?) (?:\w+ )?(?:disagree|differ|conflict|contradict|agree|do|does|suggest|"
    r"say|emphasi[sz]e|focus)|\bsources? (?:disagree|differ|conflict)|\bbased on the (?:\w+ )?(?:documents?|passages?|context|information)",
    re.IGNORECASE,
)


def is_commonplace(sentence: str) -> bool:
    """Whether `sentence` is general advice or talk about the sources: nothing that a passage would have to hold."""
    return bool(_COMMONPLACE.search(sentence) or _META.search(sentence))
