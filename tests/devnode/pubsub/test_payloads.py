import base64
from typing import Any

import orjson
import pytest
from solders.account import Account
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.rpc import responses
from solders.rpc.responses import SlotUpdateNotification, parse_websocket_message
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM, TOKEN_PROGRAMS, USDC_MINT
from devnode.pubsub import payloads
from devnode.pubsub.payloads import TOO_LARGE, account_value, block_value, in_slot, notification, program_value
from devnode.pubsub.topics import (
    AccountTopic,
    BlockTopic,
    LogsTopic,
    ProgramTopic,
    Shape,
    SlotsUpdatesTopic,
    SlotTopic,
)
from devnode.records.commitment import Commitment
from devnode.records.records import Block
from tests.devnode.execution.test_execution import v1
from tests.devnode.local_node import LocalNode, give

from .listener import Listener

ENCODINGS = ("binary", "base58", "base64", "base64+zstd", "jsonParsed")


def account_topic(encoding: str, offset: int | None = None, length: int | None = None) -> AccountTopic:
    return AccountTopic(USDC_MINT, Commitment.PROCESSED, Shape(encoding, offset, length))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_contents_are_those_of_a_read(local: LocalNode, encoding: str) -> None:
    """A notification shows an account as getAccountInfo does, in every encoding."""
    account = local.chain.vm.account(USDC_MINT)
    read = local.call("getAccountInfo", str(USDC_MINT), {"encoding": encoding})["value"]
    assert account_value(local.node, account_topic(encoding), USDC_MINT, account) == read


def test_a_data_slice_is_accepted_and_ignored(local: LocalNode) -> None:
    """As on a node, notifications have the whole data whatever slice the subscription names."""
    account = local.chain.vm.account(USDC_MINT)
    assert account is not None
    value = account_value(local.node, account_topic("base64", 4, 32), USDC_MINT, account)
    assert base64.b64decode(value["data"][0]) == account.data and value["space"] == 82


@pytest.mark.parametrize("program", sorted(TOKEN_PROGRAMS, key=str))
def test_what_cannot_be_parsed_is_left_out_for_a_token_program_alone(local: LocalNode, program: Pubkey) -> None:
    """As on a node: jsonParsed of a token program has parsed accounts only; other programs and encodings have all."""
    broken = Account(1, bytes(7), program, False, 0)
    shown = {
        (owner, encoding): program_value(
            local.node, ProgramTopic(owner, Commitment.PROCESSED, Shape(encoding), ()), USDC_MINT, broken
        )
        for owner in (program, SYSTEM_PROGRAM)
        for encoding in ("jsonParsed", "base64")
    }
    assert [key for key, value in shown.items() if value is None] == [(program, "jsonParsed")]


def test_data_too_long_for_base58_is_replaced_by_a_text(local: LocalNode) -> None:
    """A notification cannot refuse as a read does, so it has Agave's text."""
    account = Account(1, bytes(129), SYSTEM_PROGRAM, False, 0)
    assert account_value(local.node, account_topic("binary"), USDC_MINT, account)["data"] == TOO_LARGE
    assert account_value(local.node, account_topic("base58"), USDC_MINT, account)["data"] == [TOO_LARGE, "base58"]
    assert account_value(local.node, account_topic("binary"), USDC_MINT, account)["space"] == 129


@pytest.mark.parametrize(
    ("encoding", "data"), [("binary", ""), ("base58", ["", "base58"]), ("jsonParsed", ["", "base64"])]
)
def test_a_closed_account_is_shown_as_an_empty_one(local: LocalNode, encoding: str, data: object) -> None:
    """A client must learn that an account was closed; otherwise it would show the last balance for ever."""
    assert account_value(local.node, account_topic(encoding), USDC_MINT, None) == {
        "data": data,
        "executable": False,
        "lamports": 0,
        "owner": str(SYSTEM_PROGRAM),
        "rentEpoch": 0,
        "space": 0,
    }


@pytest.mark.parametrize("encoding", ["base64", "base64+zstd", "jsonParsed"])
def test_accounts_of_programs_decode_in_a_client(local: LocalNode, encoding: str) -> None:
    """An independent library decodes program and account notifications."""
    account = local.chain.vm.account(USDC_MINT)
    assert account is not None
    of_program = ProgramTopic(TOKEN_PROGRAM, Commitment.PROCESSED, Shape(encoding), ())
    value = program_value(local.node, of_program, USDC_MINT, account)
    assert value is not None
    assert value["pubkey"] == str(USDC_MINT)
    (shown,) = parse_websocket_message(notification(of_program, 5, in_slot(9, value)))
    assert shown.result.value.pubkey == USDC_MINT  # type: ignore[union-attr]
    single = in_slot(9, value["account"])
    (shown,) = parse_websocket_message(notification(account_topic(encoding), 5, single))
    assert shown.result.value.lamports == account.lamports  # type: ignore[union-attr]


