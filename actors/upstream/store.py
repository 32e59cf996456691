"""Stores an operator's changes of the nodes, and the reports of processes. The port, and PostgreSQL behind it.

Implements: upstream/README.md, "Nodes that change while the service runs". Decides nothing: `change` asks a rule
between its lock and its write. URLs are sealed (node_sealing.py).
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import asyncpg
import msgspec
from pydantic import SecretStr, ValidationError

from actors.provider_config import NodeConfig
from actors.storage.connections import away_as
from actors.upstream.node_changes import Forget, NodeChange
from actors.upstream.node_reports import ProcessReport, SeenNode
from actors.upstream.node_sealing import NONCE_BYTES, NodeUrls, NodeUrlSeal

FORGOTTEN_SECONDS = 3_600  # A process without a report for this long has ended.
_COLUMNS = "id, sealed, roles, weight, is_drained, is_removed, network"
_TELL = """
INSERT INTO node_reports (process, version, report) VALUES ($1, $2, $3::jsonb)
ON CONFLICT (process) DO UPDATE SET version = excluded.version, report = excluded.report, told_at = now()
"""
_REPORTS = """
SELECT process, version, report, extract(epoch FROM now() - told_at)::integer AS age_seconds FROM node_reports
WHERE told_at > now() - make_interval(secs => $1) ORDER BY process
"""
_FORGET = "DELETE FROM node_reports WHERE told_at < now() - make_interval(secs => $1)"
_KEEP = """
INSERT INTO node_changes (id, sealed, roles, weight, is_drained, is_removed, network)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed, roles = excluded.roles, weight = excluded.weight,
    is_drained = excluded.is_drained, is_removed = excluded.is_removed, network = excluded.network, changed_at = now()
"""
_Decided = TypeVar("_Decided")


class NodeChangesUnavailable(Exception):
    """The database does not answer."""


@dataclass(frozen=True, slots=True)
class KeptChanges:
    """version: 0: nothing was ever changed. network: genesis hash that the nodes told last; empty: none ever did."""

    version: int = 0
    network: str = ""
    changes: tuple[NodeChange, ...] = ()


class NodeChangesStore(Protocol):
    """Every method raises NodeChangesUnavailable."""

    async def version(self) -> int: ...

    async def read(self) -> KeptChanges: ...

    async def change(self, decide: Callable[[KeptChanges], _Decided]) -> tuple[_Decided, int]:
        """Call `decide` under a lock, and keep or remove the change that it returns. Returns the version afterwards."""
        ...

    async def keep_network(self, network: str) -> None:
        """Keep the genesis hash of the network for times in which no node answers."""
        ...

    async def tell(self, report: ProcessReport) -> None:
        """Keep the newest report of a process."""
        ...

    async def reports(self, seconds: int) -> list[ProcessReport]:
        """Return the reports of the last seconds."""
        ...

    async def forget_silent(self) -> None: ...


class PostgresNodeChanges:
    def __init__(self, pool: asyncpg.Pool, cluster_secret: bytes) -> None:
        self._pool, self._seal = pool, NodeUrlSeal(cluster_secret)

    async def version(self) -> int:
        with away_as(NodeChangesUnavailable):
            return int(await self._pool.fetchval("SELECT version FROM node_versions") or 0)

    async def read(self) -> KeptChanges:
        with away_as(NodeChangesUnavailable):
            async with self._pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
                return await self._read(connection)

    async def change(self, decide: Callable[[KeptChanges], _Decided]) -> tuple[_Decided, int]:
        with away_as(NodeChangesUnavailable):
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute("INSERT INTO node_versions DEFAULT VALUES ON CONFLICT DO NOTHING")
                await connection.execute("SELECT 1 FROM node_versions FOR UPDATE")
                kept = await self._read(connection)
                decided = decide(kept)
                match decided:
                    case NodeChange():
                        await connection.execute(_KEEP, *self._row(decided))
                    case Forget():
                        await connection.execute("DELETE FROM node_changes WHERE id = $1", decided.id)
                    case _:
                        return decided, kept.version
                version = "UPDATE node_versions SET version = version + 1 RETURNING version"
                return decided, int(await connection.fetchval(version))

    async def keep_network(self, network: str) -> None:
        with away_as(NodeChangesUnavailable):
            insert = "INSERT INTO node_versions (network) VALUES ($1)"
            update = "ON CONFLICT (one) DO UPDATE SET network = $1 WHERE node_versions.network <> $1"
            await self._pool.execute(f"{insert} {update}", network)

    async def tell(self, report: ProcessReport) -> None:
        figures = msgspec.json.encode((report.nodes, report.limits)).decode()
        with away_as(NodeChangesUnavailable):
            await self._pool.execute(_TELL, report.process, report.version, figures)

    async def reports(self, seconds: int) -> list[ProcessReport]:
        with away_as(NodeChangesUnavailable):
            rows = await self._pool.fetch(_REPORTS, float(seconds))
        return [
            ProcessReport(row["process"], row["version"], *_decoded(row["report"]), row["age_seconds"]) for row in rows
        ]

    async def forget_silent(self) -> None:
        with away_as(NodeChangesUnavailable):
            await self._pool.execute(_FORGET, float(FORGOTTEN_SECONDS))

    async def _read(self, connection: Any) -> KeptChanges:
        of_all = await connection.fetchrow("SELECT version, network FROM node_versions")
        rows = await connection.fetch(f"SELECT {_COLUMNS} FROM node_changes ORDER BY id")  # noqa: S608
        version, network = (0, "") if of_all is None else of_all
        return KeptChanges(version, network, tuple(map(self._change, rows)))

    def _change(self, row: Any) -> NodeChange:
        more = {name: row[name] for name in ("weight", "is_drained", "is_removed", "network")}
        if row["sealed"] is None:
            return NodeChange(id=row["id"], **more)
        urls = self._seal.unseal(row["sealed"], row["id"])
        if urls is None:
            return NodeChange(id=row["id"], is_readable=False, **more)
        ws_url = None if urls.ws_url is None else SecretStr(urls.ws_url)
        values = {"name": row["id"], "url": SecretStr(urls.url), "ws_url": ws_url, "roles": row["roles"]}
        try:
            return NodeChange(id=row["id"], added=NodeConfig.model_validate(values), **more)
        except ValidationError:  # Of another release, or changed by hand: it is listed as unused, and can be removed.
            return NodeChange(id=row["id"], is_readable=False, **more)

    def _row(self, change: NodeChange) -> Sequence[Any]:
        sealed, roles, weight = None, [], change.weight
        if change.added is not None:
            ws_url = change.added.ws_url
            urls = NodeUrls(change.added.url.get_secret_value(), None if ws_url is None else ws_url.get_secret_value())
            sealed = self._seal.seal(urls, change.id, os.urandom(NONCE_BYTES))
            roles, weight = list(change.added.roles), change.added.weight if weight is None else weight
        return change.id, sealed, roles, weight, change.is_drained, change.is_removed, change.network


def _decoded(text: str) -> tuple[tuple[SeenNode, ...], tuple[str, ...]]:
    return msgspec.json.decode(text, type=tuple[tuple[SeenNode, ...], tuple[str, ...]])
