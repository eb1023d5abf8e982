"""Alerts in words, safe to send to any chat or mail: nobody is mentioned, nothing of the trace becomes a link."""

from __future__ import annotations

from collections.abc import Sequence

from otel_drift.protocols import Alert
from otel_drift.report.escape import inert

LONGEST_QUOTE = 240
MOST_QUOTES = 2
LISTED = 10
"""Alerts told one by one in a text; of more only the number."""
LONGEST_LABEL = 200
_LONGEST_NAME = 120


def title(alerts: Sequence[Alert]) -> str:
    """One line: how many of what, from where."""
    firing = [one for one in alerts if one.state == "firing"]
    ended = len(alerts) - len(firing)
    parts = []
    if firing:
        what = "recommended action" if all(one.kind == "action" for one in firing) else "suspected finding"
        severities = "/".join(dict.fromkeys(one.severity for one in firing))
        parts.append(f"{len(firing)} {severities} {what}{'' if len(firing) == 1 else 's'}")
    if ended:
        parts.append(f"{ended} resolved")
    places = list(dict.fromkeys(name(one.application) for one in alerts if one.application))
    where = f" in {places[0]}" if len(places) == 1 else f" in {len(places)} applications" if places else ""
    return f"otel-drift: {', '.join(parts)}{where}"


def text(alerts: Sequence[Alert]) -> str:
    """Each alert in a line or two with its links; of many the first `LISTED` and how many more there are."""
    told = [_paragraph(one) for one in alerts[:LISTED]]
    if len(alerts) > LISTED:
        told.append(f"… and {len(alerts) - LISTED} more")
    return "\n\n".join(told)


def summary(alert: Alert) -> str:
    """One line about one alert."""
    what = name(alert.type.replace("_", " ").lower())
    if alert.kind == "action":
        action = str(alert.details.get("recommended_action", "")).replace("_", " ")
        what = f"{name(action)} ({what})"
    else:
        what = f"possible {what}"
    place = name(alert.application)
    if alert.environment:
        place = f"{place} ({name(alert.environment)})" if place else name(alert.environment)
    head = f"{alert.severity} {name(alert.audit)}: {what}"
    return f"{'Resolved: ' * (alert.state == 'resolved')}{head}{f' in {place}' if place else ''}"


def description(alert: Alert) -> str:
    """What else is known of it, in one line: ids, judge, confidence, and quotes where they may leave."""
    parts = []
    if alert.session_id is not None:
        parts.append(f"session {name(alert.session_id)}")
    if alert.event_id is not None:
        parts.append(f"event {name(alert.event_id)}")
    if alert.judge:
        sure = "" if alert.confidence is None else f", confidence {alert.confidence:.2f}"
        parts.append(f"judge {name(alert.judge)}{sure}")
    start = alert.details.get("drift_start_sentence_index")
    if isinstance(start, int):
        parts.append(f"drift starts at sentence {start + 1}")
    said = "; ".join(parts)
    quoted = " / ".join(f"“{one}”" for one in alert.quotes)
    return f"{said}. {quoted}" if quoted else said


def quotes(given: Sequence[str]) -> tuple[str, ...]:
    """Quotes as they may leave: few, cut, inert, on one line."""
    return tuple(_cut(inert(" ".join(one.split())), LONGEST_QUOTE) for one in given[:MOST_QUOTES] if one.strip())


def name(given: str) -> str:
    """An id or a name as it may be shown: cut and inert, on one line."""
    return _cut(inert(" ".join(given.split())), _LONGEST_NAME)


def label(given: str) -> str:
    """An id or a name for a program that also shows it: as `name`, but the dots of ``shop.example`` stay."""
    return _cut(inert(" ".join(given.split()), domains=True), LONGEST_LABEL)


def _paragraph(alert: Alert) -> str:
    lines = [summary(alert), description(alert), *(one for one in (alert.link, alert.session_link) if one)]
    return "\n".join(line for line in lines if line)


def _cut(given: str, limit: int) -> str:
    return given if len(given) <= limit else given[: limit - 1].rstrip() + "…"
