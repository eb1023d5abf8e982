"""How risky a session looks before money is spent on it: feedback, errors, tags, what the embedded judge finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from otel_drift import pipeline, validation
from otel_drift.budget import Budget
from otel_drift.judges.rules import RulesJudge
from otel_drift.model import SEVERITY_SCORES, Session
from otel_drift.pipeline import Line
from otel_drift.selection import has_flag

SUSPICION = "suspicion"


def risk(session: Session, rules: Sequence[str], suspicion: Callable[[Session], float]) -> float:
    """How many of the rules apply to a session; where ``suspicion`` does, a part of one more by how grave it is.

    Args:
        session: The session.
        rules: As in ``[budget] high_risk``: ``feedback``, ``error``, ``suspicion``, ``tag:NAME``, ``environment:NAME``,
            ``project:NAME``.
        suspicion: How grave what the embedded judge finds is, from 0 (nothing) to 1; called only where a rule asks.

    Returns:
        0 where no rule applies.
    """
    plain = sum(_applies(session, rule) for rule in set(rules) - {SUSPICION})
    grave = suspicion(session) if SUSPICION in rules else 0.0
    return plain + (1 + grave if grave > 0 else 0)


def suspected(line: Line) -> Callable[[Session], float]:
    """What the embedded judge makes of a session with the audits of a line: severity times confidence of the worst.

    It takes about 7 ms a turn, stays in this process and leaves nothing behind.
    """
    own = embedded(line)

    def worst_of(session: Session) -> float:
        found = [
            SEVERITY_SCORES[finding.severity] * finding.confidence
            for audit, part in pipeline.parts(session, own)
            for finding in validation.audit_session(audit, part, own.judge, settings=own.settings).findings
        ]
        return max(found, default=0.0)

    return worst_of


def embedded(line: Line) -> Line:
    """The same line with the embedded judge, which needs no budget; its results say that it is the one."""
    judge = RulesJudge()
    settings = replace(
        line.settings, limits=judge.limits(), count_tokens=judge.count_tokens, embedded_judge=True, ask_again=False
    )
    return replace(line, judge=judge, settings=settings, budget=Budget(), workers=1)


def _applies(session: Session, rule: str) -> bool:
    name, _, value = rule.partition(":")
    if name == "environment":
        return value in {session.environment, *(turn.environment for turn in session.turns)}
    if name == "project":
        return session.project == value
    return has_flag(session, rule)
