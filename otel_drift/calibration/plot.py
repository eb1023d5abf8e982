"""The curve as a picture: one self-contained HTML page with inline SVG, or a PNG drawn by matplotlib.

The page needs nothing from elsewhere, runs no script, and everything in it that came from outside is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from otel_drift.errors import ConfigError
from otel_drift.output_file import OutputFile, regular_target
from otel_drift.report.escape import html_safe, terminal_safe

LINES: tuple[tuple[str, str, str], ...] = (
    ("miss_rate", "missed", "#b3261e"),
    ("false_alarm_rate", "false alarms", "#1f5fa8"),
    ("balanced_accuracy", "balanced accuracy", "#3a7d34"),
)
_WIDTH, _HEIGHT, _LEFT, _TOP = 560, 300, 48, 16
_MARGIN_X, _MARGIN_Y = 16, 40

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1c1c1c;background:#fff}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}figure{display:inline-block;margin:0 1rem 1rem 0}
figcaption{font-size:.9rem}.warn{background:#fff4ce;padding:.5rem 1rem}svg text{font:12px system-ui,sans-serif}
@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}.warn{background:#4a3c00}
svg text{fill:#eee}th,td{border-color:#444}}
"""


def write_plot(path: Path, report: Mapping[str, Any]) -> None:
    """Write the picture; the ending says which, ``.html`` or ``.png``.

    Raises:
        ConfigError: another ending, matplotlib is missing (PNG), or the file cannot be written there.
        SinkError: the disk does not take it.
    """
    check_plot(path)
    content = _png(report) if path.suffix.lower() == ".png" else page(report)
    with OutputFile(path) as file:
        file.write(content)


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be written, before anything is judged.

    Raises:
        ConfigError: see `write_plot`.
    """
    if path.suffix.lower() not in (".html", ".htm", ".png"):
        raise ConfigError(f"--plot {path}: the name has to end in .html or .png")
    if not path.parent.is_dir():
        raise ConfigError(f"--plot {path}: no such folder")
    regular_target(path)
    if path.suffix.lower() == ".png":
        try:
            import matplotlib  # noqa: F401 - only whether it is there
        except ImportError as error:
            raise ConfigError(
                "--plot FILE.png needs matplotlib: pip install 'otel-drift[calibrate]', or write FILE.html"
            ) from error


def page(report: Mapping[str, Any]) -> str:
    """The whole HTML page."""
    title = html_safe(f"{report['task']}: {report.get('judge', 'judge')}", multiline=False)
    warnings = "".join(f"<li>{html_safe(one['says'])} ({html_safe(one['rule'])})</li>" for one in report["too_small"])
    warned = f'<div class="warn"><strong>Too little to decide:</strong><ul>{warnings}</ul></div>' if warnings else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>otel-drift calibrate: {title}</title>'
        '<meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style><h1>{title}</h1>"
        f"<p>{html_safe(_sentence(report))}</p>{warned}"
        f"{_rates_figure(report)}{_roc_figure(report)}{_suites_table(report)}{_strata_table(report)}</html>\n"
    )


def _sentence(report: Mapping[str, Any]) -> str:
    figures = ", ".join(
        f"{name.replace('_', ' ')} {_show(report[name])}{_between(report, name)}"
        for name in ("balanced_accuracy", "precision", "recall")
    )
    return (
        f"{report['n']} items ({report['positives']} bad) from {report['groups']} groups. "
        f"AUROC {_show(report['auroc'])}{_between(report, 'auroc')}. "
        f"At threshold {_show(report['threshold'])} ({report['threshold_chosen']}): {figures}. "
        f"{report.get('judge_note') or ''}"
    ).strip()


def _between(report: Mapping[str, Any], name: str) -> str:
    ends = report["intervals"].get(name)
    return f" [{ends[0]:.2f}, {ends[1]:.2f}]" if ends else ""


def _show(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}"


def _rates_figure(report: Mapping[str, Any]) -> str:
    points = [point for point in report["curve"] if point["threshold"] is not None]
    lines = "".join(_line(points, lambda p: p["threshold"], name, colour) for name, _, colour in LINES)
    marks = _mark(report["threshold"], "chosen", 0) + _mark(report["target"]["threshold"], "target", 14)
    legend = ", ".join(f'<span style="color:{colour}">■</span> {label}' for _, label, colour in LINES)
    return (
        f"<figure>{_svg('Rates by threshold', lines + marks)}<figcaption>By threshold: {legend}</figcaption></figure>"
    )


def _roc_figure(report: Mapping[str, Any]) -> str:
    points = [point for point in report["curve"] if point["recall"] is not None]
    diagonal = f'<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#999" stroke-dasharray="4"/>'
    roc = _line(points, lambda p: p["false_alarm_rate"], "recall", "#1f5fa8")
    caption = "Recall (up) against false alarms (right): the ROC curve; dashed is a toss-up"
    return f"<figure>{_svg('ROC curve', diagonal + roc)}<figcaption>{caption}</figcaption></figure>"


def _svg(label: str, content: str) -> str:
    grid = "".join(
        f'<line x1="{_x(0)}" x2="{_x(1)}" y1="{_y(v)}" y2="{_y(v)}" stroke="#8884"/>'
        f'<text x="{_LEFT - 6}" y="{_y(v) + 4}" text-anchor="end">{v:g}</text>'
        f'<text x="{_x(v)}" y="{_HEIGHT - 18}" text-anchor="middle">{v:g}</text>'
        for v in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}">{grid}{content}</svg>'
    )


def _line(points: Sequence[Mapping[str, Any]], across: Callable[[Any], Any], name: str, colour: str) -> str:
    known = [(across(p), p[name]) for p in points if p[name] is not None and across(p) is not None]
    if not known:
        return ""
    places = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in known)
    dots = "".join(f'<circle cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="2" fill="{colour}"/>' for x, y in known)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'


def _mark(threshold: float | None, label: str, down: int) -> str:
    if threshold is None:
        return ""
    x = _x(min(1.0, max(0.0, threshold)))
    anchor = "end" if threshold > 0.8 else "start"
    place = x - 4 if threshold > 0.8 else x + 4
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_y(0)}" y2="{_y(1)}" stroke="#777" stroke-dasharray="2 3"/>'
        f'<text x="{place:.1f}" y="{_TOP + 12 + down}" text-anchor="{anchor}">{label} {threshold:.3f}</text>'
    )


def _x(value: float) -> float:
    return _LEFT + value * (_WIDTH - _LEFT - _MARGIN_X)


def _y(value: float) -> float:
    return _HEIGHT - _MARGIN_Y - value * (_HEIGHT - _MARGIN_Y - _TOP)


def _suites_table(report: Mapping[str, Any]) -> str:
    columns = ("auroc", "balanced_accuracy", "precision", "recall", "false_alarm_rate")
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in ("suite", "items", "bad", *columns))
    rows = "".join(
        f"<tr><td>{html_safe(suite, multiline=False)}</td><td>{one['n']}</td><td>{one['positives']}</td>"
        + "".join(f"<td>{_show(one[name])}</td>" for name in columns)
        + "</tr>"
        for suite, one in report["suites"].items()
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def _strata_table(report: Mapping[str, Any]) -> str:
    if not report.get("strata"):
        return ""
    rows = "".join(
        f"<tr><td>{html_safe(name)}</td><td>{one['n']}</td><td>{_show(one.get('missed_conflict_rate'))}</td>"
        f"<td>{_show(one.get('false_alarm_rate'))}</td></tr>"
        for name, one in report["strata"].items()
    )
    return f"<table><tr><th>stratum</th><th>items</th><th>missed</th><th>false alarms</th></tr>{rows}</table>"


def _png(report: Mapping[str, Any]) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    by_threshold, roc = figure.subplots(1, 2)
    points = [point for point in report["curve"] if point["threshold"] is not None]
    for name, label, colour in LINES:
        known = [(p["threshold"], p[name]) for p in points if p[name] is not None]
        by_threshold.plot([x for x, _ in known], [y for _, y in known], color=colour, label=label, marker=".")
    for threshold, style in ((report["threshold"], "--"), (report["target"]["threshold"], ":")):
        if threshold is not None:
            by_threshold.axvline(threshold, color="0.5", linestyle=style)
    by_threshold.set(xlabel="threshold (dashed: chosen, dotted: target)", ylim=(-0.02, 1.02))
    by_threshold.legend()
    both = [
        (p["false_alarm_rate"], p["recall"])
        for p in report["curve"]
        if None not in (p["recall"], p["false_alarm_rate"])
    ]
    roc.plot([x for x, _ in both], [y for _, y in both], color=LINES[1][2], marker=".")
    roc.plot([0, 1], [0, 1], color="0.6", linestyle="--")
    roc.set(xlabel="false alarm rate", ylabel="recall", title=f"AUROC {_show(report['auroc'])}")
    title = terminal_safe(f"{report['task']}: {report.get('judge', 'judge')}, {report['n']} items")
    figure.suptitle(title.replace("$", r"\$"))
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    return drawn.getvalue()
