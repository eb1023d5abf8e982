"""Writing to Langfuse: annotations become scores, in batches, and what was only accepted is read back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from otel_drift import retry
from otel_drift.errors import ConfigError, RetryablePlatformError
from otel_drift.model import Annotation, Rejection, WriteReport
from otel_drift.retry import RetryPolicy
from otel_drift_connectors.langfuse import scores
from otel_drift_connectors.langfuse.comments import Comments
from otel_drift_connectors.langfuse.connection import Connection
from otel_drift_connectors.langfuse.review_queue import QUEUE, ReviewQueue
from otel_drift_connectors.langfuse.scores import Standing
from otel_drift_connectors.langfuse.sending import Sender, Sent
from otel_drift_connectors.langfuse.setup import set_up

READABLE_AT_ONCE = 100
"""Ids a request of v3/scores; its largest page."""
LOOKED_AHEAD = 3
"""Ids looked up at once where the first of a chain is there: few values get worse more often."""
CONFIRM_SECONDS = 90.0
"""Scores are readable 6 to 16 s after they were accepted, a thousand at once after 42 s (measured)."""
AROUND_MIDNIGHT = timedelta(minutes=30)
"""From 23:45 to 00:15 UTC the server holds scores back for 15 s longer (measured: 15 to 23 s)."""
_SOONEST = 5.0
_AGAIN = 10.0


class LangfuseSink:
    """Writes scores into one Langfuse project.

    A place (observation, trace or session, and name) has one current value; others there, people's among them, are
    never touched. A value that got worse is a new score, the one before it is marked (see `scores`). What already
    stands as it should is not written.

    Args:
        target: What follows ``langfuse:``, see `Connection.open`.
        public_key: Else ``LANGFUSE_PUBLIC_KEY``.
        secret_key: Else ``LANGFUSE_SECRET_KEY``.
        base_url: Else ``LANGFUSE_BASE_URL``.
        timeout: Seconds for one request.
        allow_plain_http: Let the keys travel unencrypted to another machine.
        comments: Also write a comment on each answer with a finding, once an audit and severity.
        confirm_seconds: How long accepted scores are waited for.
        clock: Seconds since the epoch: the time of writing.

    Raises:
        ConfigError: a key is missing, the URL is none, or an option is wrong.
    """

    upserts = True

    def __init__(
        self,
        target: str = "",
        *,
        public_key: str | None = None,
        secret_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
        allow_plain_http: bool = False,
        comments: bool = False,
        confirm_seconds: float = CONFIRM_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(confirm_seconds, bool) or not isinstance(confirm_seconds, int | float) or confirm_seconds < 1:
            raise ConfigError("langfuse: confirm_seconds in [connectors.langfuse] is a number of seconds, at least 1")
        if not isinstance(comments, bool):
            raise ConfigError("langfuse: comments in [connectors.langfuse] is true or false")
        self.connection = Connection.open(
            target,
            public_key=public_key,
            secret_key=secret_key,
            base_url=base_url,
            timeout=timeout,
            allow_plain_http=allow_plain_http,
        )
        self.name = self.connection.name
        self._comments = Comments(self.connection) if comments else None
        self._confirm_seconds = float(confirm_seconds)
        self._clock = clock
        self._sender = Sender(self.connection, clock)
        self._expected: dict[str, tuple[Sent, ...]] = {}

    def check(self) -> str:
        """Ask whether the keys, the project and the server are right, and that it takes scores.

        Raises:
            ConfigError: wrong keys, project or URL, or a server too old.
            PlatformError: it cannot be reached.
        """
        said = self.connection.verify()
        return f"{said}; scores are written by POST {self._sender.probe()}"

    def write(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Send what is not there yet. What is reported as written was accepted, which `confirm` has to prove.

        Raises:
            ConfigError: the keys are refused.
            PlatformError: the server is down, overloaded, or takes no scores.
        """
        latest: dict[str, Annotation] = {}
        for one in annotations:
            if one.id not in latest or latest[one.id].revision <= one.revision:
                latest[one.id] = one
        rejected = [
            Rejection(one.id, f"a score on a {one.target} needs its id, and the annotation has none")
            for one in latest.values()
            if scores.subject(one) is None
        ]
        for refused in rejected:
            del latest[refused.annotation_id]
        chains = self._chains(list(latest))
        planned = {key: scores.writes(one, chains.get(key, ())) for key, one in latest.items()}
        floor = _last_writing(chains.values())
        sent, problems = self._sender.send([write for due in planned.values() for write in due], floor)
        written, unchanged = [], []
        for key, due in planned.items():
            ids = [write.body["id"] for write in due]
            if refusals := [problems[one] for one in ids if one in problems]:
                rejected.append(min((replace(one, annotation_id=key) for one in refusals), key=lambda r: r.retryable))
            elif due:
                written.append(key)
                self._expected[key] = tuple(sent[one] for one in ids)
            else:
                unchanged.append(key)
        return self._commented(latest, WriteReport(tuple(written), tuple(unchanged), tuple(rejected)))

    def confirm(self, annotations: Sequence[Annotation]) -> WriteReport:
        """Read back until everything sent is there, or the time is up.

        Raises:
            ConfigError: the keys are refused.
            PlatformError: the server cannot be read.
        """
        waiting: dict[str, dict[str, Sent]] = {
            one.id: {sent.id: sent for sent in self._expected.get(one.id, ())} for one in annotations
        }
        reasons: dict[str, str] = {}
        asked_at = retry.now()

        def look() -> None:
            if retry.now() - asked_at >= _SOONEST:
                self._look(waiting, reasons)
            if any(waiting.values()):
                raise _NotReadableError("langfuse: not everything can be read yet")

        seconds = self._patience()
        policy = RetryPolicy(attempts=1_000, total_seconds=seconds, initial=_SOONEST, maximum=_AGAIN)
        with contextlib.suppress(_NotReadableError):
            retry.call(policy, look, retry_on=_NotReadableError, what="langfuse")
        rejected = [
            Rejection(key, f"accepted, but after {seconds:.0f} s {reasons[key]}", retryable=True)
            for key, missing in waiting.items()
            if missing
        ]
        for key in waiting:
            self._expected.pop(key, None)
        return WriteReport(tuple(key for key, missing in waiting.items() if not missing), (), tuple(rejected))

    def review_queue(self, name: str | None = None) -> ReviewQueue:
        """The annotation queue people review in; see `ReviewQueue`."""
        return ReviewQueue(self.connection, name or QUEUE)

    def set_up(self, audits: Sequence[str], *, queue: str | None = None, dashboard: bool = False) -> Iterator[str]:
        """Make what the project needs once; see `setup.set_up`."""
        return set_up(self.connection, audits, queue=queue, dashboard=dashboard)

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    def _look(self, waiting: dict[str, dict[str, Sent]], reasons: dict[str, str]) -> None:
        """Cross off what is there as it was sent; note of the others how they differ."""
        found = self._read(sent.id for missing in waiting.values() for sent in missing.values())
        for key, missing in waiting.items():
            for one in list(missing.values()):
                stands = found.get(one.id)
                if stands is None:
                    reasons[key] = "it cannot be read"
                elif stands.value != one.value:
                    reasons[key] = "the server shows another value"
                elif str(stands.metadata.get(scores.WRITTEN_AT) or "") < one.written_at:
                    reasons[key] = "the server shows an earlier writing"
                else:
                    del missing[one.id]

    def _patience(self) -> float:
        now = datetime.fromtimestamp(self._clock(), UTC)
        since_quarter_to = now - now.replace(hour=23, minute=45, second=0, microsecond=0)
        around = since_quarter_to % timedelta(days=1) < AROUND_MIDNIGHT
        return self._confirm_seconds * (2 if around else 1)

    def _chains(self, ids: Sequence[str]) -> dict[str, list[Standing]]:
        """What stands of each annotation: its first score, and where that is there, those that followed."""
        chains: dict[str, list[Standing]] = {}
        pending, generation, width = list(ids), 0, 1
        while pending:
            ahead = range(generation, generation + width)
            found = self._read(scores.score_id(one, number) for one in pending for number in ahead)
            for one in pending:
                standing = [found[key] for number in ahead if (key := scores.score_id(one, number)) in found]
                chains.setdefault(one, []).extend(standing)
            generation += width
            pending = [one for one in pending if scores.score_id(one, generation - 1) in found]
            width = LOOKED_AHEAD
        return chains

    def _read(self, ids: Iterable[str]) -> dict[str, Standing]:
        found: dict[str, Standing] = {}
        for some in _chunks(list(ids), READABLE_AT_ONCE):
            page = self.connection.ask(
                self.connection.api.scores.get_many, id=",".join(some), limit=READABLE_AT_ONCE, fields="details"
            )
            for row in sorted(page.data, key=lambda row: row.updated_at):  # the newest of a row not merged yet
                found[row.id] = Standing(row.id, row.value, row.timestamp, row.comment, row.metadata or {})
        return found

    def _commented(self, latest: dict[str, Annotation], report: WriteReport) -> WriteReport:
        if self._comments is None:
            return report
        refused = self._comments.write([latest[key] for key in (*report.written, *report.unchanged)])
        ids = {one.annotation_id for one in refused}
        return WriteReport(
            tuple(key for key in report.written if key not in ids),
            tuple(key for key in report.unchanged if key not in ids),
            (*report.rejected, *refused),
        )


class _NotReadableError(RetryablePlatformError):
    pass


def _last_writing(chains: Iterable[Sequence[Standing]]) -> str:
    said = (one.metadata.get(scores.WRITTEN_AT) for chain in chains for one in chain)
    return max((one for one in said if isinstance(one, str)), default="")


def _chunks(ids: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]
