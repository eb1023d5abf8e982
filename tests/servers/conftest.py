"""Servers for tests: found where the system has them, started privately, stopped afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from free_ports import free_ports

T = TypeVar("T")
PASSWORD = "s3cret-Wörd"


@pytest.fixture(scope="session")
def require() -> Callable[[T | None, str], T]:
    """Return what was found; where it is missing, skip with the reason given, but fail under CI."""

    def found_or_skipped(found: T | None, reason: str) -> T:
        if found:
            return found
        if os.environ.get("OTEL_DRIFT_CI") == "1":
            pytest.fail(f"{reason} (OTEL_DRIFT_CI=1: a skip is a failure)")
        pytest.skip(reason)

    return found_or_skipped


@dataclass(frozen=True)
class PostgresCluster:
    """A running private cluster that asks for a password."""

    port: int

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgresql://drift:{password}@127.0.0.1:{self.port}/{database}"

    def new_schema(self) -> str:
        """Create an empty schema (much faster than a database) and return the URL of a user who sees only that."""
        import psycopg

        name = f"ledger_{uuid.uuid4().hex}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type]
        return f"{self.url()}?options=-csearch_path%3D{name}"


@pytest.fixture(scope="session")
def postgres(require: Callable[..., Path]) -> Iterator[PostgresCluster]:
    """A PostgreSQL cluster of its own in a temporary folder, on a free loopback port, as an unprivileged user."""
    programs = require(_postgres_programs(), "PostgreSQL's server programs are not installed (Debian: postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="otel-drift-pg-"))
    account = _unprivileged()
    if account:
        os.chown(folder, account.pw_uid, account.pw_gid)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    data, (port,) = folder / "data", free_ports(1)

    def run(program: str, *arguments: str) -> None:
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
        done = subprocess.run(
            [programs / program, "-D", data, *arguments],
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", "HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
            **user,  # type: ignore[call-overload]
        )
        assert done.returncode == 0, f"{program}: {done.stderr}"

    try:
        run("initdb", "-U", "drift", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-w", "-t", "60", "-l", str(folder / "log"), "-o", options, "start")
        yield PostgresCluster(port)
    finally:
        if (data / "postmaster.pid").exists():
            run("pg_ctl", "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _postgres_programs() -> Path | None:
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found and shutil.which("pg_ctl") else None


def _unprivileged() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root; anyone else runs it as themselves."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]
