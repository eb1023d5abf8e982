"""The figures of a calibration in words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """One line a thing worth knowing, the most important first."""
    yield (
        f"{report['task']} by {report['judge']}: {report['n']} items scored, {report['positives']} bad, "
        f"{report['groups']} groups"
    )
    yield f"  AUROC {_with(report, 'auroc')}"
    if report["better_than_chance"] is False:
        yield "  no better than a toss-up on these items: no threshold makes it useful"
    yield f"  at threshold {_show(report['threshold'])} ({report['threshold_chosen']}):"
    names = ("balanced_accuracy", "precision", "recall", "miss_rate", "false_alarm_rate")
    for name in names:
        yield f"    {name.replace('_', ' ')} {_with(report, name)}"
    for name, one in report.get("strata", {}).items():
        rate = "missed_conflict_rate" if name == "real" else "false_alarm_rate"
        yield f"    {name}: {one['n']} items, {rate.replace('_', ' ')} {_show(one[rate])}{_ends(one['interval'])}"
    if len(report["suites"]) > 1:
        for suite, one in report["suites"].items():
            balanced = _show(one["balanced_accuracy"])
            yield f"    {suite}: {one['n']} items, AUROC {_show(one['auroc'])}, balanced accuracy {balanced}"
        mean = report["mean_of_suites"]
        yield f"    mean of sets: AUROC {_show(mean['auroc'])}, balanced accuracy {_show(mean['balanced_accuracy'])}"
    yield _target(report["target"])
    if report.get("no_claim", {}).get("n"):
        none = report["no_claim"]
        yield f"  {none['flagged']} of {none['n']} items that claim nothing would be flagged"
    if report["left_out"]:
        yield "  left out: " + ", ".join(f"{count} {label}" for label, count in report["left_out"].items())
    if report["inconclusive"]["n"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in report["inconclusive"]["reasons"].items())
        yield f"  inconclusive, in no figure: {report['inconclusive']['n']} ({reasons})"
    if report["p50_ms"] is not None:
        yield f"  middle time an item: {report['p50_ms']:g} ms"
    for rule in report["too_small"]:
        yield f"  too little to decide ({rule['rule']}): {rule['says']}"
    if report["judge_note"]:
        yield f"  judge {report['judge']}: {report['judge_note']}"


def _target(target: Mapping[str, Any]) -> str:
    wanted = f"{100 * target['miss_rate_wanted']:g} %"
    if target["threshold"] is None:
        return f"  no threshold for missing at most {wanted}: nothing bad was scored"
    if not target["useful"]:
        return f"  to miss at most {wanted} everything has to be flagged"
    return (
        f"  to miss at most {wanted}: threshold {_show(target['threshold'])}, misses {_show(target['miss_rate'])}, "
        f"false alarms {_show(target['false_alarm_rate'])}"
    )


def _with(report: Mapping[str, Any], name: str) -> str:
    return f"{_show(report[name])}{_ends(report['intervals'].get(name))}"


def _ends(ends: Any) -> str:
    return f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else ""


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
