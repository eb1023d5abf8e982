"""Findings over many sessions, by the passage behind them: one wrong document is one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_drift.model import SEVERITY_SCORES

NO_PASSAGE = "(no passage)"


def grouped(findings: Sequence[Mapping[str, Any]], by: str) -> list[dict[str, Any]]:
    """Group findings; the group in most sessions comes first, findings without a passage last.

    A finding with two passages behind it is in both groups. Rejected and muted findings are counted apart and do not
    make a group more severe.

    Args:
        findings: From `Ledger.current_findings`.
        by: ``passage``, ``type`` or ``session``.
    """
    members: dict[str, list[Mapping[str, Any]]] = {}
    names: dict[str, dict[str, Any]] = {}
    for finding in findings:
        for key, name in _keys(finding, by):
            members.setdefault(key, []).append(finding)
            names.setdefault(key, name)
    groups = [_group(by, names[key], found) for key, found in members.items()]
    return sorted(groups, key=lambda one: (one[by] == NO_PASSAGE, -one["sessions"], -one["findings"], str(one[by])))


def _keys(finding: Mapping[str, Any], by: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if by == "type":
        name = f"{finding['audit']}: {finding['type']}"
        yield name, {"type": name}
    elif by == "session":
        yield finding["session_key"], {"session": finding["session_id"] or finding["session_key"]}
    elif finding["passages"]:
        for passage in finding["passages"]:
            yield passage["key"], {"passage": passage["passage_id"], "key": passage["key"], "title": passage["title"]}
    else:
        yield "", {"passage": NO_PASSAGE, "key": None, "title": None}


def _group(by: str, name: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    standing = [one for one in found if one["status"] != "rejected" and not one["muted"]]
    worst = max((one["severity"] for one in standing), key=lambda name: SEVERITY_SCORES[name], default="NONE")
    shown = next((one for one in standing if one["quotes"]), None)
    return {
        **name,
        "findings": len(found),
        "sessions": len({one["session_key"] for one in found}),
        "severity": worst,
        "types": dict(Counter(one["type"] for one in found).most_common()),
        "statuses": dict(Counter("muted" if one["muted"] else one["status"] for one in found).most_common()),
        "first": min(one["committed"] for one in found),
        "last": max(one["committed"] for one in found),
        "example": None if shown is None else {"event_id": shown["event_id"], "quotes": shown["quotes"]},
        **({} if by == "session" else {"session_ids": _sessions(found)}),
    }


def _sessions(found: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(one["session_id"] or one["session_key"] for one in found))
