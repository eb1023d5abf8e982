"""What decides a result, hashed: ids of units, fingerprints, cache keys, and the schema a judge is given."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import orjson
from pydantic import BaseModel

from otel_drift import prompting
from otel_drift.model import JudgeTask, PromptRef, Session
from otel_drift.planning import settled
from otel_drift.protocols import Audit, AuditSettings, Judge
from otel_drift.redaction import opaque

HARNESS_VERSION = "1"


def unit_id(audit_name: str, session: Session, *, per_turn: bool = False) -> str:
    """The id of an audit of a session, or of its one turn: the same whatever that holds by now."""
    parts = [audit_name, opaque(session.key), *([session.turns[0].turn_id] if per_turn and session.turns else [])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def unit_fingerprint(audit: Audit, session: Session, judge: Judge, settings: AuditSettings | None = None) -> str:
    """The sha256 of all that decides a result: content, prompts, code, judge, settings. Equal means: no need to ask.

    Raises:
        ConfigError: a prompt or setting of the audit is wrong, so that no session could be audited.
    """
    told = settled(settings or AuditSettings(), judge)
    prompts = _prompts(audit, told)
    decisive = {
        "content": content_sha256(session),
        "audit": [audit.name, getattr(audit, "version", "1"), HARNESS_VERSION],
        "prompts": sorted((ref.id, ref.version, ref.sha256) for ref in prompts),
        "judge": [judge.name, judge.parameters()],
        "settings": [
            told.limits.input_tokens,
            told.limits.output_tokens,
            told.domain,
            told.taxonomy,
            dict(told.severity_rules),
            told.retrieval_tools,
            [told.options.get(name, {}) for name in (audit.name, *getattr(audit, "reads_options_of", ()))],
            *([told.constraints, dict(told.examples)] if told.constraints or told.examples else []),
        ],
    }
    return hashlib.sha256(_canonical(decisive)).hexdigest()


def content_sha256(session: Session) -> str:
    """The sha256 of a session's content; hints about what is missing do not count."""
    content = replace(session, hints=(), conventions=())
    try:
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
    except TypeError:  # lone surrogates and the like, which orjson refuses
        return hashlib.sha256(_canonical(asdict(content))).hexdigest()


def cache_key(task: JudgeTask, judge: Judge) -> str:
    """The sha256 of what decides an answer: rendered prompt without nonces, schema, judge, parameters."""
    decisive = {
        "prompt": task.fingerprint,
        "schema": task.schema,
        "judge": judge.name,
        "parameters": judge.parameters(),
        "max_output_tokens": task.max_output_tokens,
    }
    return hashlib.sha256(_canonical(decisive)).hexdigest()


@functools.lru_cache(maxsize=64)
def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of `model` as providers' strict modes want it: closed objects, every key required."""
    schema: dict[str, Any] = _strict(model.model_json_schema())
    return schema


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {
        key: {name: _strict(one) for name, one in value.items()} if key in ("properties", "$defs") else _strict(value)
        for key, value in node.items()
        if key not in ("title", "default", "description")
    }
    if "properties" in kept:
        kept["additionalProperties"] = False
        kept["required"] = list(kept["properties"])
    return kept


def _prompts(audit: Audit, settings: AuditSettings) -> list[PromptRef]:
    takes = getattr(audit, "prompt_inputs", None)
    refs = []
    for prompt_id, names in {**(takes(settings) if takes else {}), "repair": ("answer", "errors")}.items():
        prompt = prompting.chosen(prompt_id, settings)
        prompting.check_names(prompt, names)
        refs.append(prompt.ref)
    return refs


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=_plain, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
