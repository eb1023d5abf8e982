"""``otel-drift cite``: an answer from passages, with checked citations."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_drift.cli import app
from otel_drift.cli.common import (
    AskAgainOption,
    ConfigOption,
    FormatOption,
    OutputFormat,
    stderr_console,
    stdout_console,
    write_json_line,
)

if TYPE_CHECKING:
    from otel_drift.citation.cited import CitedAnswer
    from otel_drift.config import Settings
    from otel_drift.model import Passage

ABSTAINED = 1
INCONCLUSIVE = 5
LONGEST_EXAMPLES = 16 * 1024 * 1024


@app.command()
def cite(
    question: Annotated[str, typer.Option(help="What is asked.")],
    passages: Annotated[str, typer.Option(help="JSON lines: {id, text, title?, author?, date?, …}; - = stdin.")],
    output: FormatOption = OutputFormat.text,
    model: Annotated[
        str | None, typer.Option(help="litellm model name. Default: sentences of the passages, word for word.")
    ] = None,
    api_base: Annotated[str | None, typer.Option(help="URL of an OpenAI-compatible server.")] = None,
    two_step: Annotated[
        bool, typer.Option("--two-step", help="First the answer, then its conflicts: for small models.")
    ] = False,
    recency: Annotated[str | None, typer.Option(help="Passages dated before this (2024-06) support nothing.")] = None,
    authority: Annotated[
        list[str] | None, typer.Option(help="Author or kind of document that ranks high; repeat, highest first.")
    ] = None,
    max_words: Annotated[int | None, typer.Option(min=1, help="Words the answer may have.")] = None,
    field: Annotated[list[str] | None, typer.Option(help="More for each claim: confidence, human_review.")] = None,
    examples: Annotated[
        Path | None, typer.Option(help="Worked examples: JSON lines {question, passages, answer}.")
    ] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="US dollars this may cost.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=0, help="Judge calls this may take.")] = None,
    ask_again: AskAgainOption = False,
    config: ConfigOption = None,
) -> None:
    """Answer a question from passages, each claim with checked quotes; exit 1 if they do not answer it.

    Exit 5 if nothing that the model wrote passed the checks: then there is no answer.
    """
    from otel_drift.config import load_settings
    from otel_drift.passages import read_passages

    settings = load_settings(
        config,
        {
            "judge": {"model": model, "api_base": api_base},
            "run": {"max_cost": max_cost, "max_calls": max_calls, "ask_again": ask_again or None},
        },
    )
    given = read_passages(passages)
    options: dict[str, Any] = {
        "steps": 2 if two_step else 1,
        "recency": recency,
        "authority": authority or (),
        "max_words": max_words,
        "fields": field or (),
        "examples": _read_examples(examples) if examples else (),
    }
    cited = _cite(question, given, settings, options)
    if output is OutputFormat.json:
        write_json_line(cited.record())
    else:
        _show(cited, given)
    raise typer.Exit({"answered": 0, "abstained": ABSTAINED, "inconclusive": INCONCLUSIVE}[cited.status])


def _cite(question: str, given: tuple[Passage, ...], settings: Settings, options: dict[str, Any]) -> CitedAnswer:
    from otel_drift.budget import Budget
    from otel_drift.citation import cited
    from otel_drift.cli.wiring import audit_settings, open_judge
    from otel_drift.config import default_ledger
    from otel_drift.ledger import Ledger
    from otel_drift.redaction import load_redactor

    judge = open_judge(settings.judge)
    if (check := getattr(judge, "check", None)) is not None:
        check()
    with ExitStack() as stack:
        # Answers that were paid for are kept; the embedded judge needs no file for that.
        cache = None
        if not judge.embedded:
            cache = stack.enter_context(Ledger.open(settings.ledger.url or default_ledger()))
        return cited.cite(
            question,
            given,
            judge=judge,
            cache=cache,
            budget=Budget(max_calls=settings.run.max_calls, max_cost=settings.run.max_cost),
            settings=audit_settings(settings, judge),
            redact=load_redactor(",".join(settings.privacy.redact)) if settings.privacy.redact else None,
            **options,
        )


def _read_examples(path: Path) -> list[Any]:
    """The objects of a file of JSON lines.

    Raises:
        ConfigError: it cannot be read, or a line is no JSON object.
    """
    import orjson

    from otel_drift.errors import ConfigError

    try:
        if path.stat().st_size > LONGEST_EXAMPLES:
            raise ConfigError(f"examples {path}: larger than {LONGEST_EXAMPLES} bytes")
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"examples {path}: cannot be read: {error.strerror or error}") from error
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise ConfigError(f"examples {path}: line {number}: is no JSON: {error}") from error
        if not isinstance(found[-1], dict):
            raise ConfigError(f"examples {path}: line {number}: is no object {{question, passages, answer}}")
    return found


def _show(cited: CitedAnswer, given: tuple[Passage, ...]) -> None:
    """The answer and its sources on stdout, what to keep in mind on stderr."""
    from otel_drift.citation.cited import why
    from otel_drift.report.escape import terminal_safe

    console, notes = stdout_console(), stderr_console()
    if cited.status == "inconclusive":
        notes.print(f"otel-drift: no answer ({cited.reason}): {terminal_safe(why(cited))}")
    elif cited.status == "abstained":
        console.print(f"No answer: {terminal_safe(cited.abstention_notes or '')}")
    else:
        console.print(terminal_safe(cited.answer or "", multiline=True))
        if cited.conflict_summary:
            console.print(f"\nConflict: {terminal_safe(cited.conflict_summary)}")
        console.print("\nSources:")
        used = {one["source_id"] for one in cited.citations}
        for number, passage in enumerate(given, 1):
            if passage.id in used:
                about = ", ".join(part for part in (passage.title, passage.author, passage.date) if part)
                console.print(f"[{number}] {terminal_safe(passage.id)}{': ' + terminal_safe(about) if about else ''}")
        for note in cited.notes:
            console.print(terminal_safe(f"{note['claim_id']}: {', '.join(note['source_ids'])}: {note['note']}"))
        for claim in cited.claims:
            review = claim.get("human_review")
            if review and review["needed"]:
                console.print(f"To review: {terminal_safe(claim['claim_id'])} ({', '.join(review['reasons'])})")
    if cited.judge_note:
        notes.print(f"Judge {cited.judge}: {cited.judge_note}")
