"""Updates that are made from a whole block."""

from typing import Any

import base58
from hypothesis import given
from hypothesis import strategies as st

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.blocks import WholeBlock
from actors.streams.yellowstone.match import StreamFilter
from actors.streams.yellowstone.updates import SeenUpdate, identify

KEYS = [bytes([number]) * 32 for number in range(1, 6)]
keys = st.sampled_from(KEYS)


def block(accounts: list[bytes], signatures: int = 2, data: bytes = b"0123456789") -> geyser_pb2.SubscribeUpdate:
    made = geyser_pb2.SubscribeUpdate()
    made.block.slot, made.block.blockhash, made.block.entries_count = 300, "hash", 1
    made.block.entries.add(slot=300, index=0)
    for number, pubkey in enumerate(accounts):
        made.block.accounts.add(pubkey=pubkey, owner=KEYS[0], lamports=number, data=data)
    for number in range(signatures):
        made.block.transactions.add(signature=bytes([number + 1]) * 64, index=number)
    made.created_at.seconds = 7
    return made


def whole(body: bytes) -> WholeBlock:
    found = WholeBlock(body)
    for _ in found.read():
        pass
    return found


def updates(made: geyser_pb2.SubscribeUpdate, request: geyser_pb2.SubscribeRequest) -> list[Any]:
    found = []
    for names, parts in filter(None, whole(made.SerializeToString()).updates(StreamFilter(request))):
        update = geyser_pb2.SubscribeUpdate.FromString(b"".join(parts))
        assert update.created_at.seconds == 7 and not update.filters
        found.append((names, update))
    return found


def test_a_slot_comes_in_the_nodes_order() -> None:
    """Writes, transactions each with its status, entries, blocks, the meta; each kind with the names that match it."""
    request = geyser_pb2.SubscribeRequest()
    for name in ("blocks_meta", "entry", "transactions_status", "transactions", "accounts", "blocks"):
        getattr(request, name)[name].SetInParent()
    found = updates(block(KEYS[:2]), request)
    kinds = [update.WhichOneof("update_oneof") for _, update in found]
    one = ["transaction", "transaction_status"]
    assert kinds == ["account", "account", *one, *one, "entry", "block", "block_meta"]
    assert [names[0] for names, _ in found][-3:] == ["entry", "blocks", "blocks_meta"]


@given(st.lists(keys, unique=True), st.lists(st.lists(keys, max_size=3), max_size=3))
def test_looking_up_keys_finds_what_looking_at_each_account_finds(held: list[bytes], asked: list[list[bytes]]) -> None:
    """Filters that name keys look these up; a filter that always holds makes every account be looked at."""
    request, slow = geyser_pb2.SubscribeRequest(), geyser_pb2.SubscribeRequest()
    for number, wanted in enumerate(asked):
        for one in (request, slow):
            one.accounts[str(number)].account.extend(base58.b58encode(key).decode() for key in wanted)
    slow.accounts["every"].SetInParent()
    fast = [(names, update) for names, update in updates(block(held), request)]
    trimmed = [(tuple(n for n in names if n != "every"), update) for names, update in updates(block(held), slow)]
    assert fast == [(names, update) for names, update in trimmed if names]


@given(st.binary(max_size=40), st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), max_size=4))
def test_slices_that_fit_are_joined(data: bytes, lengths: list[tuple[int, int]]) -> None:
    """As yellowstone-grpc does: a slice is sent only where it fits entirely; in updates and in blocks alike."""
    request, at, wanted = geyser_pb2.SubscribeRequest(), 0, b""
    for gap, length in lengths:
        at += gap
        request.accounts_data_slice.add(offset=at, length=length)
        wanted += data[at : at + length] if at + length <= len(data) else b""
        at += length
    request.accounts["a"].SetInParent()
    request.blocks["b"].include_accounts = True
    found = updates(block(KEYS[:1], data=data), request)
    expected = wanted if lengths else data
    assert [found[0][1].account.account.data, found[-1][1].block.accounts[0].data] == [expected, expected]


@given(st.integers(1, 2**64 - 1), st.integers(0, 300_000))
def test_a_block_is_identified_without_decoding_it(slot: int, padding: int) -> None:
    """The mark is that of a decoded block, whatever the length of the block's length."""
    made = geyser_pb2.SubscribeUpdate()
    made.block.slot = slot
    made.block.blockhash = "x" * padding
    seen = identify(("b0",), made.SerializeToString())
    assert seen == SeenUpdate(slot, hash(("block", slot, ("b0",))))


def test_filters_that_match_nothing_give_way_as_often_as_those_that_match() -> None:
    """Threat 62: a replay with 1,000 filters held the event loop for seconds, giving way only after matches."""
    request = geyser_pb2.SubscribeRequest()
    for number in range(1_000):
        request.transactions[str(number)].vote = True
    pauses = sum(one is None for one in whole(block([], 20).SerializeToString()).updates(StreamFilter(request)))
    assert pauses >= 20 * 1_000 // 100


def test_a_compressed_set_gives_way_after_each_look() -> None:
    request = geyser_pb2.SubscribeRequest()
    for number in range(10):
        request.transactions[str(number)].cuckoo_account_include.bucket_count = 1
        request.transactions[str(number)].cuckoo_account_include.data = bytes(8)
    pauses = sum(one is None for one in whole(block([], 3).SerializeToString()).updates(StreamFilter(request)))
    assert pauses >= 3 * 10
