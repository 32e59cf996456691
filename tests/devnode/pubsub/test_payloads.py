import pytest
from solders.pubkey import Pubkey
from solders.rpc.responses import SlotUpdateNotification, parse_websocket_message

from devnode.pubsub import payloads
from devnode.pubsub.topics import LogsTopic, SignatureTopic, SlotsUpdatesTopic, SlotTopic
from devnode.records.commitment import Commitment
from devnode.records.records import Block
from tests.devnode.local_node import LocalNode

NOW_MS = 1_700_000_000_123


def test_the_bytes_of_a_notification_are_stable() -> None:
    """The envelope has Agave's order of fields, and the id is an integer."""
    text = payloads.notification(SlotTopic(), 3, payloads.slot_result(12, 11, 4))
    assert text == (
        '{"jsonrpc":"2.0","method":"slotNotification",'
        '"params":{"result":{"parent":11,"root":4,"slot":12},"subscription":3}}'
    )


def test_a_context_holds_the_slot_alone() -> None:
    """The context of a reply has apiVersion, that of a notification has not."""
    assert payloads.in_slot(5, "x") == {"context": {"slot": 5}, "value": "x"}


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


@pytest.mark.parametrize("err", [None, "AccountNotFound"])
def test_signatures_decode_in_a_client(err: str | None) -> None:
    """The result of a signature is an error, or null for success."""
    topic = SignatureTopic("", Commitment.CONFIRMED, False)
    text = payloads.notification(topic, 1, payloads.in_slot(9, payloads.signature_value(err)))
    (decoded,) = parse_websocket_message(text)
    assert decoded.result.context.slot == 9  # type: ignore[union-attr]
    assert (decoded.result.value.err is None) == (err is None)  # type: ignore[union-attr]


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
