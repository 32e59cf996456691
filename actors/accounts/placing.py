"""Starts the owners of accounts, and sets their number.

Implements: design, "Owners, for every kind of actor"; launch/README.md, "A new deployment". Wiring. The first owner
spreads the accounts over them, and ends surplus owners (balancing.py).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from actors import actor_moves, hosting
from actors.accounts.api import owner_name
from actors.accounts.balancing import KIND, ShardMover, alone_at
from actors.accounts.holders_store import PostgresHoldersStore
from actors.accounts.host import USES, AccountShardActor, ask_owner, running_owners
from actors.accounts.renewing import Overtaken, Renewing, Start
from actors.accounts.stored import StoreUnavailable
from actors.actor_settings import fingerprint
from actors.config import Config
from actors.ownership.store import opened_ownership
from actors.small_actors import Spec
from actors.storage.connections import Lock, away_as, checked_postgres

logger = logging.getLogger(__name__)

_FINGERPRINT_SECONDS = 10.0
_START_SECONDS = 120.0  # Of a new process, on a machine where much else starts.
_RENEWAL_SECONDS, _LOOK_SECONDS = 600.0, 1.0  # While another replica of the same deployment replaces the owners.


async def place_owners(config: Config) -> None:
    """Start missing owners, and replace those with other settings. Needs a connected Ray.

    Owners are replaced one by one while another one serves their accounts (renewing.py). Where that cannot be, an owner
    is ended, and its successor goes on from the ledger.

    Owners that run beyond the wanted number are kept, and replaced like the others: they have accounts until these have
    been moved. None is started there: it may be the one more of a renewal that has ended meanwhile.
    """
    setting = config.accounts.shard_actors
    async with opened_ownership(config.storage, "placing of account owners") as ownership:
        wanted = await ownership.wanted(KIND, setting)
        await ownership.set_wanted(KIND, wanted, setting)
    outdated = await _outdated(config, await running_owners())
    if outdated and not await _renew(config, setting):
        await _place_all(outdated, config, setting)
    running = await running_owners()
    await _place_all([index for index in range(wanted) if owner_name(index) not in running], config, setting)


async def _outdated(config: Config, running: Sequence[str]) -> list[int]:
    """Return the indexes of the owners with other settings, or of another release, that answer."""
    found = await hosting.ask_each(map(hosting.Reference, running), "fingerprint", _FINGERPRINT_SECONDS)
    mine = fingerprint(config, USES)
    pairs = zip(running, found, strict=True)
    return [_index_of(name) for name, theirs in pairs if theirs is not None and theirs != mine]


async def _renew(config: Config, setting: int) -> bool:
    """Replace the owners with other settings, or wait while another process does. False: neither was possible.

    Only one process at a time ends owners with their accounts, too: another one may have just replaced them.
    """

    async def start(index: int) -> None:
        reference = await asyncio.to_thread(_place, index, config, setting)
        await hosting.ask(reference, "address", wait_seconds=_START_SECONDS)

    try:
        async with _renewing(config, start) as renewing:
            for _ in range(int(_RENEWAL_SECONDS / _LOOK_SECONDS)):
                async with alone_at(config.storage) as is_alone:
                    if is_alone and await _renewed(renewing, is_alone, config, setting):
                        return True
                await asyncio.sleep(_LOOK_SECONDS)
        logger.warning("another process has been moving accounts for %.0f s", _RENEWAL_SECONDS)
    except StoreUnavailable as error:
        logger.warning("owners of accounts cannot be replaced one by one: %s", error)
    return False


async def _renewed(renewing: Renewing, lock: Lock, config: Config, setting: int) -> bool:
    """Replace the owners with other settings, with their accounts where nothing else is possible. False: the lock was
    lost meanwhile, and with it the knowledge of who has accounts."""
    running = await running_owners()
    outdated = await _outdated(config, running)
    try:
        if outdated and not await renewing.renew(outdated, 1 + max(map(_index_of, running)), lock.is_held):
            await _place_all(await _outdated(config, await running_owners()), config, setting)
    except Overtaken as error:
        logger.warning("another process may direct moves of accounts by now, so the renewal begins anew: %s", error)
        return False
    return True


@asynccontextmanager
async def _renewing(config: Config, start: Start) -> AsyncIterator[Renewing]:
    """Raises StoreUnavailable."""
    assert config.storage.postgres_url is not None
    url = config.storage.postgres_url.get_secret_value()
    pool = await checked_postgres(url, connections_max=1, application="renewing of account owners")

    @asynccontextmanager
    async def reading() -> AsyncIterator[Any]:
        with away_as(StoreUnavailable):
            async with pool.acquire() as connection:
                yield connection

    async def remove(index: int) -> None:
        await asyncio.to_thread(hosting.remove, owner_name(index))

    try:
        mover = ShardMover(PostgresHoldersStore(reading).routes, ask_owner, owner_name)
        yield Renewing(mover, start, remove, owner_name)
    finally:
        pool.terminate()


def is_owner(name: str) -> bool:
    return name.startswith(owner_name(""))


async def move_owner(config: Config, spec: Spec, node: str) -> bool:
    """Start an owner of accounts on another machine, while one more owner there has its accounts. False: another
    process directs moves now. spec: as it was placed; its settings stay. node: the id of the machine.

    Raises StoreUnavailable, and ActorUnreachable where it could not be done; the owner then has its accounts as before,
    or gets them back from the one more within a minute.
    """

    async def start(index: int) -> None:
        settings, fingerprint, _, *more = spec.arguments
        name = owner_name(index)
        mine = spec._replace(name=name, arguments=(settings, fingerprint, index, *more))
        await asyncio.to_thread(actor_moves.keep, mine)
        await asyncio.to_thread(actor_moves.start_on, mine, node)
        await actor_moves.works(name, _START_SECONDS)

    async with _renewing(config, start) as renewing, alone_at(config.storage) as is_alone:
        if not is_alone:
            return False
        told = await hosting.ask(hosting.Reference(spec.name), "fingerprint", wait_seconds=_FINGERPRINT_SECONDS)
        spare = 1 + max(map(_index_of, await running_owners()))
        try:
            is_moved = told == spec.fingerprint and await renewing.renew(
                [_index_of(spec.name)], spare, is_alone.is_held
            )
        except Overtaken:
            is_moved = False
        if not is_moved:
            raise hosting.ActorUnreachable(f"{spec.name} cannot give its accounts away now")
    return True


async def _place_all(indexes: Sequence[int], config: Config, setting: int) -> None:
    """Start these owners, or replace those with other settings."""
    # In threads, several at once: each call waits for a new process, and accounts without an owner wait for the last.
    await asyncio.gather(*(asyncio.to_thread(_place, index, config, setting) for index in indexes))


def _place(index: int, config: Config, setting: int) -> hosting.Reference:
    return hosting.place_with_settings(AccountShardActor, owner_name(index), config, USES, index, setting)


def _index_of(name: str) -> int:
    return int(name.removeprefix(owner_name("")))
