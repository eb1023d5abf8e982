"""Receiver: a request's body into the inbox, in a worker thread: unpack, decode, keep. Both protocols end here."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from otel_drift.errors import LedgerError, RecordError
from otel_drift.model import Record, Span
from otel_drift.otlp.json_walk import JsonWalk
from otel_drift.otlp.limits import MIB, ProblemLog, ReadLimits
from otel_drift.otlp.protobuf_walk import ProtobufWalk
from otel_drift.otlp.records import Signal
from otel_drift.otlp.values import Decoding
from otel_drift.otlp.window import ByteWindow
from otel_drift.receiver.admission import Admission, Ticket
from otel_drift.receiver.refusals import Refusal
from otel_drift.receiver.unpacking import unpacked
from otel_drift.telemetry.sdk import SCOPE, SERVICE

if TYPE_CHECKING:
    from otel_drift.inbox import Inbox
    from otel_drift.telemetry import Telemetry

log = logging.getLogger(__name__)

LIMITS = ReadLimits(max_record_bytes=8 * MIB, max_problems=1)
"""As for files, but for the size of a record: a request may be made of one that takes up many times its size."""
MOST_RECORDS = 50_000
"""Spans or log records of one request; a span takes up 1 kB of memory however small it was sent."""
DECODERS = 2
"""Requests decoded at the same time: decoding is what needs memory, and more would only share the same core."""

_TOLD = re.compile(r"[:;('\"].*", re.DOTALL)
"""What follows in a reason may be taken from the request."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request that was accepted: records kept, records rejected, and why the first of these was."""

    kept: int
    rejected: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it came: `protocol` is ``http`` or ``grpc``."""

    protocol: str
    signal: Signal
    body: bytes
    is_json: bool = False
    encoding: str = ""


class Intake:
    """Takes requests in.

    Args:
        inbox: Where their records go.
        admission: Whether there is room.
        telemetry: Is told what was accepted, and what was rejected of it.
        workers: Threads that unpack, decode and keep.
    """

    def __init__(self, inbox: Inbox, admission: Admission, telemetry: Telemetry, workers: Executor) -> None:
        self._inbox = inbox
        self._admission = admission
        self._telemetry = telemetry
        self._workers = workers
        self._waiting: dict[asyncio.Future[None], Callable[[], object]] = {}
        self._decoders = threading.BoundedSemaphore(DECODERS)

    async def take(self, sent: Sent, ticket: Ticket) -> Outcome:
        """Keep the records of a request; once this returns they are durable.

        Raises:
            Refusal: nothing of it was kept.
        """
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        tell = partial(_tell, loop, over)
        work = self._workers.submit(self._take, sent, ticket)
        ticket.hand_over(work)
        work.add_done_callback(tell)
        self._waiting[over] = tell
        try:
            await over
        finally:
            del self._waiting[over]
        if not work.done():
            raise Refusal("stopping", "the service stops")
        return work.result()

    def give_up(self) -> None:
        """Whoever still waits is told to try again; what is being kept is kept all the same."""
        for tell in list(self._waiting.values()):
            tell()

    def _take(self, sent: Sent, ticket: Ticket) -> Outcome:
        self._admission.look()
        with self._decoders:
            body = unpacked(sent.body, sent.encoding, self._admission.most_unpacked)
            ticket.resize(len(body) if body is sent.body else len(sent.body) + len(body))
            read = _read(body, sent)
        records = [record for record in read.records if not _is_own(record)]
        if not records and read.rejected:
            raise Refusal("bad_data", f"nothing in it could be read: {read.why}", read.rejected)
        self._keep(records)
        spans = sum(isinstance(record, Span) for record in records)
        self._telemetry.received(sent.protocol, spans, len(records) - spans, len(sent.body))
        if read.rejected:
            self._telemetry.refused(sent.protocol, "broken_records", read.rejected)
        if len(records) < len(read.records):
            self._telemetry.refused(sent.protocol, "own_traces", len(read.records) - len(records))
        return Outcome(len(records), read.rejected, read.why)

    def _keep(self, records: list[Record]) -> None:
        try:
            self._inbox.add(records)
        except LedgerError as error:
            self._admission.say(error)
            raise Refusal("ledger", "the database cannot be written", len(records)) from error
        except Exception as error:  # nothing was acknowledged, so the sender may try again
            log.error("receiver: a request could not be kept: %s", type(error).__name__)
            raise Refusal("ledger", "the request could not be kept", len(records)) from error


def _tell(loop: asyncio.AbstractEventLoop, over: asyncio.Future[None], *_: object) -> None:
    def told() -> None:
        if not over.done():
            over.set_result(None)

    with suppress(RuntimeError):  # the loop has ended, and with it who waited
        loop.call_soon_threadsafe(told)


@dataclass(slots=True)
class _Read:
    records: list[Record]
    rejected: int = 0
    why: str = ""


def _read(body: bytes, sent: Sent) -> _Read:
    read = _Read([])
    problems = 0

    def reject(reason: str, records: int = 1) -> None:
        read.rejected += records
        read.why = read.why or _TOLD.sub("", reason).strip()

    def on_problem(problem: RecordError) -> None:
        nonlocal problems
        problems += 1
        _check_number(problems)
        if problem.lost:
            reject(problem.reason)

    if sent.is_json and not body.strip():
        raise Refusal("bad_data", "the body is empty")
    misplaced = 0
    for page in _pages(body, sent, ProblemLog(LIMITS, on_problem)):
        belonging = [record for record in page if isinstance(record, Span) == (sent.signal == "traces")]
        misplaced += len(page) - len(belonging)
        read.records += belonging
        _check_number(len(read.records) + misplaced)
    if misplaced:
        reject(f"records that are no {sent.signal} were sent where these go", misplaced)
    return read


def _pages(body: bytes, sent: Sent, problems: ProblemLog) -> Iterator[list[Record]]:
    decoding = Decoding(LIMITS, problems)
    if not sent.is_json:
        return ProtobufWalk(ByteWindow.over(body), decoding, signal=sent.signal).records()
    if body.strip() == b"{}":  # a request of nothing; in a file it would be no telemetry
        return iter(())
    return JsonWalk(ByteWindow.over(body), decoding).records()


def _check_number(records: int) -> None:
    if records > MOST_RECORDS:
        raise Refusal("too_large", f"a request may have {MOST_RECORDS:,} records", records)


def _is_own(record: Record) -> bool:
    """Whether this service said it of itself: were it kept, its audit would say more of itself, and so on."""
    return isinstance(record, Span) and record.scope == SCOPE and record.resource.get("service.name") == SERVICE
