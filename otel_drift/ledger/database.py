"""Opens the ledger's database: SQLite file or PostgreSQL, migrated, with errors a person can act on."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from otel_drift.config import default_ledger
from otel_drift.errors import ConfigError, LedgerError
from otel_drift.ledger.schema import REVISION, VERSION_TABLE

BUSY_SECONDS = 30
"""How long one process waits for another's transaction."""

_LIVENESS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""A server whose machine is gone says no goodbye: without these a connection to it would be waited for up to hours."""

_LOCK_KEY = 0x6F74656C64726674  # "oteldrft": one number for all writers of one PostgreSQL database
_READS = "otel_drift_reads"


class Database:
    """A migrated database: `reading` and `writing` are its two kinds of transaction."""

    def __init__(self, engine: Engine, name: str, file: Path | None) -> None:
        self.name = name
        self.file = file
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._engine = engine
        self._reader = engine.execution_options(**{_READS: True})

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state and blocks nobody.

        Raises:
            LedgerError: the database failed.
        """
        with self.explained("read"), self._reader.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is alone in writing, also among processes, and durable once left.

        Raises:
            LedgerError: the database failed; nothing of the transaction is kept.
        """
        with self.explained("written"), self._engine.connect() as connection, connection.begin():
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_KEY)))
            yield connection

    @contextmanager
    def overwriting(self) -> Iterator[Connection]:
        """A writing transaction after which nothing is left of what it took out, in the file or beside it.

        SQLite overwrites it and empties the write-ahead log; on PostgreSQL the server's vacuum does, in its own time.

        Raises:
            LedgerError: the database failed.
        """
        if not self.is_sqlite:
            with self.writing() as connection:
                yield connection
            return
        with self.explained("written"), self._engine.connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            raw.execute("PRAGMA secure_delete=ON")
            try:
                with connection.begin():
                    yield connection
                busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if busy:
                    raise LedgerError(
                        f"ledger {self.name}: the texts are erased, but another process reads it, so copies stay in "
                        "its write-ahead log; run the same command again once that has ended"
                    )
            finally:
                raw.execute("PRAGMA secure_delete=OFF")

    @contextmanager
    def explained(self, action: str) -> Iterator[None]:
        """Turn a database error into a LedgerError that says where, what and what to do."""
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            raise LedgerError(_explain(error, self.name, action)) from error
        except SQLAlchemyError as error:
            raise LedgerError(f"ledger {self.name} cannot be {action}: {type(error).__name__}") from error

    @contextmanager
    def session_lock(self, key: int, *, wait: bool = True) -> Iterator[bool]:
        """Hold a PostgreSQL lock outside any transaction; the server frees it if this process dies.

        Args:
            key: A signed 64-bit number.
            wait: For who holds it; otherwise yields False where somebody does.
        """
        with self.explained("locked"), self._engine.connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            if not wait and not connection.execute(sa.select(sa.func.pg_try_advisory_lock(key))).scalar():
                yield False
                return
            if wait:
                connection.execute(sa.select(sa.func.pg_advisory_lock(key)))
            try:
                yield True
            finally:
                connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def open_database(where: str | Path | None) -> Database:
    """Open a ledger's database, creating and migrating it as needed.

    Args:
        where: A path, ``sqlite:///path``, ``postgresql://…``, ``:memory:``, or None for the user's own ledger.

    Raises:
        ConfigError: the URL is malformed, of another kind, or needs a driver that is not installed.
        LedgerError: the database cannot be opened or is not a ledger of this version.
    """
    url = _url(where)
    if url.get_backend_name() == "sqlite":
        file = None if url.database in (None, "", ":memory:") else Path(url.database or "").expanduser().absolute()
        if file is not None:
            _prepare_file(file)
        database = Database(_sqlite_engine(file), str(file or ":memory:"), file)
    else:
        database = Database(_postgresql_engine(url), _public_name(url), None)
    try:
        _bring_up_to_date(database)
    except BaseException:
        database.close()
        raise
    return database


def check_database(where: str | Path) -> list[str]:
    """See whether a ledger could be opened, and change nothing: none is made, none is brought up to date.

    Returns:
        What a person should know, a sentence each.

    Raises:
        ConfigError, LedgerError: as `open_database`.
    """
    url = _url(where)
    if url.get_backend_name() != "sqlite":
        database = Database(_postgresql_engine(url), _public_name(url), None)
    else:
        file = Path(url.database or "").expanduser().absolute()
        if url.database in (None, "", ":memory:") or not _prepare_file(file, make=False):
            return []
        # With no write-ahead log all is in the file; SQLite would make an empty one beside it, and leave it there.
        alone = "" if Path(f"{file}-wal").exists() else "&immutable=1"
        reader = sa.create_engine(
            "sqlite://", creator=lambda: sqlite3.connect(f"file:{quote(str(file))}?mode=ro{alone}", uri=True)
        )
        database = Database(reader, str(file), file)
    try:
        with database.reading() as connection:
            found = _revision(connection, database.name)
            if found is None:
                _check_encoding(connection, database.name)
        if found not in (None, REVISION):
            _refuse_newer(database.name, found)
            return [f"ledger {database.name} is of an earlier version: it is brought up to date when it is opened"]
    finally:
        database.close()
    return []


def _url(where: str | Path | None) -> URL:
    if where is None:
        where = default_ledger()
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(where))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise ConfigError(
            "the ledger's URL is malformed; it reads postgresql://user:password@host:5432/database"
        ) from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        return URL.create("sqlite", database=url.database)
    if backend not in ("postgresql", "postgres"):
        raise ConfigError(f"the ledger can be a SQLite file or a postgresql:// URL, not {backend}://")
    if "@" in (url.host or ""):
        raise ConfigError("the ledger URL's user or password holds a plain @: write it as %40")
    return url.set(drivername="postgresql+psycopg")


def _public_name(url: URL) -> str:
    """The URL without user, password and options, for messages."""
    return URL.create("postgresql", host=url.host, port=url.port, database=url.database).render_as_string()


def _prepare_file(file: Path, *, make: bool = True) -> bool:
    """Check the path and create an empty file that only its owner may read; SQLite gives -wal and -shm its mode.

    Returns:
        Whether it was there before. Where it was not and is not to be made, it could be.
    """
    own = file == default_ledger().expanduser().absolute()
    try:
        if own and make:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            if make:
                os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
                return False
            if not file.exists():
                if not own and file.parent.stat() and not os.access(file.parent, os.W_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                return False
        except FileExistsError:
            pass
        if not stat.S_ISREG(file.stat().st_mode):
            what = "a directory" if file.is_dir() else "not a regular file"
            raise LedgerError(f"ledger {file} is {what}: name a file")
        os.close(os.open(file, os.O_RDWR))
    except FileNotFoundError:
        raise LedgerError(f"ledger {file}: its folder does not exist; create it or name another file") from None
    except OSError as error:
        raise LedgerError(f"ledger {file} cannot be opened for writing: {error.strerror}") from error
    return True


def _sqlite_engine(file: Path | None) -> Engine:
    database = ":memory:" if file is None else str(file)
    engine = sa.create_engine(
        URL.create("sqlite", database=database),
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
        poolclass=sa.QueuePool,
        pool_size=1 if file is None else 8,
        max_overflow=0 if file is None else -1,
        pool_timeout=BUSY_SECONDS,
        pool_use_lifo=True,  # the connection used last has the pages in memory
        hide_parameters=True,
    )

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not when the driver thinks so
        _use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A deferred transaction that turns from reading to writing may fail at once; a writer says so from the start.
        reads = connection.get_execution_options().get(_READS)
        raw: Any = connection.connection.dbapi_connection
        raw.execute("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL. SQLite does not wait for others while it switches, so this does."""
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] not in ("wal", "memory"):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _postgresql_engine(url: URL) -> Engine:
    query = {"application_name": "otel-drift", "client_encoding": "utf8", **_LIVENESS, **url.query}
    try:
        engine = sa.create_engine(
            url.set(query=query), pool_pre_ping=True, pool_size=8, max_overflow=-1, hide_parameters=True
        )
    except ImportError:
        raise ConfigError("a PostgreSQL ledger needs psycopg: pip install 'otel-drift[postgres]'") from None

    @sa.event.listens_for(engine, "handle_error")
    def _replace(context: sa.engine.ExceptionContext) -> None:
        # A closed socket leaves the connection in the middle of the ping; that it cannot be set back from there is no
        # error of the server's, and SQLAlchemy would not take it for one of the connection.
        if context.is_pre_ping:
            context.is_disconnect = True

    return engine


