"""Exchanges with a real Phoenix, recorded once and replayed: the requests must be the same, in the same order.

To record anew, run ``python tests/phoenix_recorded.py http://localhost:6006`` against an empty server.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from otel_drift.model import Annotation, Span
from otel_drift.platform import Answer, Platform
from otel_drift.testing import conversation, sample_annotations

FOLDER = Path(__file__).parent / "recorded" / "phoenix"
ENDS = 1_796_000_000_000_000_000
URL = "http://localhost:6006"
Send = Callable[..., Answer]


def sent_spans() -> list[Span]:
    """Two turns by the GenAI conventions, and a retriever as OpenInference writes it, which Phoenix parses."""
    spans = conversation("recorded", ends=ENDS)[:6]
    retriever = {
        "openinference.span.kind": "RETRIEVER",
        "session.id": "recorded",
        "input.value": "jackets",
        "metadata": '{"turn": 2, "tags": ["a", "b"], "steps": [{"name": "x"}, {"name": "y"}]}',
        "retrieval.documents.0.document.content": "Jackets may be returned within 30 days.",
        "retrieval.documents.0.document.metadata": '{"source": "handbook.md", "page": {"number": 3}}',
    }
    return [*spans, replace(spans[4], span_id="00000000000000aa", name="retriever", attributes=retriever)]


def annotations() -> list[Annotation]:
    """Of span, trace and session; one about a span that is not there, one of a session Phoenix does not know."""
    known = sample_annotations(sent_spans()[:6])
    return [
        *known,
        replace(known[0], id="a" * 32, span_id="ab" * 8),
        replace(known[-1], id="b" * 32, name="elsewhere", session_id="unknown session, one"),
    ]


@contextmanager
def replaying(name: str) -> Iterator[None]:
    """Answer with what was recorded; at the end all of it must have been asked for."""
    left = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))

    def answer(self: Platform, method: str, path: str, params: Any, body: bytes | None, *_: Any) -> Answer:
        assert left, f"one request too many: {method} {path}"
        one = left.pop(0)
        assert _request(method, path, params, body) == one["request"]
        content = one["body"] if isinstance(one["body"], str) else json.dumps(one["body"])
        return Answer(one["status"], {"x-phoenix-server-version": "20.26.1"}, content.encode(), "phoenix")

    with _sending(answer):
        yield
    assert not left, f"never asked: {left[0]['request']}"


@contextmanager
def _recording(name: str) -> Iterator[None]:
    made: list[dict[str, Any]] = []
    whole: Send = Platform._send

    def answer(self: Platform, method: str, path: str, params: Any, body: bytes | None, *rest: Any) -> Answer:
        found = whole(self, method, path, params, body, *rest)
        text = found.body.decode()
        content = json.loads(text) if text[:1] in "{[" else text
        made.append({"request": _request(method, path, params, body), "status": found.status, "body": content})
        return found

    with _sending(answer):
        yield
    (FOLDER / f"{name}.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")


@contextmanager
def _sending(send: Send) -> Iterator[None]:
    whole = Platform._send
    Platform._send = send  # type: ignore[method-assign]
    try:
        yield
    finally:
        Platform._send = whole  # type: ignore[method-assign]


def _request(method: str, path: str, params: Any, body: bytes | None) -> dict[str, Any]:
    return {
        "method": method,
        "path": path,
        "params": [[name, value] for name, value in params],
        "body": json.loads(body) if body else None,
    }


def _main(url: str) -> None:
    import httpx

    from otel_drift_connectors.phoenix import PhoenixSink, PhoenixSource
    from servers.phoenix_server import Phoenix

    with httpx.Client(base_url=url, timeout=60) as http:
        phoenix = Phoenix(url, http)
        phoenix.ingest("recorded", sent_spans())
        span_id = sent_spans()[5].span_id
        phoenix.annotate("span", span_id=span_id, name="thumbs", result={"label": "thumbs-down", "score": 0})
        target = f"{url}?project=recorded"
        with _recording("read"):
            list(PhoenixSource(target).read())
        with _recording("write"):
            PhoenixSink(target).write(annotations())
        with _recording("withdraw"):
            PhoenixSink(target).write([replace(one, withdrawn=True, metadata={}) for one in annotations()])


if __name__ == "__main__":
    _main(sys.argv[1])
