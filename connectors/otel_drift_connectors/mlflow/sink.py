"""MLflow: findings as assessments of traces, spans and sessions, and the worst severity as a tag of the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from otel_drift import retry
from otel_drift.errors import PlatformError, RetryablePlatformError
from otel_drift.model import SEVERITY_SCORES, Annotation, Rejection, WriteReport, worst
from otel_drift.platform import POLICY
from otel_drift_connectors.mlflow.server import SESSION, V3, MlflowServer, session_of
from otel_drift_connectors.mlflow.traces import SEVERITY_TAG, SOURCE_ID

LONGEST_NAME = 250
LONGEST_RATIONALE = 16_000
"""MySQL's TEXT holds 65,535 bytes; a character is at most four."""
LONGEST_METADATA = 1_000

_Place = tuple[str, str, bool]
"""What there is one current value of on a trace: name, span id, whether it is the session's."""


class MlflowSink:
    """Writes to an MLflow tracking server; see `MlflowServer` for target and options.

    One request lists what stands on all traces of a batch, then each value that differs takes one. Ours are the
    assessments with source id ``otel-drift``; nobody else's is touched. An assessment of a session lies, as in MLflow's
    own form, on the session's first trace with the session in its metadata.
    """

    upserts = True

    def __init__(self, target: str, **options: Any) -> None:
        self._server = MlflowServer(target, **options)
        self.name = self._server.name

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self._server.http.requests

    def check(self) -> str:
        """Say in a line what is there; see `MlflowServer.check`."""
        return self._server.check()

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Make each annotation the one current value of its target and name; withdrawn ones are deleted.

        A trace that is not there (yet) rejects its annotations as retryable.

        Raises:
            PlatformError: the server cannot be written to; what was written before is found unchanged next time.
            ConfigError: the credentials are refused.
        """
        by_trace: dict[str, list[Annotation]] = {}
        rejected = []
        for one in annotations:
            if one.trace_id:
                by_trace.setdefault(f"tr-{one.trace_id}", []).append(one)
            else:
                rejected.append(Rejection(one.id, "MLflow keeps assessments on traces, and this has none"))
        written: list[str] = []
        unchanged: list[str] = []
        traces = self._traces(list(by_trace))
        for trace_id, about in by_trace.items():
            trace = traces.get(trace_id)
            if trace is None:
                unchanged += [one.id for one in about if one.withdrawn]
                rejected += [
                    Rejection(one.id, f"MLflow has no trace {trace_id} (yet)", retryable=True)
                    for one in about
                    if not one.withdrawn
                ]
                continue
            for one in about:
                try:
                    (written if trace.put(one) else unchanged).append(one.id)
                except PlatformError as error:
                    if error.status is None or isinstance(error, RetryablePlatformError):
                        raise
                    rejected.append(Rejection(one.id, _refusal(error), retryable=error.status == 404))
            trace.put_tag()
        self._forget_moved(annotations)
        return WriteReport(tuple(written), tuple(unchanged), tuple(rejected))

    def close(self) -> None:
        """Close the connections."""
        self._server.http.close()

    def _traces(self, ids: list[str]) -> dict[str, _Trace]:
        if not ids:
            return {}
        answer = self._server.http.post(f"{V3}/traces/batchGetInfos", {"trace_ids": ids}).json()
        return {info["trace_id"]: _Trace(self._server, info) for info in answer.get("trace_infos", ())}

    def _forget_moved(self, annotations: Sequence[Annotation]) -> None:
        """Delete what an earlier revision wrote of a session on a trace that was then its first."""
        first = {one.session_id: f"tr-{one.trace_id}" for one in _revised(annotations)}
        names = {one.name for one in _revised(annotations)}
        if not first or not self._server.wanted:
            return
        for page in self._server.of_sessions([session for session in first if session]):
            for info in page:
                if info["trace_id"] != first[session_of(info)]:
                    _Trace(self._server, info).forget_session(names)


class _Trace:
    """What stands on one trace; kept up to date with what is written."""

    def __init__(self, server: MlflowServer, info: Mapping[str, Any]) -> None:
        self._http = server.http
        self._id = info["trace_id"]
        self._path = f"{V3}/traces/{self._id}"
        self._tag: str | None = (info.get("tags") or {}).get(SEVERITY_TAG)
        self._ours = _ours(info)

    def put(self, annotation: Annotation) -> bool:
        """Write, change or delete one value; False where nothing was to be done."""
        place = _place_of(annotation)
        standing = self._ours.get(place, [])
        for doubled in standing[1:] if not annotation.withdrawn else standing:
            self._delete(doubled)
        if annotation.withdrawn:
            return bool(self._ours.pop(place, None))
        wanted = _assessment(annotation, self._id)
        if not standing:
            self._ours[place] = [self._create(wanted, place)]
            return True
        self._ours[place] = standing[:1]
        if not (changes := _changes(standing[0], wanted)):
            return len(standing) > 1
        self._change(standing[0], changes)
        standing[0].update(changes)
        return True

    def put_tag(self) -> None:
        """Mirror the worst severity of the trace where search finds it at once; no tag where there is none."""
        labels = [
            one["feedback"]["value"]
            for (name, span, _session), standing in self._ours.items()
            if name == SEVERITY_TAG and span  # of an answer here, not of the session as a whole
            for one in standing
            if one.get("valid", True)
        ]
        severity = worst([label for label in labels if label in SEVERITY_SCORES])
        if severity != "NONE" and severity != self._tag:
            self._http.request("PATCH", f"{self._path}/tags", json={"key": SEVERITY_TAG, "value": severity})
            self._tag = severity
        elif severity == "NONE" and self._tag in SEVERITY_SCORES:
            self._http.request("DELETE", f"{self._path}/tags", json={"key": SEVERITY_TAG}, accept=(404,))
            self._tag = None

    def forget_session(self, names: set[str]) -> None:
        """Delete our values of the session with these names."""
        for (name, _span, of_session), standing in list(self._ours.items()):
            if of_session and name in names:
                for one in standing:
                    self._delete(one)
                del self._ours[name, _span, of_session]
                self.put_tag()

    def _create(self, wanted: dict[str, Any], place: _Place) -> dict[str, Any]:
        """Create an assessment once, although each POST creates one: before a second, look whether the first came."""
        sent = False

        def once() -> dict[str, Any]:
            nonlocal sent
            if sent:
                info = self._http.get(self._path).json()["trace"]["trace_info"]
                if found := _ours(info).get(place):
                    return found[0]
            sent = True
            answer = self._http.request("POST", f"{self._path}/assessments", json={"assessment": wanted}, retried=False)
            return {**answer.json()["assessment"], **wanted}

        return retry.call(POLICY, once, retry_on=RetryablePlatformError, what="mlflow")

    def _change(self, standing: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
        id_ = standing["assessment_id"]
        body = {"assessment_id": id_, "trace_id": self._id, **changes}
        self._http.request(
            "PATCH", f"{self._path}/assessments/{id_}", json={"assessment": body, "update_mask": ",".join(changes)}
        )

    def _delete(self, standing: Mapping[str, Any]) -> None:
        self._http.request("DELETE", f"{self._path}/assessments/{standing['assessment_id']}", accept=(404,))


def _revised(annotations: Sequence[Annotation]) -> Iterator[Annotation]:
    return (one for one in annotations if one.target == "session" and one.session_id and one.revision > 1)


def _ours(info: Mapping[str, Any]) -> dict[_Place, list[dict[str, Any]]]:
    """Our assessments on a trace by place; where one was doubled, one that a person has not overridden comes first."""
    found: dict[_Place, list[dict[str, Any]]] = {}
    for one in info.get("assessments") or ():
        if (one.get("source") or {}).get("source_id") == SOURCE_ID and "feedback" in one:
            place = (one["assessment_name"], one.get("span_id") or "", bool((one.get("metadata") or {}).get(SESSION)))
            found.setdefault(place, []).append(one)
    for standing in found.values():
        standing.sort(key=lambda one: not one.get("valid", True))
    return found


def _place_of(annotation: Annotation) -> _Place:
    span_id = annotation.span_id if annotation.target == "span" else None
    return annotation.name[:LONGEST_NAME], span_id or "", annotation.target == "session"


def _assessment(annotation: Annotation, trace_id: str) -> dict[str, Any]:
    of_score = annotation.name.endswith(".score") and annotation.score is not None
    wanted: dict[str, Any] = {
        "assessment_name": annotation.name[:LONGEST_NAME],
        "trace_id": trace_id,
        "source": {"source_type": "CODE", "source_id": SOURCE_ID},
        "feedback": {"value": annotation.score if of_score else annotation.label},
        "rationale": (annotation.explanation or "")[:LONGEST_RATIONALE],
        "metadata": _metadata(annotation),
    }
    if annotation.target == "span" and annotation.span_id:
        wanted["span_id"] = annotation.span_id
    return wanted


def _metadata(annotation: Annotation) -> dict[str, str]:
    """Texts by name, as MLflow keeps them; numbers and lists as JSON."""
    said = {
        **annotation.metadata,
        "result_id": annotation.id,
        "score": annotation.score,
        "error_type": annotation.error_type,
        "environment": annotation.environment,
        SESSION: annotation.session_id if annotation.target == "session" else None,
    }
    return {
        name: (value if isinstance(value, str) else orjson.dumps(value, default=str).decode())[:LONGEST_METADATA]
        for name, value in said.items()
        if value is not None
    }


def _changes(standing: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be written for what stands to become what is wanted: MLflow merges metadata and never drops any."""
    changes = {}
    if standing["feedback"].get("value") != wanted["feedback"]["value"]:
        changes["feedback"] = wanted["feedback"]
    if (standing.get("rationale") or "") != wanted["rationale"]:
        changes["rationale"] = wanted["rationale"]
    before = standing.get("metadata") or {}
    metadata = {**{name: "" for name, value in before.items() if value}, **wanted["metadata"]}
    if any(before.get(name, "") != value for name, value in metadata.items()):
        changes["metadata"] = metadata
    return changes


def _refusal(error: PlatformError) -> str:
    try:
        said = orjson.loads(error.body)
        words = str(said["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        words = str(error)
    return f"MLflow refused it ({error.status}): {words[:200]}"