def test_a_closed_account_decodes_in_a_client(local: LocalNode) -> None:
    """An independent library decodes the notification of a closed account."""
    value = in_slot(9, account_value(local.node, account_topic("base64"), Pubkey.default(), None))
    (shown,) = parse_websocket_message(notification(account_topic("base64"), 5, value))
    assert shown.result.value.lamports == 0  # type: ignore[union-attr]


def block_topic(
    mention: str | None = None, encoding: str = "base64", details: str = "full", max_version: int | None = 0
) -> BlockTopic:
    return BlockTopic(mention, Commitment.CONFIRMED, encoding, details, False, max_version)


def landed_block(local: LocalNode, *transactions: VersionedTransaction) -> Block:
    for transaction in transactions:
        local.land(transaction)
    return local.seal().block


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
    sealed = local.seal()
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
    asked = block_topic(encoding=encoding, details=details)
    assert block_value(sealed.block, sealed.block.transactions, asked) == wanted
    stored = local.archive.block(slot)
    assert stored is not None
    assert block_value(stored, local.archive.block_transactions(slot), asked) == wanted


def test_rewards_are_shown_on_request(block: Block) -> None:
    asked = BlockTopic(None, Commitment.CONFIRMED, "base64", "none", True, 0)
    value = block_value(block, block.transactions, asked)
    assert value is not None and block.reward is not None
    (shown,) = value["block"]["rewards"]
    assert (shown["pubkey"], shown["rewardType"]) == (block.reward.pubkey, "Fee")
    assert (shown["lamports"], shown["postBalance"]) == (block.reward.lamports, block.reward.post_lamports)


def test_a_mention_picks_transactions_and_blocks(block: Block) -> None:
    """Only transactions with the key are shown; a block without one gives no notification."""
    receiver = block.transactions[1].keys[1]
    value = block_value(block, block.transactions, block_topic(mention=receiver, details="signatures"))
    assert value is not None and value["block"]["signatures"] == [block.transactions[1].signature]
    assert block_value(block, block.transactions, block_topic(mention=str(Pubkey.new_unique()))) is None


def test_a_version_above_the_maximum_makes_the_block_null(local: LocalNode, payer: Keypair, block: Block) -> None:
    """No maximum means legacy only; the error names the version. The detail `signatures` shows no versions."""
    value = block_value(block, block.transactions, block_topic(max_version=None))
    assert value == {"slot": block.slot, "block": None, "err": {"UnsupportedTransactionVersion": 0}}
    value = block_value(block, block.transactions, block_topic(max_version=None, details="signatures"))
    assert value is not None and value["err"] is None
    message = Message.new_with_blockhash(
        [give(payer, Pubkey.new_unique(), 2_000_000)], payer.pubkey(), local.blockhash()
    )
    legacy = landed_block(local, VersionedTransaction(message, [payer]))
    value = block_value(legacy, legacy.transactions, block_topic(max_version=None))
    assert value is not None and len(value["block"]["transactions"]) == 1


@pytest.mark.parametrize("encoding", ["json", "jsonParsed", "base64"])
def test_a_block_with_v1_needs_a_maximum_of_one(local: LocalNode, payer: Keypair, encoding: str) -> None:
    """With a maximum of 0 the block is null; with 1 it is shown, and an independent library decodes it."""
    block = landed_block(local, v1(payer, Pubkey.new_unique(), 2_000_000, 777, local.blockhash()))
    value = block_value(block, block.transactions, block_topic(encoding=encoding, max_version=0))
    assert value == {"slot": block.slot, "block": None, "err": {"UnsupportedTransactionVersion": 1}}
    asked = block_topic(encoding=encoding, max_version=1)
    text = notification(asked, 4, in_slot(block.slot, block_value(block, block.transactions, asked)))
    (shown,) = parse_websocket_message(text)
    (transaction,) = shown.result.value.block.transactions  # type: ignore[union-attr]
    assert transaction.version == 1 and transaction.meta.fee == 5_777


