"""Review on a platform and in the ledger brought together: open items go there, verdicts come back as decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_drift.protocols import ReviewQueue, ReviewVerdict

if TYPE_CHECKING:
    from otel_drift.ledger import Ledger

Place = tuple[str, str]
"""Audit, and span or session."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What one bringing together did. `elsewhere`: items the platform does not hold."""

    added: int
    elsewhere: int
    decided: tuple[dict[str, Any], ...]
    unmatched: int
    """Verdicts about nothing the ledger knows, or about several sessions of one id."""


def exchange(ledger: Ledger, queue: ReviewQueue, *, triage: bool = False) -> Exchange:
    """Push the items that wait for a person, and record what was decided on the platform.

    A verdict counts where it is younger than the last thing that happened to its item: one that was decided here after
    it, or opened again because the finding changed, stays as it is.

    Args:
        ledger: Whose items.
        queue: Where people review.
        triage: Also push what may wait.
    """
    items = ledger.review_items(("open", "triage", "confirmed", "rejected"))
    waiting = ("open", "triage") if triage else ("open",)
    added, elsewhere = queue.push([one for one in items if one["status"] in waiting])
    places: dict[Place, list[dict[str, Any]]] = {}
    for one in items:
        places.setdefault(_place(one), []).append(one)
    decided: list[dict[str, Any]] = []
    unmatched = 0
    seen: set[Place] = set()
    for verdict in sorted(queue.verdicts(), key=lambda one: -one.at):
        place = verdict.audit, verdict.span_ref or f"session {verdict.session_id}"
        if place in seen:
            continue
        seen.add(place)
        concerned = places.get(place, [])
        if not concerned or len({one["session_key"] for one in concerned}) > 1:
            unmatched += 1
            continue
        news = [one["item_id"] for one in concerned if _is_news(ledger, one, verdict)]
        decided += [ledger.resolve(one, verdict.decision, by=verdict.by, why=verdict.why)[0] for one in news]
    return Exchange(added, elsewhere, tuple(decided), unmatched)


def _place(item: Mapping[str, Any]) -> Place:
    return item["audit"], item["span_ref"] or f"session {item['session_id']}"


def _is_news(ledger: Ledger, item: Mapping[str, Any], verdict: ReviewVerdict) -> bool:
    if item["status"] == verdict.decision:
        return False
    history = ledger.review_item(item["item_id"])["history"]
    return verdict.at > max((said["at"] for said in history), default=0)
