"""``otel-drift calibrate``: how good a judge is on labelled items, and from which score on it should count."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_drift.cli import app
from otel_drift.cli.common import (
    ConfigOption,
    FormatOption,
    OutputFormat,
    stderr_console,
    stdout_console,
    write_json_line,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_drift.calibration.judging import Bench, Judged
    from otel_drift.calibration.labels import Labels
    from otel_drift.config import Settings

NOTHING_MEASURED = 5


@app.command()
def calibrate(
    labels: Annotated[
        list[Path],
        typer.Argument(
            metavar="LABELS.jsonl...", help="Labelled items, or what `review export` wrote.", show_default=False
        ),
    ],
    audit: Annotated[
        str, typer.Option(help="grounding, contradiction, passage_conflict, qualifier, or an audit's name.")
    ],
    output: FormatOption = OutputFormat.text,
    judge: Annotated[str | None, typer.Option(help="rules: the embedded judge, the default.")] = None,
    model: Annotated[str | None, typer.Option(help="litellm model name.")] = None,
    api_base: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server.")] = None,
    target_miss_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Find the threshold that misses no more than this share.")
    ] = 0.05,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, help="Measure at this threshold; default: the best on these items.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.html|FILE.png", help="Draw the curves.")] = None,
    write_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the target's threshold there as min_confidence.")
    ] = None,
    resamples: Annotated[int, typer.Option(min=0, max=100_000, help="Bootstrap resamples; 0: no intervals.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 20_240_601,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say calls, tokens and price; call nobody.")] = False,
    max_cost: Annotated[float | None, typer.Option(min=0, help="US dollars this may cost.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=0, help="Judge calls this may take.")] = None,
    ledger: Annotated[
        str | None, typer.Option(help="File or postgresql:// URL that keeps the judge's answers.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Measure a judge on labelled items: how much it misses, how often it cries wolf, and at which threshold.

    Exit 5 if nothing could be measured, or --write-config found no threshold worth writing.
    """
    from otel_drift.calibration.labels import TASKS_OF, read_labels
    from otel_drift.calibration.plot import check_plot
    from otel_drift.config import load_settings
    from otel_drift.errors import ConfigError

    settings = load_settings(
        config,
        {
            "judge": {"model": model, "api_base": api_base},
            "run": {"max_cost": max_cost, "max_calls": max_calls},
            "ledger": {"url": ledger},
        },
    )
    if write_config is not None and TASKS_OF.get(audit) != ("passage_conflict",):
        raise ConfigError(f"--write-config is for passage_conflict: no run takes a threshold of {audit}")
    if plot is not None:
        check_plot(plot)
    read = read_labels(labels, audit)
    with ExitStack() as stack:
        bench = _bench(settings, judge, stack, named=model is not None, dry=dry_run)
        expected = _expected(read, bench)
        if dry_run:
            _show_plan(expected, bench, output)
            return
        if not bench.judge.embedded:
            _tell(_priced(expected))
        report = _measured(read, bench, audit, threshold, target_miss_rate, resamples, seed)
    _print(report, output)
    if plot is not None:
        from otel_drift.calibration.plot import write_plot

        write_plot(plot, report)
    written = write_config is None or _write_config(write_config, report)
    if report["auroc"] is None and not report["n"]:
        raise typer.Exit(NOTHING_MEASURED)
    if not written:
        raise typer.Exit(NOTHING_MEASURED)


def _bench(settings: Settings, name: str | None, stack: ExitStack, *, named: bool, dry: bool) -> Bench:
    from otel_drift.budget import Budget
    from otel_drift.calibration.judging import Bench
    from otel_drift.cli.wiring import audit_settings, open_judge
    from otel_drift.config import default_ledger
    from otel_drift.errors import ConfigError
    from otel_drift.ledger import Ledger
    from otel_drift.redaction import load_redactor

    if name not in (None, "rules"):
        raise ConfigError(f"--judge {name}: only rules, the embedded judge, is named so; name a model with --model")
    if name == "rules":
        if named:
            raise ConfigError("--judge rules asks no model: leave --model and --api-base out")
        settings = settings.model_copy(
            update={"judge": settings.judge.model_copy(update={"model": "", "api_base": ""})}
        )
    judge = open_judge(settings.judge)
    if not dry and (check := getattr(judge, "check", None)) is not None:
        check()
    # Answers that were paid for are kept; the embedded judge needs no file for that.
    keeps = not judge.embedded and not dry
    return Bench(
        judge=judge,
        settings=audit_settings(settings, judge),
        cache=stack.enter_context(Ledger.open(settings.ledger.url or default_ledger())) if keeps else None,
        budget=Budget(max_calls=settings.run.max_calls, max_cost=settings.run.max_cost),
        redact=load_redactor(",".join(settings.privacy.redact)) if settings.privacy.redact else None,
        workers=1 if judge.embedded else settings.judge.max_concurrency,
    )


