"""The list of accounts: whole, in order, page by page, by both stores; and found by the beginning of a key."""

import asyncio

import base58
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.accounts import commands
from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, SetStatus
from actors.accounts.directory import (
    ListAccounts,
    ListedAccount,
    ListPlace,
    Order,
    mistake_in_listing,
    place_of,
    ranges_of,
)
from actors.accounts.store import AccountStore
from actors.units import base58_text
from tests.accounts.making import opened, opening_group, pubkey_of
from tests.accounts.shards import SHARDS


@given(st.binary(min_size=32, max_size=32), st.integers(1, 44), st.integers(0, 32))
@example(bytes(32), 32, 0)
@example(b"\xff" * 32, 44, 0)
def test_a_key_is_in_the_ranges_of_every_beginning_of_its_text(raw: bytes, length: int, zeros: int) -> None:
    """And its neighbours outside of a range have another beginning."""
    raw = bytes(zeros) + raw[zeros:]
    text = base58.b58encode(raw).decode()
    prefix = text[:length]
    ranges = ranges_of(prefix)
    assert any(first <= raw <= last for first, last in ranges)
    for first, last in ranges:
        for inside in (first, last):
            assert base58_text(inside).startswith(prefix)
        for number in (int.from_bytes(first) - 1, int.from_bytes(last) + 1):
            if 0 <= number < 2**256 and not any(a <= number.to_bytes(32) <= z for a, z in ranges):
                assert not base58_text(number.to_bytes(32)).startswith(prefix)


def test_no_key_begins_with_what_no_key_can_begin_with() -> None:
    assert ranges_of("1" * 33) == [] and ranges_of("1" * 32 + "2") == [] and ranges_of("z" * 44) == []


async def accounts_in(store: AccountStore, count: int) -> list[bytes]:
    epoch = await store.take_over("a", SHARDS, False)
    pubkeys = [pubkey_of(f"customer {number}") for number in range(count)]
    for pubkey in pubkeys:
        account = opened(pubkey)
        await store.write(epoch, opening_group(account))
    return pubkeys


async def test_pages_of_a_list_have_each_account_once(store: AccountStore) -> None:
    """Accounts of one second, and of one balance, are told apart by their keys."""
    pubkeys = await accounts_in(store, 7)
    for order in Order:
        seen: list[ListedAccount] = []
        after: ListPlace | None = None
        while page := await store.directory.list(ListAccounts(order, after=after, limit=3)):
            assert len(page) <= 3
            seen += page
            after = place_of(page[-1].place(order).text)
        assert sorted(account.pubkey for account in seen) == sorted(pubkeys)
        assert [(-account.place(order).value, account.pubkey) for account in seen] == sorted(
            (-account.place(order).value, account.pubkey) for account in seen
        )
    text = base58_text(pubkeys[3])
    for length in (1, 5, len(text)):
        found = await store.directory.list(ListAccounts(prefix=text[:length]))
        assert {account.pubkey for account in found} == {
            pubkey for pubkey in pubkeys if base58_text(pubkey).startswith(text[:length])
        }
    assert await store.directory.list(ListAccounts(prefix="1" * 33)) == []
    assert await store.directory.list(ListAccounts(status="suspended")) == []


async def test_the_richest_are_listed_first_and_the_suspended_alone(shard: AccountShard) -> None:
    """As an owner answers any operator, whosever the accounts are."""
    rich, poor = pubkey_of("rich"), pubkey_of("poor")
    for pubkey, credits in ((poor, 10), (rich, 5_000)):
        await shard.ask(AdjustCredits(pubkey, credits, "test", f"grant {credits}"))
    await shard.ask(SetStatus(poor, "suspended", "test"))
    listed = (await shard.ask(ListAccounts(Order.BALANCE))).value
    assert listed is not None
    assert [(account.pubkey, account.balance, account.status) for account in listed] == [
        (rich, 5_000, "active"),
        (poor, 10, "suspended"),
    ]
    (only,) = (await shard.ask(ListAccounts(status="suspended"))).value or ()
    assert only.pubkey == poor


@pytest.mark.parametrize(
    "command",
    [
        *(ListAccounts("oldest"), ListAccounts(prefix="0OIl"), ListAccounts(prefix="2" * 45)),
        *(ListAccounts(status="closed"), ListAccounts(limit=0), ListAccounts(limit=201)),
        *(
            ListAccounts(after=(-1, bytes(32))),
            ListAccounts(after=(2**63, bytes(32))),
            ListAccounts(after=(1, b"short")),
        ),
    ],
)
async def test_a_malformed_list_is_refused_and_reads_nothing(shard: AccountShard, command: ListAccounts) -> None:
    assert mistake_in_listing(command)
    assert (await shard.ask(command)).refusal == "INVALID_REQUEST"


@pytest.mark.parametrize("is_late", [True, False])
async def test_a_list_that_cannot_be_read_says_what_to_ask_instead(
    shard: AccountShard, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 35: one at a time for an owner, for four seconds at most, and the next one is made."""
    monkeypatch.setattr(commands, "LIST_SECONDS_MAX", 0.05 if is_late else 4.0)
    gate, held = asyncio.Event(), shard._store.directory.list

    async def late(command: ListAccounts) -> list[ListedAccount]:
        await gate.wait()
        return await held(command)

    monkeypatch.setattr(shard._store.directory, "list", late)
    first = asyncio.create_task(shard.ask(ListAccounts()))
    await asyncio.sleep(0)
    second = await shard.ask(ListAccounts())
    assert (second.refusal, "ask again in some seconds" in second.detail) == ("CONCURRENCY_LIMITED", True)
    if is_late:
        told = await first
        assert (told.refusal, "longer beginning" in told.detail) == ("SERVICE_TEMPORARILY_UNAVAILABLE", True)
    gate.set()
    if not is_late:
        assert (await first).value == ()
    assert (await shard.ask(ListAccounts())).value == ()


@pytest.mark.parametrize(
    "text", ["", "-", "1", "1-", "x-" + "0" * 64, "1-" + "g" * 64, "-1-" + "0" * 64, "1" * 20 + "-" + "0" * 64]
)
def test_what_is_no_cursor_is_no_place(text: str) -> None:
    assert place_of(text) is None