def _bring_up_to_date(database: Database) -> None:
    with database.reading() as connection:
        found = _revision(connection, database.name)
    if found != REVISION:
        with database.writing() as connection:  # alone now: another process may have migrated meanwhile
            found = _revision(connection, database.name)
            if found is None:
                _check_encoding(connection, database.name)
            if found != REVISION:
                _migrate(connection, database.name, found)


def _check_encoding(connection: Connection, name: str) -> None:
    """A database that cannot hold every character would refuse traces one by one, or give them back as bytes."""
    if connection.dialect.name == "sqlite":
        return
    encoding = connection.execute(sa.text("SHOW server_encoding")).scalar()
    if encoding != "UTF8":
        raise LedgerError(
            f"ledger {name} stores text as {encoding}: name a database made with ENCODING 'UTF8' (TEMPLATE template0)"
        )


def _revision(connection: Connection, name: str) -> str | None:
    """The schema's revision; None where there is no ledger yet."""
    if connection.dialect.name == "sqlite":
        tables = sa.text("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = set(connection.execute(tables).scalars())
        if VERSION_TABLE not in names:
            if names:
                raise LedgerError(f"ledger {name} is a SQLite database of another program: name another file")
            return None
    elif connection.execute(sa.select(sa.func.to_regclass(VERSION_TABLE))).scalar() is None:
        return None
    return connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608  a constant


_MIGRATING = threading.Lock()
"""Alembic keeps its context in the process, so two new ledgers must not be migrated at once."""


def _migrate(connection: Connection, name: str, found: str | None) -> None:
    # Imported here because an up-to-date ledger must open fast.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "otel_drift:migrations")
    config.attributes["connection"] = connection
    _refuse_newer(name, found)
    with _MIGRATING:
        command.upgrade(config, "head")


def _refuse_newer(name: str, found: str | None) -> None:
    if found is not None and found > REVISION:
        raise LedgerError(
            f"ledger {name} was written by a newer otel-drift (schema {found}, this version knows {REVISION}): "
            "upgrade otel-drift or name another ledger"
        )


def _explain(error: DBAPIError | sqlite3.Error, name: str, action: str) -> str:
    """One line: what failed and what to do. Never the SQL, its parameters or a password."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    lines = str(origin).strip().splitlines()
    said = lines[0] if lines else type(origin).__name__
    for sign, advice in _ADVICE:
        if sign in said:
            return f"ledger {name} cannot be {action}: {advice}"
    return f"ledger {name} cannot be {action}: {said}"


_ADVICE = (
    ("Could not decode", "a column holds what does not belong there; the file was damaged from outside"),
    ("file is not a database", "the file is not a SQLite database; name another file"),
    ("malformed", "the file is damaged; restore it from a backup or name another file"),
    ("readonly database", "the file or its folder is read-only; make it writable or name another file"),
    ("unable to open database file", "the file or its folder is not writable"),
    ("database or disk is full", "the disk is full; make room and run the same command again"),
    ("database is locked", f"another process has held it for {BUSY_SECONDS} s; wait for it or stop it"),
    ("authentication failed", "PostgreSQL refused the user or password"),
    ("no password supplied", "PostgreSQL wants a password; put it into the URL or ~/.pgpass"),
    ("Connection refused", "no PostgreSQL server answers there; check host and port"),
    ("does not exist", "the database or role does not exist; create it or correct the URL"),
    ("permission denied", "the PostgreSQL user lacks the right; grant it CREATE on the schema"),
)
