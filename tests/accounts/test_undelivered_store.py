"""The lists of undelivered charges in both stores: written with a group, read by the next owner."""

from actors.accounts.ledger import EntryType
from actors.accounts.store import AccountStore
from actors.accounts.stored import Fenced
from actors.accounts.undelivered import Listed, Place
from actors.accounts.writes import Write
from actors.calls import REPLICA_ID_BYTES
from actors.units import VirtualShard, routing_bytes, virtual_shard
from tests.accounts.making import ALICE, group_of, settle
from tests.accounts.shards import owned_shards
from tests.accounts.test_store import SHARDS, debits, opened_in, posted

HOME = Place(0)
REPLICA, OTHER = b"replica1", b"replica2"


def counters(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "big") for number in numbers)


def lists(*listed: Listed, place: Place = HOME) -> Write:
    """A group without accounts."""
    return Write(shards={VirtualShard(place.home)}, place=place, undelivered=list(listed))


async def test_the_next_owner_reads_what_was_written_last(store: AccountStore) -> None:
    """With a group of many entries, of one entry and of none; empty lists are removed."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    many = debits(account, 3)
    many.undelivered = [Listed(REPLICA, counters(1, 2)), Listed(OTHER, counters(9))]
    await store.write(epoch, many)
    one = group_of(account, posted(account, settle(77, 1)))
    one.undelivered = [Listed(REPLICA, counters(2, 77))]
    await store.write(epoch, one)
    await store.write(epoch, lists(Listed(OTHER, b"")))
    await store.take_over("second", SHARDS, False)
    assert await store.undelivered.recall(HOME) == [Listed(REPLICA, counters(2, 77))]


async def test_a_former_owner_changes_no_list(store: AccountStore) -> None:
    old = await store.take_over("old", SHARDS, False)
    await store.write(old, lists(Listed(REPLICA, counters(1))))
    new = await store.take_over("new", SHARDS, False)
    await store.write(new, lists(Listed(REPLICA, counters(2))))
    for late in (lists(Listed(REPLICA, b"")), lists(Listed(OTHER, counters(5)))):
        try:
            await store.write(old, late)
        except Fenced:
            continue
        raise AssertionError("a former owner wrote")
    await store.undelivered.remove(old, HOME, SHARDS, REPLICA)
    assert await store.undelivered.recall(HOME) == [Listed(REPLICA, counters(2))]
    await store.undelivered.remove(new, HOME, SHARDS, REPLICA)
    assert await store.undelivered.recall(HOME) == []


async def test_an_owner_reads_its_own_place_and_those_of_releases_whose_owners_could_not_move_shards(
    store: AccountStore,
) -> None:
    """Their charges are refunded by whoever has their accounts now, and the lists removed with their replica."""
    for index in range(2):
        shards = owned_shards(index, 2)
        epoch = await store.take_over(f"owner {index}", shards, False)
        await store.write(epoch, lists(Listed(REPLICA, counters(index)), place=Place(index, 2)))
    both = [Listed(REPLICA, counters(0)), Listed(REPLICA, counters(1))]
    assert sorted(await store.undelivered.recall(Place(2))) == both
    await store.write(epoch, lists(Listed(REPLICA, counters(7)), place=Place(1)))
    assert sorted(await store.undelivered.recall(Place(1))) == [both[0], Listed(REPLICA, counters(7))]
    assert await store.undelivered.recall(Place(2)) == [Listed(REPLICA, counters(0))]
    assert len(await store.undelivered.recall_all()) == 2
    await store.undelivered.remove(epoch, Place(2), owned_shards(0, 2), REPLICA)
    assert await store.undelivered.recall(Place(2)) == []


async def test_the_account_of_an_operation_is_found_in_the_ledger(store: AccountStore) -> None:
    """Of debits alone, and only among the accounts of these shards."""
    epoch = await store.take_over("first", SHARDS, False)
    account = await opened_in(store, epoch)
    group = debits(account, 3)
    await store.write(epoch, group)
    names = [entry.operation for _, entry, _ in group.entries if entry.type == EntryType.DEBIT]
    asked = [*names, b"never" + bytes(11)]
    assert len(names[0]) == 2 * REPLICA_ID_BYTES
    assert await store.undelivered.find_charged(asked, SHARDS) == dict.fromkeys(names, ALICE)
    mine = virtual_shard(routing_bytes(ALICE))
    others = [shard for shard in SHARDS if shard != mine]
    assert await store.undelivered.find_charged(asked, others) == {}
    assert await store.undelivered.find_charged(asked, [VirtualShard(mine)]) == dict.fromkeys(names, ALICE)
    assert await store.undelivered.find_charged([], SHARDS) == {}
