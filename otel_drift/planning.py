"""Before anything is asked: what auditing a session would take, and which limits hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from otel_drift import prompting
from otel_drift.errors import UnitError
from otel_drift.model import JudgeLimits, Session, Unit
from otel_drift.protocols import Audit, AuditSettings, Forecast, Judge


@dataclass(frozen=True, slots=True)
class Plan:
    """What auditing one session would take.

    Tokens and `cost` (US dollars) are estimates without repair asks; `most_calls` and `most_cost` include one repair
    of every ask. Costs are None where the price is unknown.
    """

    eligible: bool
    reason: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    most_calls: int = 0
    most_cost: float | None = 0.0
    unit: Unit | None = None
    """The result itself, where it takes no call: one that is committed, or the embedded judge's."""


def plan(audit: Audit, session: Session, judge: Judge, settings: AuditSettings | None = None) -> Plan:
    """Estimate calls, tokens and cost of auditing one session; asks nobody.

    Raises:
        ConfigError: a prompt or setting of the audit is wrong.
    """
    told = settled(settings or AuditSettings(), judge)
    eligibility = audit.eligibility(session, told)
    if not eligibility.eligible:
        return Plan(False, eligibility.reason)
    try:
        asks = _forecast(audit, session, judge, told)
    except UnitError as error:
        return Plan(False, error.reason)
    repairs = 0 if judge.embedded else 1
    cost = [price(ask.input_tokens, ask.output_tokens, judge, told.limits) for ask in asks]
    again = [
        price(ask.input_tokens + ask.output_tokens, ask.output_tokens, judge, told.limits) for ask in asks * repairs
    ]
    return Plan(
        eligible=True,
        calls=len(asks),
        input_tokens=sum(ask.input_tokens for ask in asks),
        output_tokens=sum(ask.output_tokens for ask in asks),
        cost=total(cost),
        most_calls=len(asks) * (1 + repairs),
        most_cost=total([*cost, *again]),
    )


def settled(settings: AuditSettings, judge: Judge) -> AuditSettings:
    """`settings` with what they leave open taken from the judge."""
    own, told = judge.limits(), settings.limits
    limits = JudgeLimits(
        input_tokens=own.input_tokens if told.input_tokens is None else told.input_tokens,
        output_tokens=own.output_tokens if told.output_tokens is None else told.output_tokens,
        input_price=own.input_price if told.input_price is None else told.input_price,
        output_price=own.output_price if told.output_price is None else told.output_price,
    )
    return replace(
        settings,
        limits=limits,
        count_tokens=settings.count_tokens or judge.count_tokens,
        embedded_judge=judge.embedded,
    )


def price(input_tokens: int, output_tokens: int, judge: Judge, limits: JudgeLimits) -> float | None:
    """US dollars for so many tokens; None where the judge's prices are unknown, 0 for the embedded judge."""
    if judge.embedded:
        return 0.0
    if limits.input_price is None or limits.output_price is None:
        return None
    return input_tokens * limits.input_price + output_tokens * limits.output_price


def total(costs: Sequence[float | None]) -> float | None:
    """The sum, or None as soon as one is unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _forecast(audit: Audit, session: Session, judge: Judge, settings: AuditSettings) -> list[Forecast]:
    forecast = getattr(audit, "forecast", None)
    if forecast is not None:
        return list(forecast(session, settings))
    asks = []
    for step in next(audit.steps(session, settings), ()):
        prompt = prompting.chosen(step.prompt_id, settings)
        messages = prompting.render(prompt, step.inputs, prompting.new_nonce(step.inputs))
        tokens = sum(judge.count_tokens(message.content) for message in messages)
        asks.append(Forecast(tokens, min(tokens, settings.limits.output_tokens or tokens)))
    return asks
