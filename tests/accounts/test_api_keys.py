"""Guards legacy API keys: imported by the operator, found by whichever owner is asked, one key for an account."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, ImportKey, IssueKey, ReadAccount
from actors.accounts.client import ShardedAccounts
from actors.accounts.holders_store import RouteTable
from actors.accounts.host import serve_links
from actors.calls import HoldItem, HoldReply, HoldRequest, KeyProof
from actors.config import Config, StorageConfig
from actors.hotlink.owner import LinkServer
from actors.identity.credentials import key_hash, key_prefix, parse_api_key
from actors.units import VIRTUAL_SHARDS, shard_of, virtual_shard
from tests.accounts.making import ALICE, BOB, pubkey_of
from tests.accounts.shards import World, owned_shards

SECRET = "the cluster's, of 128 bits"
OWNERS = 3
REPLICA = b"replica0"


@dataclass
class Owner:
    """The owner of a third of the accounts, as an actor."""

    shard: AccountShard
    server: LinkServer
    where: tuple[str, int] = ("", 0)
    asked: int = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Of Ray's own.
            raise AttributeError(name)
        owner = self

        class Method:
            @staticmethod
            async def remote(*arguments: Any) -> Any:
                if name == "address":
                    return owner.where
                if name == "routes":
                    return RouteTable(bytes(number % OWNERS for number in range(VIRTUAL_SHARDS)), (1,) * 3)
                owner.asked += 1
                return await owner.shard.ask(*arguments)

        return Method


@contextlib.asynccontextmanager
async def three_owners(world: World) -> AsyncIterator[tuple[ShardedAccounts, list[Owner]]]:
    owners = []
    for index in range(OWNERS):
        shard = await world.shard(shards=owned_shards(index, OWNERS))
        owner = Owner(shard, serve_links(shard, SECRET.encode()))
        owner.where = ("127.0.0.1", await owner.server.start("127.0.0.1"))
        owners.append(owner)
    config = Config(storage=StorageConfig(cluster_secret=SecretStr(SECRET)))
    accounts = ShardedAccounts(config, REPLICA, owners.__getitem__)
    accounts.start()
    await accounts.connected()
    try:
        yield accounts, owners
    finally:
        await accounts.stop()
        for owner in owners:
            await owner.server.stop()
            await owner.shard.stop()


def foreign_key(pubkey: bytes, number: int = 0) -> tuple[str, KeyProof]:
    """A legacy key whose own bytes name another owner than that of the account."""
    while True:
        text = f"{number:016x}" + "ab" * 24
        proof = parse_api_key(text)
        assert proof is not None
        if virtual_shard(proof.routing) % OWNERS != shard_of(pubkey) % OWNERS:
            return text, proof
        number += 1


def imported(pubkey: bytes, text: str) -> ImportKey:
    return ImportKey(pubkey, key_hash(text), key_prefix(text))


async def called(accounts: ShardedAccounts, proof: KeyProof, number: int) -> HoldReply:
    return await accounts.hold(HoldRequest(REPLICA + number.to_bytes(8, "big"), proof, (HoldItem("getSlot", 1),)))


async def test_a_legacy_key_reaches_the_owner_of_its_account() -> None:
    """Interface, "API key": a call and a page, at each of them first; from then on the owner is asked at once."""
    async with three_owners(World()) as (accounts, owners):
        await accounts.ask(AdjustCredits(ALICE, 100, "opening", "opening"))
        text, proof = foreign_key(ALICE)
        assert (await called(accounts, proof, 1)).refusal == "AUTH_FAILED", "nobody's before it was imported"
        done = await accounts.ask(imported(ALICE, text))
        assert done.refusal is None, done
        for owner in owners:  # "No such key" is remembered for some seconds by the owner that said so.
            owner.shard._activations._unknown.drop(proof.key_hash)
        reply = await called(accounts, proof, 2)
        assert (reply.pubkey, reply.refusal, reply.verdicts) == (ALICE, None, (None,))
        claimed = owners[virtual_shard(proof.routing) % OWNERS]
        asked = claimed.asked
        info = await accounts.ask(ReadAccount(proof))
        assert info.value is not None and info.value.balance == 100
        assert claimed.asked == asked, "it was asked, though the owner of the account is known"


async def test_a_page_alone_finds_the_owner_too() -> None:
    async with three_owners(World()) as (accounts, _):
        await accounts.ask(AdjustCredits(BOB, 7, "opening", "opening"))
        text, proof = foreign_key(BOB)
        await accounts.ask(imported(BOB, text))
        info = await accounts.ask(ReadAccount(proof))
        assert info.value is not None and info.value.balance == 7


async def test_an_account_has_one_key() -> None:
    """Interface, "API key": importing ends the key before it, and a rotation ends the imported one."""
    world = World()
    async with three_owners(world) as (accounts, _):
        first = await accounts.ask(IssueKey(world.wallet(ALICE)))
        await accounts.ask(AdjustCredits(ALICE, 100, "opening", "opening"))
        assert first.value is not None
        before = parse_api_key(first.value)
        assert before is not None
        text, proof = foreign_key(ALICE)
        await accounts.ask(imported(ALICE, text))
        assert (await called(accounts, before, 1)).refusal == "AUTH_FAILED"
        assert (await called(accounts, proof, 2)).refusal is None
        assert world.store.rows[ALICE].profile.key_hash == key_hash(text), "durable: a hash, not the key"
        second = await accounts.ask(IssueKey(world.wallet(ALICE)))
        assert second.value is not None
        assert (await called(accounts, proof, 3)).refusal == "AUTH_FAILED", "by the owner, although it is located"


async def test_a_key_of_another_account_is_refused() -> None:
    """Rule: one key opens one account; the database would refuse the whole group of writes."""
    async with three_owners(World()) as (accounts, _):
        text, proof = foreign_key(ALICE)
        assert (await accounts.ask(imported(ALICE, text))).refusal == "ACCOUNT_NOT_FOUND"
        for pubkey in (ALICE, BOB):
            await accounts.ask(AdjustCredits(pubkey, 5, "opening", f"opening {pubkey.hex()}"))
        assert (await accounts.ask(imported(ALICE, text))).refusal is None
        again, other = await accounts.ask(imported(ALICE, text)), await accounts.ask(imported(BOB, text))
        assert again.refusal is None and other.refusal == "INVALID_REQUEST"
        info = await accounts.ask(ReadAccount(proof))
        assert info.value is not None and info.value.pubkey == ALICE


async def test_one_key_for_two_accounts_at_once_is_refused_and_stops_nothing() -> None:
    """Two owners are asked at the same time: one import is refused, and neither owner has its group refused, after
    which it would take its shards over anew while calls pause."""
    number = 0
    while shard_of(other := pubkey_of(f"other {number}")) % OWNERS == shard_of(ALICE) % OWNERS:
        number += 1
    async with three_owners(World()) as (accounts, owners):
        for pubkey in (ALICE, other):
            await accounts.ask(AdjustCredits(pubkey, 5, "opening", f"opening {pubkey.hex()}"))
        epochs = [(await owner.shard.health())["epoch"] for owner in owners]
        for turn in range(8):
            text, proof = foreign_key(ALICE, 1_000 * turn)
            replies = await asyncio.gather(*(accounts.ask(imported(pubkey, text)) for pubkey in (ALICE, other)))
            assert sorted(str(reply.refusal) for reply in replies) == ["INVALID_REQUEST", "None"]
            holder = ALICE if replies[0].refusal is None else other
            assert (await called(accounts, proof, turn)).pubkey == holder
        assert [(await owner.shard.health())["epoch"] for owner in owners] == epochs
