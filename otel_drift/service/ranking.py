"""In which order sessions come: by risk, worked out once for what a session holds, and kept by the inbox."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

from otel_drift.inbox import Claim
from otel_drift.model import Session
from otel_drift.pipeline import Line
from otel_drift.service.risk import risk, suspected

log = logging.getLogger(__name__)

_REMEMBERED = 20_000


def priority_of(risk: float) -> float:
    """What the inbox orders by: from -1 (no risk) up to 0, which stands for what was not ranked and comes first."""
    return -1 / (1 + risk)


class Ranking:
    """The risk of sessions by the rules of ``[budget] high_risk``."""

    def __init__(self, rules: Sequence[str], line: Line) -> None:
        self._rules = rules
        self._suspicion = suspected(line)
        self._known: OrderedDict[int, float] = OrderedDict()

    def of(self, name: int, claim: Claim, session: Session) -> float:
        """The risk of a session (`name` stands for what it holds): what its claim was ranked with, if it was."""
        if claim.session_id is not None and claim.priority < 0:
            return -1 / claim.priority - 1
        if name not in self._known:
            self._known[name] = self._risk(session)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return self._known[name]

    def _risk(self, session: Session) -> float:
        try:
            return risk(session, self._rules, self._suspicion)
        except Exception as error:  # it fails again, and is reported, when the session is audited
            log.debug("the risk of a session is unknown", exc_info=error)
            return 0.0
