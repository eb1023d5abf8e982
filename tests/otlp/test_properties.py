"""Properties: how spans are cut into files changes nothing, and no corruption of bytes raises."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_drift.model import Span
from otel_drift.otlp import decode_logs_json, decode_traces_json, decode_traces_protobuf
from otel_drift.spool import SpanSpool
from otel_drift_connectors.otlp_file import OtlpFileSource
from otlp.samples import (
    attribute,
    dumped,
    log,
    log_request,
    protobuf,
    read_bytes,
    request,
    span,
    span_id,
    with_base64_ids,
    with_numbers,
    with_reversed_keys,
    with_snake_case,
)

SPANS = [
    span(n, parent=n // 2 if n else None, traceId=f"{n % 3 + 1:032x}", attributes=[attribute("text", "täxt " * n)])
    for n in range(9)
]
LOGS = [log(n, time=n, traceId=f"{n % 3 + 1:032x}") for n in range(9)]

FORMS: dict[str, Callable[[list[Any]], bytes]] = {
    "lines": lambda documents: b"\n".join(map(dumped, documents)),
    "concatenated": lambda documents: b"".join(map(dumped, documents)),
    "pretty": lambda documents: b"\n".join(dumped(document, indent=2) for document in documents),
    "list": lambda documents: dumped(documents),
    "base64": lambda documents: b"\n".join(dumped(with_base64_ids(document)) for document in documents),
    "snake": lambda documents: b"".join(dumped(with_snake_case(document)) for document in documents),
    "numbers": lambda documents: b"\n".join(dumped(with_numbers(document)) for document in documents),
    "reversed": lambda documents: b"\n".join(dumped(with_reversed_keys(document), indent=1) for document in documents),
    "protobuf": lambda documents: b"".join(map(protobuf, documents)),
    "prefixed": lambda documents: b"".join(
        len(raw).to_bytes(4, "big") + raw for raw in (protobuf(document) for document in documents)
    ),
}


def loaded(paths: list[Path], memory_bytes: int) -> dict[str, list[Span]]:
    source = OtlpFileSource(paths)
    with SpanSpool(memory_bytes) as spool:
        for page, _ in source.read():
            for record in page:
                spool.add(record)
        assert source.problem_count == 0, source.problems
        return {trace_id: spool.load(trace_id) for trace_id in sorted(spool.trace_ids())}


def expected() -> dict[str, list[Span]]:
    with SpanSpool() as spool:
        for record in (*decode_traces_json(request(*SPANS)), *decode_logs_json(log_request(*LOGS))):
            spool.add(record)
        return {trace_id: spool.load(trace_id) for trace_id in sorted(spool.trace_ids())}


EXPECTED = expected()


@st.composite
def filings(draw: st.DrawFn) -> list[tuple[str, bool, list[Any]]]:
    """Every span and log record, some of them twice, dealt out to requests and files of any form."""
    order = draw(st.permutations(range(18)))
    order += draw(st.lists(st.integers(0, 17), max_size=4))
    requests: list[Any] = []
    while order:
        size = draw(st.integers(1, 6))
        chosen, order = order[:size], order[size:]
        spans, logs = [SPANS[n] for n in chosen if n < 9], [LOGS[n - 9] for n in chosen if n >= 9]
        requests += [request(*spans)] if spans else []
        requests += [log_request(*logs)] if logs else []
    files = []
    while requests:
        size = draw(st.integers(1, 6))
        files.append((draw(st.sampled_from(sorted(FORMS))), draw(st.booleans()), requests[:size]))
        requests = requests[size:]
    return files


@settings(max_examples=40, deadline=None)
@given(filing=filings(), memory_bytes=st.sampled_from([0, 2000, 1 << 20]))
def test_any_split_over_requests_files_and_formats_gives_the_same_spans(
    filing: list[tuple[str, bool, list[Any]]], memory_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, (form, packed, documents) in enumerate(filing):
            data = FORMS[form](documents)
            paths.append(Path(folder, str(number)))
            paths[-1].write_bytes(gzip.compress(data) if packed else data)
        assert loaded(paths, memory_bytes) == EXPECTED


WHOLE = {form: write([request(*SPANS[:4]), request(*SPANS[4:])]) for form, write in FORMS.items()}


@settings(max_examples=300, deadline=None)
@given(
    form=st.sampled_from(sorted(FORMS)),
    packed=st.booleans(),
    changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.one_of(st.none(), st.floats(0, 1)),
)
def test_no_corruption_raises_and_what_is_lost_is_counted(
    form: str, packed: bool, changes: list[tuple[float, int]], cut: float | None
) -> None:
    data = bytearray(gzip.compress(WHOLE[form]) if packed else WHOLE[form])
    for where, value in changes:
        data[int(where * len(data))] = value
    if cut is not None:
        del data[int(cut * len(data)) :]
    with tempfile.TemporaryDirectory() as folder:
        records, problems = read_bytes(Path(folder), bytes(data))
        with SpanSpool(0) as spool:
            for record in records:
                spool.add(record)
            spool.load(spool.trace_ids())
    if len(records) < len(SPANS):
        assert problems


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=400))
def test_no_bytes_raise(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for head in (b"", b'{"resourceSpans":', b"\x0a", b"\x00\x00\x00\x20\x0a", b"\x1f\x8b"):
            read_bytes(Path(folder), head + data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(field=st.sampled_from(sorted(SPANS[1])), value=json_values, other=json_values)
def test_any_json_in_any_field_of_a_span_leaves_its_neighbour_alone(field: str, value: Any, other: Any) -> None:
    broken = span(1, **{field: value, "events": other})
    spans = decode_traces_json(request(broken, span(2)))
    assert spans[-1].span_id == span_id(2)
    logs = decode_logs_json(log_request(log(1, body=value, attributes=other), log(2)))
    assert logs[-1].span_id == span_id(2)
    for record in (*spans, *logs):
        str(record).encode()


def _any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any_value(member) for member in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": k, "value": _any_value(v)} for k, v in value.items()]}}
    return {}


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
attribute_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(attributes=st.dictionaries(texts, attribute_values, max_size=6))
def test_attribute_values_survive_json_and_protobuf_and_the_spool(attributes: dict[str, Any]) -> None:
    item = span(1, attributes=[{"key": key, "value": _any_value(value)} for key, value in attributes.items()])
    [from_json] = decode_traces_json(dumped(request(item)))
    [from_protobuf] = decode_traces_protobuf(protobuf(request(item)))
    assert from_json.attributes == attributes
    assert from_protobuf == from_json
    with SpanSpool(0) as spool:
        spool.add(from_json)
        assert spool.load(from_json.trace_id) == [from_json]
