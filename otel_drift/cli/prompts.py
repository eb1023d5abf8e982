"""``otel-drift prompts``: which prompts there are, what they say, and whether your own add up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_drift.cli import app
from otel_drift.cli.common import ConfigOption, FormatOption, OutputFormat, stdout_console, write_json_line

if TYPE_CHECKING:
    from otel_drift.config import Settings
    from otel_drift.protocols import AuditSettings

prompts = typer.Typer(no_args_is_help=True, help="The prompts judges are given: ours and your own.")
app.add_typer(prompts, name="prompts")

FolderOption = Annotated[
    Path | None, typer.Option("--prompts-dir", help="Folder with your own prompts. Default: that of the settings.")
]


@prompts.command("list")
def list_prompts(
    prompts_dir: FolderOption = None, output: FormatOption = OutputFormat.text, config: ConfigOption = None
) -> None:
    """List every prompt and version with its hash, where it comes from, and which one is used."""
    from otel_drift import prompting
    from otel_drift.report.paper import Paper

    settings = _settings(config, prompts_dir)
    paper = Paper(stdout_console())
    audits = _asked_by(_audit_settings(settings))
    for prompt_id, version, folder in _all(settings):
        prompt = prompting.load(prompt_id, version, folder)
        used = prompting.load(
            prompt_id, settings.audit.prompt_versions.get(prompt_id), settings.audit.prompts_dir or None
        )
        one = {
            "id": prompt_id,
            "version": version,
            "sha256": prompt.ref.sha256,
            "from": folder or "released",
            "used": used.ref == prompt.ref,
            "pinned": settings.audit.prompt_versions.get(prompt_id) == version,
            "audits": audits.get(prompt_id, []),
            "settings": list(prompt.settings),
            "inputs": list(prompt.inputs),
        }
        if output is OutputFormat.json:
            write_json_line(one)
        else:
            state = "  used" * bool(one["used"]) + " (pinned)" * bool(one["pinned"])
            source = f"  {folder}" if folder else ""
            paper.line((f"{prompt_id} {version}", "bold"), (f"  {prompt.ref.sha256[:12]}", "dim"), state, source)


@prompts.command()
def show(
    prompt_id: Annotated[str, typer.Argument(metavar="ID", help="E.g. factual_drift/session.", show_default=False)],
    version: Annotated[str | None, typer.Option(help="E.g. v1. Default: the one that is used.")] = None,
    prompts_dir: FolderOption = None,
    output: FormatOption = OutputFormat.text,
    config: ConfigOption = None,
) -> None:
    """Show a prompt's text as it is used, with your constraints and examples."""
    from dataclasses import replace

    from otel_drift import prompting
    from otel_drift.report.escape import terminal_safe

    settings = _audit_settings(_settings(config, prompts_dir))
    if version is not None:
        settings = replace(settings, prompt_versions={**settings.prompt_versions, prompt_id: version})
    prompt = prompting.chosen(prompt_id, settings)
    if output is OutputFormat.json:
        ref = prompt.ref
        named = {"settings": list(prompt.settings), "inputs": list(prompt.inputs), "text": prompt.text}
        write_json_line({"id": ref.id, "version": ref.version, "sha256": ref.sha256, **named})
    else:
        typer.echo(f"{prompt.ref.id} {prompt.ref.version} sha256:{prompt.ref.sha256}", err=True)
        typer.echo(terminal_safe(prompt.text, multiline=True))


