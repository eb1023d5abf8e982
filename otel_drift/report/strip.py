"""The session at a glance: a line of turn markers, with arcs below it between turns that contradict each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from otel_drift.model import SEVERITY_SCORES, Turn
from otel_drift.report.wording import SEVERITY_MARKERS, SEVERITY_STYLES

_MAX_LANES = 5
_MAX_ROWS = 8
_LABEL_ROOM = 24


@dataclass(frozen=True, slots=True)
class Arc:
    """A link from an earlier turn to a later one, with the word and style to draw it in."""

    earlier: int
    later: int
    label: str
    style: str = ""


def draw_strip(turns: Sequence[Turn], severities: Mapping[int, str], arcs: Sequence[Arc], width: int) -> list[Text]:
    """Draw numbers, markers and arcs in at most `width` columns.

    ``●`` answered, ``○`` no answer captured, ``×`` failed, else the marker of the turn's worst severity. Sessions too
    long for one line are drawn in several, and then without arcs; those longer than a screen not at all.

    Args:
        turns: The turns, in order.
        severities: Worst severity by turn number, only turns with events.
        arcs: What to link; at most five fit below one another, the rest is left to the timeline.
        width: Columns to draw in.
    """
    if not turns:
        return []
    step = min(8, max(3, (width - _LABEL_ROOM) // len(turns)))
    per_row = max(1, (width - 2) // step)
    if len(turns) > _MAX_ROWS * per_row:
        return [Text(f"{len(turns):,} turns, too many to draw", style="dim", end="")]
    lines: list[Text] = []
    for first in range(0, len(turns), per_row):
        lines += _row(turns[first : first + per_row], severities, step)
    if len(turns) <= per_row:
        columns = {turn.number: index * step + 1 for index, turn in enumerate(turns)}
        lines += _arc_lines(arcs, columns, width)
    return lines


def marker(turn: Turn, severity: str | None) -> tuple[str, str]:
    """The turn's marker and its style."""
    if severity is not None and SEVERITY_SCORES.get(severity, 0.0) > 0:
        return SEVERITY_MARKERS[severity], SEVERITY_STYLES[severity]
    if turn.answer_state == "failed":
        return "×", "dim"
    return ("●", "green") if turn.answered else ("○", "dim")


def _row(turns: Sequence[Turn], severities: Mapping[int, str], step: int) -> list[Text]:
    numbers, markers = Text(end=""), Text(end="")
    for index, turn in enumerate(turns):
        severity = severities.get(turn.number)
        numbers.append(f"{turn.number:>2}".ljust(step), style="bold" if severity else "dim")
        glyph, style = marker(turn, severity)
        markers.append(" " if index == 0 else "")
        markers.append(glyph, style=style)
        if index < len(turns) - 1:
            markers.append("─" * (step - 1), style="dim")
    numbers.rstrip()
    return [numbers, markers]


def _arc_lines(arcs: Sequence[Arc], columns: Mapping[int, int], width: int) -> list[Text]:
    """Pack the arcs into lanes, shortest first; arcs of one lane leave room for the label between them."""
    lanes: list[list[Arc]] = []
    known = [arc for arc in arcs if arc.earlier in columns and arc.later in columns and arc.earlier < arc.later]
    for arc in sorted(known, key=lambda a: (a.later - a.earlier, a.earlier)):
        start, end = columns[arc.earlier], columns[arc.later] + len(arc.label) + 2
        if end > width:
            end = columns[arc.later]
        for lane in lanes:
            if all(end + 1 < columns[a.earlier] or start > columns[a.later] + len(a.label) + 2 for a in lane):
                lane.append(arc)
                break
        else:
            lanes.append([arc])
    return [_lane(sorted(lane, key=lambda a: a.earlier), columns, width) for lane in lanes[:_MAX_LANES]]


def _lane(arcs: Sequence[Arc], columns: Mapping[int, int], width: int) -> Text:
    line = Text(end="")
    for arc in arcs:
        start, end = columns[arc.earlier], columns[arc.later]
        line.append(" " * (start - line.cell_len))
        line.append("╰" + "─" * (end - start - 1) + "╯", style=arc.style)
        if line.cell_len + len(arc.label) + 1 <= width:
            line.append(" " + arc.label, style=arc.style)
    return line
