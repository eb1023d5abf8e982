"""A judge whose calls are counted is the same judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ledger_samples import ANSWER, TASK
from otel_drift.config import Settings
from otel_drift.errors import PermanentJudgeError, RetryableJudgeError
from otel_drift.fingerprints import cache_key
from otel_drift.judges.rules import RulesJudge
from otel_drift.model import JudgeAnswer, JudgeTask
from otel_drift.protocols import Judge
from otel_drift.telemetry import Telemetry
from otel_drift.telemetry.judge import ObservedJudge


class Scripted(RulesJudge):
    """Says what it is told to; closes."""

    def __init__(self, *says: JudgeAnswer | Exception) -> None:
        super().__init__()
        self._says = iter(says)
        self.closed = False

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        said = next(self._says)
        if isinstance(said, Exception):
            raise said
        return said

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    opened = Telemetry.open(Settings())
    yield opened
    opened.close()


def samples(telemetry: Telemetry) -> dict[tuple[str, ...], float]:
    """The judge's numbers by name and labels, that of the judge left out."""
    found = {}
    for family in text_string_to_metric_families(telemetry.page().decode()):
        for one in family.samples if family.name.startswith("otel_drift_judge") else ():
            labels = (text for name, text in sorted(one.labels.items()) if name not in ("judge", "le"))
            found[one.name.removeprefix("otel_drift_judge_"), *labels] = one.value
    return found


def test_it_is_the_same_judge(telemetry: Telemetry) -> None:
    """Answers that were paid for are found again: the cache key is the same."""
    plain, observed = RulesJudge(), ObservedJudge(RulesJudge(), telemetry)

    assert isinstance(observed, Judge)
    assert cache_key(TASK, observed) == cache_key(TASK, plain)
    same: list[Any] = [(one.name, one.note, one.embedded, one.endpoint, one.limits()) for one in (plain, observed)]
    assert same[0] == same[1]
    assert observed.count_tokens("four words are here") == plain.count_tokens("four words are here")


def test_it_has_what_the_judge_has_besides(telemetry: Telemetry) -> None:
    scripted = Scripted()
    ObservedJudge(scripted, telemetry).close()

    assert scripted.closed
    assert hasattr(ObservedJudge(RulesJudge(), telemetry), "check") == hasattr(RulesJudge(), "check")
    assert not hasattr(ObservedJudge(RulesJudge(), telemetry), "nothing")


def test_calls_tokens_cost_and_errors_are_counted(telemetry: Telemetry) -> None:
    refused = PermanentJudgeError("no", reason="content_filter")
    refused.answer = ANSWER
    says = [ANSWER, refused, RetryableJudgeError("slow", reason="timeout"), ValueError("a bug")]
    judge = ObservedJudge(Scripted(*says), telemetry)
    for said in says:
        if isinstance(said, Exception):
            with pytest.raises(type(said)):
                judge.ask(TASK)
        else:
            assert judge.ask(TASK) is ANSWER

    counted = samples(telemetry)
    assert counted["duration_seconds_count",] == 4
    assert counted["tokens_total", "input"] == 2 * ANSWER.input_tokens, "a refusal is paid for"
    assert counted["tokens_total", "output"] == 2 * ANSWER.output_tokens
    assert counted["cost_usd_total",] == pytest.approx(2 * (ANSWER.cost or 0))
    errors = {key[1]: number for key, number in counted.items() if key[0] == "errors_total"}
    assert errors == {"content_filter": 1, "timeout": 1, "unexpected": 1}
