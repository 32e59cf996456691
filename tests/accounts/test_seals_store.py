"""One suite for both stores of statements: each entry is in one statement, whoever writes it."""

import pytest

from actors.accounts import seals_store
from actors.accounts.account import Account
from actors.accounts.seals_store import FOUND_MAX, NumberTaken, Seal, Sealed
from actors.accounts.store import AccountStore
from actors.receipts.root_keys import KeySeal
from actors.receipts.statements import NO_STATEMENT, SignedStatement, Statement, leaf_of, root_of
from tests.accounts import memory_seals
from tests.accounts.making import ALICE, BOB
from tests.accounts.shards import SHARDS
from tests.accounts.test_store import debits, opened_in

SEAL = KeySeal(b"secret")
KEYS = [SEAL.make(bytes([number]) * 32, bytes([number]) * 12, number) for number in range(3)]


async def written(store: AccountStore, pubkey: bytes = ALICE, count: int = 3) -> Account:
    """An account with one grant and so many debits."""
    epoch = await store.take_over("a", SHARDS, False)
    account = await opened_in(store, epoch, pubkey)
    await store.write(epoch, debits(account, count))
    return account


def signed(
    number: int, *seals: Seal, series: int = 0, at_ms: int = 5
) -> tuple[int, int, int, SignedStatement, list[Seal]]:
    leaves = b"".join(
        leaf_of(seal.pubkey, seal.first, [b"h" * 32] * (seal.last - seal.first + 1)).packed() for seal in seals
    )
    text = Statement(series, number, at_ms, NO_STATEMENT, len(seals), 1, root_of(leaves)).text()
    return series, number, at_ms, SignedStatement(text, "key", b"s" * 64, leaves), list(seals)


async def test_an_entry_is_in_one_statement(store: AccountStore) -> None:
    """A seal that begins elsewhere is told where it should, and nothing of its statement is written."""
    await written(store)
    seals = store.seals
    assert await seals.newest(0) is None and await seals.unsealed(SHARDS, b"") == ([Sealed(ALICE, 0, 0)], None)
    first = signed(1, Seal(ALICE, 1, 2, 70))
    assert await seals.seal(*first) == []
    assert await seals.newest(0) == first[3] and await seals.unsealed(SHARDS, b"") == ([Sealed(ALICE, 2, 70)], None)
    for seal in (Seal(ALICE, 2, 3, 80), Seal(ALICE, 4, 4, 80)):
        assert await seals.seal(*signed(2, Seal(BOB, 1, 1, 1), seal)) == [Sealed(ALICE, 2, 70)]
    assert await seals.newest(0) == first[3]
    assert await seals.seal(*signed(2, Seal(ALICE, 3, 6, 80), Seal(BOB, 1, 1, 1))) == []
    assert await seals.unsealed(SHARDS, b"") == ([], None)


async def test_a_series_has_each_number_once(store: AccountStore) -> None:
    """Two owners of one index cannot both continue their series."""
    first = signed(1, Seal(ALICE, 1, 1, 1))
    await store.seals.seal(*first)
    with pytest.raises(NumberTaken):
        await store.seals.seal(*signed(1, Seal(BOB, 1, 1, 1)))
    assert await store.seals.series() == [0]
    assert await store.seals.seal(*signed(1, Seal(BOB, 1, 1, 1), series=7)) == []
    assert await store.seals.series() == [0, 7]
    second = signed(2, Seal(ALICE, 2, 2, 1))
    await store.seals.seal(*second)
    assert await store.seals.after(0, 0, 9) == [first[3], second[3]]
    assert await store.seals.after(0, 1, 9) == [second[3]] and await store.seals.after(0, 0, 1) == [first[3]]
    assert await store.seals.statement(0, 2) == second[3]


async def test_entries_are_read_from_any_place_in_both_directions(store: AccountStore) -> None:
    account = await written(store, count=4)
    chain = await store.seals.following(Sealed(ALICE, 0, 0), 9)
    assert [one.entry.seq for one in chain] == [1, 2, 3, 4, 5, 6, 7] and chain[-1].hash == account.head
    third = chain[2].entry
    assert await store.seals.following(Sealed(ALICE, 3, third.at_ms), 1) == [chain[3]]
    assert await store.seals.before(ALICE, third.at_ms, 3, 2) == [chain[2], chain[1]]
    assert await store.seals.before(BOB, third.at_ms, 3, 2) == []


async def test_accounts_are_looked_through_in_pieces(store: AccountStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, one look reads a bounded number of them."""
    monkeypatch.setattr(seals_store, "SCANNED_MAX", 1)
    monkeypatch.setattr(memory_seals, "SCANNED_MAX", 1)
    epoch = await store.take_over("a", SHARDS, False)
    for pubkey in (BOB, ALICE):
        await opened_in(store, epoch, pubkey)
    low, high = sorted((ALICE, BOB))
    assert await store.seals.unsealed(SHARDS, b"") == ([Sealed(low, 0, 0)], low)
    assert await store.seals.unsealed(SHARDS, low) == ([Sealed(high, 0, 0)], high)
    assert await store.seals.unsealed(SHARDS, high) == ([], None)
    assert await store.seals.unsealed([], b"") == ([], low)


async def test_statements_of_an_account_are_found_from_a_time_on(store: AccountStore) -> None:
    for number in range(1, 6):
        seals = [Seal(ALICE, number, number, 1)] if number != 3 else [Seal(BOB, 1, 1, 1)]
        if number > 3:
            seals = [Seal(ALICE, number - 1, number - 1, 1)]
        assert await store.seals.seal(*signed(number, *seals, at_ms=10 * number)) == []
    found = await store.seals.find(ALICE, (20, -1, -1), 1_000)
    assert [one.number for one in found] == [2, 4, 5] and len(found) < FOUND_MAX
    assert [one.number for one in await store.seals.find(ALICE, (20, 0, 2), 1_000)] == [4, 5]
    assert [one.number for one in await store.seals.find(ALICE, (20, -1, -1), 50)] == [2, 4]
    assert await store.seals.sealed(ALICE) == Sealed(ALICE, 4, 1) and await store.seals.sealed(b"c") == Sealed(
        b"c", 0, 0
    )
    assert found[0].leaf == leaf_of(ALICE, 2, [b"h" * 32]).packed()


async def test_one_key_signs_and_all_stay_known(store: AccountStore) -> None:
    """Of two owners that change the key at once, one is told that it was too late."""
    seals = store.seals
    assert await seals.keys() == []
    assert await seals.change_key(None, KEYS[0])
    assert not await seals.change_key(None, KEYS[1])
    assert await seals.change_key(KEYS[0].id, KEYS[2])
    assert await seals.keys() == [KEYS[2], KEYS[0]._replace(retired_ms=KEYS[2].made_ms)]
