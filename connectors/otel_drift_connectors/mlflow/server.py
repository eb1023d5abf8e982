"""MLflow: the tracking server behind a target: its experiments, its traces' infos, whether it can be used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from otel_drift.errors import ConfigError, PlatformError
from otel_drift.platform import Platform, Target

V2, V3 = "/api/2.0/mlflow", "/api/3.0/mlflow"
SESSION = "mlflow.trace.session"
"""Metadata that holds a trace's session; in an assessment's metadata it makes the assessment the session's."""
TRACES_A_PAGE = 500
"""The most a search answers (MLflow 3.17: more is refused)."""
SESSIONS_A_SEARCH = 100
TESTED = "3.17"
_ABSENT = "tr-" + "0" * 32
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that is read."""

    id: str
    name: str


class MlflowServer:
    """A tracking server and the experiments of it that are meant. The constructor sends nothing.

    Args:
        target: ``URL?experiment=NAME``, several by comma, a name or an id each. Without a URL ``MLFLOW_TRACKING_URI``,
            without an experiment ``MLFLOW_EXPERIMENT_NAME`` or ``MLFLOW_EXPERIMENT_ID``.
        token: Sent as a bearer token; else ``MLFLOW_TRACKING_TOKEN``.
        username: For basic authentication; else ``MLFLOW_TRACKING_USERNAME``.
        password: Likewise; else ``MLFLOW_TRACKING_PASSWORD``.
        headers: Sent besides, e.g. ``X-MLFLOW-WORKSPACE``.
        timeout: Seconds for one request.
        allow_plain_http: Let credentials travel unencrypted to another machine.

    Raises:
        ConfigError: no URL, or credentials that would travel unencrypted.
    """

    def __init__(
        self,
        target: str,
        *,
        token: str | None = None,
        username: str | None = None,
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        allow_plain_http: bool = False,
    ) -> None:
        parsed = Target.parse("mlflow", target, options=("experiment",), default=_default_url())
        self.url = parsed.url
        named = parsed.options.get("experiment") or _default_experiment()
        self.wanted = tuple(part.strip() for part in named.split(",") if part.strip())
        self.name = f"mlflow:{self.url}" + (f"?experiment={','.join(self.wanted)}" if self.wanted else "")
        self.found: tuple[Experiment, ...] | None = None
        """The experiments, once they were asked for."""
        token = token or os.environ.get("MLFLOW_TRACKING_TOKEN")
        username = username or os.environ.get("MLFLOW_TRACKING_USERNAME")
        password = password or os.environ.get("MLFLOW_TRACKING_PASSWORD")
        self.http = Platform(
            "mlflow",
            self.url,
            headers={**({"authorization": f"Bearer {token}"} if token else {}), **(headers or {})},
            auth=(username, password) if username and password and not token else None,
            remedy="set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
            timeout=timeout,
            allow_plain_http=allow_plain_http,
        )

    def check(self) -> str:
        """Say in a line what is there.

        Raises:
            ConfigError: no MLflow, one too old, or no such experiment.
            PlatformError: it cannot be reached.
        """
        version = self.http.get("/version", accept=(404, 405)).body.decode(errors="replace").strip()
        if not re.fullmatch(r"\d+\.[\w.+-]{1,40}", version):
            raise ConfigError(f"mlflow: at {self.url} answers something else than an MLflow tracking server")
        try:
            self.http.get(f"{V3}/traces/batchGet", {"trace_ids": _ABSENT})
        except PlatformError as error:
            if error.status is None or error.status >= 500:
                raise
            raise ConfigError(
                f"mlflow: {self.url} is MLflow {version}, which cannot give several traces at once; "
                f"upgrade it ({TESTED} is tested)"
            ) from None
        experiments = self.experiments() if self.wanted else ()
        of = "; ".join(f"experiment {one.name} (id {one.id})" for one in experiments) or "no experiment named"
        return f"MLflow {version} at {self.url}: {of}{self._latest() if experiments else ''}"

    def experiments(self) -> tuple[Experiment, ...]:
        """The experiments that are meant, asked for once.

        Raises:
            ConfigError: none is named, or one does not exist.
        """
        if self.found is None:
            if not self.wanted:
                raise ConfigError(
                    "mlflow: name the experiment, e.g. mlflow:http://localhost:5000?experiment=chat, "
                    "or set MLFLOW_EXPERIMENT_NAME"
                )
            self.found = tuple(dict.fromkeys(map(self._experiment, self.wanted)))
        return self.found

    def infos(self, condition: str, start: int = 0) -> Iterator[list[dict[str, Any]]]:
        """Search traces, oldest first, from `start` (milliseconds since the epoch); yields pages of trace infos.

        MLflow pages by offset, so that a trace that arrives or is deleted meanwhile shifts the rest. Here each page
        begins at the time of the one before, and what comes twice is left out.
        """
        locations = [
            {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": one.id}} for one in self.experiments()
        ]
        token: str | None = None
        at_start: set[str] = set()
        while True:
            query = {
                "locations": locations,
                "filter": f"trace.timestamp_ms >= {start}" + (f" AND {condition}" if condition else ""),
                "order_by": ["timestamp_ms ASC"],
                "max_results": TRACES_A_PAGE,
                **({"page_token": token} if token else {}),
            }
            answer = self.http.post(f"{V3}/traces/search", query).json()
            found = [info for info in answer.get("traces", ()) if info.get("trace_id")]
            yield [info for info in found if info["trace_id"] not in at_start]
            if not (token := answer.get("next_page_token")) or not found:
                return
            last = milliseconds(found[-1])
            if last > start:
                start, token, at_start = last, None, set()
            # Else a whole page began in one millisecond: only there the offset is needed.
            at_start |= {info["trace_id"] for info in found if milliseconds(info) == start}

    def of_sessions(self, sessions: Sequence[str], condition: str = "") -> Iterator[list[dict[str, Any]]]:
        """Search the traces of sessions, all in as few requests as they fit; yields pages of trace infos."""
        for first in range(0, len(sessions), SESSIONS_A_SEARCH):
            some = sessions[first : first + SESSIONS_A_SEARCH]
            one_of = f"metadata.`{SESSION}` RLIKE '^({'|'.join(map(_pattern, some))})$'"
            for page in self.infos(one_of + (f" AND {condition}" if condition else "")):
                yield [info for info in page if session_of(info) in some]

    @property
    def trace_url(self) -> str:
        """Where a person sees a trace; empty until the experiments were asked for."""
        return f"{self._ui}/traces?selectedEvaluationId=tr-{{trace_id}}" if self.found else ""

    @property
    def session_url(self) -> str:
        """Where a person sees a session; likewise."""
        return f"{self._ui}/chat-sessions/{{session_id}}" if self.found else ""

    @property
    def _ui(self) -> str:
        return f"{self.url}/#/experiments/{quote(self.found[0].id)}" if self.found else ""

    def _experiment(self, name: str) -> Experiment:
        answer = self.http.get(f"{V2}/experiments/get-by-name", {"experiment_name": name}, accept=(404,))
        if answer.status == 404 and name.isdecimal():
            answer = self.http.get(f"{V2}/experiments/get", {"experiment_id": name}, accept=(404,))
        found = answer.json().get("experiment") or {}
        if answer.status == 404 or found.get("lifecycle_stage") == "deleted":
            some = self.http.post(f"{V2}/experiments/search", {"max_results": 10}).json().get("experiments", ())
            there = ", ".join(str(one.get("name")) for one in some) or "none"
            raise ConfigError(
                f"mlflow: {self.url} has no experiment {name!r}; there are: {there}; create it, or name another"
            )
        return Experiment(str(found["experiment_id"]), str(found["name"]))

    def _latest(self) -> str:
        locations = [
            {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": one.id}} for one in self.experiments()
        ]
        found = self.http.post(f"{V3}/traces/search", {"locations": locations, "max_results": 1}).json().get("traces")
        return f", last trace {found[0].get('request_time')}" if found else ", no traces yet"


def session_of(info: Mapping[str, Any]) -> str | None:
    """The session a trace says it belongs to."""
    return (info.get("trace_metadata") or {}).get(SESSION) or None


def milliseconds(info: Mapping[str, Any]) -> int:
    """When a trace began, in milliseconds since the epoch; 0 where it does not say."""
    try:
        return (datetime.fromisoformat(info["request_time"]) - _EPOCH) // _MILLISECOND
    except (KeyError, TypeError, ValueError):
        return 0


def _pattern(session: str) -> str:
    # Anything that some database's regular expressions or MLflow's quoting could take otherwise stands for any
    # character, a line feed too, which "." is not; what matches too much is left out afterwards.
    return re.sub(r"[^0-9A-Za-z_-]", "[^0]", session)


def _default_url() -> str:
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    return uri if uri.startswith(("http://", "https://")) else ""


def _default_experiment() -> str:
    return os.environ.get("MLFLOW_EXPERIMENT_NAME") or os.environ.get("MLFLOW_EXPERIMENT_ID") or ""
