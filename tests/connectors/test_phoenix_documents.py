"""Document annotations of the Phoenix sink, against a server in memory that keeps what it is told."""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger_samples import annotation, span, trace
from otel_drift import retry
from otel_drift.model import Annotation
from otel_drift.passage_mark import PassageMark, text_sha256
from otel_drift.platform import Answer, Platform
from otel_drift_connectors.phoenix import PhoenixSink, documents
from otel_drift_connectors.phoenix.documents import BATCH

RETRIEVER, RERANKER = span(7), span(8)
Key = tuple[str, int, str]
"""Span, position, identifier."""


@dataclass
class MemoryPhoenix:
    """Spans with their attributes, and document annotations by key; what is asked is in `asked`.

    `refused` are positions nothing can be written at, `failing` statuses given to the next GraphQL requests,
    `keeps` says that nothing may be deleted.
    """

    spans: dict[str, tuple[str, dict[str, Any]]]
    page: int = 100
    refused: frozenset[int] = frozenset()
    failing: list[int] = field(default_factory=list)
    keeps: bool = False
    documents: dict[Key, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def send(self, _: Platform, method: str, path: str, params: Any, body: bytes | None, *rest: Any) -> Answer:
        given = json.loads(body) if body else None
        if path == "/v1/projects":
            return _answer({"data": [{"name": "shop", "id": "UHJvamVjdDox"}], "next_cursor": None})
        if path != "/graphql":
            return _answer({"data": [{"id": _id("SpanAnnotation", n)} for n, _ in enumerate(given["data"])]})
        if self.failing:
            return Answer(self.failing.pop(0), {}, b"", "phoenix")
        query, variables = given["query"], given.get("variables") or {}
        kind = next(kind for kind in ("create", "delete", "node") if f"{kind}" in query)
        self.asked.append((kind, variables or query))
        return _answer(getattr(self, f"_{kind}")(query, variables))

    def _node(self, _: str, variables: dict[str, Any]) -> Any:
        condition = variables["condition"]
        if condition.startswith("span_id in"):
            there = [{"node": {"spanId": one}} for one in self.spans if repr(one) in condition]
            return {"data": {"node": {"spans": {"edges": there}}}}
        known = sorted(one for one, (of, _) in self.spans.items() if of in condition)
        at = int(variables["after"] or 0)
        edges = [{"node": self._span(one)} for one in known[at : at + self.page]]
        info = {"hasNextPage": at + self.page < len(known), "endCursor": str(at + self.page)}
        return {"data": {"node": {"spans": {"pageInfo": info, "edges": edges}}}}

    def _span(self, span_id: str) -> dict[str, Any]:
        attributes = self.spans[span_id][1]
        standing = [one for (on, *_), one in self.documents.items() if on == span_id]
        kind = "reranker" if "reranker" in attributes else "retriever"
        return {
            "id": f"id-{span_id}", "spanId": span_id, "spanKind": kind, "attributes": json.dumps(attributes),
            "documentEvaluations": standing,
        }  # fmt: skip

    def _create(self, _: str, variables: dict[str, Any]) -> Any:
        rows = variables["input"]
        if any(row["documentPosition"] in self.refused for row in rows):
            return {"data": None, "errors": [{"message": "Cannot overwrite"}]}
        for row in rows:
            key = (row["spanId"].removeprefix("id-"), row["documentPosition"], row["identifier"])
            made = self.documents.get(key, {}).get("id") or _id("DocumentAnnotation", len(self.asked) * 1000 + key[1])
            self.documents[key] = {"score": None, **row, "id": made}
        return {"data": {"createDocumentAnnotations": {"__typename": "x"}}}

    def _delete(self, query: str, _: Any) -> Any:
        if self.keeps:
            return {"data": None, "errors": [{"message": "At least one is not associated with the current user."}]}
        ids = set(re.findall(r'"([^"]+)"', query))
        self.documents = {key: one for key, one in self.documents.items() if one["id"] not in ids}
        return {"data": {}}

    def standing(self) -> dict[Key, tuple[str, str]]:
        return {key: (one["label"], one["annotatorKind"]) for key, one in sorted(self.documents.items())}

    def written(self) -> list[int]:
        return [len(variables["input"]) for kind, variables in self.asked if kind == "create"]


def _answer(body: Any) -> Answer:
    return Answer(200, {"x-phoenix-server-version": "20.26.1"}, json.dumps(body).encode(), "phoenix")


def _id(kind: str, number: int) -> str:
    return base64.b64encode(f"{kind}:{number}".encode()).decode()


def texts(count: int) -> list[str]:
    return [f"Passage {number}." for number in range(count)]


def retrieving(*passages: Any) -> dict[str, Any]:
    """Attributes of a retriever span, as Phoenix keeps them."""
    return {"retrieval": {"documents": [{"document": {"content": one, "id": one}} for one in passages]}}


def about(*passages: str, on: str = RETRIEVER, **changes: Any) -> Annotation:
    """A value of an answer that says of these passages that they conflict."""
    marks = tuple(
        PassageMark(f"{trace(3)}:{on}", one, text_sha256(one), "MAJOR", "Possible undisclosed conflict with it.")
        for one in passages
    )
    return annotation(name="source_conflict", audit="source_conflict", **{"passages": marks, **changes})


def graded(one: Annotation, label: Any) -> Annotation:
    return replace(one, passages=tuple(replace(mark, label=label) for mark in one.passages))


def withdrawn(one: Annotation) -> Annotation:
    return replace(one, withdrawn=True, label="withdrawn", score=None, explanation=None, metadata={})


@pytest.fixture
def phoenix(monkeypatch: pytest.MonkeyPatch) -> MemoryPhoenix:
    held = MemoryPhoenix({RETRIEVER: (trace(3), retrieving(*texts(200)))})
    monkeypatch.setattr(Platform, "_send", lambda *given: held.send(*given))
    return held


def write(*annotations: Annotation) -> Any:
    return PhoenixSink("http://localhost:6006?project=shop").write(annotations)


def test_what_stands_is_what_was_last_said_and_is_written_once(phoenix: MemoryPhoenix) -> None:
    """Also: one request to read, none to write where nothing changed, and others' annotations are not looked at."""
    phoenix.documents[RETRIEVER, 0, ""] = {
        "id": "x", "name": "source_conflict", "identifier": "", "documentPosition": 0, "annotatorKind": "HUMAN",
        "label": "fine", "score": 1.0, "explanation": None, "metadata": {},
    }  # fmt: skip
    one = about("Passage 0.", "Passage 2.", metadata={"judge": "litellm:model"})
    assert write(one).written == (one.id,)
    of_people = {(RETRIEVER, 0, ""): ("fine", "HUMAN")}
    ours = {(RETRIEVER, place, "otel-drift"): ("MAJOR", "LLM") for place in (0, 2)}
    assert phoenix.standing() == of_people | ours

    write(one)
    assert [kind for kind, _ in phoenix.asked] == ["node", "create", "node"]

    write(about("Passage 2.", "Passage 3."))
    assert phoenix.standing() == of_people | {(RETRIEVER, place, "otel-drift"): ("MAJOR", "CODE") for place in (2, 3)}
    assert write(withdrawn(one)).written == (one.id,)
    assert phoenix.standing() == of_people


def test_what_may_not_be_deleted_stays_none_and_is_not_written_again(phoenix: MemoryPhoenix) -> None:
    phoenix.keeps = True
    write(about("Passage 0."))
    for _ in range(2):
        assert write(withdrawn(about("Passage 0."))).written
        assert phoenix.standing() == {(RETRIEVER, 0, "otel-drift"): ("NONE", "CODE")}
    assert phoenix.written() == [1, 1]
    write(about("Passage 0."))
    assert phoenix.standing() == {(RETRIEVER, 0, "otel-drift"): ("MAJOR", "CODE")}


@pytest.mark.parametrize("unreadable", ['{"a":' * 100_000 + "1" + "}" * 100_000, "{", None])
def test_a_span_that_cannot_be_read_holds_up_no_other(
    phoenix: MemoryPhoenix, unreadable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    phoenix.spans[RERANKER] = (trace(3), retrieving(*texts(200)))
    told = phoenix._span
    monkeypatch.setattr(
        phoenix, "_span", lambda one: {**told(one), **({"attributes": unreadable} if one == RERANKER else {})}
    )
    phoenix.documents[RETRIEVER, 3, "otel-drift"] = {
        "id": "x", "name": "source_conflict", "identifier": "otel-drift", "documentPosition": 3, "label": "written by",
        "annotatorKind": "CODE", "score": None, "explanation": None, "metadata": {"result_id": ["someone else"]},
    }  # fmt: skip
    assert write(about("Passage 1."), about("Passage 1.", on=RERANKER, id="2" * 32)).written
    ours = {(RETRIEVER, 1, "otel-drift"): ("MAJOR", "CODE"), (RETRIEVER, 3, "otel-drift"): ("written by", "CODE")}
    assert phoenix.standing() == ours


def test_of_other_spans_of_the_trace_nothing_is_read_or_held(
    phoenix: MemoryPhoenix, monkeypatch: pytest.MonkeyPatch
) -> None:
    phoenix.spans |= {span(number): (trace(3), retrieving(*texts(2))) for number in range(20, 40)}
    read: list[str] = []
    real = documents._attributes

    def attributes(one: dict[str, Any]) -> Any:
        read.append(one["spanId"])
        return real(one)

    monkeypatch.setattr(documents, "_attributes", attributes)
    write(about("Passage 1."))
    assert phoenix.standing() == {(RETRIEVER, 1, "otel-drift"): ("MAJOR", "CODE")}
    assert read == [RETRIEVER]


def test_another_answers_documents_are_left_alone(phoenix: MemoryPhoenix) -> None:
    """Two answers in one trace: each takes back its own; of one document both concern, the worse is said."""
    first, second = about("Passage 0.", "Passage 1."), about("Passage 1.", "Passage 2.", id="2" * 32, span_id=span(50))
    second = replace(second, passages=tuple(replace(mark, label="CRITICAL") for mark in second.passages))
    write(first, second)
    assert [label for label, _ in phoenix.standing().values()] == ["MAJOR", "CRITICAL", "CRITICAL"]
    write(withdrawn(first))
    assert [place for _, place, _ in phoenix.standing()] == [1, 2]


def test_of_two_answers_on_one_document_the_worst_stands_whichever_comes_later(phoenix: MemoryPhoenix) -> None:
    worse, other = (graded(about("Passage 0.", id=name), grade) for name, grade in (("w", "CRITICAL"), ("o", "MAJOR")))

    write(worse)
    write(other)
    assert phoenix.standing() == {(RETRIEVER, 0, "otel-drift"): ("CRITICAL", "CODE")}
    assert phoenix.written() == [1]
    write(graded(worse, "MINOR"))
    write(other)
    assert phoenix.standing() == {(RETRIEVER, 0, "otel-drift"): ("MAJOR", "CODE")}


def test_a_retriever_that_arrives_late_is_waited_for(phoenix: MemoryPhoenix) -> None:
    arrives = phoenix.spans.pop(RETRIEVER)
    value = about("Passage 0.", end=time.time_ns())

    report = write(value)
    assert (report.written, [(one.annotation_id, one.retryable) for one in report.rejected]) == ((), [(value.id, True)])
    phoenix.spans[RETRIEVER] = arrives
    assert write(value).written == (value.id,)
    assert phoenix.standing() == {(RETRIEVER, 0, "otel-drift"): ("MAJOR", "CODE")}


@pytest.mark.parametrize(
    ("there", "ago", "gone"),
    [(True, 0, False), (False, documents.ARRIVES_WITHIN, False), (False, 0, True)],
    ids=["it holds no documents", "it had an hour", "it is taken back"],
)
def test_a_retriever_is_not_waited_for_in_vain(phoenix: MemoryPhoenix, there: bool, ago: int, gone: bool) -> None:
    phoenix.spans = {RETRIEVER: (trace(9), {})} if there else {}
    value = about("Passage 0.", end=time.time_ns() - ago)
    report = write(withdrawn(value) if gone else value)
    assert (report.written, report.rejected) == ((value.id,), ())


def test_documents_of_rerankers_and_of_other_traces_are_found(phoenix: MemoryPhoenix) -> None:
    elsewhere = trace(9)
    ranked = [{"document": {"content": "Best.", "id": "b"}}]
    phoenix.spans[RERANKER] = (elsewhere, {"reranker": {"output_documents": ranked}, **retrieving("Other.", "Best.")})
    mark = PassageMark(f"{elsewhere}:{RERANKER}", "b", text_sha256("Best."), "MINOR", "…")
    write(about(passages=(mark,)))
    assert phoenix.standing() == {(RERANKER, 0, "otel-drift"): ("MINOR", "CODE")}
    write(withdrawn(about(passages=(mark,))))  # which names the trace: the answer's is another
    assert phoenix.standing() == {}


@pytest.mark.parametrize(
    "attributes",
    [
        {"retrieval": "text"},
        {"retrieval": {"documents": "text"}},
        {"retrieval": {"documents": ["Passage 0.", None, {"document": "x"}, {"document": {"id": 1, "content": {}}}]}},
        {"reranker": 1},
        [],
    ],
)
def test_attributes_may_hold_anything(phoenix: MemoryPhoenix, attributes: Any) -> None:
    """What is no document of its span for certain is left out, and the value on the answer stands."""
    phoenix.spans[RETRIEVER] = (trace(3), attributes)
    one = about("Passage 0.")
    assert write(one).written == (one.id,)
    assert phoenix.written() == []


def test_batches_stay_small_and_pages_are_followed(phoenix: MemoryPhoenix) -> None:
    """A large synchronous batch holds the server's database."""
    phoenix.page = 1
    phoenix.spans[span(9)] = (trace(3), retrieving("Last."))
    last = PassageMark(f"{trace(3)}:{span(9)}", "Last.", text_sha256("Last."), "MAJOR", "…")
    one = about(*texts(150))
    write(replace(one, passages=(*one.passages, last)))
    assert phoenix.written() == [BATCH, 51]
    assert len(phoenix.standing()) == 151


def test_one_document_that_is_refused_takes_no_other_with_it(phoenix: MemoryPhoenix) -> None:
    """As Phoenix refuses to replace what another user's key has written."""
    phoenix.refused = frozenset({3})
    one = about(*texts(6))
    assert write(one).written == (one.id,)
    assert [place for _, place, _ in phoenix.standing()] == [0, 1, 2, 4, 5]


@pytest.mark.parametrize(("status", "put_off"), [(404, False), (403, False), (503, True), (429, True)])
def test_the_value_on_the_answer_stands_whatever_becomes_of_documents(
    phoenix: MemoryPhoenix, status: int, put_off: bool
) -> None:
    """Only what may go well later is tried again; others of the batch are not."""
    phoenix.failing = [status] * 5
    one, other = about("Passage 0."), annotation(2)
    with retry.testing():
        report = write(one, other)
    assert [(refused.annotation_id, refused.retryable) for refused in report.rejected] == [(one.id, True)] * put_off
    assert report.written == ((other.id,) if put_off else (one.id, other.id))


def test_other_values_ask_for_no_documents(phoenix: MemoryPhoenix) -> None:
    write(annotation(1), replace(about("Passage 0."), name="source_conflict.undisclosed_conflict"))
    assert phoenix.asked == []
