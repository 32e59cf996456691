from typing import Any

import pytest
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.rpc.responses import parse_websocket_message
from solders.transaction import VersionedTransaction

from devnode.pubsub.block_contents import block_value
from devnode.pubsub.payloads import in_slot, notification
from devnode.pubsub.topics import BlockTopic
from devnode.records.commitment import Commitment
from devnode.records.records import Block
from tests.devnode.execution.test_execution import v1
from tests.devnode.local_node import LocalNode, give


def topic(
    mention: str | None = None, encoding: str = "base64", details: str = "full", max_version: int | None = 0
) -> BlockTopic:
    return BlockTopic(mention, Commitment.CONFIRMED, encoding, details, False, max_version)


def landed_block(local: LocalNode, *transactions: VersionedTransaction) -> Block:
    for transaction in transactions:
        local.land(transaction)
    return local.chain.seal(local.clock.now(), local.clock.monotonic()).block


@pytest.fixture
def payer(local: LocalNode) -> Keypair:
    return local.wallet()


@pytest.fixture
def block(local: LocalNode, payer: Keypair) -> Block:
    """Two version 0 transactions."""
    return landed_block(local, *(local.transfer(payer, Pubkey.new_unique(), 2_000_000) for _ in range(2)))


@pytest.mark.parametrize("details", ["full", "accounts", "signatures", "none"])
@pytest.mark.parametrize("encoding", ["json", "jsonParsed", "base64", "base58"])
def test_a_block_is_equal_to_that_of_get_block(local: LocalNode, payer: Keypair, details: str, encoding: str) -> None:
    """A notification shows a block as getBlock does, with every setting, from memory and from the archive."""
    local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    sealed = local.chain.seal(local.clock.now(), local.clock.monotonic())
    local.journal.flush(sealed)
    local.chain.mark_durable(sealed.block.slot)
    slot = sealed.block.slot
    config = {
        "encoding": encoding,
        "transactionDetails": details,
        "rewards": False,
        "maxSupportedTransactionVersion": 0,
        "commitment": "confirmed",
    }
    read = local.call("getBlock", slot, config)
    wanted = {"slot": slot, "block": read, "err": None}
    asked = topic(encoding=encoding, details=details)
    assert block_value(sealed.block, sealed.block.transactions, asked) == wanted
    stored = local.archive.block(slot)
    assert stored is not None
    assert block_value(stored, local.archive.block_transactions(slot), asked) == wanted


def test_rewards_are_shown_on_request(block: Block) -> None:
    """There are no rewards, so the list is empty."""
    asked = BlockTopic(None, Commitment.CONFIRMED, "base64", "none", True, 0)
    value = block_value(block, block.transactions, asked)
    assert value is not None and value["block"]["rewards"] == []


def test_a_mention_picks_transactions_and_blocks(block: Block) -> None:
    """Only transactions with the key are shown; a block without one gives no notification."""
    receiver = block.transactions[1].keys[1]
    value = block_value(block, block.transactions, topic(mention=receiver, details="signatures"))
    assert value is not None and value["block"]["signatures"] == [block.transactions[1].signature]
    assert block_value(block, block.transactions, topic(mention=str(Pubkey.new_unique()))) is None


def test_a_version_above_the_maximum_makes_the_block_null(local: LocalNode, payer: Keypair, block: Block) -> None:
    """No maximum means legacy only; the error names the version. The detail `signatures` shows no versions."""
    value = block_value(block, block.transactions, topic(max_version=None))
    assert value == {"slot": block.slot, "block": None, "err": {"UnsupportedTransactionVersion": 0}}
    value = block_value(block, block.transactions, topic(max_version=None, details="signatures"))
    assert value is not None and value["err"] is None
    message = Message.new_with_blockhash(
        [give(payer, Pubkey.new_unique(), 2_000_000)], payer.pubkey(), local.blockhash()
    )
    legacy = landed_block(local, VersionedTransaction(message, [payer]))
    value = block_value(legacy, legacy.transactions, topic(max_version=None))
    assert value is not None and len(value["block"]["transactions"]) == 1


@pytest.mark.parametrize("encoding", ["json", "jsonParsed", "base64"])
def test_a_block_with_v1_needs_a_maximum_of_one(local: LocalNode, payer: Keypair, encoding: str) -> None:
    """With a maximum of 0 the block is null; with 1 it is shown, and an independent library decodes it."""
    block = landed_block(local, v1(payer, Pubkey.new_unique(), 2_000_000, 777, local.blockhash()))
    value = block_value(block, block.transactions, topic(encoding=encoding, max_version=0))
    assert value == {"slot": block.slot, "block": None, "err": {"UnsupportedTransactionVersion": 1}}
    asked = topic(encoding=encoding, max_version=1)
    text = notification(asked, 4, in_slot(block.slot, block_value(block, block.transactions, asked)))
    (shown,) = parse_websocket_message(text)
    (transaction,) = shown.result.value.block.transactions  # type: ignore[union-attr]
    assert transaction.version == 1 and transaction.meta.fee == 5_777


@pytest.mark.parametrize("encoding", ["json", "jsonParsed", "base64"])
@pytest.mark.parametrize("max_version", [0, None])
def test_blocks_decode_in_a_client(block: Block, encoding: str, max_version: Any) -> None:
    """An independent library decodes whole blocks and null blocks."""
    asked = topic(encoding=encoding, max_version=max_version)
    text = notification(asked, 4, in_slot(block.slot, block_value(block, block.transactions, asked)))
    (shown,) = parse_websocket_message(text)
    value = shown.result.value  # type: ignore[union-attr]
    assert value.slot == block.slot
    assert (value.block is None) == (max_version is None) == (value.err is not None)
