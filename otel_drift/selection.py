"""Which of the sessions read are audited, and in what order."""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from otel_drift.errors import ConfigError
from otel_drift.feedback import is_negative
from otel_drift.model import Session
from otel_drift.protocols import Window

FLAGS = ("feedback", "error")


@dataclass(frozen=True, slots=True)
class Selection:
    """What is asked for. All times in nanoseconds.

    Attributes:
        window: What is read, and by when a session must have had its last span; None = everything there is.
        settle: A session whose last span is younger is still being written and waits.
        min_turns: Answered or not; 0 = any number.
        flags: ``feedback`` (a person complained), ``error`` (a turn failed), ``tag:NAME``. With `min_turns` a session
            is chosen that has either; alone, only flagged ones are.
        flagged_first: Whether flagged sessions come before the others, so that a budget goes to them first.

    Raises:
        ConfigError: an unknown flag.
    """

    window: Window | None = None
    settle: int = 0
    min_turns: int = 0
    flags: tuple[str, ...] = ()
    flagged_first: bool = False

    def __post_init__(self) -> None:
        for flag in self.flags:
            if flag not in FLAGS and not (flag.startswith("tag:") and flag != "tag:"):
                raise ConfigError(f"--flagged {flag}: use {', '.join(FLAGS)} or tag:NAME")


@dataclass(slots=True)
class Choice:
    """Chooses sessions as a `Selection` says, and counts what it leaves out and why.

    `left_out` has ``waiting``, ``outside`` (of the window), ``filtered`` (environment, user, tag) and ``few_turns``.
    `oldest_waiting` is when the earliest waiting session began: the next run has to read from there. `missing` are
    the session ids asked for that did not come.
    """

    selection: Selection
    now: int
    left_out: Counter[str] = field(default_factory=Counter)
    oldest_waiting: int | None = None
    missing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.missing = set(self.selection.window.sessions) if self.selection.window else set()

    def of(self, sessions: Iterable[Session]) -> Iterator[Session]:
        """The sessions chosen. Where flagged ones come first, the others wait in a file of their own meanwhile."""
        if not self.selection.flagged_first:
            yield from filter(self._takes, sessions)
            return
        with tempfile.TemporaryFile() as others:
            count = 0
            for session in filter(self._takes, sessions):
                if self.is_flagged(session):
                    yield session
                else:
                    pickle.dump(session, others)
                    count += 1
            others.seek(0)
            for _ in range(count):
                yield pickle.load(others)  # noqa: S301 - our own objects, from a file nobody else can open

    def is_flagged(self, session: Session) -> bool:
        """Whether the session has one of the flags asked for, or of the standard ones where none are."""
        return any(has_flag(session, flag) for flag in self.selection.flags or FLAGS)

    def _takes(self, session: Session) -> bool:
        reason = self._reason_against(session)
        if reason:
            self.left_out[reason] += 1
        return reason is None

    def _reason_against(self, session: Session) -> str | None:
        started = min((turn.started for turn in session.turns), default=0)
        ended = max((turn.ended for turn in session.turns), default=0)
        window = self.selection.window
        if window is not None:
            named = session.session_id in window.sessions
            self.missing.discard(session.session_id or "")
            if not named and (window.sessions or ended < window.since or started >= window.until):
                return "outside"
            if not _matches(session, window):
                return "filtered"
        if self.selection.settle and ended > self.now - self.selection.settle:
            self.oldest_waiting = min(started, self.oldest_waiting or started)
            return "waiting"
        few = len(session.turns) < self.selection.min_turns
        only_flagged = self.selection.flags and not self.selection.min_turns
        if (few or only_flagged) and not (self.selection.flags and self.is_flagged(session)):
            return "few_turns" if few else "filtered"
        return None


def _matches(session: Session, window: Window) -> bool:
    environments = {session.environment, *(turn.environment for turn in session.turns)}
    tags = {tag for turn in session.turns for tag in turn.tags}
    return (
        (not window.environments or not environments.isdisjoint(window.environments))
        and (not window.users or session.user in window.users)
        and tags.issuperset(window.tags)
    )


def has_flag(session: Session, flag: str) -> bool:
    """Whether a session has a flag (see `Selection`)."""
    if flag == "feedback":
        return any(is_negative(turn.feedback) for turn in session.turns)
    if flag == "error":
        return any(turn.error or turn.answer_state == "failed" for turn in session.turns)
    return any(flag.removeprefix("tag:") in turn.tags for turn in session.turns)
