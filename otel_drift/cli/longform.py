"""``otel-drift longform``: where does a long text leave its source? For files, as a gate in CI."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_drift.cli import app
from otel_drift.cli.common import AskAgainOption, ConfigOption, stderr_console, stdout_console, write_json_line

if TYPE_CHECKING:
    from otel_drift.config import Settings
    from otel_drift.model import Session, Unit

NAME = "longform_drift"


class LongformFormat(StrEnum):
    """How the result is printed."""

    text = "text"
    json = "json"
    sarif = "sarif"


class RiskLevel(StrEnum):
    """How much is at stake."""

    low = "low"
    medium = "medium"
    high = "high"
    critical = "critical"


class DriftFailOn(StrEnum):
    """The severity of drift from which the exit status is 1."""

    minor = "minor"
    moderate = "moderate"
    severe = "severe"
    critical = "critical"


@app.command()
def longform(
    output: Annotated[str, typer.Argument(metavar="OUTPUT", help="The text to check: text or Markdown, - = stdin.")],
    source: Annotated[list[str], typer.Option(help="A file the text has to rest on; may be repeated.")],
    output_format: Annotated[
        LongformFormat, typer.Option("--format", help="text for people, json for machines, sarif for code review.")
    ] = LongformFormat.text,
    question: Annotated[str | None, typer.Option(help="What the text was asked to answer.")] = None,
    risk_level: Annotated[RiskLevel | None, typer.Option(help="high and critical ask a second judge.")] = None,
    regulated: Annotated[bool, typer.Option("--regulated", help="Ask for a sign-off at score 0.4.")] = False,
    fail_on: Annotated[DriftFailOn | None, typer.Option(help="Exit 1 at drift this severe or worse.")] = None,
    model: Annotated[str | None, typer.Option(help="litellm model name. Default: the embedded judge.")] = None,
    api_base: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server.")] = None,
    second_model: Annotated[str | None, typer.Option(help="The second judge; default: the same model again.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page of the result.")] = None,
    ledger: Annotated[str | None, typer.Option(help="File or postgresql:// URL that keeps the results.")] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="US dollars this run may cost.")] = None,
    ask_again: AskAgainOption = False,
    config: ConfigOption = None,
) -> None:
    """Find the sentence where a long text leaves its sources; exit 1 at --fail-on, 4 awaiting sign-off, 5 unjudged."""
    from otel_drift.config import load_settings
    from otel_drift.longform.files import STDIN, read_document, session_of

    if STDIN in source:
        raise typer.BadParameter("only OUTPUT may come from stdin; name a file", param_hint="--source")
    settings = load_settings(
        config,
        {
            "judge": {"model": model, "api_base": api_base},
            "run": {"max_cost": max_cost, "ask_again": ask_again or None},
            "ledger": {"url": ledger},
        },
    )
    told = dict(settings.audit.options.get(NAME, {}))
    if risk_level is not None:
        told["risk_level"] = risk_level.value
    if regulated:
        told["regulated"] = True
    settings.audit.options = {**settings.audit.options, NAME: told}
    settings.audit.names, settings.output.sinks = [NAME], []
    session = session_of(read_document(output), [read_document(name) for name in dict.fromkeys(source)], question)
    unit = _audit(session, settings, second_model, html)
    _print(unit, output_format)
    raise typer.Exit(_status(unit, fail_on.value if fail_on else None))


def _audit(session: Session, settings: Settings, second_model: str | None, html: Path | None) -> Unit:
    from otel_drift import fingerprints, validation
    from otel_drift.cli.wiring import open_judge, open_line
    from otel_drift.errors import ConfigError
    from otel_drift.longform.second_judge import TwoJudges
    from otel_drift.redaction import redact_session
    from otel_drift.report.html import HtmlReport

    with ExitStack() as stack:
        line, _sinks = open_line(settings, stack)
        judge, (audit,) = line.judge, line.audits
        if second_model:
            if judge.embedded:
                raise ConfigError("--second-model needs --model: it reads again what the first has read")
            judge = TwoJudges(judge, open_judge(settings.judge.model_copy(update={"model": second_model})))
            line.settings = replace(line.settings, limits=judge.limits(), count_tokens=judge.count_tokens)
        page = None
        if html is not None:
            run = {"judge": judge.name, "judge_note": judge.note, "paths": [session.name]}
            page = stack.enter_context(HtmlReport(html, title="otel-drift longform", run=run))
        session = redact_session(session, line.redact) if line.redact else session
        fingerprint = fingerprints.unit_fingerprint(audit, session, judge, line.settings)
        run_id = line.ledger.begin_run({"paths": [session.name], "judge": judge.name})
        unit_id = fingerprints.unit_id(audit.name, session, per_turn=True)
        unit = line.ledger.find_unit(unit_id, fingerprint, session)
        if unit is None or (unit.outcome == "inconclusive" and line.settings.ask_again):
            judged = validation.audit_session(
                audit, session, judge, cache=line.ledger, settings=line.settings, budget=line.budget
            )
            unit = replace(judged, content_sha256=fingerprint)
        line.ledger.commit_unit(run_id, unit, (), ())
        line.ledger.end_run(run_id, {"units": 1, "outcomes": {unit.outcome: 1}, "calls": unit.calls})
        if page is not None:
            page.add(unit)
    return unit


def _print(unit: Unit, output_format: LongformFormat) -> None:
    from otel_drift.findings import unit_record
    from otel_drift.report.longform import print_longform
    from otel_drift.sarif import sarif_log

    if output_format is LongformFormat.json:
        write_json_line(unit_record(unit))
    elif output_format is LongformFormat.sarif:
        _write_indented(sarif_log(unit))
    else:
        print_longform(stdout_console(), unit)
    if unit.report is None and output_format is not LongformFormat.text:
        stderr_console().print(f"otel-drift: not audited ({unit.outcome.replace('_', ' ')}): {unit.reason}")


def _write_indented(value: dict[str, Any]) -> None:
    import orjson

    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()


def _status(unit: Unit, fail_on: str | None) -> int:
    """1 at the wanted severity, else 4 where a sign-off is due, 5 where nothing could be said of a long text."""
    from otel_drift.audits.longform_drift_options import SEVERITIES

    if unit.report is None:
        return 0 if unit.reason == "short_form" else 5
    severity = unit.report["drift_severity"]
    if fail_on and SEVERITIES.index(severity) >= SEVERITIES.index(fail_on):
        return 1
    return 4 if unit.report["review"]["awaiting_sign_off"] else 0
