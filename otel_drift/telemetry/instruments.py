"""The metrics of the service in one table, which the SDK's instruments, the guide and the dashboard's test follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 90.0, 120.0, 180.0, 300.0)
"""Bounds of the buckets of durations: the embedded judge takes milliseconds, a large model minutes."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric. `name` as OpenTelemetry has it, `unit` a UCUM code or, in braces, what is counted."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    labels: tuple[str, ...]
    about: str

    @property
    def prometheus(self) -> str:
        """Its name at ``/metrics`` (of a histogram without ``_bucket``, ``_sum``, ``_count``)."""
        unit = {"s": "_seconds", "By": "_bytes"}.get(self.unit, "")
        return self.name.replace(".", "_") + unit + ("_total" if self.kind == "counter" else "")


_COUNTERS = (
    ("sessions", "{session}", "outcome", "Sessions audited or left out, by what came of them"),
    ("turns", "{turn}", "", "Turns of the sessions audited"),
    ("units", "{result}", "audit outcome reason", "Results; reason says why there is no verdict, else it is empty"),
    ("findings", "{finding}", "type severity", "Findings, each once; every type and severity is there from the start, "
     "so that an alert on its increase sees the first one"),
    ("findings.by_application", "{finding}", "audit type severity application environment model prompt_version",
     "Findings by whose answer it is: the application's name, its model and its prompt's version"),
    ("validation.failures", "{answer}", "audit rule prompt prompt_version",
     "Judge answers that did not pass a rule of the validation, by the version of our prompt"),
    ("judge.errors", "{call}", "judge reason", "Judge calls without a usable answer"),
    ("judge.tokens", "{token}", "judge direction", "Tokens sent to judges (input) and got from them (output)"),
    ("judge.cost.usd", "{USD}", "judge", "US dollars of judge calls whose price is known"),
    ("retries", "{retry}", "what", "Requests tried again: the judge, or a platform by its name"),
    ("deliveries", "{value}", "sink outcome", "Values a sink took (written), had (unchanged), refused or put off"),
    ("delivery.failures", "{delivery}", "sink", "Deliveries a sink broke off; what it did not get stays owed"),
    ("received.spans", "{span}", "protocol", "Spans the receiver accepted, durably"),
    ("received.log_records", "{record}", "protocol", "Log records the receiver accepted, durably"),
    ("received.size", "By", "protocol", "Size of accepted requests as sent, before decompression"),
    ("receiver.refusals", "{request}", "protocol reason", "Requests the receiver refused, whole or in part"),
    ("receiver.refused_records", "{record}", "protocol reason", "Spans and log records in them, where known"),
    ("alerts", "{alert}", "alerter state outcome", "Alerts told (firing or resolved), and those that could not be"),
)  # fmt: skip
_HISTOGRAMS = (
    ("judge.duration", "s", "judge", "Time a judge took for a call, with waiting for its turn and its retries"),
)
_GAUGES = (
    ("backlog.open", "{session}", "", "Sessions with spans that were not audited"),
    ("backlog.due", "{session}", "", "Of these, sessions that wait for nothing but a free place"),
    ("backlog.held", "{session}", "", "Of these, sessions being audited"),
    ("backlog.put_off", "{session}", "reason", "Of these, sessions put off: budget, judge, error"),
    ("backlog.oldest_due", "s", "", "How long the session that is due longest has been due"),
    ("inbox.spans", "{span}", "", "Spans kept"),
    ("inbox.size", "By", "", "Size of the spans kept"),
    ("delivery.owed", "{value}", "sink", "Values a sink is owed"),
    ("delivery.lag", "s", "sink", "Age of the oldest value a sink is owed; 0 where it is owed none"),
    ("budget.spent", "1", "of", "Spent of today's budget (UTC): cost in US dollars, tokens, calls"),
    ("budget.limit", "1", "of", "Today's budget, where one is set"),
    ("degraded", "1", "", "1 while anything is wrong, else 0"),
    ("condition", "1", "condition", "1 for each thing that is wrong right now"),
    ("build.info", "1", "version", "Always 1"),
)


def _table() -> dict[str, Instrument]:
    kinds: tuple[tuple[Literal["counter", "gauge", "histogram"], tuple[tuple[str, str, str, str], ...]], ...] = (
        ("counter", _COUNTERS),
        ("histogram", _HISTOGRAMS),
        ("gauge", _GAUGES),
    )
    return {
        f"otel_drift.{name}": Instrument(f"otel_drift.{name}", kind, unit, tuple(labels.split()), about)
        for kind, rows in kinds
        for name, unit, labels, about in rows
    }


INSTRUMENTS: Mapping[str, Instrument] = MappingProxyType(_table())
"""By OpenTelemetry's name."""
