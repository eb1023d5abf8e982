"""What `otel-drift audit` prints: one timeline a session, turns down, events with their evidence, totals last."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from otel_drift.links import Links
from otel_drift.model import SEVERITY_SCORES, Session, Turn, Unit
from otel_drift.protocols import Judge
from otel_drift.report.events import Event, ShownClaim, events_of, notes_of
from otel_drift.report.longform import verdict_lines
from otel_drift.report.paper import Paper, Part, shorten
from otel_drift.report.strip import Arc, draw_strip, marker
from otel_drift.report.wording import (
    ARC_TYPES,
    GROUNDING_STYLES,
    SEVERITY_MARKERS,
    SEVERITY_STYLES,
    answer_words,
    cause_words,
    count,
    moment,
    money,
    outcome_words,
    reason_words,
    retrieval_words,
    turns_words,
    words,
)

_SHOWN_WHOLE = 12
"""Sessions up to this many turns are shown turn by turn; longer ones fold turns without events."""
_LONGEST_NOTE = 60
"""Characters of a judge's note that are repeated under each session."""
_INDENT = "   "
_ORDER = ("CRITICAL", "MAJOR", "MINOR")


def print_unit(console: Console, unit: Unit, links: Links | None = None) -> None:
    """Print one audited session, with the addresses of its findings on the platform where they are known.

    With findings: the strip of turns, then every turn with its events. Otherwise a few lines: the outcome, its
    reason, and what was checked. Works without colour (every colour has its word and marker) and at 60 columns and
    up; piped output has one line an item, not wrapped.
    """
    paper = Paper(console)
    events = events_of(unit)
    _heading(paper, unit, events)
    if links and events and (url := links.session(unit.session.session_id)):
        paper.line((url, "dim"), gutter=_INDENT)
    if unit.outcome == "findings" or events:
        _strip(paper, unit.session, events)
        _assessment(paper, unit)
        paper.blank()
        _turns(paper, unit, events, links or Links())
    else:
        _quiet(paper, unit)
    _judge_line(paper, unit)
    paper.blank()


def print_totals(console: Console, totals: Mapping[str, Any], *, judge: Judge | None = None) -> None:
    """Print the last lines of a run.

    Args:
        console: Where to.
        totals: ``units`` (results), ``sessions`` (default: one a unit), ``outcomes``, ``severities`` and ``types``
            (code → number), ``calls``, ``tokens`` (``input``, ``output``) and ``cost`` (US dollars or None).
        judge: Who judged; its note is shown.
    """
    paper = Paper(console)
    units, outcomes = int(totals.get("units") or 0), dict(totals.get("outcomes") or {})
    sessions = int(totals.get("sessions", units))
    several = units != sessions
    checks = f" in {count(units, 'check')}" if several else ""
    paper.rule([("otel-drift", "bold")], f"{count(sessions, 'session')} audited{checks}")
    order = [name for name in ("findings", "clean", "inconclusive", "not_applicable") if outcomes.get(name)]
    if order:
        paper.line(", ".join(f"{outcomes[name]:,} {outcome_words(name)}" for name in order), gutter=_INDENT)
    _bars(paper, dict(totals.get("severities") or {}), dict(totals.get("types") or {}))
    if outcomes.get("inconclusive"):
        paper.line(
            ("inconclusive is not clean: ", "bold"),
            f"{count(outcomes['inconclusive'], 'check' if several else 'session')} could not be judged",
            gutter=_INDENT,
        )
    tokens = dict(totals.get("tokens") or {})
    calls = int(totals.get("calls") or 0)
    spent = count(calls, "judge call")
    if calls and (tokens.get("input") or tokens.get("output")):
        read, written = int(tokens.get("input") or 0), int(tokens.get("output") or 0)
        spent += f", {read:,} tokens in, {written:,} out, {money(totals.get('cost'))}"
    paper.line(spent, gutter=_INDENT)
    if judge is not None:
        note = f": {judge.note}" if judge.note else ""
        paper.line(("judge ", "dim"), (judge.name, "bold"), (note, "dim"), gutter=_INDENT)


def _bars(paper: Paper, severities: dict[str, int], types: dict[str, int]) -> None:
    """Findings by severity and by type, as bars where there is a screen to draw on."""
    rows = [(SEVERITY_MARKERS[s], s, int(severities[s]), SEVERITY_STYLES[s]) for s in _ORDER if severities.get(s)]
    rows += [
        (" ", words(name), int(number), "")
        for name, number in sorted(types.items(), key=lambda item: -item[1])
        if number
    ]
    if not rows:
        return
    longest = max(row[2] for row in rows)
    name_width = max(len(row[1]) for row in rows)
    room = max(8, min(40, paper.width - name_width - 16))
    for glyph, name, number, style in rows:
        bar = "" if paper.plain else " " + "█" * max(1, round(room * number / longest))
        bar_style = "red" if name in {"CRITICAL", "MAJOR"} else "yellow" if name == "MINOR" else "blue"
        paper.line((f"{glyph} {name}".ljust(name_width + 2), style), f" {number:>6,}", (bar, bar_style), gutter=_INDENT)


