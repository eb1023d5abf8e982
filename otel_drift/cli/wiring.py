"""From settings to the parts of a run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from otel_drift import plugins, prompting
from otel_drift.budget import Budget
from otel_drift.cli.common import session_options
from otel_drift.config import JudgeSettings, Settings, default_ledger
from otel_drift.errors import ConfigError
from otel_drift.ledger import Ledger
from otel_drift.pipeline import Line
from otel_drift.protocols import AuditSettings
from otel_drift.redaction import load_redactor
from otel_drift.worked_examples import load_examples

if TYPE_CHECKING:
    from otel_drift.protocols import Judge, Sink


def open_line(settings: Settings, stack: ExitStack, *, dry: bool = False) -> tuple[Line, dict[str, Sink]]:
    """Open the ledger and the sinks (closed by `stack`), load the judge and the audits.

    Raises:
        ConfigError: a name, an option or a combination is wrong; before anything is paid for.
        LedgerError: the ledger cannot be opened.
    """
    judge = open_judge(settings.judge)
    if not dry and (check := getattr(judge, "check", None)) is not None:
        check()
    sinks = {} if dry else open_sinks(settings, stack)
    line = Line(
        audits=[plugins.load("audits", name)() for name in settings.audit.names],
        judge=judge,
        settings=audit_settings(settings, judge),
        ledger=stack.enter_context(Ledger.open(settings.ledger.url or default_ledger())),
        sinks=tuple(sinks),
        options=session_options(settings.sessions),
        redact=load_redactor(",".join(settings.privacy.redact)) if settings.privacy.redact else None,
        budget=Budget(max_calls=settings.run.max_calls, max_cost=settings.run.max_cost),
        sample=settings.run.sample,
        workers=1 if judge.embedded else settings.judge.max_concurrency,
    )
    return line, sinks


def audit_settings(settings: Settings, judge: Judge) -> AuditSettings:
    """What the settings tell every audit, with the limits of `judge`.

    Raises:
        ConfigError: a pinned prompt or the file of examples is not there.
    """
    return AuditSettings(
        limits=judge.limits(),
        domain=settings.audit.domain or None,
        taxonomy=tuple(settings.audit.taxonomy),
        severity_rules=settings.audit.severity_rules,
        retrieval_tools=tuple(settings.sessions.retrieval_tools),
        prompts_dir=settings.audit.prompts_dir or None,
        prompt_versions=pinned(settings),
        constraints=tuple(settings.audit.constraints),
        examples=load_examples(settings.audit.examples_file) if settings.audit.examples_file else {},
        options=settings.audit.options,
        count_tokens=judge.count_tokens,
        embedded_judge=judge.embedded,
        ask_again=settings.run.ask_again,
    )


def pinned(settings: Settings) -> dict[str, str]:
    """The prompt versions the settings pin, each of which has to be there.

    Raises:
        ConfigError: one is not.
    """
    for prompt_id, version in settings.audit.prompt_versions.items():
        prompting.load(prompt_id, version, settings.audit.prompts_dir or None)
    return dict(settings.audit.prompt_versions)


def open_judge(settings: JudgeSettings) -> Judge:
    """The judge that the settings name: a model, or the embedded one.

    Raises:
        ConfigError: the settings do not go together.
    """
    if not settings.model:
        if settings.api_base:
            raise ConfigError("--api-base (judge.api_base) needs --model (judge.model), e.g. openai/NAME")
        embedded: Judge = plugins.load("judges", "rules")()
        return embedded
    per_million = 1e-6
    judge: Judge = plugins.load("judges", "litellm")(
        settings.model,
        api_base=settings.api_base or None,
        allow_plain_http=settings.allow_plain_http,
        temperature=settings.temperature,
        seed=settings.seed,
        timeout=settings.timeout,
        max_concurrency=settings.max_concurrency,
        max_output_tokens=settings.max_output_tokens,
        input_window=settings.input_window,
        output_limit=settings.output_limit,
        input_price=None if settings.input_price is None else settings.input_price * per_million,
        output_price=None if settings.output_price is None else settings.output_price * per_million,
    )
    return judge


def open_sinks(settings: Settings, stack: ExitStack) -> dict[str, Sink]:
    """Open the sinks (``jsonl:FILE``, ``otlp:URL``, ``phoenix:URL``…) by name; what follows the colon is their own.

    Raises:
        ConfigError: there is no such sink, or its target or options are wrong.
    """
    return {sink.name: sink for sink in (open_sink(spec, settings, stack) for spec in settings.output.sinks)}


def open_sink(spec: str, settings: Settings, stack: ExitStack) -> Sink:
    """Open one sink, as `open_sinks` does."""
    name, _, target = spec.partition(":")
    sink: Sink = plugins.opened("sinks", name, target, settings.connectors)
    stack.callback(sink.close)
    return sink
