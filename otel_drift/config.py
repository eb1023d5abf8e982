"""Settings: defaults, then a TOML file, then the environment, then what the command line says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from otel_drift.audits.longform_drift_options import Action
from otel_drift.errors import ConfigError
from otel_drift.policy import ALERT_CONFIDENCE
from otel_drift.times import MINUTE

DEFAULT_FILE = "otel-drift.toml"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class JudgeSettings(_Section):
    """Who judges."""

    model: str = Field("", description="litellm model name, e.g. openai/gpt-5-mini; empty = the embedded judge")
    api_base: str = Field("", description="URL of an OpenAI-compatible server; empty = the provider's own")
    allow_plain_http: bool = Field(False, description="let a key travel over http to another machine, readable to all")
    temperature: float | None = Field(0.0, ge=0, le=2, description="sent only where the model takes it")
    seed: int | None = Field(7, description="sent only where the model takes it")
    timeout: float = Field(120.0, gt=0, description="seconds for one judge call")
    max_concurrency: int = Field(4, ge=1, le=256, description="judge calls at the same time")
    max_output_tokens: int | None = Field(None, ge=1, description="cap on an answer; unset = the model's limit")
    input_window: int | None = Field(None, ge=1, description="tokens; overrides litellm's model table")
    output_limit: int | None = Field(None, ge=1, description="tokens; overrides litellm's model table")
    input_price: float | None = Field(None, ge=0, description="US dollars per million tokens; overrides the table")
    output_price: float | None = Field(None, ge=0, description="US dollars per million tokens; overrides the table")


class RunSettings(_Section):
    """What bounds a run."""

    max_cost: float | None = Field(None, ge=0, description="US dollars; no further judge call once reached")
    max_calls: int | None = Field(None, ge=0, description="judge calls; no further one once reached")
    sample: float = Field(1.0, gt=0, le=1, description="share of sessions to audit, by a hash of their key")
    ask_again: bool = Field(False, description="ask the judge anew where a stored answer could not be used")
    fail_on: Literal["", "critical", "major", "minor"] = Field("", description="exit 1 at findings this severe")


class LedgerSettings(_Section):
    """Where results, judge answers and deliveries owed are kept."""

    url: str = Field("", description="a file, or postgresql://…; empty = a private file in the user's state folder")


class PullSettings(_Section):
    """Which sessions of a platform (Langfuse, Phoenix, MLflow, Tempo, Jaeger) are audited."""

    since: str = Field(
        "", description="24h, 7d, a date or a time; empty = where the last run ended, the first time 24h ago"
    )
    settle_minutes: float = Field(
        5.0, ge=0, description="a session with a younger span is still being written: it waits"
    )
    look_back_minutes: float = Field(60.0, ge=0, description="read again before the last run's end, for late spans")
    min_turns: int = Field(0, ge=0, description="audit sessions of at least so many turns, and flagged ones")
    flagged: list[str] = Field(
        default_factory=list, description="feedback (a person complained), error, tag:NAME; alone: only these"
    )
    environments: list[str] = Field(default_factory=list, description="only of these environments")
    users: list[str] = Field(default_factory=list, description="only of these users")
    tags: list[str] = Field(default_factory=list, description="only with all of these tags")


class SessionSettings(_Section):
    """How conversations are put together."""

    time_gap_minutes: float = Field(1440.0, gt=0, description="longest pause in a session without an id")
    passage_pattern: str = Field(
        "", description="regular expression with a group `text` (and optionally `id`) that finds passages in a prompt"
    )
    retrieval_tools: list[str] = Field(
        default_factory=list, description="globs of tools that retrieve; empty = names that speak of it"
    )
    session_id_attributes: list[str] = Field(
        default_factory=list, description="further span attributes that carry the session id"
    )


class AuditSection(_Section):
    """What the audits are told."""

    names: list[str] = Field(default_factory=lambda: ["factual_drift"], description="audits to run")
    domain: str = Field("", description="e.g. healthcare, finance: named to the judge")
    taxonomy: list[str] = Field(default_factory=list, description="drift types besides the standard three")
    severity_rules: dict[str, str] = Field(
        default_factory=dict, description="what CRITICAL, MAJOR and MINOR mean in your domain"
    )
    prompts_dir: str = Field("", description="folder with your own versions of the prompts")
    prompt_versions: dict[str, str] = Field(
        default_factory=dict, description='versions to stay with, e.g. {"factual_drift/session" = "v1"}'
    )
    constraints: list[str] = Field(default_factory=list, description="further rules for the judge, a sentence each")
    examples_file: str = Field("", description="your own worked examples, JSON lines: prompt, data, answer")
    options: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description='of one audit, e.g. {longform_drift = {risk_level = "high"}}'
    )

    @field_validator("names")
    @classmethod
    def _each_once(cls, names: list[str]) -> list[str]:
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{', '.join(doubled)} is named twice")
        if not names:
            raise ValueError("name at least one audit")
        return names

    @field_validator("severity_rules")
    @classmethod
    def _known_severities(cls, rules: dict[str, str]) -> dict[str, str]:
        if unknown := set(rules) - {"CRITICAL", "MAJOR", "MINOR"}:
            raise ValueError(f"unknown severity {', '.join(sorted(unknown))}; use CRITICAL, MAJOR, MINOR")
        return rules


class GateSettings(_Section):
    """What the conflict gate (otel-drift gate) decides by; its thresholds override those of the preset."""

    preset: Literal["", "clinical", "legal", "finance", "support", "research"] = Field(
        "", description="clinical, legal, finance, support or research; empty = MATERIAL, 1 pair, not high stakes"
    )
    severity_threshold: Literal["", "critical", "material", "minor"] = Field(
        "", description="conflicts from this severity on count; empty = the preset's"
    )
    pair_threshold: int | None = Field(None, ge=1, description="abstain from so many pairs on; unset = the preset's")
    deadline: float = Field(30.0, gt=0, le=3600, description="seconds within which there is a decision")
    write_answer: bool = Field(False, description="let the judge answer where that is safe")
    serve: str = Field("", description="HOST:PORT to serve POST /v1/gate at where no question is given")


class ServeSettings(_Section):
    """What otel-drift serve receives, follows and listens on."""

    http: str = Field("127.0.0.1:4318", description="HOST:PORT of the OTLP/HTTP receiver; empty = none")
    grpc: str = Field("127.0.0.1:4317", description="HOST:PORT of the OTLP/gRPC receiver; empty = none")
    admin: str = Field("127.0.0.1:9464", description="HOST:PORT of /healthz, /readyz and /metrics; empty = none")
    tls_certificate: str = Field("", description="PEM file with the receivers' certificate chain")
    tls_key: str = Field("", description="PEM file with its private key")
    follow: list[str] = Field(
        default_factory=list, description="platforms to read as well, e.g. phoenix:http://localhost:6006?project=chat"
    )
    follow_minutes: float = Field(5.0, gt=0, description="between two readings of a followed platform")
    settle_minutes: float = Field(15.0, ge=0, description="a session is audited once idle for so long")
    cap_minutes: float = Field(240.0, gt=0, description="and at the latest so long after its first span")
    cap_spans: int = Field(20_000, ge=1, description="or once it has so many spans that were not audited")
    max_inflight_mb: float = Field(64.0, gt=0, description="requests being taken in; beyond, senders are told to wait")
    max_backlog_mb: float = Field(
        20_000.0, gt=0, description="spans kept in all; beyond, senders are told to wait until retention has made room"
    )
    min_free_disk_mb: float = Field(500.0, ge=0, description="with less room left, senders are told to wait")
    lease_seconds: float = Field(60.0, gt=0, description="how long a process that died keeps sessions from others")
    stop_seconds: float = Field(30.0, ge=0, description="how long a stop waits for what is being judged")

    def due(self) -> dict[str, int]:
        """When a session is due, as `Inbox.claim` and `Inbox.counts` take it: settle and cap in nanoseconds."""
        return {
            "settle": int(self.settle_minutes * MINUTE),
            "cap": int(self.cap_minutes * MINUTE),
            "cap_spans": self.cap_spans,
        }


class BudgetSettings(_Section):
    """What otel-drift serve may spend a day (UTC), and on which sessions first."""

    cost_per_day: float | None = Field(None, ge=0, description="US dollars")
    tokens_per_day: int | None = Field(None, ge=0, description="tokens, in and out")
    calls_per_day: int | None = Field(None, ge=0, description="judge calls")
    over: Literal["wait", "embedded"] = Field(
        "wait", description="what the budget leaves out: waits for the next day, or gets the embedded judge"
    )
    longest_wait_hours: float = Field(72.0, gt=0, description="what waited longer gets the embedded judge after all")
    high_risk: list[str] = Field(
        default_factory=lambda: ["feedback", "error", "suspicion"],
        description="first: feedback (a person complained), error, suspicion (of the embedded judge), tag:NAME, "
        "environment:NAME, project:NAME; the more apply, the earlier",
    )

    @field_validator("high_risk")
    @classmethod
    def _known_rules(cls, rules: list[str]) -> list[str]:
        for rule in rules:
            name, _, value = rule.partition(":")
            plain = rule in ("feedback", "error", "suspicion")
            if not plain and not (name in ("tag", "environment", "project") and value):
                raise ValueError(f"{rule}: use feedback, error, suspicion, tag:NAME, environment:NAME or project:NAME")
        return rules


class AlertSettings(_Section):
    """Who is told of critical drift (otel-drift serve)."""

    to: list[str] = Field(
        default_factory=list,
        description="alertmanager:http://localhost:9093, webhook:https://…, apprise:NAME (its URL in "
        "OTEL_DRIFT_APPRISE_NAME)",
    )
    severity: Literal["critical", "major", "minor"] = Field("critical", description="alerts from this severity on")
    confidence: float = Field(ALERT_CONFIDENCE, ge=0, le=1, description="and from this confidence on")
    embedded: bool = Field(False, description="also what the embedded judge finds, and actions on it")
    quotes: bool = Field(False, description="let quotes of answers leave with alerts")
    group_seconds: float = Field(10.0, ge=0, description="findings of so long go out together")
    per_hour: int = Field(
        60, ge=1, le=3600, description="notifications an hour for each receiver; beyond, they wait and group"
    )
    repeat_seconds: float = Field(60.0, gt=0, description="Alertmanager is told again so often, until resolved")
    expire_hours: float = Field(168.0, gt=0, description="an alert nobody resolved ends after so long")


class ActionSettings(_Section):
    """What otel-drift serve calls for long answers that drift (longform_drift)."""

    longform: list[str] = Field(default_factory=list, description="webhook:https://…, told of the results below")
    recommended: list[Action] = Field(
        ["flag_for_review", "regenerate_from_drift_point", "reject"],
        description="results with these recommended actions",
    )


class TelemetrySettings(_Section):
    """Where otel-drift serve tells about itself, besides /metrics."""

    otlp: str = Field("", description="OTLP endpoint for its metrics, e.g. http://localhost:4318; empty = none")
    traces: str = Field("", description="OTLP endpoint for its own traces, which are never audited; empty = none")
    log_format: Literal["text", "json"] = Field("text", description="how it logs; never with text of traces")


class RetentionSettings(_Section):
    """How long otel-drift serve keeps what it received and found; 0 = for ever."""

    span_days: float = Field(14.0, ge=0, description="spans received")
    record_days: float = Field(0.0, ge=0, description="texts of results: prompts, answers, quotes; hashes stay")


class PrivacySettings(_Section):
    """What is removed before a judge or an output sees it."""

    redact: list[str] = Field(
        default_factory=list, description="named patterns (email, phone, card, iban, ip) or module:callable"
    )


class OutputSettings(_Section):
    """Where findings go."""

    sinks: list[str] = Field(
        default_factory=list,
        description="e.g. jsonl:findings.jsonl, otlp:http://localhost:4318, langfuse; none = nowhere; empty = back to "
        "the platform that was read",
    )
    trace_url: str = Field(
        "", description="where a span is seen on your platform, e.g. https://traces.example/{trace_id}?span={span_id}"
    )

    session_url: str = Field(
        "", description="where a session is seen, e.g. https://traces.example/sessions/{session_id}"
    )

    @field_validator("session_url")
    @classmethod
    def _a_page_of_sessions(cls, url: str) -> str:
        if url and not (url.startswith(("https://", "http://")) and "{session_id}" in url):
            raise ValueError("write an http(s) address that holds {session_id}")
        return url

    @field_validator("trace_url")
    @classmethod
    def _a_web_page(cls, url: str) -> str:
        if url and not (url.startswith(("https://", "http://")) and "{trace_id}" in url):
            raise ValueError("write an http(s) address that holds {trace_id} and, if it can, {span_id}")
        return url


class Settings(BaseSettings):
    """Everything that can be set, validated."""

    model_config = SettingsConfigDict(env_prefix="OTEL_DRIFT_", env_nested_delimiter="__", extra="forbid")

    judge: JudgeSettings = Field(default_factory=JudgeSettings)
    run: RunSettings = Field(default_factory=RunSettings)
    ledger: LedgerSettings = Field(default_factory=LedgerSettings)
    pull: PullSettings = Field(default_factory=PullSettings)
    connectors: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        repr=False,
        description="Options of connectors, one table each; keys are better kept in the environment.",
    )
    sessions: SessionSettings = Field(default_factory=SessionSettings)
    audit: AuditSection = Field(default_factory=AuditSection)
    gate: GateSettings = Field(default_factory=GateSettings)
    serve: ServeSettings = Field(default_factory=ServeSettings)
    budget: BudgetSettings = Field(default_factory=BudgetSettings)
    alerts: AlertSettings = Field(default_factory=AlertSettings)
    actions: ActionSettings = Field(default_factory=ActionSettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    privacy: PrivacySettings = Field(default_factory=PrivacySettings)
    output: OutputSettings = Field(default_factory=OutputSettings)


class _Environment(EnvSettingsSource):
    """The environment; a list may be given as JSON or separated by commas."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            if not str(field.annotation).startswith("list["):
                raise
            return [part.strip() for part in value.split(",") if part.strip()]


def load_settings(file: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """Read the settings.

    Args:
        file: a TOML file; by default ``OTEL_DRIFT_CONFIG``, else ``otel-drift.toml`` here if there is one.
        overrides: section → setting → value from the command line; None values are ignored.

    Raises:
        ConfigError: the file is missing, is no TOML, or a setting is unknown or out of range.
    """
    chosen = file or (Path(os.environ["OTEL_DRIFT_CONFIG"]) if os.environ.get("OTEL_DRIFT_CONFIG") else None)
    if chosen is not None and not chosen.is_file():
        raise ConfigError(f"{chosen}: no such config file; `otel-drift init` writes one")
    if chosen is None and Path(DEFAULT_FILE).is_file():
        chosen = Path(DEFAULT_FILE)
    given = {
        section: {key: value for key, value in values.items() if value is not None}
        for section, values in (overrides or {}).items()
    }

    class _FromFile(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (init_settings, _Environment(settings_cls), TomlConfigSettingsSource(settings_cls, chosen))

    try:
        known: dict[str, Any] = {section: values for section, values in given.items() if values}
        return _FromFile(**known)
    except ValidationError as error:
        problems = [
            f"{_origin(problem['loc'], given, chosen)}: {'.'.join(str(part) for part in problem['loc'])}: "
            + ("there is no such setting" if problem["type"] == "extra_forbidden" else problem["msg"])
            for problem in error.errors()
        ]
        raise ConfigError("; ".join(problems)) from None
    except ValueError as error:  # broken TOML, or JSON in an environment variable
        raise ConfigError(f"{chosen or 'settings'}: {error}") from None


def _origin(place: tuple[int | str, ...], given: Mapping[str, Mapping[str, Any]], file: Path | None) -> str:
    """Where the wrong value of the setting at `place` was written."""
    section, key = (str(part) for part in (*place, "", "")[:2])
    if key in given.get(section, {}):
        return "command line"
    variable = f"OTEL_DRIFT_{section}__{key}".upper()
    return variable if variable in os.environ else str(file or "settings")


def default_ledger() -> Path:
    """The ledger file used where none is named: in ``$XDG_STATE_HOME`` or ``~/.local/state``."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "otel-drift" / "ledger.sqlite3"
