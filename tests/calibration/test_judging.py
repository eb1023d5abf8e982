"""Items judged: by the embedded judge in this process, by a model behind HTTP, and what becomes of what cannot be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model_server import ModelServer, Reply, Request
from otel_drift.audits.source_conflict import SourceConflict
from otel_drift.calibration.embedded import embedded_score
from otel_drift.calibration.judging import Bench, Judged, conflict_score, judged, plans
from otel_drift.calibration.labels import Case, CasePassage, Labelled, Task, read_labels
from otel_drift.calibration.questions import session_of
from otel_drift.calibration.report import build_report
from otel_drift.errors import ConfigError
from otel_drift.gate import ConflictGate
from otel_drift.judges.litellm import LiteLLMJudge
from otel_drift.judges.rules import RulesJudge
from otel_drift.ledger import Ledger
from otel_drift.protocols import AuditSettings

PSEUDO = Path(__file__).parents[2] / "examples" / "pseudo_conflicts.jsonl"
RULES = Bench(RulesJudge(), AuditSettings(embedded_judge=True))


def case(task: Task, text: str, reference: str | None = None, *passages: str, id: str = "x") -> Case:
    known = tuple(CasePassage(f"p{n}", one) for n, one in enumerate(passages, 1))
    return Case(id, task, text, reference, known, (("user", "What holds?"),))


def labelled(case: Case, label: str, bad: bool | None) -> Labelled:
    return Labelled(case, "suite", case.id, label, bad, "real" if bad else "consistent")


def asked(server: ModelServer, **options: Any) -> Bench:
    judge = LiteLLMJudge("openai/scripted", api_base=server.url, input_window=100_000, output_limit=4_000, **options)
    return Bench(judge, AuditSettings())


def verdict(word: str, confidence: float = 0.8) -> dict[str, Any]:
    return {"verdict": word, "reason": "so it is", "confidence": confidence}


def test_the_embedded_judge_gives_graded_scores_in_the_right_order() -> None:
    source = "The museum opens at 10 a.m. and admission is 8 euros for adults."
    fine, added, other = (
        embedded_score(case("grounding", text, None, source)).score
        for text in ("The museum opens at 10 a.m.", "The museum opens at 11 a.m.", "Zebras graze in Botswana all year.")
    )
    assert fine < added < other

    conflict = embedded_score(case("contradiction", "The fee is 30 euros a year.", "The fee is 20 euros a year."))
    same = embedded_score(case("contradiction", "The fee is 20 euros a year.", "The fee is 20 euros a year."))
    assert same.score == 0 < conflict.score < 1

    before = "The delay was probably caused by the new timetable of the railway."
    dropped = embedded_score(case("qualifier", "The delay was caused by the new timetable of the railway.", before))
    kept = embedded_score(case("qualifier", before, before))
    assert kept.score < 0.5 <= dropped.score

    plain, soft, hedged = (
        embedded_score(case("qualifier", text)).score
        for text in ("Sleep lowers pain.", "Sleep can lower pain.", "Sleep is likely to lower pain.")
    )
    assert plain > soft > hedged


def test_every_score_is_between_0_and_1_and_conflicts_go_through_the_audit() -> None:
    read = read_labels([PSEUDO], "passage_conflict")
    found = list(judged(read.items[:30], RULES))

    assert [one.item for one in found] == list(read.items[:30])
    assert all(one.score is not None and 0 <= one.score <= 1 for one in found)
    with pytest.raises(Exception, match="source_conflict"):
        embedded_score(read.items[0].case)


def test_copies_are_no_conflict_and_other_languages_are_inconclusive() -> None:
    copies = labelled(case("passage_conflict", "?", None, "One rule.", "One rule."), "no_conflict", False)
    foreign = labelled(
        case("passage_conflict", "?", None, "Die Frist beträgt dreißig Tage ab Zustellung des Bescheids.",
             "Die Frist beträgt vierzig Tage ab Zustellung des Bescheids.", id="y"), "conflict", True,
    )  # fmt: skip
    first, second = judged([copies, foreign], RULES)

    assert (first.score, second.score, second.reason) == (0.0, None, "language_not_supported")
    report = build_report("passage_conflict", [first, second], resamples=10)
    assert report["n"] == 1
    assert report["inconclusive"] == {
        "n": 1, "positives": 1, "negatives": 0, "reasons": {"language_not_supported": 1}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("item", "said", "score"),
    [
        (case("grounding", "At one.", None, "At noon."), verdict("contradicted"), 0.9),
        (case("grounding", "At noon.", None, "At noon."), verdict("supported"), 0.1),
        (case("contradiction", "At one.", "At noon."), verdict("contradiction", 0.0), 0.5),
        (case("qualifier", "It rains.", "It may rain."), verdict("dropped", 1.0), 1.0),
        (case("qualifier", "It may rain."), verdict("hedged", 0.5), 0.25),
    ],
)
def test_a_models_verdict_and_confidence_make_the_score(item: Case, said: Any, score: float) -> None:
    with ModelServer([Reply(said)]) as server:
        (found,) = judged([labelled(item, "?", True)], asked(server))

    assert found.score == pytest.approx(score)
    assert (found.calls, found.model) == (1, "scripted-2026-01")
    sent = server.requests[0].text
    assert item.text in sent
    assert item.reference is None or item.reference in sent


def test_no_model_sees_the_truth(tmp_path: Path) -> None:
    """A judge that could read the label would answer by it: the words of label, raw label and meta never arrive."""
    secret = {"raw_label": "RAW-TRUTH", "meta": {"stratum": "temporal", "note": "META-TRUTH"}, "group": "GROUP-TRUTH"}
    lines = []
    for number, one in enumerate(PSEUDO.read_text(encoding="utf-8").splitlines()[:4]):
        lines.append({**json.loads(one), **secret, "id": f"ID-TRUTH-{number}", "label": "no_conflict"})
        lines.append({**lines[-1], "id": f"other-{number}", "task": "grounding", "label": "unsupported"})
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))

    def answer(request: Request) -> Reply:
        return Reply(verdict("supported") if "`answer`: the answer" in request.text else {"conflicts": []})

    with ModelServer(answer) as server:
        for task in ("passage_conflict", "grounding"):
            found = list(judged(read_labels([path], task).items, asked(server)))
            assert [one.reason for one in found] == [None] * 4
    sent = "\n".join(request.text for request in server.requests)
    assert len(server.requests) == 8
    for word in ("TRUTH", "no_conflict", "temporal"):
        assert word not in sent


def test_an_answer_that_does_not_fit_is_asked_for_again_and_then_inconclusive() -> None:
    bad = {"verdict": "perhaps", "confidence": 2}
    item = labelled(case("grounding", "At one.", None, "At noon."), "supported", False)
    with ModelServer([Reply(bad), Reply(verdict("supported"))]) as server:
        (mended,) = judged([item], asked(server))
    with ModelServer([Reply(bad)]) as server:
        (failed,) = judged([item], asked(server))

    assert (mended.score, mended.calls) == (pytest.approx(0.1), 2)
    assert (failed.score, failed.reason, failed.calls) == (None, "answer_schema", 3)


def test_answers_are_kept_and_not_asked_for_again(tmp_path: Path) -> None:
    items = [labelled(case("grounding", f"Claim {n}.", None, "At noon."), "supported", False) for n in range(6)]
    with ModelServer([Reply(verdict("supported"))]) as server, Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        bench = replace(asked(server), cache=ledger, workers=3)
        first, second = (list(judged(items, bench)) for _ in range(2))

    assert len(server.requests) == 6
    assert [one.item for one in first] == items
    assert [one.score for one in second] == [one.score for one in first]
    assert [sum(one.calls for one in ones) for ones in (first, second)] == [6, 0]


def test_a_plan_asks_nobody_and_knows_the_price() -> None:
    items = read_labels([PSEUDO], "passage_conflict").items[:3]
    with ModelServer([Reply({})]) as server:
        bench = asked(server, input_price=1e-6, output_price=2e-6)
        found = list(plans(items, bench))

    assert server.requests == []
    assert all(one.calls == 1 and one.input_tokens > 500 and one.cost for one in found)
    assert [one.calls for one in plans(items, RULES)] == [1, 1, 1]


def test_private_text_is_taken_out_before_a_model_sees_it() -> None:
    item = labelled(case("grounding", "Ask ann@example.org.", None, "Write to ann@example.org."), "supported", False)
    with ModelServer([Reply(verdict("supported"))]) as server:
        hidden = replace(asked(server), redact=lambda text: text.replace("ann@example.org", "[email]"))
        broken = replace(asked(server), redact=lambda text: 1 / 0)  # type: ignore[arg-type, return-value]
        (found,), (refused,) = judged([item], hidden), judged([item], broken)

    assert found.score is not None
    assert "ann@example.org" not in server.requests[0].text
    assert (refused.reason, len(server.requests)) == ("redaction_failed", 1)


def test_the_turns_of_an_item_are_in_order() -> None:
    history = (("user", "One?"), ("agent", "1."), ("user", "Two?"))
    turns = session_of(Case("x", "contradiction", "B", "A", (), history)).turns

    assert [(turn.number, turn.user, turn.answer) for turn in turns] == [
        (1, "One?", "1."), (2, "Two?", "A"), (3, None, "B")
    ]  # fmt: skip


QUESTION = "How long is the loan?"
RIVALS = [
    {"id": "a", "text": "A borrowed book may be kept for 30 days."},
    {"id": "b", "text": "A borrowed book may be kept for 14 days."},
]


def conflicting(confidence: float, severity: str = "MATERIAL") -> dict[str, Any]:
    sides = {
        f"{key}_{side}": value
        for side, ref, text in (("a", "t1.p1", RIVALS[0]["text"]), ("b", "t1.p2", RIVALS[1]["text"]))
        for key, value in (("source", ref), ("claim", text), ("quote", text))
    }
    return {
        "conflicts": [{**sides, "severity": severity, "explanation": "Both limits.", "confidence": confidence}],
        "conflict_notes": "They differ.",
    }


@pytest.mark.parametrize(("severity", "score"), [("MATERIAL", 0.6), ("MINOR", 0.0)])
def test_the_gates_score_is_the_confidence_up_to_which_it_abstains(severity: str, score: float) -> None:
    item = labelled(case("passage_conflict", QUESTION, None, *(one["text"] for one in RIVALS)), "conflict", True)
    with ModelServer([Reply(conflicting(0.6, severity))]) as server:
        (found,) = judged([item], asked(server))
        judge = LiteLLMJudge("openai/scripted", api_base=server.url)
        decisions = {}
        for least in (0.5, 0.6, 0.61):
            with ConflictGate(judge, min_confidence=least, answerability=None) as gate:
                decisions[least] = gate.check(QUESTION, RIVALS).decision

    assert found.score == score
    assert decisions == {least: "abstain" if least <= score else "proceed" for least in decisions}


def test_two_pairs_are_as_sure_as_the_second_surest() -> None:
    texts = ("Keep it 30 days.", "Keep it 14 days.", "Keep it 7 days.")
    session = session_of(case("passage_conflict", QUESTION, None, *texts))
    conflicts = [
        {"ref_a": f"t1.p{a}", "ref_b": f"t1.p{b}", "severity": "MATERIAL", "confidence": sure}
        for a, b, sure in ((1, 2, 0.9), (2, 1, 0.8), (1, 3, 0.6), (2, 3, 0.3))
    ]
    scores = [
        conflict_score(
            {"conflicts": conflicts}, session, AuditSettings(options={"source_conflict": {"pair_threshold": pairs}})
        )
        for pairs in (1, 2, 3, 4)
    ]

    assert scores == [0.9, 0.6, 0.3, 0.0]


@pytest.mark.parametrize("wrong", [-0.1, 1.5, True, "0.5"])
def test_a_min_confidence_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="min_confidence"):
        SourceConflict(min_confidence=wrong)
    with pytest.raises(ConfigError, match="min_confidence"):
        SourceConflict().thresholds(AuditSettings(options={"source_conflict": {"min_confidence": wrong}}))


def judgements(*rows: tuple[float | None, str, bool | None, bool]) -> Sequence[Judged]:
    return [
        Judged(labelled(case("grounding", "x", None, id=f"{n}"), label, bad), score, silent=silent)
        for n, (score, label, bad, silent) in enumerate(rows)
    ]


def test_no_claim_and_mixed_are_in_no_figure_and_no_claim_is_counted_apart() -> None:
    report = build_report(
        "grounding",
        judgements(
            (0.9, "unsupported", True, False), (0.2, "supported", False, False), (0.95, "no_claim", None, False),
            (0.95, "no_claim", None, True), (0.1, "no_claim", None, False), (0.9, "mixed", None, False),
            (None, "supported", False, False),
        ),
        resamples=0,
    )  # fmt: skip

    assert (report["n"], report["positives"], report["negatives"]) == (2, 1, 1)
    assert (report["auroc"], report["balanced_accuracy"], report["threshold"]) == (1.0, 1.0, 0.9)
    assert report["left_out"] == {"no_claim": 3, "mixed": 1}
    assert report["no_claim"] == {"n": 3, "flagged": 1, "share_flagged": 0.3333}
    assert report["inconclusive"]["n"] == 1
    assert not report["decidable"]


def test_labels_that_prove_nothing_are_said_to() -> None:
    one = judgements((0.9, "unsupported", True, False))[0]
    machine = replace(one, item=replace(one.item, by_machine=True))
    review = replace(one, item=replace(one.item, suite="otel-drift-review"))

    rules = {rule["rule"] for rule in build_report("grounding", [machine, review], resamples=0)["too_small"]}

    assert {"machine_labels", "flagged_only"} <= rules
