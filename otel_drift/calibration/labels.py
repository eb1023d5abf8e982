"""Labelled items from JSON lines: what a judge may see of one (`Case`), and the truth beside it (`Labelled`).

The schema is that of ``otel-drift review export`` (see `otel_drift.labels`) and of the public benchmark sets we
measure with: ``id``, ``suite``, ``task``, ``group``, ``turn``, ``history``, ``passages``, ``text``, ``reference``,
``label``, ``raw_label``, ``meta``. A judge sees nothing of the last three.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from otel_drift.errors import ConfigError
from otel_drift.labels import DECISIONS, REVIEWS

Task = Literal["grounding", "contradiction", "passage_conflict", "qualifier"]
Stratum = Literal["real", "temporal", "contextual", "consistent"]

TASKS: tuple[Task, ...] = get_args(Task)
TASKS_OF: Mapping[str, tuple[Task, ...]] = {
    **{task: (task,) for task in TASKS},
    "factual_drift": ("contradiction", "grounding", "qualifier"),
    "source_conflict": ("passage_conflict",),
    "longform_drift": ("grounding",),
    "citation_conflict": ("grounding",),
}
"""What may be named → the tasks it stands for. An audit of several tasks needs a file that holds one of them."""

BAD: Mapping[Task, frozenset[str]] = {
    "grounding": frozenset({"unsupported", "contradicted"}),
    "contradiction": frozenset({"contradiction"}),
    "passage_conflict": frozenset({"conflict"}),
    "qualifier": frozenset({"dropped", "assertive"}),
}
"""The positive class, the bad one. ``assertive``: a sentence (without an earlier wording) that hedges nothing."""
GOOD: Mapping[Task, frozenset[str]] = {
    "grounding": frozenset({"supported"}),
    "contradiction": frozenset({"no_contradiction"}),
    "passage_conflict": frozenset({"no_conflict", "different_entities"}),
    "qualifier": frozenset({"kept", "hedged"}),
}
LEFT_OUT = frozenset({"mixed", "no_claim"})
"""Labels of grounding that no score counts: annotators disagree, or there is nothing to bear out."""

LONGEST_FILE = 512 * 1024 * 1024
LONGEST_LINE = 4 * 1024 * 1024

_STRATA: Mapping[str, Stratum] = {
    "real": "real",
    "temporal": "temporal",
    "scope": "contextual",
    "contextual": "contextual",
    "consistent": "consistent",
}


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class _Said(_Line):
    role: str
    text: str


class _Passage(_Line):
    id: str = Field(min_length=1)
    text: str
    title: str | None = None
    source: str | None = None
    author: str | None = None
    date: str | None = None
    document_type: str | None = None


class _Item(_Line):
    id: str = Field(min_length=1)
    suite: str = ""
    task: Task
    group: str | int | None = None
    turn: int | None = None
    history: list[_Said] = Field(default_factory=list)
    passages: list[_Passage] = Field(default_factory=list)
    text: str | None = None
    reference: str | None = None
    label: str
    raw_label: Any = None
    meta: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CasePassage:
    """A passage as the file has it."""

    id: str
    text: str
    title: str | None = None
    source: str | None = None
    author: str | None = None
    date: str | None = None
    document_type: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """What a judge sees of an item. `history` is (role, text), the user's question last; see `otel_drift.labels`."""

    id: str
    task: Task
    text: str
    reference: str | None = None
    passages: tuple[CasePassage, ...] = ()
    history: tuple[tuple[str, str], ...] = ()

    @property
    def question(self) -> str | None:
        """The user's last message."""
        asked = [text for role, text in self.history if role == "user"]
        return asked[-1] if asked else None


@dataclass(frozen=True, slots=True)
class Labelled:
    """An item with its truth. `bad` is None where no score may count it; `group` keeps a conversation together."""

    case: Case
    suite: str
    group: str
    label: str
    bad: bool | None
    stratum: Stratum | None
    by_machine: bool = False


@dataclass(frozen=True, slots=True)
class Labels:
    """The items of one task, and how many lines were about others."""

    task: Task
    items: tuple[Labelled, ...]
    other_tasks: Mapping[str, int]