@pytest.mark.parametrize("encoding", ["json", "jsonParsed", "base64"])
@pytest.mark.parametrize("max_version", [0, None])
def test_blocks_decode_in_a_client(block: Block, encoding: str, max_version: Any) -> None:
    """An independent library decodes whole blocks and null blocks."""
    asked = block_topic(encoding=encoding, max_version=max_version)
    text = notification(asked, 4, in_slot(block.slot, block_value(block, block.transactions, asked)))
    (shown,) = parse_websocket_message(text)
    value = shown.result.value  # type: ignore[union-attr]
    assert value.slot == block.slot
    assert (value.block is None) == (max_version is None) == (value.err is not None)


def test_each_complete_block_is_voted_for_once(local: LocalNode, listener: Listener) -> None:
    """This node's vote account votes with the blockhash, its identity signs, and solders decodes the notification."""
    listener.subscribe("voteSubscribe")
    slot = local.chain.levels.building.slot
    local.beat(2)
    texts = listener.texts()
    votes = [listener_result(text) for text in texts]
    assert [vote["slots"] for vote in votes] == [[slot], [slot + 1]]
    block = local.archive.block(slot)
    assert block is not None
    vote = votes[0]
    assert vote["votePubkey"] == str(local.keys.vote.pubkey())
    assert (vote["hash"], vote["timestamp"]) == (block.blockhash, block.unix_time)
    signed = f"vote {slot} {block.blockhash}".encode()
    assert Signature.from_string(vote["signature"]).verify(local.keys.identity.pubkey(), signed)
    (decoded,) = responses.parse_websocket_message(texts[0])
    assert isinstance(decoded, responses.VoteNotification)


def listener_result(text: str) -> dict[str, object]:
    message = orjson.loads(text)
    assert message["method"] == "voteNotification"
    result: dict[str, object] = message["params"]["result"]
    return result


NOW_MS = 1_700_000_000_123


def test_the_bytes_of_a_notification_are_stable() -> None:
    """The envelope has Agave's order of fields, and the id is an integer."""
    text = payloads.notification(SlotTopic(), 3, payloads.slot_result(12, 11, 4))
    assert text == (
        '{"jsonrpc":"2.0","method":"slotNotification",'
        '"params":{"result":{"parent":11,"root":4,"slot":12},"subscription":3}}'
    )


def test_logs_of_success_and_failure(local: LocalNode) -> None:
    """Failed transactions are notified too, with their error and their logs."""
    payer = local.wallet()
    landed = local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    failed = local.land(local.transfer(payer, Pubkey.new_unique(), 10**12))
    assert payloads.logs_value(landed) == {
        "signature": landed.signature,
        "err": None,
        "logs": ["Program 11111111111111111111111111111111 invoke [1]", *landed.meta.logs[1:]],
    }
    value = payloads.logs_value(failed)
    assert value["err"] == {"InstructionError": [0, {"Custom": 1}]} and "failed" in value["logs"][-1]
    topic = LogsTopic(None, Commitment.PROCESSED)
    for shown in (landed, failed):
        text = payloads.notification(topic, 1, payloads.in_slot(9, payloads.logs_value(shown)))
        (decoded,) = parse_websocket_message(text)
        assert str(decoded.result.value.signature) == shown.signature  # type: ignore[union-attr]


def test_every_update_of_a_slot_decodes_in_a_client(local: LocalNode) -> None:
    """All updates of a slot, from its first shred to its root, have a time in milliseconds and decode."""
    payer = local.wallet()
    records = (
        local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000)),
        local.land(local.transfer(payer, Pubkey.new_unique(), 10**12)),
    )
    block = Block(8, 7, 1, "", "", 0, records)
    updates = [
        *payloads.opened_updates(8, 7, NOW_MS),
        *payloads.sealed_updates(block, NOW_MS),
        payloads.confirmed_update(8, NOW_MS),
        payloads.root_update(8, NOW_MS),
    ]
    assert [update["type"] for update in updates] == [
        "firstShredReceived",
        "createdBank",
        "completed",
        "frozen",
        "optimisticConfirmation",
        "root",
    ]
    assert updates[1]["parent"] == 7 and {update["timestamp"] for update in updates} == {NOW_MS}
    assert updates[3]["stats"] == {
        "numTransactionEntries": 2,
        "numSuccessfulTransactions": 1,
        "numFailedTransactions": 1,
        "maxTransactionsPerEntry": 1,
    }
    for update in updates:
        (decoded,) = parse_websocket_message(payloads.notification(SlotsUpdatesTopic(), 1, update))
        assert isinstance(decoded, SlotUpdateNotification) and decoded.result.slot == 8


def test_an_empty_slot_has_no_entries() -> None:
    """A slot without transactions has no transaction entries."""
    *_, frozen = payloads.sealed_updates(Block(8, 7, 1, "", "", 0, ()), NOW_MS)
    assert set(frozen["stats"].values()) == {0}
