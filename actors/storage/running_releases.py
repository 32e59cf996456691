"""Finds which releases are connected to a database, and refuses releases with which it is no longer compatible.

Implements: launch/README.md, "Upgrades". Every connection of the product says its release in `application_name`, and
asks, when it is opened, from which release on the database is compatible. So a contract migration that finds no
connection of an older release, and holds the table `schema_contexts` meanwhile, cannot be overtaken by one.
"""

import re
from collections.abc import Iterable
from typing import Any

import asyncpg

from actors.release import FIRST_RELEASE, RELEASE, is_older, newest
from actors.storage.schema_plan import SchemaMismatch

_NAME_CHARACTERS_MAX = 63  # PostgreSQL's limit of a name.
_SEPARATOR = " @"
_WITH_RELEASE = re.compile(r".* @(\d+\.\d+\.\d+)")
# Names of connections of 0.1.0, which do not say their release.
_NAMES_OF_FIRST_RELEASE = re.compile(
    r"gateway|ledger-gateway (signals|payments)|account-shard-\d+|signal-classifier-\d+|send-racer|deposit-watcher"
    r"|webhook-dispatcher"
)


class ReleaseTooOld(SchemaMismatch, asyncpg.InterfaceError):
    """The database is no longer compatible with this release. Running code treats this as an unavailable database."""


def application_name(application: str, release: str = RELEASE) -> str:
    """Return the name of a connection, with the release at its end."""
    ending = f"{_SEPARATOR}{release}"
    return f"{application[: _NAME_CHARACTERS_MAX - len(ending)]}{ending}"


def release_of(name: str) -> str | None:
    """Return the release of a connection of this product by its name; None: of another program."""
    if (found := _WITH_RELEASE.fullmatch(name)) is not None:
        return found[1]
    return FIRST_RELEASE if _NAMES_OF_FIRST_RELEASE.fullmatch(name) else None


def too_old(names: Iterable[str], oldest: str) -> list[str]:
    """Return the names of connections of releases before `oldest`, each once."""
    return sorted({name for name in names if (release := release_of(name)) is not None and is_older(release, oldest)})


async def require_none_before(connection: Any, oldest: str) -> None:
    """Raise SchemaMismatch while processes of releases before `oldest` are connected to this database."""
    rows = await connection.fetch(
        "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    running = too_old((row["application_name"] for row in rows), oldest)
    if running:
        raise SchemaMismatch(
            f"processes of releases before {oldest} still use this database ({', '.join(running)}), and the next "
            f"migration takes away what they need: deploy release {oldest} first, wait until its replicas have taken "
            "over, and migrate again"
        )


async def refuse_old_release(connection: Any) -> None:
    """Raise ReleaseTooOld when the database is no longer compatible with this release. Called for every new
    connection."""
    # Asked first, because PostgreSQL logs an error for a table that is missing, at each connection of a first start.
    if await connection.fetchval("SELECT to_regclass('schema_contexts')") is None:
        return  # Not migrated yet, or by 0.1.0.
    rows = await connection.fetch("SELECT compatible_from FROM schema_contexts")
    oldest = newest(FIRST_RELEASE, *(row["compatible_from"] for row in rows))
    if is_older(RELEASE, oldest):
        raise ReleaseTooOld(f"this database is for release {oldest} and newer, and this is {RELEASE}: run {oldest}")
