import base64
import json
from typing import Any

import base58
import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.rpc import responses
from solders.rpc.errors import SendTransactionPreflightFailureMessage
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.faults.plan import read_plan
from tests.devnode.encoding.test_wire import memo
from tests.devnode.execution.test_execution import v1
from tests.devnode.local_node import LocalNode, give, text

BASE64 = {"encoding": "base64", "preflightCommitment": "processed"}


def test_a_sent_transaction_lands_and_its_signature_is_returned(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    transaction = local.transfer(payer, to, 2_000_000)
    assert local.call("sendTransaction", text(transaction), BASE64) == str(transaction.signatures[0])
    assert local.call("getBalance", str(to), {"commitment": "processed"})["value"] == 2_000_000


def test_base58_is_the_default_encoding(local: LocalNode) -> None:
    transaction = local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000)
    encoded = base58.b58encode(bytes(transaction)).decode()
    assert local.call("sendTransaction", encoded, {"preflightCommitment": "processed"})


def test_preflight_at_finalized_does_not_know_a_new_hash(local: LocalNode) -> None:
    """Preflight is at finalized by default, so a confirmed blockhash can be refused; data.err has the reason."""
    transaction = local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000)
    reply = local.reply("sendTransaction", text(transaction), {"encoding": "base64"})["error"]
    assert (reply["code"], reply["message"]) == (-32002, "Transaction simulation failed: Blockhash not found")
    assert reply["data"]["err"] == "BlockhashNotFound"


def test_a_program_error_stops_at_preflight(local: LocalNode) -> None:
    payer = local.wallet()
    transaction = local.transfer(payer, Pubkey.new_unique(), 10**12)
    raw = local.raw_reply("sendTransaction", text(transaction), BASE64)
    failure = SendTransactionPreflightFailureMessage.from_json(json.dumps(json.loads(raw)["error"]))
    assert failure.data.err is not None and failure.data.units_consumed == 150
    assert "insufficient lamports" in (failure.data.logs or [""])[1]
    assert local.call("getSignatureStatuses", [str(transaction.signatures[0])])["value"] == [None]


def test_without_preflight_it_lands_and_fails(local: LocalNode) -> None:
    transaction = local.transfer(local.wallet(), Pubkey.new_unique(), 10**12)
    assert local.call("sendTransaction", text(transaction), BASE64 | {"skipPreflight": True})
    (status,) = local.call("getSignatureStatuses", [str(transaction.signatures[0])])["value"]
    assert status["err"] == {"InstructionError": [0, {"Custom": 1}]}


def test_without_preflight_a_bad_signature_gets_no_error(local: LocalNode) -> None:
    """A node forwards a transaction it did not check, and the leader drops it."""
    good = local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000)
    forged = VersionedTransaction.populate(good.message, [Signature.from_bytes(b"\x05" * 64)])
    assert local.call("sendTransaction", text(forged), BASE64 | {"skipPreflight": True})
    assert local.call("getSignatureStatuses", [str(forged.signatures[0])])["value"] == [None]


def test_a_bad_signature_fails_preflight(local: LocalNode) -> None:
    good = local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000)
    forged = VersionedTransaction.populate(good.message, [Signature.from_bytes(b"\x05" * 64)])
    error = local.reply("sendTransaction", text(forged), BASE64)["error"]
    assert (error["code"], error["data"]["err"]) == (-32002, "SignatureFailure")


def test_preflight_refuses_a_duplicate(local: LocalNode) -> None:
    transaction = local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000)
    local.call("sendTransaction", text(transaction), BASE64)
    assert local.error("sendTransaction", text(transaction), BASE64) == (
        -32002,
        "Transaction simulation failed: This transaction has already been processed",
    )
    assert local.call("sendTransaction", text(transaction), BASE64 | {"skipPreflight": True})


def test_an_unhealthy_node_refuses_preflight(local: LocalNode) -> None:
    transaction = local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000)
    local.node.faults.set(read_plan({"node": {"unhealthy": True}}))
    assert local.error("sendTransaction", text(transaction), BASE64)[0] == -32005
    assert local.call("sendTransaction", text(transaction), BASE64 | {"skipPreflight": True})