def read_labels(paths: Sequence[Path], audit: str) -> Labels:
    """The labelled items of the task that `audit` names.

    Args:
        paths: files of JSON lines; an id may stand in all of them only once.
        audit: a task, or an audit (`TASKS_OF`).

    Raises:
        ConfigError: a file cannot be read, a line is broken (named by its number), no line is of the task, or the
            audit has several tasks and the file holds more than one of them.
    """
    if audit not in TASKS_OF:
        raise ConfigError(f"--audit {audit}: use {', '.join(TASKS_OF)}")
    found: list[tuple[Task, Labelled]] = []
    seen: dict[str, str] = {}
    for path in paths:
        for number, line in _lines(path):
            place = f"{path}, line {number}"
            one = _labelled(_parsed(line, place), place)
            if one.case.id in seen:
                raise ConfigError(f"{place}: id {one.case.id[:80]!r} was given in {seen[one.case.id]} already")
            seen[one.case.id] = place
            found.append((one.case.task, one))
    counts = Counter(task for task, _ in found)
    wanted = [task for task in TASKS_OF[audit] if counts[task]]
    if not wanted:
        has = ", ".join(f"{count} of {task}" for task, count in counts.items()) or "no labels at all"
        raise ConfigError(f"{_names(paths)}: no labels for {audit} ({has})")
    if len(wanted) > 1:
        has = ", ".join(f"{counts[task]} of {task}" for task in wanted)
        raise ConfigError(f"{_names(paths)}: {audit} has several tasks and the file holds {has}: name one by --audit")
    task = wanted[0]
    others: dict[str, int] = {name: count for name, count in counts.items() if name != task}
    return Labels(task, tuple(one for name, one in found if name == task), others)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        if path.stat().st_size > LONGEST_FILE:
            raise ConfigError(f"{path}: larger than {LONGEST_FILE} bytes; split it")
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
                if len(line) > LONGEST_LINE:
                    raise ConfigError(f"{path}, line {number}: longer than {LONGEST_LINE} bytes")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error


def _parsed(line: bytes, place: str) -> _Item:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{place}: is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: is no JSON object")
    try:
        return _Item.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{place}: {where}: {first['msg']}") from error


def _labelled(item: _Item, place: str) -> Labelled:
    task = item.task
    known = BAD[task] | GOOD[task] | (LEFT_OUT if task == "grounding" else frozenset())
    if item.label not in known:
        raise ConfigError(f"{place}: label {item.label[:40]!r} is none of {task}: use {', '.join(sorted(known))}")
    case = _case(item, place)
    return Labelled(
        case=case,
        suite=item.suite or "labels",
        group=f"{item.suite}\0{item.id if item.group is None else item.group}",
        label=item.label,
        bad=None if item.label in LEFT_OUT else item.label in BAD[task],
        stratum=_stratum(item, place) if task == "passage_conflict" else None,
        by_machine=item.suite in (DECISIONS, REVIEWS)
        and isinstance(item.raw_label, dict)
        and item.raw_label.get("labelled_by") == "machine",
    )


def _case(item: _Item, place: str) -> Case:
    if item.task == "contradiction" and not (item.reference or "").strip():
        raise ConfigError(f"{place}: reference is missing: a contradiction needs statement A there")
    if item.task == "passage_conflict" and not item.passages:
        raise ConfigError(f"{place}: passages are missing: a conflict is between passages")
    ids = Counter(passage.id for passage in item.passages)
    if doubled := [name for name, count in ids.items() if count > 1]:
        raise ConfigError(f"{place}: passages: id {doubled[0][:80]!r} is there {ids[doubled[0]]} times")
    history = tuple((said.role, said.text) for said in item.history)
    asked = next((text for role, text in reversed(history) if role == "user"), None)
    text = item.text if item.text is not None or item.task != "passage_conflict" else asked
    if not (text or "").strip():
        raise ConfigError(f"{place}: text is missing or empty: it is what is judged")
    return Case(
        id=item.id,
        task=item.task,
        text=text or "",
        reference=item.reference,
        passages=tuple(CasePassage(**passage.model_dump()) for passage in item.passages),
        history=history,
    )


def _stratum(item: _Item, place: str) -> Stratum:
    """``meta.stratum`` where it says one we know, else what the label says."""
    told = _STRATA.get(str((item.meta or {}).get("stratum", "")))
    is_real = item.label in BAD["passage_conflict"]
    if told is not None and (told == "real") != is_real:
        raise ConfigError(f"{place}: label {item.label} and meta.stratum {told} contradict each other")
    if is_real:
        return "real"
    return told or ("contextual" if item.label == "different_entities" else "consistent")


def _names(paths: Iterable[Path]) -> str:
    return ", ".join(str(path) for path in paths)