def _heading(paper: Paper, unit: Unit, events: Sequence[Event]) -> None:
    session = unit.session
    if events:
        verdict: Part = (
            f"{SEVERITY_MARKERS[unit.severity]} {unit.severity}  {_findings(events)}",
            SEVERITY_STYLES[unit.severity],
        )
    else:
        style = {"clean": "green", "inconclusive": "bold magenta"}.get(unit.outcome, "dim")
        verdict = (("✓ " if unit.outcome == "clean" else "") + outcome_words(unit.outcome), style)
    paper.rule([(shorten(session.name, 64), "bold")], verdict)
    facts = [unit.audit, turns_words(session), session.project, session.environment or ""]
    facts += [f"user {session.user}" if session.user else "", f"tenant {session.tenant}" if session.tenant else ""]
    facts += [words(str(flag)) for flag in (unit.report or {}).get("flags") or ()]
    facts.append(count(len(session.trace_ids), "trace"))
    if session.turns:
        facts.append(moment(session.turns[0].started))
    paper.line((" · ".join(shorten(fact, 48) for fact in facts if fact), "dim"), gutter=_INDENT)


def _findings(events: Sequence[Event]) -> str:
    """``3 suspected findings``, or by status where people have judged some."""
    statuses = Counter(event.status for event in events)
    if set(statuses) == {"suspected"}:
        return count(len(events), "suspected finding")
    return f"{count(len(events), 'finding')}: " + ", ".join(f"{number} {name}" for name, number in statuses.items())


def _strip(paper: Paper, session: Session, events: Sequence[Event]) -> None:
    if paper.plain or len(session.turns) == 1:
        return
    arcs = [
        Arc(e.earlier.turn, e.turn, words(e.type), "red" if e.type == "CONTRADICTION" else "yellow")
        for e in events
        if e.earlier is not None and e.type in ARC_TYPES
    ]
    paper.blank()
    for line in draw_strip(session.turns, _worst_by_turn(events), list(dict.fromkeys(arcs)), paper.width - 4):
        paper.line(line, gutter=_INDENT)


def _assessment(paper: Paper, unit: Unit) -> None:
    if unit.report and "drift_severity_score" in unit.report:
        paper.blank()
        for line in verdict_lines(unit.report):
            paper.line(shorten(line, 600), gutter=_INDENT)
        return
    summary = (unit.report or {}).get("summary")
    text = str(summary.get("overall_assessment") or "") if isinstance(summary, Mapping) else ""
    if text:
        paper.blank()
        paper.line(shorten(text, 600), gutter=_INDENT)


def _quiet(paper: Paper, unit: Unit) -> None:
    if unit.reason:
        explained = reason_words(unit.reason)
        paper.line((unit.reason, "bold"), f": {explained}" if explained else "", gutter=_INDENT)
    if unit.outcome == "clean":
        paper.line(_checked(unit.report or {}), gutter=_INDENT)
        for turn, text in notes_of(unit):
            paper.line((f"note, turn {turn}: ", "dim"), text, gutter=_INDENT)


def _checked(report: Mapping[str, Any]) -> str:
    """What was looked at: claims by their grounding, or the passages of a turn."""
    if "conflicts" in report and "claims" not in report:
        return f"{count(int(report.get('passages') or 0), 'passage')} compared"
    noun, claims = "claim", report.get("claims") or []
    if "sentence_by_sentence_analysis" in report:
        noun, claims = "sentence", report["sentence_by_sentence_analysis"]
    states: dict[str, int] = defaultdict(int)
    for claim in claims:
        if claim.get("grounding_status"):
            states[str(claim["grounding_status"])] += 1
    detail = ", ".join(f"{number} {words(status)}" for status, number in states.items())
    return f"{count(len(claims), noun)} checked" + (f": {detail}" if detail else "")


def _judge_line(paper: Paper, unit: Unit) -> None:
    parts = [f"judge {unit.judge}"]
    if unit.judge_note and unit.outcome == "findings":
        short = len(unit.judge_note) <= _LONGEST_NOTE  # a long one stands whole under the totals, once
        parts.append(unit.judge_note if short else re.split("[,;]", unit.judge_note)[0])
    if unit.calls:
        tokens = unit.input_tokens + unit.output_tokens
        spent = [count(unit.calls, "call"), f"{tokens:,} tokens" if tokens else "", money(unit.cost) if tokens else ""]
        parts.append(", ".join(filter(None, spent)))
    paper.line((" · ".join(parts), "dim"), gutter=_INDENT)


