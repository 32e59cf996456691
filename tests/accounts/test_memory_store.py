"""The suite that both stores pass is in test_store.py; here is what only the memory store has to show."""

import pytest

from actors.accounts.core import decide_adjust
from actors.accounts.store import Fenced
from actors.units import Credits
from tests.accounts.making import ALICE, BOB, START, opened, opening_group
from tests.accounts.memory_store import MemoryAccountStore
from tests.accounts.test_store import SHARDS


async def test_what_was_loaded_is_a_copy() -> None:
    """As with a database: changing what was read changes nothing that is stored."""
    store = MemoryAccountStore()
    epoch = await store.take_over("owner", SHARDS, False)
    account = opened()
    grant = decide_adjust(account, 100, "", b"grant", START)
    assert grant is not None
    await store.write(epoch, opening_group(account, grant))
    from_store = await store.load(ALICE, 0)
    assert from_store is not None
    from_store.batches[0].remaining = Credits(1)
    from_store.entries.clear()
    again = await store.load(ALICE, 0)
    assert again is not None and len(again.entries) == 1 and again.batches[0].remaining == 100


async def test_a_refused_group_leaves_nothing_behind() -> None:
    store = MemoryAccountStore()
    epoch = await store.take_over("owner", SHARDS, False)
    account = opened()
    await store.write(epoch, opening_group(account))
    with pytest.raises(Fenced):
        store.write_now(epoch - 1, opening_group(opened(BOB)))
    assert BOB not in store.rows
