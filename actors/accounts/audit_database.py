"""Finds the database that an audit reads, as the product's settings name it, and reads rows account by account.

Implements: money rule 6 (the audit runs beside a serving instance or without one).
Not here: what is read (audit.py).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import typer
from rich.console import Console

from actors.local_servers import postgres_roles
from actors.local_servers.child_processes import Supervisor
from actors.local_servers.datadir import MARKER_NAME, SYSTEM_FOLDER, DataDir, DataDirError, default_path
from actors.local_servers.embedded_postgres import EmbeddedPostgres, postgres_url

_WIDE = 100_000  # Width for output that is not a terminal, so that lines are not cut and grep finds them.

PostgresUrlOption = Annotated[
    str | None,
    typer.Option("--postgres-url", envvar=["DATABASE_URL", "LEDGER_STORAGE__POSTGRES_URL"], help="Database to audit."),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Data folder of a local run, running or not."),
]
AgainstOption = Annotated[
    Path | None, typer.Option("--against", help="A checkpoint of before, whose chains must still be there.")
]
RootsOption = Annotated[
    list[Path] | None,
    typer.Option("--roots", help="Files of signed statements, or their folder; give those of all machines."),
]
RootsKeysOption = Annotated[
    Path | None,
    typer.Option(
        "--roots-keys", help="/.well-known/ledger-keys.json as you saved it: statements of other keys are refused."
    ),
]
ExportedOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--exported", help="Exports of months that left the ledger, or their folder: chains are proven whole."
    ),
]
KeyOption = Annotated[Path | None, typer.Option("--key", help="Key file of checkpoints; the first one makes it.")]
# Folder of the settings, when no option names one; a PostgreSQL named in the settings takes precedence.
SettingsDirOption = Annotated[Path | None, typer.Option(envvar="LEDGER_STORAGE__DATA_DIR", hidden=True)]
XdgOption = Annotated[str, typer.Option(envvar="XDG_DATA_HOME", hidden=True)]


def folder_of(given: Path | None, of_settings: Path | None, xdg_data_home: str) -> Path:
    """Return the data folder that the product itself would use."""
    return (given or of_settings or default_path({"XDG_DATA_HOME": xdg_data_home})).expanduser().absolute()


def report_console() -> Console:
    """Return the console for reports and tables. Output that is not a terminal is neither cut nor wrapped."""
    return Console(highlight=False, width=None if Console().is_terminal else _WIDE)


@asynccontextmanager
async def reading(postgres_url: str | None, data_dir: Path, application: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a read-only connection to the database. application: shown in pg_stat_activity."""
    settings = {"application_name": application, "default_transaction_read_only": "on"}
    async with database(postgres_url, data_dir) as url:
        connection = await asyncpg.connect(url, timeout=10, server_settings=settings)
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def database(postgres_url: str | None, data_dir: Path, *, as_owner: bool = False) -> AsyncIterator[str]:
    """Yield the URL of the database: the given one, the running instance's on this folder, or that of a server started
    here. as_owner: with the role that owns the tables, in place of the product's."""
    if postgres_url is not None:
        yield postgres_url
        return
    if not (data_dir / MARKER_NAME).exists():
        raise DataDirError(f"{data_dir} is not a data folder of this product; name one with --data-dir")
    try:
        data = DataDir(data_dir)
    except DataDirError:
        running = _running_postgres(data_dir, as_owner)
        if running is None:
            raise
        yield running
        return
    with data, Supervisor() as supervisor:
        server = EmbeddedPostgres(data)
        await asyncio.to_thread(supervisor.start, server.child)
        yield server.migrations_url if as_owner else server.url


def _running_postgres(data_dir: Path, as_owner: bool) -> str | None:
    """Return the URL from the server's pid file: its fourth line is the port, its fifth the folder of its socket."""
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
            role = (postgres_roles.OWNER, passwords.owner) if as_owner else (postgres_roles.PRODUCT, passwords.product)
            return postgres_url(*role, lines[4].strip(), lines[3].strip())
    return None


class OrderedRows:
    """Reads an ordered stream of rows account by account."""

    def __init__(self, rows: AsyncIterator[Any]) -> None:
        self._rows = rows
        self._next: Any = None

    async def advance(self) -> None:
        self._next = await anext(self._rows, None)

    async def of(self, pubkey: bytes, take: Callable[[Any], None]) -> list[bytes]:
        """Call `take` with every row of this account. Returns the public keys of skipped rows, which have no
        account."""
        strays: list[bytes] = []
        while self._next is not None and self._next["pubkey"] <= pubkey:
            if self._next["pubkey"] == pubkey:
                take(self._next)
            elif not strays or strays[-1] != self._next["pubkey"]:
                strays.append(self._next["pubkey"])
            await self.advance()
        return strays
