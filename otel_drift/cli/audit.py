"""``otel-drift audit``: find drift, show it, keep it, write it back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_drift.cli import app
from otel_drift.cli.choice import (
    EnvironmentOption,
    FlaggedOption,
    MinTurnsOption,
    SessionOption,
    SettleOption,
    SinceOption,
    TagOption,
    UntilOption,
    UserOption,
)
from otel_drift.cli.common import (
    AskAgainOption,
    ConfigOption,
    FormatOption,
    OutputFormat,
    stderr_console,
    stdout_console,
    write_json_line,
)
from otel_drift.cli.sources import Sources
from otel_drift.totals import Totals

if TYPE_CHECKING:
    from otel_drift.cli.sources import Reading
    from otel_drift.config import Settings
    from otel_drift.pipeline import Line
    from otel_drift.protocols import Sink


class FailOn(StrEnum):
    """The severity from which findings make the exit status 1."""

    critical = "critical"
    major = "major"
    minor = "minor"


@app.command()
def audit(
    sources: Sources,
    output: FormatOption = OutputFormat.text,
    model: Annotated[str | None, typer.Option(help="litellm model name. Default: the embedded judge.")] = None,
    api_base: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server.")] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    session: SessionOption = None,
    min_turns: MinTurnsOption = None,
    flagged: FlaggedOption = None,
    environment: EnvironmentOption = None,
    user: UserOption = None,
    tag: TagOption = None,
    settle: SettleOption = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(
            help="jsonl:FILE, otlp:URL or a platform; may be repeated. Default: back to the platform that was read; "
            "none: nowhere."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page of the run.")] = None,
    ledger: Annotated[str | None, typer.Option(help="File or postgresql:// URL that keeps the results.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say calls, tokens and price; call nobody.")] = False,
    max_cost: Annotated[float | None, typer.Option(min=0, help="US dollars this run may cost.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=0, help="Judge calls this run may make.")] = None,
    sample: Annotated[float | None, typer.Option(help="Share of sessions to audit, above 0, at most 1.")] = None,
    fail_on: Annotated[FailOn | None, typer.Option(help="Exit 1 at findings this severe or worse.")] = None,
    redact: Annotated[list[str] | None, typer.Option(help="email, phone, card, iban, ip or module:callable.")] = None,
    audits: Annotated[str | None, typer.Option(help="Comma-separated names; default: those of the settings.")] = None,
    ask_again: AskAgainOption = False,
    config: ConfigOption = None,
) -> None:
    """Audit sessions for factual drift; exit 5 if something could not be audited, 1 at --fail-on."""
    from otel_drift.cli.choice import pull_overrides
    from otel_drift.cli.sources import with_write_back
    from otel_drift.config import load_settings

    pull = pull_overrides(
        since=since,
        min_turns=min_turns,
        flagged=flagged,
        environment=environment,
        user=user,
        tag=tag,
        settle=settle,
    )
    settings = load_settings(
        config,
        {
            "judge": {"model": model, "api_base": api_base},
            "run": {
                "max_cost": max_cost,
                "max_calls": max_calls,
                "ask_again": ask_again or None,
                "sample": sample,
                "fail_on": fail_on.value if fail_on else None,
            },
            "ledger": {"url": ledger},
            "pull": pull,
            "audit": {"names": [name.strip() for name in audits.split(",")] if audits else None},
            "privacy": {"redact": redact},
            "output": {"sinks": sink},
        },
    )
    asked = Asked(sources, with_write_back(settings, sources), output, pull, until, tuple(session or ()))
    if dry_run:
        _show_plan(asked)
    else:
        raise typer.Exit(_audit(asked, html))


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    sources: list[str]
    settings: Settings
    output: OutputFormat
    pull: Mapping[str, Any]
    until: str | None
    sessions: tuple[str, ...]

    def opened(self, stack: ExitStack, *, dry: bool = False) -> tuple[Reading, Line, dict[str, Sink]]:
        """The source, the line and the sinks."""
        from otel_drift.cli.choice import cursor_name, selection
        from otel_drift.cli.sources import Reading
        from otel_drift.cli.wiring import open_line

        source = Reading(self.sources, self.settings)
        stack.callback(source.close)
        line, sinks = open_line(self.settings, stack, dry=dry)
        reached = line.ledger.cursor(cursor_name(source, self.settings)) if source.windowed else None
        line.selection = selection(
            source, self.settings, given=self.pull, until=self.until, sessions=self.sessions, reached=reached
        )
        return source, line, sinks


def _audit(asked: Asked, html: Path | None) -> int:
    from otel_drift import delivery, pipeline
    from otel_drift.cli.choice import advance, left_out
    from otel_drift.cli.sources import check_sinks, warn
    from otel_drift.errors import SourceError
    from otel_drift.findings import unit_record
    from otel_drift.report import timeline
    from otel_drift.report.html import HtmlReport

    console, notes = stdout_console(), stderr_console()
    settings, totals = asked.settings, Totals()
    with ExitStack() as stack:
        source, line, sinks = asked.opened(stack)
        failure: SourceError | None = None
        try:
            source.check()
        except SourceError as error:
            failure = error
        links = source.links(settings)
        line.run_id = line.ledger.begin_run({"paths": asked.sources, "judge": line.judge.name})
        page = None
        if html is not None:
            run = {"judge": line.judge.name, "judge_note": line.judge.note, "paths": asked.sources}
            page = stack.enter_context(HtmlReport(html, title="otel-drift audit", run=run, links=links))
        # Where the platform that is read is down, that is told once, in the end.
        others = {name: sink for name, sink in sinks.items() if failure is None or name != source.name}
        for warning in check_sinks(others):
            warn(notes, warning)
        try:
            if failure is not None:
                raise failure
            with source.shown(asked.output) as on_sessions:
                for unit in pipeline.audit(source, line):
                    totals.add(unit)
                    on_sessions(totals.units)
                    if page is not None:
                        page.add(unit)
                    if asked.output is OutputFormat.json:
                        write_json_line(unit_record(unit, links))
                    else:
                        timeline.print_unit(console, unit, links)
            advance(line, source, settings, held=totals.held)
        except SourceError as error:  # what other runs and this one have found is written all the same
            failure = error
        totals.passed_over = source.lost_count
        delivered = delivery.deliver(line.ledger, sinks)
        line.ledger.end_run(line.run_id, totals.record())
    if failure is None or totals.units:
        timeline.print_totals(notes, totals.record(), judge=line.judge)
    left = left_out(line.choice, spans=source.span_count, audited=totals.units, not_sampled=line.not_sampled)
    for why in left if failure is None else ():
        notes.print(f"otel-drift: {why}", soft_wrap=True)
    if totals.stored_failures and not line.judge.embedded:
        notes.print(
            f"otel-drift: {totals.stored_failures} inconclusive by stored answers of the judge, which are not asked "
            "for again by themselves; --ask-again does",
            soft_wrap=True,
        )
    for said in delivered.done:
        notes.print(f"otel-drift: {said}", soft_wrap=True)
    for name in delivered.idle if failure is None else ():
        notes.print(f"otel-drift: nothing new to write to {name}", soft_wrap=True)
    for problem in delivered.problems:
        notes.print(f"otel-drift: {problem}", soft_wrap=True)
    if failure is not None:
        raise failure
    status = totals.status(settings.run.fail_on)
    return 3 if delivered.problems and status != 1 else status


def _show_plan(asked: Asked) -> None:
    from otel_drift import pipeline
    from otel_drift.cli.choice import left_out
    from otel_drift.report import planning

    settings, total = asked.settings, planning.PlanTotals()
    with ExitStack() as stack:
        source, line, _sinks = asked.opened(stack, dry=True)
        console = stdout_console()
        source.check()
        with source.shown(asked.output) as on_sessions:
            for name, session, plan in pipeline.plan(source, line):
                total.add(plan)
                on_sessions(total.checks)
                if asked.output is OutputFormat.json:
                    write_json_line(planning.plan_record(name, session, plan))
                else:
                    planning.print_plan(console, name, session, plan, write=bool(settings.output.sinks))
        limits = {"max_cost": settings.run.max_cost, "max_calls": settings.run.max_calls, "sample": line.sample}
        planning.print_plan_totals(stderr_console(), total, line.judge, limits, settings.output.sinks)
        left = left_out(line.choice, spans=source.span_count, audited=total.checks, not_sampled=line.not_sampled)
        for why in left:
            stderr_console().print(f"otel-drift: {why}", soft_wrap=True)