@pytest.mark.parametrize(
    ("body", "config", "fragment"),
    [
        ("!!", {"encoding": "base64"}, "invalid base64 encoding"),
        ("0OIl", {}, "invalid base58 encoding"),
        ("0OIl", {"encoding": "binary"}, "invalid base58 encoding"),
        ("AAAA", {"encoding": "base64"}, "failed to deserialize"),
        ("AAAA", {"encoding": "json"}, "unsupported encoding"),
        ("A" * 1_645, {"encoding": "base64"}, "too large: 1645 bytes (max: encoded/raw 1644/1232)"),
        ("1" * 1_684, {}, "too large: 1684 bytes (max: encoded/raw 1683/1232)"),
        ("gQ" + "A" * 5_463, {"encoding": "base64"}, "(max: encoded/raw 5464/4096)"),
        (5, {}, "expected a string"),
    ],
)
def test_unreadable_transactions(local: LocalNode, body: Any, config: dict[str, Any], fragment: str) -> None:
    """A transaction that cannot be decoded or is too large is error -32602; the message names the reason."""
    code, message = local.error("sendTransaction", body, config)
    assert code == -32602 and fragment in message


def test_a_v1_transaction_is_accepted(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    transaction = v1(payer, to, 2_000_000, 777, local.blockhash())
    local.call("sendTransaction", text(transaction), BASE64)
    assert local.call("getBalance", str(payer.pubkey()), {"commitment": "processed"})["value"] == (
        10**9 - 2_000_000 - 5_777
    )


def test_simulation_shows_all_results(local: LocalNode) -> None:
    """A simulation shows the results of a send, with all optional parts, and changes no balance."""
    payer, to = local.wallet(), Pubkey.new_unique()
    transaction = local.transfer(payer, to, 2_000_000)
    config = {
        "encoding": "base64",
        "commitment": "processed",
        "sigVerify": True,
        "innerInstructions": True,
        "accounts": {"addresses": [str(to), str(payer.pubkey())], "encoding": "base64"},
    }
    value = local.call("simulateTransaction", text(transaction), config)["value"]
    assert value["err"] is None and value["fee"] == 5_000 and value["unitsConsumed"] == 150
    assert [one["lamports"] for one in value["accounts"]] == [2_000_000, 10**9 - 2_005_000]
    assert value["preBalances"][:2] == [10**9, 0] and value["postBalances"][1] == 2_000_000
    assert value["innerInstructions"] == [] and value["replacementBlockhash"] is None
    raw = local.raw_reply("simulateTransaction", text(transaction), config)
    assert responses.SimulateTransactionResp.from_json(raw).value.units_consumed == 150
    assert local.call("getBalance", str(to), {"commitment": "processed"})["value"] == 0


def test_simulation_of_a_stale_unsigned_transaction(local: LocalNode) -> None:
    payer = local.wallet()
    old = local.chain.blockhashes.entries()[0].blockhash
    local.beat(160)
    good = local.signed(payer, give(payer, Pubkey.new_unique(), 2_000_000), blockhash=old)
    unsigned = text(VersionedTransaction.populate(good.message, [Signature.default()]))
    base = {"encoding": "base64", "commitment": "confirmed"}
    assert local.call("simulateTransaction", unsigned, base)["value"]["err"] == "BlockhashNotFound"
    fresh = local.call("simulateTransaction", unsigned, base | {"replaceRecentBlockhash": True})["value"]
    latest = local.call("getLatestBlockhash", {"commitment": "confirmed"})["value"]
    assert fresh["err"] is None and fresh["replacementBlockhash"] == latest
    both = {"sigVerify": True, "replaceRecentBlockhash": True}
    assert local.error("simulateTransaction", unsigned, base | both)[0] == -32602


def test_simulation_refuses_bad_account_requests(local: LocalNode) -> None:
    transaction = text(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    base = {"encoding": "base64", "commitment": "processed"}
    for accounts, fragment in (
        ({"addresses": ["x"]}, "Invalid param"),
        ({"addresses": [], "encoding": "base58"}, "base58 encoding not supported"),
        ({"addresses": [str(Pubkey.default())] * 4}, "Too many accounts provided; max 3"),
        ({}, "expected a sequence"),
        ("x", "expected struct"),
    ):
        code, message = local.error("simulateTransaction", transaction, base | {"accounts": accounts})
        assert code == -32602 and fragment in message


def test_an_airdrop_is_a_real_transaction(local: LocalNode) -> None:
    wallet = Pubkey.new_unique()
    signature = local.call("requestAirdrop", str(wallet), 10**9)
    local.finalize()
    assert local.call("getBalance", str(wallet))["value"] == 10**9
    assert local.call("getTransaction", signature, {"maxSupportedTransactionVersion": 0})["meta"]["err"] is None
    assert local.error("requestAirdrop", str(wallet), 2**63)[0] == -32602
    assert local.error("requestAirdrop", "x", 1)[0] == -32602


def test_the_fee_of_a_message(local: LocalNode) -> None:
    payer = local.wallet()
    instructions = [
        set_compute_unit_limit(1_000_000),
        set_compute_unit_price(2_000),
        give(payer, Pubkey.new_unique(), 1),
    ]

    def fee(blockhash: Any, commitment: str) -> Any:
        message = MessageV0.try_compile(payer.pubkey(), instructions, [], blockhash)
        encoded = base64.b64encode(to_bytes_versioned(message)).decode()
        return local.call("getFeeForMessage", encoded, {"commitment": commitment})["value"]

    assert fee(local.blockhash(), "processed") == 5_000 + 2_000
    assert fee(local.blockhash(), "finalized") is None
    assert fee(local.chain.blockhashes.entries()[0].blockhash, "finalized") == 7_000
    assert local.error("getFeeForMessage", "AAAA")[0] == -32602


def test_the_announced_fee_is_the_charged_fee(local: LocalNode) -> None:
    payer = local.wallet()
    transaction = local.signed(
        payer, set_compute_unit_price(1_234_567), memo(20), give(payer, Pubkey.new_unique(), 2_000_000)
    )
    encoded = base64.b64encode(to_bytes_versioned(transaction.message)).decode()
    said = local.call("getFeeForMessage", encoded, {"commitment": "processed"})["value"]
    assert local.land(transaction).meta.fee_lamports == said


def test_min_context_slot_when_sending(local: LocalNode) -> None:
    transaction = text(local.transfer(local.wallet(), Pubkey.new_unique(), 2_000_000))
    assert local.error("sendTransaction", transaction, BASE64 | {"minContextSlot": 10**9})[0] == -32016


def test_a_payer_without_lamports_is_refused(local: LocalNode) -> None:
    stranger = Keypair()
    error = local.reply("sendTransaction", text(local.transfer(stranger, Pubkey.new_unique(), 1)), BASE64)["error"]
    assert error["message"].endswith("Attempt to debit an account but found no record of a prior credit.")


@pytest.mark.parametrize("lamports", [10**12, 1])
def test_a_failed_preflight_has_the_same_error_in_one_run_and_in_two(local: LocalNode, lamports: int) -> None:
    """A client cannot tell preflight and landing in one run from two runs: logs, units, error and data are equal."""
    payer, to = local.wallet(), Pubkey.new_unique()
    encoded = text(local.transfer(payer, to, lamports))
    at_once = local.reply("sendTransaction", encoded, BASE64)["error"]
    local.node.faults.set(read_plan({"sends": {"tpu": {"drop_share": 1}}}))  # Any fault of sends: two runs.
    assert local.reply("sendTransaction", encoded, BASE64)["error"] == at_once
    assert at_once["code"] == -32002 and local.call("getBalance", str(payer.pubkey()), BASE64)["value"] == 10**9
