"""Labels are read whole or refused with the line's number; what a judge gets holds nothing of the truth."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from otel_drift.calibration.labels import Case, read_labels
from otel_drift.errors import ConfigError

PSEUDO = Path(__file__).parents[2] / "examples" / "pseudo_conflicts.jsonl"


def line(**changes: Any) -> dict[str, Any]:
    """A grounding item with everything in it."""
    return {
        "id": "a", "suite": "s", "task": "grounding", "group": "g", "turn": 1,
        "history": [{"role": "user", "text": "When?"}], "passages": [{"id": "p", "text": "At noon."}],
        "text": "At noon.", "reference": None, "label": "supported", "raw_label": ["TRUTH"], "meta": {"model": "TRUTH"},
    } | changes  # fmt: skip


def file_of(tmp_path: Path, *lines: Any) -> Path:
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    return path


def test_a_case_has_no_place_for_the_truth(tmp_path: Path) -> None:
    (item,) = read_labels([file_of(tmp_path, line())], "grounding").items

    assert not {"label", "raw_label", "meta", "stratum", "group", "suite"} & {f.name for f in dataclasses.fields(Case)}
    assert "TRUTH" not in repr(item.case)
    assert "supported" not in repr(item.case)
    assert (item.case.question, item.bad, item.label) == ("When?", False, "supported")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ('{"id": ', "line 2: is no JSON"),
        ("[1]", "line 2: is no JSON object"),
        (line(id="b", label="great"), "line 2: label 'great' is none of grounding: use contradicted, mixed"),
        (line(id="b", task="guessing"), "line 2: task: Input should be 'grounding'"),
        (line(id="b", passages=[{"id": "p"}]), "line 2: passages.0.text: Field required"),
        (line(id="b", passages=[{"id": "p", "text": "x"}] * 2), "line 2: passages: id 'p' is there 2 times"),
        (line(id="b", text=" "), "line 2: text is missing or empty"),
        (line(id="b", text=7), "line 2: text: Input should be a valid string"),
        (line(), "line 2: id 'a' was given in"),
        (line(id="b", task="contradiction", label="contradiction"), "line 2: reference is missing"),
        (line(id="b", task="passage_conflict", label="conflict", passages=[]), "line 2: passages are missing"),
        (
            line(id="b", task="passage_conflict", label="conflict", meta={"stratum": "temporal"}),
            "line 2: label conflict and meta.stratum temporal contradict each other",
        ),
    ],
)
def test_a_broken_line_is_named_by_its_number(tmp_path: Path, broken: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_labels([file_of(tmp_path, line(), broken)], "grounding")

    assert message in str(error.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.jsonl: cannot be read: No such file"):
        read_labels([tmp_path / "gone.jsonl"], "grounding")
    with pytest.raises(ConfigError, match=r"no labels for qualifier \(1 of grounding\)"):
        read_labels([file_of(tmp_path, line())], "qualifier")
    with pytest.raises(ConfigError, match="no labels at all"):
        read_labels([file_of(tmp_path)], "grounding")
    with pytest.raises(ConfigError, match="--audit honesty: use grounding, contradiction"):
        read_labels([file_of(tmp_path, line())], "honesty")


def test_an_audit_stands_for_the_task_that_the_file_holds(tmp_path: Path) -> None:
    pair = line(id="b", task="contradiction", label="contradiction", reference="At one.")
    both, one = file_of(tmp_path, line(), pair), tmp_path / "one.jsonl"
    one.write_text(json.dumps(pair))

    assert read_labels([one], "factual_drift").task == "contradiction"
    assert read_labels([both], "longform_drift").other_tasks == {"contradiction": 1}
    with pytest.raises(ConfigError, match="holds 1 of contradiction, 1 of grounding: name one"):
        read_labels([both], "factual_drift")


def test_mixed_and_no_claim_are_read_and_left_out_of_scores(tmp_path: Path) -> None:
    read = read_labels([file_of(tmp_path, line(label="mixed"), line(id="b", label="no_claim"))], "grounding")

    assert [one.bad for one in read.items] == [None, None]


def test_an_item_without_a_group_is_its_own_and_groups_of_two_sets_stay_apart(tmp_path: Path) -> None:
    lines = [line(group=None), line(id="b", group=None), line(id="c", group=1), line(id="d", suite="t", group=1)]

    assert len({one.group for one in read_labels([file_of(tmp_path, *lines)], "grounding").items}) == 4


def test_strata_come_from_the_label_where_nothing_says_more(tmp_path: Path) -> None:
    def conflict(id: str, label: str, stratum: str | None = None) -> dict[str, Any]:
        return line(id=id, task="passage_conflict", label=label, meta={"stratum": stratum} if stratum else {})

    lines = [
        conflict("a", "conflict"), conflict("b", "different_entities"), conflict("c", "no_conflict"),
        conflict("d", "no_conflict", "scope"), conflict("e", "no_conflict", "temporal"),
    ]  # fmt: skip
    read = read_labels([file_of(tmp_path, *lines)], "source_conflict")

    assert [one.stratum for one in read.items] == ["real", "contextual", "consistent", "contextual", "temporal"]


def test_the_authored_set_is_what_it_says_it_is() -> None:
    """30 items of each stratum, 60 of them only apparent conflicts; every item and every passage text is its own."""
    raw = [json.loads(one) for one in PSEUDO.read_text(encoding="utf-8").splitlines()]
    read = read_labels([PSEUDO], "source_conflict")
    strata = Counter(one["meta"]["stratum"] for one in raw)

    assert read.other_tasks == {}
    assert strata == {"temporal": 30, "scope": 30, "real": 30, "consistent": 30}
    assert Counter(one.stratum for one in read.items)["contextual"] == strata["scope"]
    assert {one["meta"]["domain"] for one in raw} == {"medicine", "law", "finance", "HR", "telecom", "software"}
    assert all((one["label"] == "conflict") == (one["meta"]["stratum"] == "real") for one in raw)
    assert all(2 <= len(one["passages"]) <= 4 for one in raw)
    assert len({frozenset(p["text"] for p in one["passages"]) for one in raw}) == len(raw)
    assert len({one["id"] for one in raw}) == len(raw)
    assert Counter(Counter(one["group"] for one in raw).values()) == {4: 30}


def test_the_temporal_items_of_the_authored_set_have_two_dates() -> None:
    raw = [json.loads(one) for one in PSEUDO.read_text(encoding="utf-8").splitlines()]
    for one in raw:
        dates = {p["date"] for p in one["passages"] if "date" in p}
        assert len(dates) >= 2 or one["meta"]["stratum"] != "temporal", one["id"]


def test_ids_of_the_authored_set_do_not_give_the_label_away() -> None:
    raw = [json.loads(one) for one in PSEUDO.read_text(encoding="utf-8").splitlines()]
    longest = max(len(run) for run in "".join("x" if one["label"] == "conflict" else " " for one in raw).split())

    assert all(one["id"].removeprefix("pseudo-").isdigit() for one in raw)
    assert longest < 6
