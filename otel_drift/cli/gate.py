"""``otel-drift gate``: may a model answer from these passages? Once from a file, or over HTTP."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_drift.cli import app
from otel_drift.cli.common import ConfigOption, FormatOption, OutputFormat, stdout_console, write_json_line

if TYPE_CHECKING:
    from otel_drift.config import Settings
    from otel_drift.gate import ConflictGate, GateDecision
    from otel_drift.protocols import Judge


class Preset(StrEnum):
    """The gate's presets."""

    clinical = "clinical"
    legal = "legal"
    finance = "finance"
    support = "support"
    research = "research"


class Threshold(StrEnum):
    """From which severity conflicts count."""

    critical = "critical"
    material = "material"
    minor = "minor"


@app.command()
def gate(
    query: Annotated[str | None, typer.Option(help="The question.")] = None,
    passages: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.jsonl", help="{id, text, title?, author?, date?, document_type?} a line, - = stdin."
        ),
    ] = None,
    output: FormatOption = OutputFormat.text,
    model: Annotated[str | None, typer.Option(help="litellm model name.")] = None,
    api_base: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server.")] = None,
    judge: Annotated[
        str | None, typer.Option(help="rules: accept the embedded judge, which knows figures and dates only.")
    ] = None,
    preset: Annotated[
        Preset | None,
        typer.Option(help="clinical, legal, finance: MATERIAL, 1 pair; support: MATERIAL, 2; research: CRITICAL, 3."),
    ] = None,
    severity_threshold: Annotated[Threshold | None, typer.Option(help="Conflicts from this severity on count.")] = None,
    pair_threshold: Annotated[int | None, typer.Option(min=1, help="Abstain from so many pairs on.")] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds within which there is a decision: 30.")] = None,
    write_answer: Annotated[
        bool | None, typer.Option("--write-answer/--no-write-answer", help="Let the judge answer where safe.")
    ] = None,
    serve: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve POST /v1/gate instead; needs the extra “gate”.")
    ] = None,
    redact: Annotated[list[str] | None, typer.Option(help="email, phone, card, iban, ip or module:callable.")] = None,
    ledger: Annotated[str | None, typer.Option(help="File or postgresql:// URL that keeps the decisions.")] = None,
    config: ConfigOption = None,
) -> None:
    """Decide whether passages may be answered from; exit 0 proceed, 1 abstain.

    With --serve the bearer token that callers must send is read from OTEL_DRIFT_GATE_TOKEN; without one the gate
    listens on loopback only.
    """
    from otel_drift.config import load_settings
    from otel_drift.errors import ConfigError
    from otel_drift.passages import read_passages

    settings = load_settings(
        config,
        {
            "judge": {"model": model, "api_base": api_base},
            "ledger": {"url": ledger},
            "privacy": {"redact": redact},
            "gate": {
                "preset": preset and preset.value,
                "severity_threshold": severity_threshold and severity_threshold.value,
                "pair_threshold": pair_threshold,
                "deadline": deadline,
                "write_answer": write_answer,
            },
        },
    )
    if serve is not None and (query is not None or passages is not None):
        raise ConfigError("--serve takes its questions over HTTP: leave --query and --passages out")
    if query is None and passages is None:
        serve = serve or settings.gate.serve or None
    if serve is None and (query is None or passages is None):
        raise ConfigError("gate needs --query and --passages, or --serve HOST:PORT")
    read = read_passages(passages, lenient=True) if passages is not None else ()
    chosen = _judge(settings, judge, named=model is not None)
    with _gate(settings, chosen) as opened:
        if serve is not None:
            _serve(opened, serve)
            return
        decision = opened.check(query or "", read)
    _print(decision, output)
    raise typer.Exit(0 if decision.proceed else 1)


def _gate(settings: Settings, judge: Judge) -> ConflictGate:
    from otel_drift.gate import ConflictGate
    from otel_drift.redaction import load_redactor

    told = settings.gate
    options: dict[str, Any] = {"severity_threshold": told.severity_threshold.upper() or None}
    return ConflictGate(
        judge,
        preset=told.preset or None,
        pair_threshold=told.pair_threshold,
        min_confidence=settings.audit.options.get("source_conflict", {}).get("min_confidence", 0.0),
        deadline=told.deadline,
        write_answer=told.write_answer,
        allow_embedded=judge.embedded,  # only ever by --judge rules
        ledger=settings.ledger.url or None,
        redact=load_redactor(",".join(settings.privacy.redact)) if settings.privacy.redact else None,
        record_wait=10.0,
        prompts_dir=settings.audit.prompts_dir or None,
        **options,
    )


def _judge(settings: Settings, name: str | None, *, named: bool) -> Judge:
    """The judge, which must be named: a model on the command line or in the settings, or ``--judge rules``."""
    from otel_drift.cli.wiring import open_judge
    from otel_drift.errors import ConfigError

    if name not in (None, "rules"):
        raise ConfigError(f"--judge {name}: only rules, the embedded judge, is named so; name a model with --model")
    if name == "rules":
        if named or settings.judge.api_base:
            raise ConfigError("--judge rules asks no model: leave --model and --api-base out")
        return open_judge(settings.judge.model_copy(update={"model": ""}))
    if not settings.judge.model:
        raise ConfigError(
            "gate: name a judge on purpose: --model NAME (and --api-base URL), or --judge rules for the embedded one, "
            "which knows figures and dates only"
        )
    judge = open_judge(settings.judge)
    check = getattr(judge, "check", None)
    if check is not None:
        check()
    return judge


def _serve(opened: ConflictGate, address: str) -> None:
    from otel_drift.gate import http

    token = os.environ.get(http.TOKEN_VARIABLE) or None
    http.serve(opened, address, token=token, announce=lambda url: typer.echo(f"serving {url}", err=True))


def _print(decision: GateDecision, output: OutputFormat) -> None:
    if output is OutputFormat.json:
        write_json_line(decision.to_dict())
        return
    from otel_drift.gate.decision import REASONS
    from otel_drift.report.escape import terminal_safe

    console = stdout_console()
    why = REASONS[decision.reason]
    if decision.safety_override:
        why += f" ({decision.safety_override})"
    console.print(f"{decision.decision}: {terminal_safe(why)}", soft_wrap=True)
    if decision.left_out:
        these = ", ".join(f"{one.number} ({one.reason})" for one in decision.left_out)
        console.print(f"passages left out: {these}", soft_wrap=True)
    for conflict in decision.report["conflicts"]:
        console.print(f"  {conflict['severity']}  {terminal_safe(conflict['explanation'])}", soft_wrap=True)
        for side in ("a", "b"):
            source = conflict[f"title_{side}"] or conflict[f"source_{side}"]
            quote = f"    {source}: “{conflict[f'quote_{side}']}”"
            console.print(terminal_safe(quote), soft_wrap=True)
    if decision.answer:
        console.print(terminal_safe(decision.answer, multiline=True), soft_wrap=True)
    if decision.judge_note:
        console.print(f"judge {terminal_safe(f'{decision.judge}: {decision.judge_note}')}", soft_wrap=True)
