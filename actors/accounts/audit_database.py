"""Finds the database that an audit reads.

Implements: decisions, money rule 6 (the audit runs beside a serving instance or without one).
Not here: what is read (audit.py).
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from actors.local_servers import postgres_roles
from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import MARKER_NAME, SYSTEM_FOLDER, DataDir, DataDirError
from actors.local_servers.embedded_postgres import EmbeddedPostgres, postgres_url


@asynccontextmanager
async def database(postgres_url: str | None, data_dir: Path) -> AsyncIterator[str]:
    """URL of the database: the given one, the one that a running instance has on this folder, or one started here."""
    if postgres_url is not None:
        yield postgres_url
        return
    if not (data_dir / MARKER_NAME).exists():
        raise DataDirError(f"{data_dir} is not a data folder of this product; name one with --data-dir")
    try:
        data = DataDir(data_dir)
    except DataDirError:
        running = _running_postgres(data_dir)
        if running is None:
            raise
        yield running
        return
    with data, Supervisor() as supervisor:
        server = EmbeddedPostgres(data)
        await asyncio.to_thread(supervisor.start, server.child)
        yield server.url


def _running_postgres(data_dir: Path) -> str | None:
    """From the pid file of the server: its fourth line is the port, its fifth the folder of its socket."""
    passwords = postgres_roles.load(data_dir / "secrets")
    if passwords is None:
        return None
    marker = json.loads((data_dir / MARKER_NAME).read_text(encoding="utf-8"))
    for folder in (data_dir, SYSTEM_FOLDER / str(marker.get("id", ""))):
        try:
            lines = (folder / "postgres" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        if len(lines) > 4:
            return postgres_url(postgres_roles.PRODUCT, passwords.product, lines[4].strip(), lines[3].strip())
    return None