def _expected(read: Labels, bench: Bench) -> dict[str, Any]:
    """Calls, tokens and price if no answer were known; zero for the embedded judge."""
    from otel_drift.calibration.judging import plans
    from otel_drift.planning import total

    if bench.judge.embedded:
        return {"items": len(read.items), "calls": 0, "input_tokens": 0, "output_tokens": 0, "cost": 0.0}
    found = list(plans(read.items, bench))
    return {
        "items": len(read.items),
        "calls": sum(one.calls for one in found),
        "most_calls": sum(one.most_calls for one in found),
        "input_tokens": sum(one.input_tokens for one in found),
        "output_tokens": sum(one.output_tokens for one in found),
        "cost": total([one.cost for one in found]),
        "most_cost": total([one.most_cost for one in found]),
    }


def _priced(expected: dict[str, Any]) -> str:
    price = "price unknown" if expected["cost"] is None else f"about ${expected['cost']:.4f}"
    return (
        f"{expected['items']} items: {expected['calls']} calls at first, about {expected['input_tokens']:,} tokens in "
        f"and {expected['output_tokens']:,} out, {price}; answers in the ledger cost nothing"
    )


def _show_plan(expected: dict[str, Any], bench: Bench, output: OutputFormat) -> None:
    if output is OutputFormat.json:
        write_json_line({"dry_run": True, "judge": bench.judge.name, **expected})
    else:
        typer.echo(_priced(expected))


def _measured(
    read: Labels,
    bench: Bench,
    audit: str,
    threshold: float | None,
    target_miss_rate: float,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    from otel_drift.calibration.report import build_report
    from otel_drift.planning import total

    found = _judge_all(read, bench)
    report = build_report(
        read.task,
        found,
        threshold=threshold,
        target_miss_rate=target_miss_rate,
        resamples=resamples,
        seed=seed,
    )
    return {
        "audit": audit,
        "judge": bench.judge.name,
        "judge_note": bench.judge.note,
        "models": sorted({one.model for one in found if one.model and not bench.judge.embedded}),
        **report,
        "other_tasks": dict(read.other_tasks),
        "calls": sum(one.calls for one in found),
        "cost": 0.0 if bench.judge.embedded else total([one.cost for one in found]),
    }


def _judge_all(read: Labels, bench: Bench) -> Sequence[Judged]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from otel_drift.calibration.judging import judged

    console = stderr_console()
    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(read.items))
        found = []
        for one in judged(read.items, bench):
            found.append(one)
            progress.advance(task)
    return found


def _print(report: dict[str, Any], output: OutputFormat) -> None:
    if output is OutputFormat.json:
        write_json_line(report)
        return
    from otel_drift.calibration.summary import lines
    from otel_drift.report.escape import terminal_safe

    console = stdout_console()
    for line in lines(report):
        console.print(terminal_safe(line), soft_wrap=True)


def _write_config(path: Path, report: dict[str, Any]) -> bool:
    """Write the threshold for the target; false where there is none worth writing."""
    from otel_drift.calibration.settings_file import write_min_confidence

    target = report["target"]
    if target["threshold"] is None or not target["useful"]:
        wanted = f"{target['miss_rate_wanted']:g}"
        _tell(f"{path} is left alone: only flagging everything would miss no more than {wanted} of the conflicts")
        return False
    note = (
        f"measured on {report['n']} items: misses {target['miss_rate']:.3f}, false alarms "
        f"{target['false_alarm_rate'] if target['false_alarm_rate'] is not None else float('nan'):.3f}"
    )
    if not report["decidable"]:
        note += "; TOO FEW LABELS TO DECIDE"
        _tell("the labels are too few to decide about this threshold; it is written all the same, and says so")
    write_min_confidence(path, target["threshold"], note)
    _tell(f"{path}: min_confidence = {target['threshold']:g}")
    return True


def _tell(note: str) -> None:
    from otel_drift.report.escape import terminal_safe

    typer.echo(terminal_safe(f"otel-drift: {note}"), err=True)
