"""Prints what a reviewer works with: items, one item with its evidence, mutes, runs, comparisons, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from otel_drift.report.paper import Paper, Part, shorten
from otel_drift.report.wording import (
    GROUNDING_STYLES,
    SEVERITY_MARKERS,
    SEVERITY_STYLES,
    cause_words,
    count,
    moment,
    outcome_words,
    words,
)

_INDENT = "   "
_DECISIONS = {
    "worse": ("worse", "bold red"),
    "better": ("better", "green"),
    "no_difference": ("no difference", "green"),
    "undecided": ("too few to decide", "yellow"),
}


def print_items(console: Console, items: Sequence[Mapping[str, Any]]) -> None:
    """Print one line an item: id, status, severity, what, where, why it is here."""
    paper = Paper(console)
    for item in items:
        turn = "" if item["turn_number"] is None else f", turn {item['turn_number']}"
        what = item["type"] or f"{item['audit']} {words(item['outcome'])}"
        muted = f"  muted: {item['muted']}" if item["muted"] else ""
        paper.line(
            f"{item['status']}  ",
            _severity(item["severity"]),
            f"  {what}  ",
            (f"{item['audit']}  session {shorten(_session(item), 48)}{turn}  ", "dim"),
            ", ".join(map(words, item["reasons"])) + muted,
            gutter=paper.text((item["item_id"], "bold"), "  "),
        )


def print_item(console: Console, item: Mapping[str, Any]) -> None:
    """Print one item with everything a reviewer needs to decide."""
    paper = Paper(console)
    finding = item["finding"] or {}
    paper.rule([(item["item_id"], "bold"), "  ", item["type"] or f"{item['audit']}: the whole result"], item["status"])
    paper.line(_severity(item["severity"]), "  ", ", ".join(map(words, item["reasons"])), gutter=_INDENT)
    facts = [item["audit"], f"session {_session(item)}"]
    if finding:
        facts += [f"turn {finding['turn_number']}", f"confidence {finding['confidence']:.2f}"]
        facts += [f"likely cause: {cause_words(finding['likely_cause'])}"] if finding.get("likely_cause") else []
    facts += [f"judge {item['judge']}"] if item["judge"] else []
    paper.line((" · ".join(facts), "dim"), gutter=_INDENT)
    if item["reason"]:
        paper.line((item["reason"], "bold"), gutter=_INDENT)
    if item["erased"]:
        paper.line(("its texts were erased; hashes are kept", "bold"), gutter=_INDENT)
    report = item["report"] or {}
    conflicts = [one for one in report.get("conflicts") or () if one.get("event_id") in (None, item["event_id"])]
    if finding:
        paper.line(finding["explanation"], gutter=_INDENT)
        if not conflicts:
            _claims(paper, finding)
    if item.get("link"):
        paper.line((item["link"], "dim"), gutter=_label(paper, "link"))
    _sentences(paper, report)
    _conflicts(paper, conflicts)
    concerned = {finding.get("turn_number"), finding.get("earlier_turn")}
    for turn in (item["packet"] or {}).get("turns", ()):
        if turn["turn"] in concerned or (not finding and "passages" in turn):
            _turn(paper, turn, {passage["passage_id"] for passage in item["passages"]})
    if item["muted"]:
        paper.line(("muted: ", "bold"), item["muted"], gutter=_INDENT)
    for said in item["history"]:
        by = f" by {said['said_by']}" if said["said_by"] else ""
        why = f": {said['why']}" if said["why"] else ""
        paper.line((f"{moment(said['at'])}  ", "dim"), f"{said['status']}{by}{why}", gutter=_INDENT)


def print_mutes(console: Console, mutes: Sequence[Mapping[str, Any]]) -> None:
    """Print one line a mute."""
    paper = Paper(console)
    for mute in mutes:
        end = f"until {moment(mute['until'])}" if mute["until"] else "for good"
        over = "" if mute.get("in_force", True) else "  (over)"
        held = f"  {count(mute['findings'], 'finding')}" if "findings" in mute else ""
        paper.line(
            f"{mute['audit']}: {mute['type']}  {end}{over}{held}  {mute['why']}",
            gutter=_number(paper, mute["mute_id"]),
        )


def print_runs(console: Console, runs: Sequence[Mapping[str, Any]]) -> None:
    """Print one line a run."""
    paper = Paper(console)
    for run in runs:
        totals = run["totals"] or {}
        outcomes = ", ".join(
            f"{number} {outcome_words(name)}" for name, number in (totals.get("outcomes") or {}).items()
        )
        state = "" if run["ended"] else "  (under way, or cut short)"
        paths = " ".join(map(str, run["description"].get("paths") or ()))
        paper.line(
            f"{moment(run['started'])}{state}  {count(run['units'], 'unit')}",
            f": {outcomes}" if outcomes else "",
            (f"  {run['description'].get('judge') or ''}  {shorten(paths, 80)}", "dim"),
            gutter=_number(paper, run["run_id"]),
        )


def print_comparison(console: Console, run_a: int, run_b: int, compared: Mapping[str, Any]) -> None:
    """Print the rates of two runs with their intervals, what follows, and what to beware of."""
    paper = Paper(console)
    paper.rule([(f"run {run_a} → run {run_b}", "bold")], "sessions with findings, 95 % intervals")
    dimension = ""
    for row in compared["rows"]:
        if row["dimension"] != dimension:
            dimension = row["dimension"]
            paper.line((words(dimension), "bold"))
        parts: list[Part] = [f"{row['value']}  ", _rate(row["a"]), " → ", _rate(row["b"])]
        if row["difference"] is None:
            missing = run_a if not row["a"]["sessions"] else run_b
            parts.append((f"  not in run {missing}", "dim"))
        else:
            low, high = row["difference"]["interval"]
            parts += [f"  {100 * row['difference']['value']:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})  "]
            parts.append(_DECISIONS[row["decision"]])
            if row["sessions_needed"]:
                parts.append((f" (about {row['sessions_needed']:,} sessions in each run would)", "dim"))
        paper.line(*parts, gutter=_INDENT, then=_INDENT * 2)
    for note in compared["notes"]:
        paper.line(("note: ", "dim"), note)


def print_groups(console: Console, groups: Sequence[Mapping[str, Any]], by: str) -> None:
    """Print one line a group of findings."""
    paper = Paper(console)
    for group in groups:
        title = f" {shorten(group['title'], 60)}" if group.get("title") else ""
        types = ", ".join(f"{number} {words(name)}" for name, number in group["types"].items())
        decided = {name: number for name, number in group["statuses"].items() if name != "suspected"}
        said = f"  ({', '.join(f'{number} {name}' for name, number in decided.items())})" if decided else ""
        paper.line(
            (shorten(str(group[by]), 60), "bold"),
            title,
            f"  {count(group['findings'], 'finding')} in {count(group['sessions'], 'session')}: {types}{said}",
            gutter=paper.text(_severity(group["severity"]), "  "),
        )


def _claims(paper: Paper, finding: Mapping[str, Any]) -> None:
    """What the answers say: the last quote is the judged answer's, the first the earlier answer's if there is one.

    Those between are words of passages.
    """
    quotes = list(finding["quotes"])
    later = quotes[-1:]
    earlier = quotes[:-1][:1] if finding["earlier_turn"] is not None else []
    _claim(paper, "earlier", finding["earlier_turn"], finding["earlier_ref"], earlier)
    _claim(paper, "later" if earlier else "claim", finding["turn_number"], finding["span_ref"], later)
    for quote in quotes[len(earlier) : -1]:
        paper.line(f"“{quote}”", gutter=_label(paper, "source"))


def _claim(paper: Paper, name: str, turn: int, ref: str | None, quotes: Sequence[str]) -> None:
    for quote in quotes:
        paper.line(f"turn {turn}  ", (f"“{quote}”", "bold"), gutter=_label(paper, name))
        if ref:
            paper.line((ref, "dim"), gutter=_label(paper, "span"))


def _sentences(paper: Paper, report: Mapping[str, Any]) -> None:
    """The sentences of a long answer that are not fully grounded, counted from 1 as everywhere people look."""
    for one in report.get("sentence_by_sentence_analysis") or ():
        status = str(one.get("grounding_status"))
        if status != "fully_grounded":
            paper.line(
                (f"sentence {one['sentence_index'] + 1} {words(status)}: ", GROUNDING_STYLES.get(status.upper(), "")),
                f"“{one.get('sentence_text')}”",
                f"  {one.get('drift_explanation') or ''}",
                gutter=_label(paper, "flagged"),
            )


def _conflicts(paper: Paper, conflicts: Sequence[Mapping[str, Any]]) -> None:
    """The pairs of sources that contradict each other."""
    for one in conflicts:
        for side in ("a", "b"):
            paper.line(
                (f"{one.get(f'source_{side}')}  ", "cyan"),
                f"“{one.get(f'quote_{side}')}”",
                gutter=_label(paper, f"source {side}"),
            )


def _turn(paper: Paper, turn: Mapping[str, Any], behind: set[str]) -> None:
    paper.line((turn["user"] or "(not captured)", "bold"), gutter=_label(paper, f"turn {turn['turn']}"))
    paper.line(turn["answer"] or "(no answer)", gutter=_label(paper, "answer"))
    if turn["answer_ref"]:
        paper.line((turn["answer_ref"], "dim"), gutter=_label(paper, "span"))
    for passage in turn.get("passages") or ():
        about = ", ".join(str(passage[name]) for name in ("title", "source", "author", "date") if passage[name])
        mark = "►" if passage["id"] in behind else " "
        paper.line(
            (f"{mark} {passage['id']}  ", "cyan"),
            (f"{about}  " if about else "", "dim"),
            passage["text"] or "(text not captured)",
            gutter=_label(paper, "passage"),
        )


def _number(paper: Paper, number: int) -> Part:
    return paper.text((f"{number:>4}", "bold"), "  ")


def _severity(severity: str) -> tuple[str, str]:
    return f"{SEVERITY_MARKERS[severity]} {severity}", SEVERITY_STYLES[severity]


def _session(item: Mapping[str, Any]) -> str:
    return str(item["session_id"] or item["session_key"])


def _rate(rate: Mapping[str, Any]) -> str:
    if rate["rate"] is None:
        return "-"
    low, high = rate["interval"]
    return f"{rate['found']}/{rate['sessions']} = {100 * rate['rate']:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _label(paper: Paper, name: str) -> Part:
    return paper.text(_INDENT, (name.ljust(10), "dim"))
