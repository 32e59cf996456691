"""Names, passwords and access rules of the embedded PostgreSQL's roles."""

import stat
from pathlib import Path

import asyncpg
import pytest

from actors.local_servers import postgres_roles
from actors.local_servers.embedded_postgres import EmbeddedPostgres


def test_passwords_are_made_once_and_kept_to_their_owner(tmp_path: Path) -> None:
    """Each role has a random one of its own; the second start finds them again."""
    assert postgres_roles.load(tmp_path) is None
    made = postgres_roles.make(tmp_path)
    assert made.owner != made.product and len(made.owner) == len(made.product) == 64
    assert postgres_roles.load(tmp_path) == made
    assert stat.S_IMODE((tmp_path / postgres_roles.FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [postgres_roles.FILE]


def test_only_two_roles_may_connect_and_only_by_password() -> None:
    """Nothing else is allowed, so the superuser is refused."""
    (line,) = postgres_roles.ACCESS_RULES.splitlines()
    assert line.split() == ["local", "all", "ledger_owner,ledger_gateway", "scram-sha-256"]


def test_single_user_mode_reads_a_statement_a_line(tmp_path: Path) -> None:
    """A statement over two lines would be cut in two."""
    made = postgres_roles.statements(postgres_roles.make(tmp_path), "postgres")
    assert [line.split()[0] for line in made.splitlines()] == ["CREATE", "CREATE", "ALTER"]


async def test_no_superuser_is_let_in(postgres_server: EmbeddedPostgres) -> None:
    """Money rule 6: whoever gets hold of the product's connection has the product's rights, and no way to others."""
    asked = postgres_server.url.replace("ledger_gateway:", "postgres:")
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match=r"no pg_hba\.conf entry"):
        await asyncpg.connect(asked)
    for url in (postgres_server.url, postgres_server.migrations_url):
        connection = await asyncpg.connect(url)
        rights = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
        assert await connection.fetchval(rights) is False
        await connection.close()
