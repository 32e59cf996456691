import base64

from solders.pubkey import Pubkey
from solders.rpc import responses
from solders.signature import Signature

from tests.devnode.execution.test_execution import v1
from tests.devnode.local_node import ROOT_DEPTH, LocalNode

UNKNOWN = str(Signature.from_bytes(b"\x07" * 64))
V0 = {"maxSupportedTransactionVersion": 0}


def test_a_transaction_is_shown_from_confirmed_on(local: LocalNode) -> None:
    payer = local.wallet()
    record = local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    confirmed = V0 | {"commitment": "confirmed"}
    assert local.call("getTransaction", record.signature, confirmed) is None
    local.beat()
    shown = local.call("getTransaction", record.signature, confirmed)
    assert (shown["slot"], shown["transactionIndex"]) == (record.slot, 0) and shown["blockTime"] > 0
    assert local.call("getTransaction", record.signature, V0) is None
    local.finalize()
    assert local.call("getTransaction", record.signature, V0) == shown
    assert local.error("getTransaction", record.signature)[0] == -32015
    assert local.error("getTransaction", record.signature, {"commitment": "processed"})[0] == -32602
    assert local.call("getTransaction", UNKNOWN) is None
    assert local.error("getTransaction", "abc") == (-32602, "Invalid param: WrongSize")
    raw = local.raw_reply("getTransaction", record.signature, V0 | {"encoding": "jsonParsed"})
    assert responses.GetTransactionResp.from_json(raw).value is not None


def test_the_second_parameter_may_be_the_encoding(local: LocalNode) -> None:
    record = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    local.finalize()
    assert local.error("getTransaction", record.signature, "base64")[0] == -32015


def test_a_status_shows_each_commitment_in_turn(local: LocalNode) -> None:
    record = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))

    def status() -> tuple[str, int | None]:
        raw = local.raw_reply("getSignatureStatuses", [record.signature, UNKNOWN])
        assert responses.GetSignatureStatusesResp.from_json(raw).value[1] is None
        value = local.call("getSignatureStatuses", [record.signature])["value"][0]
        assert value["err"] is None and value["status"] == {"Ok": None} and value["slot"] == record.slot
        return value["confirmationStatus"], value["confirmations"]

    assert status() == ("processed", 0)
    local.beat()
    assert status() == ("confirmed", 1)
    local.beat(ROOT_DEPTH - 1)
    assert status() == ("finalized", None)


def test_old_statuses_need_a_search_of_the_history(local: LocalNode) -> None:
    failed = local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 10**12))
    local.beat(305)
    assert local.call("getSignatureStatuses", [failed.signature])["value"] == [None]
    (found,) = local.call("getSignatureStatuses", [failed.signature], {"searchTransactionHistory": True})["value"]
    assert found["err"] == {"InstructionError": [0, {"Custom": 1}]} and found["confirmationStatus"] == "finalized"
    assert local.error("getSignatureStatuses", [UNKNOWN] * 257) == (-32602, "Too many inputs provided; max 256")


def test_history_of_an_address(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    records = []
    for amount in (2_000_000, 10**12, 3_000_000):
        records.append(local.land(local.transfer(payer, to, amount)))
        local.beat()
    signatures = [record.signature for record in records][::-1]
    confirmed = {"commitment": "confirmed"}

    def history(**config: object) -> list[str]:
        rows = local.call("getSignaturesForAddress", str(to), confirmed | config)
        return [row["signature"] for row in rows]

    assert history() == signatures
    assert history(limit=1) == signatures[:1]
    assert history(before=signatures[0]) == signatures[1:]
    assert history(until=signatures[2]) == signatures[:2]
    assert history(before=signatures[0], until=signatures[2]) == signatures[1:2]
    rows = local.call("getSignaturesForAddress", str(to), confirmed)
    assert [row["err"] is None for row in rows] == [True, False, True]
    assert rows[0]["confirmationStatus"] == "confirmed" and rows[0]["memo"] is None
    raw = local.raw_reply("getSignaturesForAddress", str(to), confirmed)
    assert len(responses.GetSignaturesForAddressResp.from_json(raw).value) == 3


def test_history_from_an_unknown_signature_is_an_error(local: LocalNode) -> None:
    """An empty list would look like the end of the history."""
    address = str(local.wallet().pubkey())
    for name in ("before", "until"):
        assert local.error("getSignaturesForAddress", address, {name: UNKNOWN}) == (
            -32020,
            f"Transaction {UNKNOWN} not found",
        )
    assert local.error("getSignaturesForAddress", address, {"limit": 0})[0] == -32602
    assert local.error("getSignaturesForAddress", address, {"limit": 1_001})[0] == -32602
    assert local.error("getSignaturesForAddress", address, {"minContextSlot": 10**9})[0] == -32016


def test_the_count_grows_with_each_landed_transaction(local: LocalNode) -> None:
    processed = {"commitment": "processed"}
    before = local.call("getTransactionCount", processed)
    local.land(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    assert local.call("getTransactionCount", processed) == before + 2


def test_a_version_above_the_maximum_is_an_error(local: LocalNode) -> None:
    """No maximum allows legacy only, 0 refuses v1, 1 allows all three. A simulation does not check the version."""
    payer = local.wallet()
    one = v1(payer, Pubkey.new_unique(), 2_000_000, 777, local.blockhash())
    zero = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    encoded = base64.b64encode(bytes(one)).decode()
    options = {"encoding": "base64", "commitment": "processed", "maxSupportedTransactionVersion": 0}
    assert local.call("simulateTransaction", encoded, options)["value"]["err"] is None
    for transaction in (one, zero):
        local.land(transaction)
    slot = local.chain.levels.building.slot
    local.finalize()
    for transaction, version in ((one, 1), (zero, 0)):
        signature = str(transaction.signatures[0])
        for limit in (None, 0, 1):
            config = {"maxSupportedTransactionVersion": limit}
            if limit is None or limit < version:
                code, text = local.error("getTransaction", signature, config)
                assert code == -32015 and text.startswith(f"Transaction version ({version}) is not supported")
            else:
                assert local.call("getTransaction", signature, config)["version"] == version
    assert local.error("getBlock", slot, {"maxSupportedTransactionVersion": 0})[0] == -32015
    shown = local.call("getBlock", slot, {"maxSupportedTransactionVersion": 1})["transactions"]
    assert [transaction["version"] for transaction in shown] == [1, 0]
    signatures = local.call("getBlock", slot, {"transactionDetails": "signatures"})["signatures"]
    assert len(signatures) == 2
