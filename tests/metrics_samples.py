"""Telemetry of a service that has seen everything once."""

from __future__ import annotations

from dataclasses import replace

from ledger_samples import ANSWER, PROMPT, finding, session, unit
from otel_drift.delivery import SinkDelivery
from otel_drift.errors import RetryableJudgeError
from otel_drift.faults import Fault
from otel_drift.model import Attempt
from otel_drift.telemetry import Telemetry
from otel_drift.telemetry.instruments import INSTRUMENTS


def everything(telemetry: Telemetry) -> None:
    """Count each metric of the table at least once, and give each gauge a value."""
    count_everything(telemetry)
    for one in INSTRUMENTS.values():
        if one.kind == "gauge" and one.name != "otel_drift.build.info":
            telemetry.gauge(one.name.removeprefix("otel_drift."), lambda one=one: {"cost": 1} if one.labels else 1)


def count_everything(telemetry: Telemetry, event: str = "first") -> None:
    """Count each counter of the table at least once; findings are counted again under another `event`."""
    turns = tuple(replace(turn, model="model-1", prompt_version="7") for turn in session().turns)
    at = replace(session(), project="shop", environment="prod", turns=turns)
    failed = Attempt("session", 1, PROMPT, "key", ANSWER, (Fault("quote", "no such words"),))
    made = replace(unit(finding(3, severity="CRITICAL", event_id=event), finding(4), session=at), attempts=(failed,))
    telemetry.unit(made)
    telemetry.unit(unit(outcome="inconclusive", reason="timeout"))
    telemetry.session("findings", made.session)
    telemetry.asked("rules", ANSWER, None, 0.2)
    telemetry.asked("rules", None, RetryableJudgeError("x", reason="timeout"), 0.2)
    telemetry.retried("judge")
    telemetry.received("http", 1, 1, 1)
    telemetry.refused("grpc", "busy", 4)
    telemetry.delivered(SinkDelivery("jsonl:x", written=3))
    telemetry.alerted("webhook", "firing", True)
