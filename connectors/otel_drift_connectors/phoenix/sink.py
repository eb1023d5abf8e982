"""Sink ``phoenix``: findings as annotations of spans, traces, sessions and documents, under one identifier."""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from otel_drift.errors import ConfigError, PlatformError, RetryablePlatformError
from otel_drift.model import Annotation, Rejection, Target, WriteReport
from otel_drift_connectors.phoenix import documents
from otel_drift_connectors.phoenix.filters import chunks
from otel_drift_connectors.phoenix.server import BATCH, IDENTIFIER, Server, annotator_kind

log = logging.getLogger(__name__)

_TARGETS: tuple[Target, ...] = ("span", "trace", "session")
_WITHDRAWN = {"label": "NONE", "score": 0.0, "explanation": "Withdrawn: no longer found."}


@dataclass(slots=True)
class _Outcome:
    """What became of some annotations: `stored` with Phoenix's ids; `homeless` have no target there (yet)."""

    stored: dict[str, str] = field(default_factory=dict)
    homeless: list[Annotation] = field(default_factory=list)
    refused: list[Rejection] = field(default_factory=list)


class PhoenixSink:
    """Writes annotations synchronously: when `write` returns they can be searched.

    Phoenix keeps one annotation a target, name and identifier and replaces it whole; ours carry the identifier
    ``otel-drift``, and no others are touched. What is withdrawn becomes ``NONE`` with score 0 and is then deleted,
    which a key may not be allowed: then it stays ``NONE``. A session that Phoenix does not know, because its spans name
    it by another attribute than ``session.id``, has its values on its first trace. What is about a span or trace that
    has not arrived is refused for now. The passages that a value of ``source_conflict`` is about are annotated too.

    Args:
        target: ``[URL][?project=NAME]``; see `Server`.
        options: ``api_key``, ``headers``, ``timeout``, ``allow_plain_http``; see `Server`.

    Raises:
        ConfigError: the URL is none, or an option is wrong.
    """

    upserts = True

    def __init__(self, target: str, **options: Any) -> None:
        self._server = Server(target, **options)
        self.name = self._server.name

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._server.http.requests

    def check(self) -> str:
        """What is there; see `Server.verify`."""
        return self._server.verify()

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Write the annotations, those withdrawn first.

        Raises:
            ConfigError: the key is refused, or may not write.
            PlatformError: the server cannot be reached or fails; writing again does no harm.
        """
        gone = self._placed([one for one in annotations if one.withdrawn])
        self._delete(gone.stored.values())
        current = self._placed([one for one in annotations if not one.withdrawn])
        late = [
            Rejection(one.id, f"Phoenix does not have this {one.target} yet", retryable=True)
            for one in current.homeless
        ]
        done = dict.fromkeys([*gone.stored, *(one.id for one in gone.homeless), *current.stored])
        unmarked = self._marked([one for one in annotations if one.id in done])
        for one in unmarked:
            done.pop(one.annotation_id, None)
        return WriteReport(written=tuple(done), rejected=(*gone.refused, *current.refused, *late, *unmarked))

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _placed(self, annotations: Sequence[Annotation]) -> _Outcome:
        """Write each to its target, and those of sessions the project does not have to their first trace."""
        outcome = _Outcome()
        for target in _TARGETS:
            some = [one for one in annotations if one.target == target]
            elsewhere: list[Annotation] = []
            if target == "session":
                here = self._sessions_here([one.session_id for one in some if one.session_id])
                elsewhere = [one for one in some if one.session_id not in here]
                some = [one for one in some if one.session_id in here]
            missing = [*elsewhere, *self._posted(target, some, outcome)]
            if target == "session":
                outcome.homeless += [one for one in missing if one.trace_id is None]
                missing = self._posted("trace", [one for one in missing if one.trace_id is not None], outcome)
            outcome.homeless += missing
        return outcome

    def _sessions_here(self, ids: Sequence[str]) -> set[str]:
        """Those of the sessions that are the project's: Phoenix gives an id to the project that had it first.

        Another project's session of the same id is another customer's, and gets nothing of this one.
        """
        found: set[str] = set()
        for some in chunks(dict.fromkeys(ids), overhead=4):
            params = [("filter", f"session_id in [{', '.join(map(repr, some))}]")]
            path = f"{self._server.project.path}/sessions"
            found |= {str(one.get("session_id")) for one in self._server.pages(path, params, limit=1000)}
        return found

    def _posted(self, target: Target, annotations: Sequence[Annotation], outcome: _Outcome) -> list[Annotation]:
        """Write to targets of one kind, and return those whose target Phoenix does not have."""
        missing: list[Annotation] = []
        waiting = [list(annotations[at : at + BATCH]) for at in range(0, len(annotations), BATCH)]
        while waiting:
            batch = waiting.pop()
            body = orjson.dumps({"data": [_row(target, one) for one in batch]}, option=orjson.OPT_NON_STR_KEYS)
            answer = self._server.http.request(
                "POST",
                f"/v1/{target}_annotations",
                params={"sync": "true"},
                content=body,
                headers={"content-type": "application/json"},
                accept=(400, 404, 422),
            )
            if answer.status < 300:
                stored = answer.json().get("data") or []
                outcome.stored.update((one.id, str(row.get("id"))) for one, row in zip(batch, stored, strict=False))
                missing += [one for one in batch if one.id not in outcome.stored]
            elif answer.status == 404 and (unknown := _named(target, batch, answer.body)):
                missing += unknown
                absent = {one.id for one in unknown}
                waiting += [rest] if (rest := [one for one in batch if one.id not in absent]) else []
            elif len(batch) > 1:  # nothing of the batch was written: find the one that is refused
                waiting += [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
            elif answer.status == 404:  # an id that holds a comma cannot be told from several
                missing += batch
            else:
                outcome.refused.append(Rejection(batch[0].id, f"Phoenix refused it ({answer.status})"))
        return missing

    def _marked(self, annotations: Sequence[Annotation]) -> list[Rejection]:
        """Annotate the documents that conflict; returns the values for which that has to be tried again."""
        about = [one for one in annotations if one.target == "span" and one.name == documents.CONFLICTS]
        if not about:
            return []
        try:
            gone, early = documents.update(self._server, about)
            self._delete(gone)
            return [Rejection(one, "Phoenix does not have its passages' span yet", retryable=True) for one in early]
        except RetryablePlatformError:
            return [
                Rejection(one.id, "Phoenix did not take what it says of documents", retryable=True) for one in about
            ]
        except (PlatformError, ConfigError) as error:
            log.info("no document is annotated: %s", error)
        return []

    def _delete(self, ids: Iterable[str]) -> None:
        """Delete annotations by their ids, which only GraphQL can. Where it may not, they stay as they are."""
        mutations = list(_deletions(dict.fromkeys(ids)))
        if mutations:
            try:
                self._server.graphql(f"mutation {{ {' '.join(mutations)} }}")
            except PlatformError:
                return


def _row(target: Target, one: Annotation) -> dict[str, Any]:
    result = _WITHDRAWN if one.withdrawn else {"label": one.label, "score": one.score, "explanation": one.explanation}
    metadata = {
        **one.metadata,
        "audit": one.audit,
        **({"links": list(one.links)} if one.links else {}),
        **({"error_type": one.error_type} if one.error_type else {}),
        **({"environment": one.environment} if one.environment else {}),
    }
    return {
        f"{target}_id": _target_id(target, one),
        "name": one.name,
        "annotator_kind": annotator_kind(one),
        "identifier": IDENTIFIER,
        "result": result,
        "metadata": metadata,
    }


def _target_id(target: Target, one: Annotation) -> str | None:
    return {"span": one.span_id, "trace": one.trace_id, "session": one.session_id}[target]


def _named(target: Target, batch: Sequence[Annotation], body: bytes) -> list[Annotation]:
    """Those of a batch whose target the answer ``… with IDs a, b do not exist.`` names."""
    told = body.decode("utf-8", "replace")
    ids = set(told.partition(" with IDs ")[2].rpartition(" do not exist")[0].split(", "))
    return [one for one in batch if _target_id(target, one) in ids]


def _deletions(ids: Iterable[str]) -> Iterator[str]:
    """Mutations by what the ids are of: base64 of ``SpanAnnotation:12``."""
    by_kind: dict[str, list[str]] = {}
    for one in ids:
        try:
            kind = base64.b64decode(one, validate=True).decode("ascii", "replace").partition(":")[0]
        except binascii.Error:
            continue
        by_kind.setdefault(kind, []).append(one)
    for kind in ("SpanAnnotation", "TraceAnnotation", "DocumentAnnotation"):
        if kind in by_kind:
            mutation = f"delete{kind}s"
            yield f"{mutation}(input: {{annotationIds: {json.dumps(by_kind[kind])}}}) {{ __typename }}"
    for number, one in enumerate(by_kind.get("ProjectSessionAnnotation", ())):
        yield f"s{number}: deleteProjectSessionAnnotation(id: {json.dumps(one)}) {{ __typename }}"
