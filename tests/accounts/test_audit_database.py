"""Where an audit finds the database: a URL, a running instance's folder, or a folder of one that has stopped."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from actors.accounts.audit_database import database
from actors.local_servers.datadir import DataDir, DataDirError
from actors.local_servers.embedded_postgres import EmbeddedPostgres


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="ledger-gateway-tests-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


async def role_at(url: str) -> str:
    connection = await asyncpg.connect(url)
    role = await connection.fetchval("SELECT current_user::text")
    await connection.close()
    return str(role)


async def test_a_url_that_is_given_is_taken(folder: Path) -> None:
    async with database("postgresql://somewhere", folder) as url:
        assert url == "postgresql://somewhere"


async def test_a_running_instance_is_found_by_its_folder(data_dir: DataDir, postgres_server: EmbeddedPostgres) -> None:
    """With the product's role: an audit reads and needs no other right."""
    async with database(None, data_dir.path) as url:
        assert url == postgres_server.url
        assert await role_at(url) == "ledger_gateway"


async def test_the_server_of_a_folder_nobody_uses_is_started_for_the_audit(folder: Path) -> None:
    DataDir(folder).close()
    async with database(None, folder) as url:
        assert await role_at(url) == "ledger_gateway"


async def test_other_folders_are_refused(folder: Path) -> None:
    with pytest.raises(DataDirError, match="not a data folder"):
        async with database(None, folder):
            pass
