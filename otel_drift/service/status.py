"""What ``otel-drift status`` says, from the database alone: also where no service is running, or on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_drift.config import Settings
from otel_drift.inbox import Inbox
from otel_drift.ledger import Ledger
from otel_drift.service.following import followed
from otel_drift.service.keeping import BEAT_SECONDS
from otel_drift.times import DAY, SECOND, utc

SILENT_SECONDS = 6 * BEAT_SECONDS
"""A process that said nothing for so long is taken for dead."""
MISSED_SECONDS = 3600
"""For so long one is missed that was not started again on its host."""
LATE_SECONDS = 600
"""Values that a sink puts off for so long are a problem: spans may come a little late."""
BEHIND = 3
"""A source is behind when it was not read for so many of its intervals."""


def status(ledger: Ledger, inbox: Inbox, settings: Settings, now: int) -> dict[str, Any]:
    """The state of the services on a ledger; all durations in seconds, times ISO 8601 in UTC.

    `problems` are sentences for people; empty = all is in order.
    """
    from otel_drift.ledger.alerts import AlertBook

    counts = inbox.counts(now, **settings.serve.due())
    told: dict[str, Any] = {
        "ledger": ledger.name,
        "at": utc(now),
        "processes": [_process(one, now) for one in ledger.processes()],
        "sessions": {
            "open": counts.open,
            "due": counts.due,
            "held": counts.held,
            "put_off": dict(counts.put_off),
            "oldest_due_seconds": round(counts.oldest_due / SECOND, 1),
        },
        "kept": {"spans": counts.spans, "bytes": counts.bytes},
        "today": ledger.made_since(now - now % DAY),
        "budget": _budget(ledger, settings, now),
        "sources": [
            _source(name, *reached, now)
            for mark, reached in sorted(ledger.cursors().items())
            if (name := followed(mark)) is not None
        ],
        "sinks": _sinks(ledger, now),
        "alerts": {name: _alerter(one) for name, one in AlertBook(ledger.database).summary().items()},
    }
    told["problems"] = _problems(told, settings)
    return told


def _process(one: Mapping[str, Any], now: int) -> dict[str, Any]:
    silent = (now - one["heartbeat"]) / SECOND
    state = "stopped" if one["stopped"] else "silent" if silent > SILENT_SECONDS else "running"
    said = {key: value for key, value in one.items() if key not in ("heartbeat", "stopped", "started")}
    return {
        **said,
        "state": state,
        "started": utc(one["started"]),
        "stopped": utc(one["stopped"]) if one["stopped"] else None,
        "heard_seconds_ago": round(max(0.0, silent), 1),
    }


def _budget(ledger: Ledger, settings: Settings, now: int) -> dict[str, Any]:
    limits = settings.budget.model_dump(include={"cost_per_day", "tokens_per_day", "calls_per_day"})
    return {**ledger.spent(now), "limits": limits, "over": settings.budget.over}


def _source(name: str, mark: str | None, updated: int, now: int) -> dict[str, Any]:
    return {
        "name": name,
        "read_until": None if mark is None else utc(int(mark)),
        "behind_seconds": None if mark is None else _ago(now, int(mark)),
        "read_seconds_ago": _ago(now, updated),
    }


def _sinks(ledger: Ledger, now: int) -> dict[str, Any]:
    """What each is owed, and what became of what was delivered today."""
    lags, put_off = ledger.delivery_lags(), ledger.put_off()
    return {
        name: {**counts, "oldest_owed_seconds": _ago(now, lags.get(name)), "put_off": put_off.get(name, 0)}
        for name, counts in sorted(ledger.delivery_counts(now - now % DAY).items())
    }


def _alerter(one: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: None if one[name] is None else utc(one[name]) for name in ("since", "waiting_since")}
    return {**one, **times}


def _problems(told: Mapping[str, Any], settings: Settings) -> list[str]:
    problems = []
    running = [one for one in told["processes"] if one["state"] == "running"]
    if not running:
        problems.append("no service is running on this ledger: otel-drift serve --config FILE")
    hosts = {one.get("host") for one in running}
    problems += [
        f"process {one['process_id']} fell silent {one['heard_seconds_ago']:.0f} s ago"
        for one in told["processes"]
        if one["state"] == "silent" and one.get("host") not in hosts and one["heard_seconds_ago"] < MISSED_SECONDS
    ]
    for one in running:
        problems += [f"{name}: {said['message']}" for name, said in one.get("conditions", {}).items()]
    for source in told["sources"]:
        if running and (source["behind_seconds"] or 0) > BEHIND * settings.serve.follow_minutes * 60:
            problems.append(f"source {source['name']} was not read since {source['read_until']}")
    problems += [
        f"sink {name} puts {counts['put_off']} values off: does it have the spans? The application must send there, too"
        for name, counts in told["sinks"].items()
        if counts["put_off"] and (counts["oldest_owed_seconds"] or 0) > LATE_SECONDS
    ]
    waiting = told["sessions"]["put_off"].get("budget", 0)
    if waiting:
        problems.append(f"{waiting} sessions wait for the next day's budget")
    return problems


def _ago(now: int, then: int | None) -> float | None:
    return None if then is None else round(max(0, now - then) / SECOND, 1)