@prompts.command()
def check(
    prompts_dir: FolderOption = None, output: FormatOption = OutputFormat.text, config: ConfigOption = None
) -> None:
    """Check every prompt: front matter, variables, worked examples; exit 2 if something is wrong."""
    from otel_drift.errors import ConfigError
    from otel_drift.report.paper import Paper

    settings = _settings(config, prompts_dir)
    told = _audit_settings(settings)
    paper = Paper(stdout_console())
    wrong = 0
    for prompt_id, version, folder in _all(settings):
        found = prompt_problems(prompt_id, version, folder, told)
        wrong += bool(found)
        if output is OutputFormat.json:
            write_json_line({"id": prompt_id, "version": version, "from": folder or "released", "problems": found})
        else:
            paper.line((f"{prompt_id} {version}", "bold"), "  ok" if not found else "")
            for problem in found:
                paper.line(problem, gutter="   ")
    if wrong:
        raise ConfigError(f"{wrong} {'prompt is' if wrong == 1 else 'prompts are'} wrong; no run would use them")


def _settings(config: Path | None, prompts_dir: Path | None) -> Settings:
    from otel_drift.config import load_settings
    from otel_drift.errors import ConfigError

    settings = load_settings(config, {"audit": {"prompts_dir": str(prompts_dir) if prompts_dir else None}})
    if settings.audit.prompts_dir and not Path(settings.audit.prompts_dir).is_dir():
        raise ConfigError(f"{settings.audit.prompts_dir}: no such folder of prompts")
    return settings


def _audit_settings(settings: Settings) -> AuditSettings:
    from otel_drift.cli.wiring import pinned
    from otel_drift.protocols import AuditSettings
    from otel_drift.worked_examples import load_examples

    return AuditSettings(
        domain=settings.audit.domain or None,
        taxonomy=tuple(settings.audit.taxonomy),
        severity_rules=settings.audit.severity_rules,
        prompts_dir=settings.audit.prompts_dir or None,
        prompt_versions=pinned(settings),
        constraints=tuple(settings.audit.constraints),
        examples=load_examples(settings.audit.examples_file) if settings.audit.examples_file else {},
        options=settings.audit.options,
    )


def _all(settings: Settings) -> list[tuple[str, str, str | None]]:
    """Every prompt and version with the folder it is in; None for the released ones."""
    from otel_drift import prompting

    folder = settings.audit.prompts_dir or None
    own = prompting.versions(folder) if folder else {}
    found = [(name, version, folder) for name, ones in own.items() for version in ones]
    found += [(name, version, None) for name, ones in prompting.versions().items() for version in ones]
    return sorted(found, key=lambda one: (one[0], int(one[1][1:]), one[2] is None))


def _audits() -> list[Any]:
    from otel_drift import plugins

    return [plugins.load("audits", name)() for name in sorted(plugins.installed("audits"))]


def _asked_by(told: AuditSettings) -> dict[str, list[str]]:
    """Which audits ask each prompt."""
    found: dict[str, list[str]] = {}
    for audit in _audits():
        takes = getattr(audit, "prompt_inputs", None)
        for prompt_id in takes(told) if takes else ():
            found.setdefault(prompt_id, []).append(audit.name)
    return found


def prompt_problems(prompt_id: str, version: str, folder: str | None, told: AuditSettings) -> list[str]:
    """What is wrong with one prompt, one sentence each.

    Args:
        prompt_id: Such as ``factual_drift/session``.
        version: Such as ``v1``.
        folder: Where it is; None for the released ones.
        told: What the audits are told: their prompts are given names by it.
    """
    from otel_drift import prompting, worked_examples
    from otel_drift.errors import ConfigError

    try:
        prompt = prompting.load(prompt_id, version, folder)
        if folder and prompt_id not in prompting.versions():
            return [f"no audit asks a prompt called {prompt_id}"]
        model = None
        for audit in _audits():
            takes, models = getattr(audit, "prompt_inputs", None), getattr(audit, "answer_models", None)
            if takes and prompt_id in (given := takes(told)):
                prompting.check_names(prompt, given[prompt_id])
                model = (models(told).get(prompt_id) if models else None) or model
        if prompt_id == "repair":
            prompting.check_names(prompt, ("answer", "errors"))
    except ConfigError as error:
        return [str(error)]
    own = told.examples.get(prompt_id, ())
    return worked_examples.problems("\n\n".join([prompt.text, *own]), model)
