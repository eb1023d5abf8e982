"""Every error otel-drift raises on purpose, grouped by what the caller must do.

OtelDriftError
├── ConfigError          tell the user, exit 2 (a setting, an option, a prompt, a plugin name)
├── RecordError          count it, name file and record, go on (one broken record of input)
├── SourceError          the source cannot be read at all, exit 3
├── SinkError            a sink failed as a whole: the delivery stays owed, exit 3
│   └── PlatformError         both of these: a platform answered badly or not at all
│       ├── AnswerTooLargeError       ask for less at once
│       └── RetryablePlatformError    overload, rate limit, transport: back off (honours `retry_after`)
├── LedgerError          the ledger cannot be used, exit 3
├── BudgetError          a limit of the run is reached: stop asking, keep what is done
├── UnitError            one unit cannot be audited to an end: it becomes inconclusive with `reason`
│   └── NotApplicableError    a step showed that the audit's question does not arise: not applicable with `reason`
└── JudgeError           the unit becomes inconclusive
    ├── RetryableJudgeError   rate limit, overload, transport, time-out: back off (honours `retry_after`)
    └── PermanentJudgeError   wrong key, unknown model, bad request, refused by a filter: no retry
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_drift.model import JudgeAnswer


class OtelDriftError(Exception):
    """Base of all errors raised on purpose. The message says what happened, where, and what to do."""


class ConfigError(OtelDriftError):
    """A setting, option, prompt or plugin name is wrong."""


class RecordError(OtelDriftError):
    """One record of the input is broken; the rest goes on.

    `lost` is false where the record was read all the same, without the part that is broken.
    """

    def __init__(self, reason: str, *, file: str = "", record: str = "", lost: bool = True) -> None:
        self.reason = reason
        self.lost = lost
        self.file = file
        self.record = record
        super().__init__(": ".join(part for part in (file, record, reason) if part))


class SourceError(OtelDriftError):
    """A source cannot be read at all."""


class SinkError(OtelDriftError):
    """A sink failed as a whole; what it was to write stays owed."""


class PlatformError(SourceError, SinkError):
    """A platform could not be read or written: what was to be written stays owed.

    `status` is the HTTP status, None where no answer came; `body` is the start of the answer, for connectors that
    read reasons from it. It may hold trace text and is not part of the message.
    """

    def __init__(self, message: str, *, status: int | None = None, body: bytes = b"") -> None:
        self.status = status
        self.body = body
        super().__init__(message)


class AnswerTooLargeError(PlatformError):
    """An answer is larger than is held in memory: ask for less at once."""


class RetryablePlatformError(PlatformError):
    """Overload, rate limit, time-out or transport fault: the same request may succeed later."""

    def __init__(
        self, message: str, *, status: int | None = None, body: bytes = b"", retry_after: float | None = None
    ) -> None:
        self.retry_after = retry_after
        super().__init__(message, status=status, body=body)


class LedgerError(OtelDriftError):
    """The ledger cannot be opened, read or written."""


class BudgetError(OtelDriftError):
    """A limit of the run (calls, cost) is reached."""


class UnitError(OtelDriftError):
    """One unit cannot be audited to an end. `reason` is a short code such as ``turn_exceeds_window``."""

    def __init__(self, message: str, *, reason: str) -> None:
        self.reason = reason
        super().__init__(message)


class NotApplicableError(UnitError):
    """The audit's question does not arise, which only a judge could tell: `reason` as in ``conflicting_sources``."""


class JudgeError(OtelDriftError):
    """A judge gave no usable answer. `reason` is a short code such as ``timeout`` or ``rate_limited``.

    `answer` is the `JudgeAnswer` where one came that cannot be used (a refusal, an empty one): it was paid for.
    """

    def __init__(self, message: str, *, reason: str = "judge_error", retry_after: float | None = None) -> None:
        self.reason = reason
        self.retry_after = retry_after
        self.answer: JudgeAnswer | None = None
        super().__init__(message)


class RetryableJudgeError(JudgeError):
    """Rate limit, overload, transport fault or time-out: the same ask may succeed later."""


class PermanentJudgeError(JudgeError):
    """The same ask will fail again: wrong key, unknown model, bad request, blocked by a filter."""
