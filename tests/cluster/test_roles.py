"""Money rule 6 on the whole product: none of its processes could change the ledger."""

import json

import asyncpg
import psutil
import pytest

from actors.accounts.audit_database import database
from bench.product import Product


async def test_every_connection_has_the_products_role(product: Product) -> None:
    """The owners of accounts, the watcher and the replicas; the role is refused what the ledger must not suffer."""
    assert product.account()["ok"] is True
    async with database(None, product.data_dir) as url:
        connection = await asyncpg.connect(url)
        rows = await connection.fetch("SELECT usename::text, application_name FROM pg_stat_activity WHERE datid <> 0")
        assert len(rows) > 1 and {row["usename"] for row in rows} == {"ledger_gateway"}, rows
        for statement in ("UPDATE ledger SET amount = 0", "DELETE FROM ledger", "TRUNCATE ledger", "DROP TABLE ledger"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("SET session_replication_role = replica")
        await connection.close()


def test_no_process_reads_rays_log_files(product: Product) -> None:
    """Nobody gets their lines, and a reader takes as much of a core as an actor that has nothing to do."""
    helpers = ("log_monitor", "autoscaler/_private/monitor", "dashboard/dashboard.py", "ray::ProxyActor")
    assert product.running("raylet") and not any(map(product.running, helpers))


def test_no_process_is_handed_the_stronger_role(product: Product) -> None:
    """Its password is in the data folder, and in nobody's command line or environment."""
    passwords = json.loads((product.data_dir / "secrets" / "postgres.json").read_text(encoding="utf-8"))
    seen = 0
    for process in product.processes():
        try:
            told = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:  # It ended meanwhile.
            continue
        seen += 1
        assert not any(passwords["ledger_owner"] in text for text in told), process
    assert seen > 5
