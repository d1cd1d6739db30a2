"""A PostgreSQL cluster of our own, in a temporary folder: no service of the system is touched."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
from pathlib import Path
from types import TracebackType

from tests.verdicts.scenario import postgresql_folder


class Postgresql:
    """Context manager: a running server with a table `counters` of one row. `port` on loopback, and a socket in
    `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._programs = postgresql_folder()

    def __enter__(self) -> Postgresql:
        self.folder.mkdir()
        self.folder.chmod(0o755)
        # It refuses to run as root.
        self._user = "nobody" if os.geteuid() == 0 else None
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(data, owner.pw_uid, owner.pw_gid)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self._run("initdb", "-D", str(data), "-A", "trust", "-U", "staging", "--no-sync")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings = f"listen_addresses=127.0.0.1 unix_socket_directories={self.folder} fsync=off autovacuum=off"
        options = f"-p {self.port} " + " ".join(f"-c {setting}" for setting in settings.split())
        self._run("pg_ctl", "-D", str(data), "-w", "-l", str(self.folder / "log"), "-o", options, "start")
        done = subprocess.run(
            [*self.psql(), "-c", "create table counters as select 1 as n"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "stop")

    def psql(self, *, unix: bool = False) -> list[str]:
        """The beginning of a psql command line: over loopback, or over the Unix socket."""
        return [
            "psql",
            "-X",
            "-q",
            "-h",
            str(self.folder) if unix else "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "staging",
            "postgres",
        ]

    def waits(self, query: str, event: str) -> bool:
        """Whether a connection runs a query that begins so, and waits for that event (pg_stat_activity)."""
        where = f"query like '{query}%' and state = 'active' and wait_event = '{event}'"
        done = subprocess.run(
            [*self.psql(), "-Atc", f"select count(*) from pg_stat_activity where {where}"],
            capture_output=True,
            text=True,
        )
        return done.stdout.strip() not in ("", "0")

    def _run(self, program: str, *arguments: str) -> None:
        argv = [f"{self._programs}/{program}", *arguments]
        # Into a file: the server inherits it, and would keep a pipe of ours open.
        with open(self.folder.parent / f"{program}.log", "ab") as log:
            done = subprocess.run(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=self._user, cwd="/")
        assert done.returncode == 0, (argv, (self.folder.parent / f"{program}.log").read_text())
