"""How far an answer drifts, as one number: from the statuses of its sentences, by code, the same for every judge.

::

    worst = 0 | 0.1 partially_grounded | 0.3 ungrounded | 0.5 contradicted      the weakest sentence there is
    share = sum of 0.3 partially_grounded, 0.6 ungrounded, 1.0 contradicted     divided by the number of sentences
    score = worst + (1 - worst) * sqrt(share)

0 only where every sentence is fully grounded, 1 only where every one is contradicted. Both parts grow with every
sentence that gets weaker, so the score never falls by it. The part of an answer (a chunk, the sentences up to one) is
measured by the number of sentences of the whole answer, as if all others were grounded: no part scores higher than
the whole, and the way an answer was cut changes nothing. The square root makes the first weak sentences count most:
one contradicted sentence among 32 is 0.59, two 0.63; one ungrounded 0.40, one partially grounded 0.19.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from otel_drift.audits.longform_drift_options import DriftSeverity
from otel_drift.model import Severity

_WORST: Mapping[str, float] = {
    "fully_grounded": 0.0,
    "partially_grounded": 0.1,
    "ungrounded": 0.3,
    "contradicted": 0.5,
}
_TENTHS: Mapping[str, int] = {"fully_grounded": 0, "partially_grounded": 3, "ungrounded": 6, "contradicted": 10}
BANDS: tuple[tuple[float, DriftSeverity], ...] = ((0.7, "critical"), (0.5, "severe"), (0.3, "moderate"))
"""Severity from this score on; below the last it is minor, at 0 none."""
EMBEDDED_MOST = 0.69
"""The highest score of a judge without understanding: at most severe."""

CANONICAL: Mapping[DriftSeverity, Severity] = {
    "none": "NONE",
    "minor": "MINOR",
    "moderate": "MAJOR",
    "severe": "MAJOR",
    "critical": "CRITICAL",
}


def drift_score(statuses: Iterable[str], of: int) -> float:
    """The score 0..1 of sentences with `statuses`, in an answer of `of` sentences."""
    listed = list(statuses)
    return _score(max((_WORST[status] for status in listed), default=0.0), sum(_TENTHS[one] for one in listed), of)


def trajectory(statuses: Sequence[str]) -> list[float]:
    """The score of the sentences up to each one: never falling, ending at the score of the answer."""
    found, worst, tenths = [], 0.0, 0
    for status in statuses:
        worst, tenths = max(worst, _WORST[status]), tenths + _TENTHS[status]
        found.append(_score(worst, tenths, len(statuses)))
    return found


def severity_of(score: float) -> DriftSeverity:
    """The severity a score stands for."""
    if score <= 0:
        return "none"
    return next((name for least, name in BANDS if score >= least), "minor")


def _score(worst: float, tenths: int, of: int) -> float:
    return round(worst + (1 - worst) * math.sqrt(tenths / (10 * of)), 4) if of else 0.0
