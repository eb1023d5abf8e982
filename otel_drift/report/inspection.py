"""What `otel-drift inspect` prints: what the traces hold, turn by turn, what is missing and how to capture it."""

from __future__ import annotations

from rich.console import Console

from otel_drift.model import Hint, Passage, Session, Turn
from otel_drift.report.paper import Paper, Part, shorten
from otel_drift.report.wording import (
    answer_words,
    count,
    duration,
    moment,
    origin_words,
    retrieval_words,
)

_INDENT = "   "
_BAR = "    │  "
_PLACES = {
    "retriever": "retriever spans",
    "reranker": "reranker spans",
    "tool": "tool results",
    "prompt": "the prompt",
}
_RETRIEVAL_GAPS = {
    "not_captured": "the retrieved passages",
    "ids_only": "the texts of the retrieved passages",
    "partial": "a part of the retrieved passages",
}
_GOOD_RETRIEVAL = frozenset({"captured", "none", "no_retrieval"})


def print_session(console: Console, session: Session) -> None:
    """Print one reconstructed session: its turns with answer, retrieval and passages, then what is missing."""
    paper = Paper(console)
    _heading(paper, session)
    models = {turn.model for turn in session.turns if turn.model}
    for turn in session.turns:
        _turn(paper, turn, next(iter(models)) if len(models) == 1 else None)
    if not session.turns:
        paper.line("no turn could be rebuilt from these spans", gutter=_INDENT)
    _missing(paper, session)
    paper.blank()


def print_inspection_totals(
    console: Console,
    *,
    spans: int,
    sessions: int,
    turns: int,
    problems: int = 0,
    files: int | None = None,
    explained: bool = False,
) -> None:
    """Print the last lines of `inspect`: how much was read and found, and what to do when nothing was.

    Args:
        console: Where to.
        spans: Spans read.
        sessions: Sessions rebuilt.
        turns: Turns of all sessions.
        problems: Broken records or files passed over (each was named when it was met).
        files: Files read, where the source counts them.
        explained: Whether it is said elsewhere why there is nothing.
    """
    paper = Paper(console)
    read = count(spans, "span") + (f" in {count(files, 'file')}" if files is not None else "")
    paper.rule([("otel-drift", "bold")], f"{read} · {count(sessions, 'session')} · {count(turns, 'turn')}")
    if problems:
        paper.line((f"{count(problems, 'broken record')} passed over", "bold yellow"), gutter=_INDENT)
    if explained:
        return
    if not spans:
        paper.line(
            "No spans found. Expected OTLP JSON (one request, several, or JSON lines), OTLP protobuf, either gzipped, ",
            "or MLflow trace JSON.",
            gutter=_INDENT,
        )
    elif not sessions:
        paper.line(
            "No chat found in these spans: no span of a known convention holds a user message or an answer. ",
            "Check that the instrumentation of the model client is on and records message content.",
            gutter=_INDENT,
        )


def _heading(paper: Paper, session: Session) -> None:
    answered = sum(turn.answered for turn in session.turns)
    passages = sum(len(turn.passages) for turn in session.turns)
    paper.rule(
        [(shorten(session.name, 64), "bold"), ("" if session.session_id else "  (no session id)", "dim")],
        f"{count(len(session.turns), 'turn')}, {answered} answered, {count(passages, 'passage')}",
    )
    facts = [
        session.project,
        session.environment or "",
        f"user {session.user}" if session.user else "",
        f"tenant {session.tenant}" if session.tenant else "",
        count(len(session.trace_ids), "trace"),
    ]
    if session.turns:
        first, last = session.turns[0].started, max(turn.ended for turn in session.turns)
        facts += [moment(first), duration(last - first) if 0 < first < last - 1_000_000_000 else ""]
    models = sorted({turn.model for turn in session.turns if turn.model})
    if len(models) == 1:
        facts.append(f"model {models[0]}")
    if session.conventions:
        facts.append("read as " + ", ".join(session.conventions))
    paper.line((" · ".join(shorten(fact, 60) for fact in facts if fact), "dim"), gutter=_INDENT)