def _turns(paper: Paper, unit: Unit, events: Sequence[Event], links: Links) -> None:
    by_turn: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        by_turn[event.turn].append(event)
    later_of: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event.earlier is not None:
            later_of[event.earlier.turn].append(event)
    notes = defaultdict(list)
    for number, text in notes_of(unit):
        notes[number].append(text)
    severities = _worst_by_turn(events)
    turns = unit.session.turns
    shown = {t.number for t in turns} if len(turns) <= _SHOWN_WHOLE else set(by_turn) | set(later_of) | set(notes)
    folded: list[Turn] = []
    for turn in turns:
        if turn.number not in shown:
            folded.append(turn)
            continue
        _folded(paper, folded)
        _turn(paper, turn, severities.get(turn.number), later_of[turn.number])
        for event in by_turn.pop(turn.number, ()):
            _event(paper, event, links)
        for text in notes[turn.number]:
            paper.line(text, gutter=paper.text(_bar(paper), ("note    ", "dim")))
        if turn is not turns[-1] and not paper.plain:
            paper.line("    │")
    _folded(paper, folded)
    for rest in by_turn.values():
        for event in rest:
            _event(paper, event, links)


def _folded(paper: Paper, folded: list[Turn]) -> None:
    if folded:
        span = f"turn {folded[0].number}" if len(folded) == 1 else f"turns {folded[0].number} to {folded[-1].number}"
        paper.line((f"    …  {span}: nothing found", "dim"))
        folded.clear()


def _turn(paper: Paper, turn: Turn, severity: str | None, later: Sequence[Event]) -> None:
    glyph, style = marker(turn, severity)
    bar = _bar(paper)
    lead = paper.text((f"{turn.number:>3} ", "bold"), (glyph, style), "  ", ("user    ", "dim"))
    excerpt = max(120, paper.width * 2 - 36)
    paper.line((shorten(turn.user or "(not captured)", excerpt), "bold"), gutter=lead, then=bar + " " * 8)
    answer = paper.text(bar, ("answer  ", "dim"))
    if turn.answered:
        paper.line(shorten(turn.answer or "", excerpt), gutter=answer)
    else:
        failed = f" ({shorten(turn.error, 120)})" if turn.error else ""
        paper.line((answer_words(turn) + failed, "italic"), gutter=answer)
    paper.line((retrieval_words(turn), "dim"), gutter=bar + " " * 8)
    for event in later:
        paper.line((f"↳ {words(event.type)} in turn {event.turn}", "italic"), gutter=bar + " " * 8)


def _event(paper: Paper, event: Event, links: Links) -> None:
    bar = _bar(paper)
    inner = bar + ("   " if paper.plain else "│  ")
    head = paper.text(
        (f"{SEVERITY_MARKERS[event.severity]} {event.severity}", SEVERITY_STYLES[event.severity]),
        "  ",
        (event.type, "bold"),
    )
    paper.line(head, gutter=bar)
    facts = [event.status]
    if event.confidence is not None:
        facts.append(f"confidence {event.confidence:.2f}")
    if event.cause:
        facts.append(f"likely cause: {cause_words(event.cause)}")
    paper.line((" · ".join(facts), "dim"), gutter=inner)
    if event.earlier is not None:
        _claim(paper, "earlier", event.earlier, inner)
    _claim(paper, "later" if event.earlier is not None else "claim", event.later, inner)
    if event.description:
        paper.line(shorten(event.description, 600), gutter=_label(paper, inner, "why"))
    if event.event_id:
        paper.line((event.event_id, "dim"), gutter=_label(paper, inner, "event"))
    if url := links.span(event.later.ref):
        paper.line((url, "dim"), gutter=_label(paper, inner, "open"))


def _claim(paper: Paper, role: str, claim: ShownClaim, inner: str) -> None:
    status = claim.grounding_status
    parts: list[Part] = [f"turn {claim.turn}  ", (f"“{shorten(claim.quote, 400)}”", "bold")]
    if status:
        parts += ["  ", (words(status), GROUNDING_STYLES.get(status, ""))]
    paper.line(*parts, gutter=_label(paper, inner, role))
    for evidence in claim.evidence:
        cited: list[Part] = [(evidence.passage_id, "cyan"), "  ", f"“{shorten(evidence.quote, 400)}”"]
        paper.line(*cited, gutter=_label(paper, inner, "evidence"))
    if claim.ref:
        paper.line((claim.ref, "dim"), gutter=_label(paper, inner, "span"))


def _bar(paper: Paper) -> str:
    return "       " if paper.plain else "    │  "


def _label(paper: Paper, inner: str, name: str) -> Text:
    return paper.text(inner, (name.ljust(9), "dim"))


def _worst_by_turn(events: Sequence[Event]) -> dict[int, str]:
    worst: dict[int, str] = {}
    for event in events:
        if SEVERITY_SCORES[event.severity] > SEVERITY_SCORES.get(worst.get(event.turn, ""), 0.0):
            worst[event.turn] = event.severity
    return worst
