"""A gate's span in the application's trace is no part of the conversation that is audited later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from otel_drift import pipeline, plugins
from otel_drift.audits.source_conflict import SourceConflict
from otel_drift.judges.rules import RulesJudge
from otel_drift.ledger import Ledger
from otel_drift.model import Session
from otel_drift.protocols import AuditSettings
from otel_drift.spool import SpanSpool


def sessions(file: Path) -> list[Session]:
    with Ledger.open(":memory:") as ledger, SpanSpool() as spool:
        line = pipeline.Line([SourceConflict()], RulesJudge(), AuditSettings(embedded_judge=True), ledger)
        return list(pipeline.read_sessions(plugins.load("sources", "otlp-file")([str(file)]), line, spool))


def test_gate_spans_change_no_session(examples: Path, tmp_path: Path) -> None:
    source = examples / "telecom-otel-genai.json"
    export = json.loads(source.read_text())
    spans = [span for r in export["resourceSpans"] for scope in r["scopeSpans"] for span in scope["spans"]]
    gates = [gate_span(span, number) for number, span in enumerate(spans) if not span.get("parentSpanId")]
    export["resourceSpans"][0]["scopeSpans"].append({"scope": {"name": "otel_drift.gate"}, "spans": gates})
    (tmp_path / "with.json").write_text(json.dumps(export))

    assert gates
    assert sessions(tmp_path / "with.json") == sessions(source)


def gate_span(root: dict[str, Any], number: int) -> dict[str, Any]:
    """A decision inside the trace of `root`, as the gate emits it."""
    said = {"decision": "abstain", "reason": "conflict", "decision_id": f"{number:032x}", "preset": "legal"}
    attributes = [{"key": f"otel_drift.gate.{name}", "value": {"stringValue": value}} for name, value in said.items()]
    return {
        "traceId": root["traceId"],
        "spanId": f"{number + 0xABC:016x}",
        "parentSpanId": root["spanId"],
        "name": "otel_drift.gate",
        "kind": 1,
        "startTimeUnixNano": root["startTimeUnixNano"],
        "endTimeUnixNano": root["startTimeUnixNano"],
        "attributes": attributes,
    }
