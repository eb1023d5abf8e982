"""What the embedded judge weighs words by: the rarity table, the fitted weights, antonyms."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import chain

from otel_drift.text import stem

FEATURES = (
    "cover_all", "cover_best", "bigrams", "four_grams", "subsequence", "number_missing", "name_missing",
    "number_differs", "antonym",
)  # fmt: skip
"""The nine features of the grounding model, in the order of its weights."""

_ANTONYMS = """
    allowed:forbidden allowed:prohibited permitted:forbidden permitted:prohibited included:excluded include:exclude
    mandatory:optional compulsory:voluntary required:optional obligatory:optional increase:decrease rise:fall
    increase:reduce raise:lower higher:lower highest:lowest more:less most:least maximum:minimum before:after
    first:last earlier:later early:late always:never all:none public:private internal:external open:closed
    enabled:disabled active:inactive accept:reject accepted:rejected approve:deny approved:denied legal:illegal
    safe:unsafe safe:dangerous possible:impossible positive:negative success:failure win:lose gain:loss
    import:export buy:sell hot:cold warm:cold wet:dry fast:slow quick:slow strong:weak hard:soft heavy:light
    large:small big:small long:short old:new young:old male:female man:woman men:women husband:wife brother:sister
    father:mother son:daughter north:south northern:southern east:west eastern:western left:right upper:lower
    above:below inside:outside indoor:outdoor temporary:permanent free:chargeable refundable:nonrefundable
    free:paid paid:unpaid full:empty full:partial single:married alive:dead domestic:foreign
    domestic:international national:international major:minor majority:minority best:worst better:worse
    begin:end started:ended arrive:depart synchronous:asynchronous encrypted:unencrypted online:offline
    contraindicated:indicated fixed:variable gross:net
""".split()  # noqa: SIM905 - a table reads better than two hundred quoted strings


@dataclass(frozen=True, slots=True)
class GroundingModel:
    """A logistic model over `FEATURES`: p(unsupported) = 1 / (1 + exp(-(bias + weights . x)))."""

    version: str
    weights: tuple[float, ...]
    bias: float
    flag: float
    accept: float

    def probability(self, values: tuple[float, ...]) -> float:
        """Probability that the text is unsupported."""
        score = self.bias + sum(w * v for w, v in zip(self.weights, values, strict=True))
        return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, score))))


@lru_cache(maxsize=1)
def grounding_model() -> GroundingModel:
    """The fitted model shipped with the package."""
    data = json.loads(files(__package__).joinpath("data/grounding.json").read_text("utf-8"))
    weights = tuple(float(data["weights"][name]) for name in FEATURES)
    return GroundingModel(data["version"], weights, float(data["bias"]), float(data["flag"]), float(data["accept"]))


@lru_cache(maxsize=1)
def _rarity_table() -> tuple[dict[str, float], float]:
    data = json.loads(files(__package__).joinpath("data/rarity.json").read_text("utf-8"))
    total = math.log(data["documents"] + 1)
    table = {
        word: _exact(1.0 - math.log(int(frequency) + 1) / total)
        for frequency, group in data["stems_by_frequency"].items()
        for word in group.split()
    }
    return table, _exact(1.0 - math.log(2) / total)


def _exact(value: float) -> float:
    """A multiple of 1/1024, so that sums are exact and do not depend on the order of a set."""
    return round(value * 1024) / 1024


def rarity(word_stem: str) -> float:
    """How much a stem tells, 0 (in every document) to 1; stems never seen count as seen once."""
    table, unseen = _rarity_table()
    return table.get(word_stem, unseen)


@lru_cache(maxsize=1)
def antonyms() -> dict[str, frozenset[str]]:
    """Stem to the stems that mean the opposite."""
    pairs = [tuple(stem(w) for w in pair.split(":")) for pair in _ANTONYMS]
    found: dict[str, set[str]] = {}
    for a, b in chain(pairs, ((b, a) for a, b in pairs)):
        if a != b:
            found.setdefault(a, set()).add(b)
    return {word: frozenset(opposites) for word, opposites in found.items()}