def _turn(paper: Paper, turn: Turn, common_model: str | None) -> None:
    bar = "       " if paper.plain else _BAR
    good = turn.answered and turn.retrieval in _GOOD_RETRIEVAL
    glyph = ("●", "green") if good else ("◆", "yellow") if turn.answered else ("×", "red")
    lead = paper.text((f"{turn.number:>3} ", "bold"), glyph, "  ", ("user      ", "dim"))
    room = max(40, min(160, paper.width - 20))
    paper.line((shorten(turn.user or "(not captured)", room), "bold"), gutter=lead, then=bar + " " * 10)
    if turn.answered:
        answer: Part = shorten(turn.answer or "", room)
    else:
        failed = f" ({shorten(turn.error, 80)})" if turn.error else ""
        answer = (answer_words(turn) + failed, "yellow")
    paper.line(answer, gutter=paper.text(bar, ("answer    ", "dim")))
    if turn.model and turn.model != common_model:
        paper.line((f"by {shorten(turn.model, 60)}", "dim"), gutter=bar + " " * 10)
    _retrieval(paper, turn, bar)
    if turn.alternatives:
        others = f"{count(len(turn.alternatives), 'other answer')} to this message (regenerated or edited)"
        paper.line((others, "dim"), gutter=bar + " " * 10)


def _retrieval(paper: Paper, turn: Turn, bar: str) -> None:
    places = {passage.read_from for passage in turn.passages}
    common = places.pop() if len(places) == 1 else None
    state = retrieval_words(turn) + (f", read from {_PLACES[common]}" if common else "")
    style = "" if turn.retrieval in _GOOD_RETRIEVAL else "yellow"
    paper.line((state, style), gutter=paper.text(bar, ("retrieval ", "dim")))
    for passage in turn.passages:
        gutter = bar + " " * 10
        paper.line(*_passage(passage, common is None, paper.width - len(gutter)), gutter=gutter)


def _passage(passage: Passage, named: bool, room: int) -> list[Part]:
    """Id, origin (cut so that the line fits where it can) and what is known of the text."""
    name = shorten(passage.id, 60)
    facts = ["text not captured" if passage.text is None else f"{len(passage.text):,} chars"]
    if named:
        facts.append(f"from {_PLACES[passage.read_from]}")
    if not passage.own_id:
        facts.append("numbered here: the trace has no id")
    tail = "  " + ", ".join(facts)
    origin = shorten(origin_words(passage), max(24, min(100, room - len(name) - len(tail) - 2)))
    return [(name, "cyan"), f"  {origin}" if origin else "", (tail, "dim")]


def _missing(paper: Paper, session: Session) -> None:
    """Name each gap once, with the turns it concerns and the setting that closes it."""
    hints = session.hints or _gaps(session)
    if hints:
        paper.line(("missing in this session", "bold yellow"), gutter=_INDENT)
    for hint in hints:
        facts = ", ".join(filter(None, [hint.convention, _turns(hint)]))
        paper.line(hint.what, (f"  ({facts})" if facts else "", "dim"), gutter=_INDENT + "◆ ")
        if hint.remedy:
            paper.line(hint.remedy, gutter=paper.text(_INDENT, ("  → ", "bold")))


def _gaps(session: Session) -> tuple[Hint, ...]:
    """What the turns themselves show to be missing, where no convention knew a remedy."""
    gaps: dict[str, list[int]] = {}
    for turn in session.turns:
        if turn.user is None:
            gaps.setdefault("the user's messages", []).append(turn.number)
        if turn.answer_state == "not_captured":
            gaps.setdefault("the answers", []).append(turn.number)
        if turn.retrieval in _RETRIEVAL_GAPS:
            gaps.setdefault(_RETRIEVAL_GAPS[turn.retrieval], []).append(turn.number)
    return tuple(Hint("", "", what, "", tuple(turns)) for what, turns in gaps.items())


def _turns(hint: Hint) -> str:
    if not hint.turns:
        return ""
    return f"{'turn' if len(hint.turns) == 1 else 'turns'} {_ranges(hint.turns)}"


def _ranges(numbers: tuple[int, ...]) -> str:
    """``1 to 4, 7`` for (1, 2, 3, 4, 7)."""
    ordered = sorted(set(numbers))
    runs: list[list[int]] = []
    for number in ordered:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
