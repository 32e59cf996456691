"""What a feed reads of an update."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.geyser_proto import geyser_pb2
from actors.streams.yellowstone.updates import identify, split

Update = geyser_pb2.SubscribeUpdate


@given(st.lists(st.from_regex(r"[a-z~][0-9]{0,5}", fullmatch=True), max_size=5), st.integers(0, 2**64 - 1))
def test_an_update_is_split_into_names_and_the_rest(names: list[str], slot: int) -> None:
    """Joined again the two are the update."""
    update = Update(filters=names, slot=geyser_pb2.SubscribeUpdateSlot(slot=slot, status=geyser_pb2.SLOT_CONFIRMED))
    found, body = split(update.SerializeToString())
    assert list(found) == names
    assert Update.FromString(body) == Update(slot=update.slot)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_update_fail_as_bytes_do(payload: bytes) -> None:
    """A feed takes ValueError and DecodeError for a stream that broke; nothing else may come out."""
    try:
        names, body = split(payload)
        identify(names, body)
    except ValueError:
        pass
    except Exception as error:  # noqa: BLE001 - the library's own error has no common base with ValueError.
        assert type(error).__name__ == "DecodeError", error


def account(slot: int = 5, pubkey: bytes = b"k" * 32, signature: bytes | None = b"s" * 64, version: int = 1) -> Update:
    info = geyser_pb2.SubscribeUpdateAccountInfo(pubkey=pubkey, txn_signature=signature, write_version=version)
    return Update(account=geyser_pb2.SubscribeUpdateAccount(account=info, slot=slot))


def mark(update: Update, names: tuple[str, ...] = ("a0",)) -> Any:
    seen = identify(names, update.SerializeToString())
    assert seen is not None
    return seen.mark


def test_a_write_is_the_same_at_every_node() -> None:
    """Versions of writes are one node's own, so the transaction names the write; without one the version does."""
    assert mark(account(version=1)) == mark(account(version=9))
    assert mark(account(signature=None, version=1)) != mark(account(signature=None, version=2))
    others = [account(slot=6), account(pubkey=b"l" * 32), account(signature=b"t" * 64)]
    assert len({mark(one) for one in (account(), *others)}) == 4


def test_a_transaction_and_its_status_are_two_updates() -> None:
    whole = geyser_pb2.SubscribeUpdateTransactionInfo(signature=b"s" * 64)
    one = Update(transaction=geyser_pb2.SubscribeUpdateTransaction(transaction=whole, slot=5))
    two = Update(transaction_status=geyser_pb2.SubscribeUpdateTransactionStatus(signature=b"s" * 64, slot=5))
    assert mark(one) != mark(two)


def test_each_block_filter_has_its_own_block() -> None:
    block = Update(block=geyser_pb2.SubscribeUpdateBlock(slot=5))
    assert mark(block, ("b0",)) != mark(block, ("b1",))


@pytest.mark.parametrize("update", [Update(), Update(ping=geyser_pb2.SubscribeUpdatePing())])
def test_what_is_of_no_slot_has_no_mark(update: Update) -> None:
    assert identify((), update.SerializeToString()) is None
