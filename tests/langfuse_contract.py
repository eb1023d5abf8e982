"""Langfuse's published OpenAPI as a judge of requests and answers, for the fake server."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, FormatChecker

METHODS = ("get", "post", "put", "patch", "delete")
NUMBERS = {"integer": r"-?\d+", "number": r"-?\d+(\.\d+)?"}
NO_JSON_SCHEMA = ("nullable", "example", "discriminator")


class Contract:
    """Which operations there are, and what is wrong with a request to or an answer of one."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._components = {"schemas": _json_schema(document["components"]["schemas"])}
        self._operations: dict[str, dict[str, dict[str, Any]]] = {}
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        for path, item in document["paths"].items():
            self._operations[path] = {method.upper(): item[method] for method in METHODS if method in item}
            parts = [f"(?P<{part[1:-1]}>[^/]+)" if part[0] == "{" else re.escape(part) for part in path[1:].split("/")]
            self._patterns.append((re.compile("/" + "/".join(parts)), path))

    def match(self, path: str) -> tuple[str, dict[str, str]] | None:
        """The template a path belongs to (the one with fewest variables) and its variables, still quoted."""
        found = [
            (hit.groupdict(), template) for pattern, template in self._patterns if (hit := pattern.fullmatch(path))
        ]
        return min(((template, names) for names, template in found), key=lambda one: len(one[1]), default=None)

    def methods(self, template: str) -> set[str]:
        """The methods of a path."""
        return set(self._operations[template])

    def request_problems(self, template: str, method: str, query: list[tuple[str, str]], body: Any) -> list[Problem]:
        """What is wrong with a request: unknown or ill-formed query keys, missing ones, a body that does not fit."""
        operation = self._operations[template][method]
        declared = {one["name"]: one for one in operation.get("parameters", ()) if one["in"] == "query"}
        problems = [Problem("unknown", key) for key, _ in query if key not in declared]
        given = {key for key, _ in query}
        problems += [
            Problem("missing", key) for key, one in declared.items() if one.get("required") and key not in given
        ]
        problems += [
            Problem("query", key, reason)
            for key, value in query
            if key in declared and (reason := self._misfit(value, declared[key]["schema"]))
        ]
        schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if schema is not None:
            problems += [
                Problem("body", "/".join(map(str, e.absolute_path)), e.message[:300])
                for e in self._errors(body, schema)
            ]
        elif body is not None:
            problems.append(Problem("body", "", "no body is declared"))
        return problems

    def answer_problems(self, template: str, method: str, status: int, body: Any) -> list[Problem]:
        """What is wrong with the body of an answer; statuses that are not declared are not judged."""
        declared = self._operations[template][method]["responses"].get(str(status), {})
        schema = declared.get("content", {}).get("application/json", {}).get("schema")
        if schema is None:
            return []
        return [
            Problem("answer", "/".join(map(str, e.absolute_path)), e.message[:300]) for e in self._errors(body, schema)
        ]

    def _errors(self, value: Any, schema: dict[str, Any]) -> list[Any]:
        whole = {**_json_schema(schema), "components": self._components}
        return list(Draft202012Validator(whole, format_checker=FormatChecker()).iter_errors(value))

    def _misfit(self, text: str, schema: dict[str, Any]) -> str:
        """Why a query value does not fit its schema; empty if it does."""
        kind = schema.get("type")
        if kind == "array":
            return self._misfit(text, schema["items"])
        if kind in ("integer", "number") and not re.fullmatch(
            r"-?\d+" if kind == "integer" else r"-?\d+(\.\d+)?", text
        ):
            return f"expected {kind}"
        if kind == "boolean" and text not in ("true", "false"):
            return "expected true or false"
        if schema.get("format") == "date-time" and not re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)", text
        ):
            return "expected a time with a zone"
        if "$ref" in schema:
            return "; ".join(e.message[:300] for e in self._errors(text, schema))
        return ""


class Problem(tuple[str, str, str]):
    """Where something is wrong (unknown, missing, query, body, answer), at which place, and why."""

    __slots__ = ()

    def __new__(cls, kind: str, place: str, reason: str = "") -> Problem:
        return super().__new__(cls, (kind, place, reason))


@functools.cache
def contract(path: Path) -> Contract:
    """Read an OpenAPI file, once a process."""
    return Contract(yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def _json_schema(schema: Any) -> Any:
    """OpenAPI 3.0's schemas as JSON Schema: ``nullable`` becomes a type."""
    if isinstance(schema, list):
        return [_json_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: _json_schema(value) for key, value in schema.items() if key not in ("nullable", "example", "discriminator")
    }
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain
