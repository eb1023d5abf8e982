"""Normalise: OpenLLMetry / Traceloop (`traceloop.*`); its model calls follow the GenAI conventions."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, ClassVar

from otel_drift.normalise.documents import read_documents
from otel_drift.normalise.names import (
    NOT_ASKED,
    QUESTION_KEYS,
    SESSION_NAMESPACED,
    SESSION_THREAD,
    is_thread,
    leaves,
    named_sessions,
)
from otel_drift.normalise.reader import Reader
from otel_drift.normalise.step import Document, Kind, Step, Tool

_PREFIX = "traceloop.association.properties."
_KINDS: dict[str, Kind] = {"workflow": "chain", "task": "chain", "agent": "agent", "tool": "tool"}

_RETRIEVER = re.compile(r"[A-Z]\w*Retriever(?:\.task)?$")
"""LlamaIndex's retrievers are tasks named by their class."""


class Traceloop(Reader):
    """Spans with `traceloop.*` attributes."""

    name = "traceloop"
    facts: ClassVar = {"prompt_name": ("traceloop.prompt.key",), "prompt_version": ("traceloop.prompt.version",)}
    """From Traceloop's prompt registry."""
    needs: ClassVar = {
        "input": "traceloop.entity.input",
        "output": "traceloop.entity.output",
        "documents": "traceloop.entity.output",
        "query": "traceloop.entity.input",
    }

    def kind(self, step: Step) -> Kind:
        """From `traceloop.span.kind`; the GenAI operation on the same span is more specific."""
        a = step.span.attributes
        declared = a.get("traceloop.span.kind")
        if isinstance(declared, str):
            kind = _KINDS.get(declared.lower(), "chain")
            return "retriever" if kind == "chain" and _RETRIEVER.match(step.span.name) else kind
        return "other"

    def sessions(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """Session ids among the association properties; the name is the application's choice."""
        return [(SESSION_THREAD if is_thread(k) else SESSION_NAMESPACED, k) for _, k in named_sessions(keys, _PREFIX)]

    def documents(self, step: Step) -> tuple[Document, ...] | None:
        """Documents in the entity output of a retriever span."""
        if step.kind in {"retriever", "reranker"}:
            value = self.output(step)
            return None if value is None else read_documents(value, strings=True)
        return None

    def query(self, step: Step) -> str | None:
        """The query in the entity input of a retriever span."""
        if step.kind == "retriever":
            return next(iter(leaves(self.input(step), (*QUESTION_KEYS, "str_or_query_bundle"), NOT_ASKED)), None)
        return None

    def tool(self, step: Step) -> Tool | None:
        """Name, arguments and result of a tool span."""
        if step.kind != "tool":
            return None
        name = step.span.attributes.get("traceloop.entity.name")
        return Tool(name if isinstance(name, str) else None, self.input(step), self.output(step))

    def input(self, step: Step) -> Any:
        """The entity input without its wrapping; streamed chains keep the real inputs with the output."""
        value = step.json("traceloop.entity.input")
        if isinstance(value, dict):
            if "inputs" in value:
                inputs = value["inputs"]
                if inputs in ({"input": ""}, "", {}):
                    output = step.json("traceloop.entity.output")
                    kwargs = output.get("kwargs") if isinstance(output, dict) else None
                    if isinstance(kwargs, dict) and kwargs.get("inputs"):
                        return kwargs["inputs"]
                return inputs
            if "args" in value and "kwargs" in value:
                return call_arguments(value)
        return value

    def output(self, step: Step) -> Any:
        """The entity output without its wrapping."""
        value = step.json("traceloop.entity.output")
        return value["outputs"] if isinstance(value, dict) and "outputs" in value else value


def call_arguments(value: dict[str, Any]) -> Any:
    """``{"args": […], "kwargs": {…}}`` as one value: the single text argument, or all of it by name."""
    args = value.get("args")
    kwargs = value.get("kwargs")
    args = args if isinstance(args, list) else []
    kwargs = kwargs if isinstance(kwargs, dict) else {}
    if not kwargs and args and isinstance(args[0], str):
        others = [a for a in args[1:] if isinstance(a, str | list | dict) and a]
        if not others:
            return args[0]
    if kwargs and not args:
        return kwargs
    return {"args": args, **kwargs}
