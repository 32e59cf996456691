"""Price lists are given by a command, durable when it is answered, kept by both stores and known to a successor.

Rule: decisions, "Price lists".
"""

import msgspec

from actors.accounts.actor import AccountShard
from actors.accounts.api import Identify, ReadAccount
from actors.accounts.directory import ListAccounts
from actors.accounts.price_list import PriceListSet
from actors.accounts.price_list_commands import CountPriceLists, SetPriceList
from actors.accounts.store import AccountStore
from actors.calls import OTHER_PRICES
from tests.accounts.making import ALICE, BOB, group_of, hold
from tests.accounts.shards import World, ask
from tests.accounts.test_store import SHARDS, opened_in


async def test_both_stores_keep_the_list_and_count_accounts_with_one(store: AccountStore) -> None:
    epoch = await store.take_over("a", SHARDS, False)
    alice, bob = await opened_in(store, epoch), await opened_in(store, epoch, BOB)
    for name in ("wholesale", "retail"):
        await store.write(epoch, group_of(alice, PriceListSet(name)))
        stored = await store.load(ALICE, 0)
        assert stored is not None and stored.price_list == name
    await store.write(epoch, group_of(bob, PriceListSet("retail")))
    assert await store.directory.price_lists() == {"retail": 2}
    await store.write(epoch, group_of(bob, PriceListSet("")))
    assert await store.directory.price_lists() == {"retail": 1}
    listed = await store.directory.list(ListAccounts())
    assert {one.pubkey: one.price_list for one in listed} == {ALICE: "retail", BOB: ""}


async def test_a_list_is_told_everywhere_and_by_the_successor(world: World, shard: AccountShard) -> None:
    proof = await world.customer(shard, ALICE, 100)
    given = await shard.ask(SetPriceList(ALICE, "wholesale"))
    assert given.value is not None and given.value.price_list == "wholesale"
    again = await shard.ask(SetPriceList(ALICE, "wholesale"))
    assert again.value == given.value
    successor = await world.shard()
    for told in (await successor.ask(ReadAccount(proof)), await successor.ask(Identify(proof))):
        assert told.value is not None and told.value.price_list == "wholesale"
    asked = msgspec.structs.replace(hold(1, 5, proof=proof), price_list="")
    refused = await ask(successor.hold_now, asked)
    assert (refused.refusal, refused.price_list) == (OTHER_PRICES, "wholesale")
    granted = await ask(successor.hold_now, msgspec.structs.replace(asked, price_list="wholesale"))
    assert (granted.verdicts, granted.price_list) == ((None,), "wholesale")
    assert (await successor.ask(CountPriceLists())).value == {"wholesale": 1}
    await successor.stop()


async def test_what_cannot_be_given(world: World, shard: AccountShard) -> None:
    await world.customer(shard, ALICE, 100)
    for name in ("public", "No such", "x" * 33):
        refused = await shard.ask(SetPriceList(ALICE, name))
        assert refused.refusal == "INVALID_REQUEST" and "price list" in refused.detail
    assert (await shard.ask(SetPriceList(BOB, "wholesale"))).refusal == "ACCOUNT_NOT_FOUND"
    assert (await shard.ask(CountPriceLists())).value == {}
