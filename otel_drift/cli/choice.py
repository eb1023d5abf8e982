"""Which sessions a command looks at: its options, the settings' section ``[pull]``, and where the last run ended."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_drift.errors import ConfigError
from otel_drift.times import DAY, MINUTE, SECOND

if TYPE_CHECKING:
    from otel_drift.cli.sources import Reading
    from otel_drift.config import PullSettings, Settings
    from otel_drift.pipeline import Line
    from otel_drift.protocols import Window
    from otel_drift.selection import Choice, Selection

FIRST_TIME = DAY
"""How far back the first run on a platform reads."""
LONGEST_HOLD = 7 * DAY
"""A session that could not be judged is read again by later runs for so long."""

_PANEL = "Which sessions"
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Sessions active since: 24h, 7d, a date or a time. Default: the last run.",
        rich_help_panel=_PANEL,
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", help="And before this. Default: now.", rich_help_panel=_PANEL)
]
SessionOption = Annotated[
    list[str] | None, typer.Option("--session", help="Only this session id; may be repeated.", rich_help_panel=_PANEL)
]
MinTurnsOption = Annotated[
    int | None, typer.Option("--min-turns", min=0, help="Only of at least so many turns.", rich_help_panel=_PANEL)
]
FlaggedOption = Annotated[
    str | None,
    typer.Option(
        "--flagged", help="Or flagged: feedback, error, tag:NAME (commas); alone: only these.", rich_help_panel=_PANEL
    ),
]
EnvironmentOption = Annotated[
    list[str] | None, typer.Option("--environment", help="Only of this environment.", rich_help_panel=_PANEL)
]
UserOption = Annotated[list[str] | None, typer.Option("--user", help="Only of this user.", rich_help_panel=_PANEL)]
TagOption = Annotated[
    list[str] | None, typer.Option("--tag", help="Only with this tag; repeated: with all.", rich_help_panel=_PANEL)
]
SettleOption = Annotated[
    str | None,
    typer.Option(
        "--settle", help="A session with a younger span waits, e.g. 15m. Platforms: 5m.", rich_help_panel=_PANEL
    ),
]


def pull_overrides(
    *,
    since: str | None = None,
    min_turns: int | None = None,
    flagged: str | None = None,
    environment: list[str] | None = None,
    user: list[str] | None = None,
    tag: list[str] | None = None,
    settle: str | None = None,
) -> dict[str, Any]:
    """What the command line says of the section ``[pull]``."""
    given = {
        "since": since,
        "min_turns": min_turns,
        "flagged": [name for flag in flagged.split(",") if (name := flag.strip())] if flagged else None,
        "environments": environment,
        "users": user,
        "tags": tag,
        "settle_minutes": None if settle is None else duration(settle, "--settle") / MINUTE,
    }
    return {key: value for key, value in given.items() if value is not None}


def selection(
    source: Reading,
    settings: Settings,
    *,
    given: Mapping[str, Any],
    until: str | None,
    sessions: Sequence[str],
    reached: str | None = None,
) -> Selection:
    """Which sessions to audit; arguments as of `window`.

    Raises:
        ConfigError: a time or a flag is wrong.
    """
    from otel_drift.selection import Selection

    pull = _pull(source, settings, given)
    return Selection(
        window=window(source, settings, given=given, until=until, sessions=sessions, reached=reached),
        settle=0 if sessions else int(pull.settle_minutes * MINUTE),
        min_turns=pull.min_turns,
        flags=tuple(pull.flagged),
        flagged_first=source.windowed or bool(pull.flagged),
    )


def window(
    source: Reading,
    settings: Settings,
    *,
    given: Mapping[str, Any],
    until: str | None,
    sessions: Sequence[str],
    reached: str | None = None,
) -> Window | None:
    """What to read; None = everything there is.

    Args:
        source: What is read.
        settings: Their section ``[pull]`` counts for platforms.
        given: What the command line says of it: that counts for files too.
        until: ``--until``.
        sessions: ``--session``.
        reached: How far the last run came, as the ledger has it.

    Raises:
        ConfigError: a time is wrong.
    """
    from otel_drift.protocols import Window

    if not source.windowed and not (given or until or sessions):
        return None
    now = time.time_ns()
    pull = _pull(source, settings, given)
    end = moment(until, "--until", now) if until else (now if source.windowed else sys.maxsize)
    if pull.since:
        start = moment(pull.since, "--since", now)
    elif not source.windowed:
        start = 0
    else:
        start = int(reached) - int(pull.look_back_minutes * MINUTE) if reached else now - FIRST_TIME
    if start >= end and not sessions:
        raise ConfigError("--since must lie before --until")
    return Window(start, end, tuple(sessions), tuple(pull.environments), tuple(pull.users), tuple(pull.tags))


def _pull(source: Reading, settings: Settings, given: Mapping[str, Any]) -> PullSettings:
    """Files are read whole: for them only what the command line says counts."""
    from otel_drift.config import PullSettings

    return settings.pull if source.windowed else PullSettings(**{"settle_minutes": 0, **given})


def cursor_name(source: Reading, settings: Settings) -> str:
    """Under which name the ledger keeps how far a source was read.

    Another choice of sessions or audits, or writing elsewhere, is another reading.
    """
    pull = settings.pull.model_dump(include={"min_turns", "flagged", "environments", "users", "tags"})
    chosen = {key: value for key, value in pull.items() if value}
    return json.dumps([source.name, sorted(settings.audit.names), sorted(settings.output.sinks), chosen])


def advance(line: Line, source: Reading, settings: Settings, *, held: int | None) -> None:
    """Note how far the source was read, for the next run: up to the first session that waits or must be tried again.

    Args:
        line: What was run.
        source: What was read.
        settings: Their choice of sessions.
        held: When the first session began that could not be judged for a reason that passes; None = there is none.
    """
    window = line.selection.window
    if not source.windowed or window is None or window.sessions or line.sample < 1:
        return
    name = cursor_name(source, settings)
    last = line.ledger.cursor(name)
    waiting = [at for at in (line.choice.oldest_waiting if line.choice else None, held) if at is not None]
    until = min(window.until, line.choice.now) if line.choice else window.until  # what is still to come was not read
    reached = max(min([until, *waiting]), until - LONGEST_HOLD)
    if last is None or window.since <= int(last) < reached:
        line.ledger.set_cursor(name, str(reached))


def left_out(choice: Choice | None, *, spans: int, audited: int, not_sampled: int = 0) -> list[str]:
    """Which sessions were read and not audited, and why, a sentence each; or why there is none, of so many spans."""
    from otel_drift.report.wording import count

    if choice is None:
        return []
    reasons = {
        "waiting": "still being written (last span younger than --settle); a later run audits them",
        "few_turns": "with fewer turns than --min-turns, and not flagged",
        "filtered": "of other environments, users or tags, or not flagged",
    }
    counts = choice.left_out
    told = [f"{count(counts[code], 'session')} {why}" for code, why in reasons.items() if counts[code]]
    if not_sampled:
        told.append(f"{count(not_sampled, 'session')} outside the share of --sample")
    told += [f"there is no session {name!r}" for name in sorted(choice.missing)]
    if audited or told:
        return told
    if counts["outside"] or not spans:
        return ["no session was active in the time asked for"]
    return [f"no chat found in {count(spans, 'span')}; `otel-drift inspect` says what is looked for"]


def moment(text: str, option: str, now: int) -> int:
    """``24h``, ``7d`` ago, a date or a time, as nanoseconds since the epoch.

    Raises:
        ConfigError: it is none of these.
    """
    from otel_drift.cli.ledgers import nanoseconds

    if re.fullmatch(r"\d+(\.\d+)?[smhdw]", text):
        return max(0, now - duration(text, option))
    try:
        found = nanoseconds(text, option)
    except ConfigError as error:
        raise ConfigError(f"{error}, or how long ago as 90m, 24h or 7d") from None
    assert found is not None
    return found


def duration(text: str, option: str) -> int:
    """``90s``, ``15m``, ``24h``, ``7d``, ``2w``, or minutes as a bare number, in nanoseconds.

    Raises:
        ConfigError: it is none of these.
    """
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "": 60}
    if not (found := re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw]?)", text)):
        raise ConfigError(f"{option} {text}: write a time as 15m, 24h or 7d")
    return int(float(found[1]) * units[found[2]] * SECOND)
