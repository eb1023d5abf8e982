"""Long-form drift as SARIF 2.1.0: code review shows each sentence that leaves its source, at its place in the file.

Columns count code points (``columnKind``). Texts of strangers are escaped so that a viewer makes no link of them.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from otel_drift.model import Unit
from otel_drift.reasons import explain
from otel_drift.report.escape import terminal_safe
from otel_drift.text.folding import fold, locate

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LINE = re.compile(r"\r\n|\r|\n")
_RULES: Mapping[str, tuple[str, str, str]] = {
    "partially_grounded": ("PartiallyGrounded", "note", "The source bears out only a part of the sentence."),
    "ungrounded": ("Ungrounded", "warning", "The source says nothing about the sentence."),
    "contradicted": ("Contradicted", "error", "The source says otherwise than the sentence."),
}


def sarif_log(unit: Unit) -> dict[str, Any]:
    """The log of one audited file.

    Args:
        unit: from ``longform_drift`` over a session of files (`otel_drift.longform.files`).
    """
    turn = unit.session.turns[0]
    report = unit.report or {}
    texts = {passage.id: passage.text or "" for passage in turn.passages}
    results = [
        _result(one, report, turn.turn_id, turn.answer or "", texts)
        for one in report.get("sentence_by_sentence_analysis", ())
        if one["grounding_status"] != "fully_grounded"
    ]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver()},
                "columnKind": "unicodeCodePoints",
                "invocations": [_invocation(unit)],
                "artifacts": [{"location": _location(name)} for name in (turn.turn_id, *texts)],
                "results": results,
                "properties": _properties(unit, report),
            }
        ],
    }


def _driver() -> dict[str, Any]:
    return {
        "name": "otel-drift",
        "version": metadata.version("otel-drift"),
        "rules": [
            {
                "id": f"longform_drift.{status}",
                "name": name,
                "shortDescription": {"text": text},
                "defaultConfiguration": {"level": level},
            }
            for status, (name, level, text) in _RULES.items()
        ],
    }


def _invocation(unit: Unit) -> dict[str, Any]:
    judged = unit.outcome in ("findings", "clean")
    invocation: dict[str, Any] = {"executionSuccessful": judged or unit.outcome == "not_applicable"}
    if not judged:
        reason = unit.reason or unit.outcome
        told = f"Not audited ({unit.outcome.replace('_', ' ')}): {reason}. {explain(reason)}"
        level = "error" if unit.outcome == "inconclusive" else "warning"
        invocation["toolExecutionNotifications"] = [{"level": level, "message": {"text": _plain(told)}}]
    return invocation


def _properties(unit: Unit, report: Mapping[str, Any]) -> dict[str, Any]:
    kept = (
        "drift_start_sentence_index",
        "drift_severity",
        "drift_severity_score",
        "recommended_action",
        "review",
    )
    told = {key: report[key] for key in kept if key in report}
    return {"outcome": unit.outcome, "reason": unit.reason, "judge": terminal_safe(unit.judge), **told}


def _result(
    one: Mapping[str, Any], report: Mapping[str, Any], name: str, answer: str, sources: Mapping[str, str]
) -> dict[str, Any]:
    status = one["grounding_status"]
    excerpt, source = one["supporting_source_excerpt"], one["source_id"]
    said = [
        "Drift starts here. " if one["sentence_index"] == report["drift_start_sentence_index"] else "",
        f"{status.replace('_', ' ').capitalize()}: {one['drift_explanation']}",
        f" Source: “{excerpt}”" if excerpt else "",
    ]
    result: dict[str, Any] = {
        "ruleId": f"longform_drift.{status}",
        "ruleIndex": list(_RULES).index(status),
        "level": _RULES[status][1],
        "message": {"text": _plain("".join(said))},
        "locations": [_place(name, answer, one["start"], one["end"])],
        "partialFingerprints": {"sentence/v1": _sha256(f"{name}\0{fold(one['sentence_text'])}")},
        "properties": {"sentence_index": one["sentence_index"]},
    }
    span = locate(sources.get(source or "", ""), excerpt) if excerpt else None
    if span is not None and source is not None:
        place = _place(source, sources[source], *span)
        result["relatedLocations"] = [{"id": 1, **place, "message": {"text": "The source says."}}]
    return result


def _place(name: str, text: str, start: int, end: int) -> dict[str, Any]:
    starts = [0, *(one.end() for one in _LINE.finditer(text))]
    first, last = bisect_right(starts, start) - 1, bisect_right(starts, end) - 1
    region = {
        "startLine": first + 1,
        "startColumn": start - starts[first] + 1,
        "endLine": last + 1,
        "endColumn": end - starts[last] + 1,
        "charOffset": start,
        "charLength": end - start,
        "snippet": {"text": terminal_safe(text[start:end], multiline=True)},
    }
    return {"physicalLocation": {"artifactLocation": _location(name), "region": region}}


def _location(name: str) -> dict[str, str]:
    if name == "-":
        return {"uri": "stdin"}
    path = Path(name)
    return {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())}


def _plain(text: str) -> str:
    """Plain text of a message: what the format would read as a link or a placeholder is escaped (SARIF 3.11.5, .6)."""
    escaped = re.sub(r"([\\\[\]])", r"\\\1", terminal_safe(text))
    return escaped.replace("{", "{{").replace("}", "}}")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
