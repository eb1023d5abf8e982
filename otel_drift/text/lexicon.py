"""The word lists behind the rules: function words, irregular forms, abbreviations, units, names that numbers carry."""

from __future__ import annotations


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split())


STOPWORDS = _word_set(
    """
    a about above after again against all almost already also although always am among an and another any anything
    are aren't as at away back be because been before being below between both but by came can can't cannot come
    could couldn't did didn't do does doesn't doing don't done down during each either else ever every few for from
    further get gets getting given go goes going got had hadn't has hasn't have haven't having he he'd he'll he's
    her here here's hers herself him himself his how however i i'd i'll i'm i've if in instead into is isn't it it's
    its itself just let let's like ll many may me might more most much must my myself need no nor not now of off
    often on once one only onto or other others otherwise our ours ourselves out over own per please quite rather re
    really s same say see shall she she's should shouldn't since so some something soon still such sure t  than
    thank thanks that that's the their theirs them themselves then there there's therefore these they they'd they'll
    they're they've thing things this those though through thus till to together too toward towards under until up
    upon us use used using ve very was wasn't way we we'd we'll we're we've well were weren't what what's when where
    whether which while who who's whom whose why will with within without won't would wouldn't yes yet you you'd
    you'll you're you've your yours yourself okay ok oh hi hello
    """
)
"""English function words and fillers: they carry no content of a statement."""

ENGLISH_FUNCTION_WORDS = _word_set(
    """
    the a an and or of in on at to for by with from is are was were be been it this that you your i we they he she
    his her their as not can will has have had but if which who when may up out per each
    """
)
"""The commonest ones, by which a text shows that it is English."""

OTHER_FUNCTION_WORDS = _word_set(
    """
    der die das und ist nicht mit von für ein eine einen auf den dem sich werden wird sie ihr le la les des est et
    une du que qui dans pour pas sur avec el los las una por con para como del se il di che per sono della een het
    van niet voor dat je jest nie się na w z och att som det är inte på o os da em não um uma ao é e
    """
)
"""Function words of other languages in Latin script."""

IRREGULAR = _pairs(
    """
    taken:take took:take paid:pay gave:give given:give made:make went:go gone:go fell:fall fallen:fall rose:rise
    risen:rise bought:buy sold:sell sent:send kept:keep held:hold left:leave lost:lose won:win wrote:write
    written:write began:begin begun:begin became:become born:birth built:build found:find known:know knew:know
    led:lead met:meet ran:run said:say seen:see saw:see shown:show spent:spend taught:teach thought:think told:tell
    worn:wear children:child women:woman men:man people:person died:death dies:death die:death dead:death drawn:draw
    drew:draw sung:sing sang:sing grew:grow grown:grow chose:choose chosen:choose choice:choose cost:cost costs:cost
    uk:kingdom us:us usa:us
    """
)
"""Forms that no suffix rule brings together."""

ABBREVIATIONS = _word_set(
    """
    mr mrs ms dr prof sr jr st rev hon gen col lt sgt capt messrs vs etc e.g i.e cf al approx ca no nos fig figs eq
    sec ch vol pp p art para ed eds est inc ltd co corp dept univ tel ext min max resp incl excl jan feb mar apr jun
    jul aug sept sep oct nov dec mon tue wed thu fri sat sun a.m p.m u.s u.k e.u ph.d b.sc m.sc d.c bzw z.b
    """
)
"""Words (without the last full stop) that a full stop does not end a sentence after."""

NEVER_FINAL = _word_set(
    """
    mr mrs ms dr prof st rev hon gen col lt sgt capt vs e.g i.e cf approx ca fig figs eq
    """
)
"""Abbreviations that never end a sentence."""

LABELS = _word_set(
    """
    zone tier phase level class grade section article chapter step stage version release form type category group
    part page figure table appendix annex rule paragraph paragraphs clause schedule room gate platform line route
    building unit cell edition volume band plan age aged turn day week no number option model series
    """
)
"""Words that a following number names rather than counts: Zone 2, release 2026.3."""
