"""What is to be told, by comparing the alerts there are with what the ledger holds: nothing to lose in a crash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from otel_drift.ledger.alert_rows import AlertRow, AlertState, Found, Watched
from otel_drift.links import Links
from otel_drift.policy import AlertRule, finding_item_id
from otel_drift.redaction import opaque

LinksFor: TypeAlias = Callable[[str], Links]
"""Where a person sees what belongs to a trace id: the platform it came from."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings that `rule` lets leave, and that they end: withdrawn, erased, rejected or muted."""

    rule: AlertRule
    kind: Literal["finding"] = "finding"
    audit: None = None

    @property
    def severities(self) -> tuple[str, ...]:
        """Those worth looking at."""
        return self.rule.severities

    def key(self, found: Found) -> str | None:
        """Equal for the same finding in another run, by another judge, in another result."""
        if not self.rule.allows(found.finding, found.judge):
            return None
        return _key(self.kind, found.finding.audit, opaque(found.session_key), found.finding.event_id)

    def details(self, found: Found) -> dict[str, Any]:
        """Nothing."""
        return {}


ACTION_DETAILS = (
    "recommended_action",
    "drift_start_sentence_index",
    "drift_start_char",
    "drift_severity",
    "drift_severity_score",
)


@dataclass(frozen=True, slots=True)
class Actions:
    """Long answers with certain recommended actions, once each: again only if action or drift point change."""

    recommended: frozenset[str]
    rule: AlertRule
    kind: Literal["action"] = "action"
    severities: tuple[str, ...] = ()
    audit: str = "longform_drift"

    def key(self, found: Found) -> str | None:
        """Equal for the same action at the same place of the same answer."""
        report = found.report or {}
        if report.get("recommended_action") not in self.recommended or not self.rule.allows_judge(found.judge):
            return None
        point = (report.get("recommended_action"), report.get("drift_start_char"))
        return _key(self.kind, found.finding.audit, found.unit_id, *map(str, point))

    def details(self, found: Found) -> dict[str, Any]:
        """The recommended action and the drift point; no text."""
        report = found.report or {}
        return {**{name: report.get(name) for name in ACTION_DETAILS}, "unit_id": found.unit_id}


Subject: TypeAlias = Findings | Actions
"""What an alerter is told of."""


def took_up(
    subject: Subject,
    found: Iterable[Found],
    known: Mapping[str, AlertRow],
    links_for: LinksFor,
    *,
    now: int,
    expire: int,
) -> dict[str, AlertRow]:
    """The alerts that new results make or change, by key.

    The same finding in another result is the same alert; it is told again only if its severity or type changed, or
    if it was withdrawn meanwhile. What is older than `expire` (ns) when it is first seen is not told.
    """
    changed: dict[str, AlertRow] = {}
    for one in found:
        key = subject.key(one)
        if key is None:
            continue
        row = changed.get(key) or known.get(key)
        started = min(one.created, now)
        if row is None:
            if now - started > expire:
                continue
            changed[key] = _new_row(subject, key, one, links_for, started, now)
            continue
        row = replace(row, unit_id=one.unit_id, result_id=one.result_id, fingerprint=one.fingerprint)
        if row.state == "resolved":
            body = _body(subject, one, links_for)
            row = _settled(replace(row, state="firing", body=body, started=started, ended=None), now)
        elif row.state in ("firing", "held") and _changed(row, one):
            told_state = None if row.told_state is None else "unsure"
            row = replace(row, body=_body(subject, one, links_for), told_state=told_state)  # type: ignore[arg-type]
            row = _settled(row, now)
        changed[key] = row
    return changed


def went_on(subject: Subject, watched: Iterable[Watched], seen: int, *, now: int, expire: int) -> list[AlertRow]:
    """The alerts that changed by themselves: withdrawn, erased, rejected, muted, let go again, expired.

    Args:
        subject: What they are about.
        watched: Those that fire or are held and may have changed.
        seen: Results up to this one were taken up.
        now: Nanoseconds since the epoch.
        expire: How long an alert lasts that nobody ends.
    """
    made = (_went_on(subject, one, seen, now, expire) for one in watched)
    return [row for row in made if row is not None]


def _went_on(subject: Subject, one: Watched, seen: int, now: int, expire: int) -> AlertRow | None:
    row = one.row
    found = not one.erased and (one.current == row.result_id or one.no_verdict)
    stands = one.current is not None and (found or one.current > seen)
    state: AlertState
    if not stands:
        state = "resolved"
    elif now - row.started > expire:
        state = "expired"
    else:
        state = "held" if one.rejected or one.muted else "firing"
    if state == row.state:
        return None
    if isinstance(subject, Actions) and state != "firing":
        return replace(row, state=state, due=None, ended=now)
    return _settled(replace(row, state=state, ended=None if state == "firing" else now), now)


def _settled(row: AlertRow, now: int) -> AlertRow:
    """The row with `due` set where the alerter was last told otherwise, or may have been."""
    wanted = "firing" if row.state == "firing" else "resolved"
    if wanted == (row.told_state or "resolved"):
        return replace(row, due=None)
    return row if row.due is not None else replace(row, due=now)


def _new_row(subject: Subject, key: str, one: Found, links_for: LinksFor, started: int, now: int) -> AlertRow:
    return AlertRow(
        alert_key=key,
        unit_id=one.unit_id,
        result_id=one.result_id,
        event_id=one.finding.event_id,
        item_id=finding_item_id(one.finding),
        fingerprint=one.fingerprint,
        state="firing",
        body=_body(subject, one, links_for),
        started=started,
        due=now,
    )


def _body(subject: Subject, one: Found, links_for: LinksFor) -> dict[str, Any]:
    """The fields of `protocols.Alert` that stay while an alert fires: ids, names and links, no text of the trace."""
    finding = one.finding
    links = links_for(finding.span_ref.partition(":")[0])
    return {
        "audit": finding.audit,
        "type": finding.type,
        "severity": finding.severity,
        "session_id": one.session_id,
        "span_ref": finding.span_ref,
        "event_id": finding.event_id,
        "application": one.project,
        "environment": one.environment,
        "judge": one.judge,
        "confidence": finding.confidence,
        "link": links.span(finding.span_ref),
        "session_link": links.session(one.session_id),
        "details": subject.details(one),
    }


def _changed(row: AlertRow, one: Found) -> bool:
    return (row.body["severity"], row.body["type"]) != (one.finding.severity, one.finding.type)


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]
