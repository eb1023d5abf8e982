"""Arcs of the strip never overlap, start and end under their turns, and keep their words within the width."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_drift.report.strip import Arc, draw_strip
from report import samples

ARCS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=12)


@given(ARCS, st.integers(60, 200))
def test_every_arc_that_is_drawn_joins_its_two_turns(pairs: list[tuple[int, int]], width: int) -> None:
    turns = [samples.turn(number, "q", "a") for number in range(1, 13)]
    arcs = [Arc(earlier, later, "contradiction") for earlier, later in dict.fromkeys(pairs)]
    lines = [line.plain for line in draw_strip(turns, {}, arcs, width)]

    assert max(map(len, lines)) <= width
    markers, lanes = lines[1], lines[2:]
    columns = [index for index, character in enumerate(markers) if character == "●"]
    assert len(columns) == 12
    drawn = []
    for lane in lanes:
        starts = [index for index, character in enumerate(lane) if character == "╰"]
        ends = [index for index, character in enumerate(lane) if character == "╯"]
        drawn += [(columns.index(start) + 1, columns.index(end) + 1) for start, end in zip(starts, ends, strict=True)]
    wanted = {(earlier, later) for earlier, later in pairs if earlier < later}
    assert len(drawn) == len(set(drawn))
    assert set(drawn) <= wanted
    assert set(drawn) == wanted or len(lanes) == 5


def test_no_turns_draw_nothing() -> None:
    assert draw_strip([], {}, [], 80) == []
