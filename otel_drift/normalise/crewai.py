"""Normalise: CrewAI as OpenLLMetry records a crew: what it was asked stands only in the tasks' filled-in texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import Step

_OUTPUT = "TaskOutput(description="
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_SLOT = re.compile(r"\{([A-Za-z_]\w*)\}")


class CrewAI(Reader):
    """Spans of whole crews, with `crewai.crew.*` attributes."""

    name = "crewai"
    needs: ClassVar = {"input": "crewai.crew.tasks_output", "output": "crewai.crew.result"}

    def input(self, step: Step) -> Any:
        """The crew's inputs by name: each task's text before (`Answer: {question}`) and after they were filled in."""
        tasks, done = step.json("crewai.crew.tasks"), step.span.attributes.get("crewai.crew.tasks_output")
        if not isinstance(tasks, list) or not isinstance(done, str):
            return None
        inputs: dict[str, str] = {}
        for task, filled in zip(tasks, _filled(done), strict=False):
            template = task.get("description") if isinstance(task, dict) else None
            if isinstance(template, str):
                inputs |= slots(template, filled)
        return inputs or None

    def output(self, step: Step) -> Any:
        """What the crew's last task said."""
        return step.span.attributes.get("crewai.crew.result")


def _filled(outputs: str) -> Iterator[str]:
    """The tasks' texts in the printed `TaskOutput` objects, as far as these can be read."""
    at = outputs.find(_OUTPUT)
    while at >= 0 and (quoted := _QUOTED.match(outputs, at + len(_OUTPUT))):
        try:
            yield ast.literal_eval(quoted[0])
        except (SyntaxError, ValueError):
            return
        at = outputs.find(_OUTPUT, quoted.end())


def slots(template: str, filled: str) -> dict[str, str]:
    """What stands in `filled` at each `{name}` of its template; empty where it is not the template's text.

    A text up to the first place where the template goes on is the slot's.
    """
    literals = _SLOT.split(template)
    names, literals = literals[1::2], literals[::2]
    if not names or not filled.startswith(literals[0]) or not filled.endswith(literals[-1]):
        return {}
    found: dict[str, str] = {}
    at, end = len(literals[0]), len(filled) - len(literals[-1])
    for name, literal in zip(names, [*literals[1:-1], None], strict=True):
        stop = end if literal is None else filled.find(literal, at, end)
        if stop < at:
            return {}
        found[name] = filled[at:stop]
        at = stop + len(literal or "")
    return found
