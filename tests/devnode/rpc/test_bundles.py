"""simulateBundle in jito-solana's form: transactions run in order, and all changes are undone."""

from typing import Any

import pytest
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.records.commitment import Commitment
from tests.devnode.local_node import LocalNode, give, text

FREE = {"preExecutionAccountsConfigs": [], "postExecutionAccountsConfigs": []}


def bundle(*transactions: VersionedTransaction) -> dict[str, Any]:
    return {"encodedTransactions": [text(one) for one in transactions]}


def config(count: int, **fields: Any) -> dict[str, Any]:
    none: list[Any] = [None] * count
    return {"preExecutionAccountsConfigs": none, "postExecutionAccountsConfigs": none} | fields


def test_each_transaction_sees_the_one_before(local: LocalNode) -> None:
    """A wallet that receives lamports in the first can spend them in the second; the chain does not change."""
    payer, middle, last = local.wallet(), Keypair(), Pubkey.new_unique()
    first = local.transfer(payer, middle.pubkey(), 5_000_000)
    second = local.transfer(middle, last, 2_000_000)
    wanted = [{"encoding": "base64", "addresses": [str(middle.pubkey())]}] * 2
    both = {"preExecutionAccountsConfigs": wanted, "postExecutionAccountsConfigs": wanted}
    result = local.call("simulateBundle", bundle(first, second), both)
    assert set(result["context"]) == {"apiVersion", "slot"}
    assert result["context"]["slot"] == local.chain.levels.at(Commitment.CONFIRMED).slot
    assert result["value"]["summary"] == "succeeded"
    one, two = result["value"]["transactionResults"]
    empty = {
        "data": ["", "base64"],
        "executable": False,
        "lamports": 0,
        "owner": "11111111111111111111111111111111",
        "rentEpoch": 0,
        "space": 0,
    }
    assert one["preExecutionAccounts"] == [empty]
    assert one["postExecutionAccounts"][0]["lamports"] == 5_000_000
    assert two["preExecutionAccounts"] == one["postExecutionAccounts"]
    assert two["preBalances"] == [5_000_000, 0, 1]
    assert two["postBalances"] == [5_000_000 - 2_000_000 - 5_000, 2_000_000, 1]
    assert (two["err"], two["fee"], two["unitsConsumed"], two["returnData"]) == (None, 5_000, 150, None)
    assert two["logs"][0] == "Program 11111111111111111111111111111111 invoke [1]"
    assert set(two) == {
        *("err", "fee", "loadedAccountsDataSize", "loadedAddresses", "logs", "postBalances", "postExecutionAccounts"),
        *("postTokenBalances", "preBalances", "preExecutionAccounts", "preTokenBalances", "replacementBlockhash"),
        *("returnData", "unitsConsumed"),
    }
    assert local.chain.vm.account(last) is None and list(local.chain.open_transactions()) == []


def test_the_first_failure_ends_the_simulation(local: LocalNode) -> None:
    """The results end with the failed transaction, and the summary names it."""
    payer = local.wallet()
    good = local.transfer(payer, Pubkey.new_unique(), 5_000_000)
    bad = local.transfer(payer, Pubkey.new_unique(), 10**12)
    never = local.transfer(payer, Pubkey.new_unique(), 6_000_000)
    value = local.call("simulateBundle", bundle(good, bad, never))["value"]
    assert [one["err"] for one in value["transactionResults"]] == [None, {"InstructionError": [0, {"Custom": 1}]}]
    assert value["transactionResults"][1]["logs"]
    signature = bad.signatures[0]
    reason = "Error processing Instruction 0: custom program error: 0x1"
    assert value["summary"] == {
        "failed": {
            "error": {"TransactionFailure": [list(bytes(signature)), reason]},
            "tx_signature": str(signature),
        }
    }


def test_without_configuration_no_accounts_are_shown(local: LocalNode) -> None:
    payment = local.transfer(local.wallet(), Pubkey.new_unique(), 5_000_000)
    (one,) = local.call("simulateBundle", bundle(payment))["value"]["transactionResults"]
    assert one["preExecutionAccounts"] == one["postExecutionAccounts"] == []
    assert one["replacementBlockhash"] is None


def test_a_replaced_blockhash_is_shown_and_needs_no_signature(local: LocalNode) -> None:
    payer = local.wallet()
    stale = local.chain.blockhashes.entries()[0].blockhash
    message = MessageV0.try_compile(payer.pubkey(), [give(payer, Pubkey.new_unique(), 5_000_000)], [], stale)
    unsigned = VersionedTransaction.populate(message, [Signature.default()])
    local.chain.expire_blockhashes()
    options = config(1, skipSigVerify=True, replaceRecentBlockhash=True)
    value = local.call("simulateBundle", bundle(unsigned), options)["value"]
    latest = local.call("getLatestBlockhash", {"commitment": "confirmed"})["value"]
    assert value["summary"] == "succeeded"
    assert value["transactionResults"][0]["replacementBlockhash"] == latest
    kept = local.call("simulateBundle", bundle(unsigned), config(1, skipSigVerify=True))["value"]
    assert kept["transactionResults"][0]["err"] == "BlockhashNotFound"


def test_the_bank_is_chosen_by_level_slot_or_tip(local: LocalNode) -> None:
    """Lamports that are not confirmed yet can only be spent at the tip."""
    payer, slot = Keypair(), local.chain.levels.building.slot
    blockhash = local.blockhash()
    local.faucet.airdrop(payer.pubkey(), 10**9)
    message = MessageV0.try_compile(payer.pubkey(), [give(payer, Pubkey.new_unique(), 5_000_000)], [], blockhash)
    payment = bundle(VersionedTransaction(message, [payer]))
    for bank, succeeds in (
        ("tip", True),
        ({"commitment": {"commitment": "processed"}}, True),
        ({"slot": slot}, True),
        (None, False),
        ({"slot": slot - 1}, False),
        ({"commitment": {"commitment": "finalized"}}, False),
    ):
        value = local.call("simulateBundle", payment, config(1, simulationBank=bank))["value"]
        assert (value["summary"] == "succeeded") == succeeds, bank
    for unknown in (slot + 1, 3):
        assert local.error("simulateBundle", payment, config(1, simulationBank={"slot": unknown})) == (
            -32602,
            f"bank not found for the provided slot: {unknown}",
        )


def test_a_landed_transaction_is_already_processed(local: LocalNode) -> None:
    payment = local.transfer(local.wallet(), Pubkey.new_unique(), 5_000_000)
    local.land(payment)
    value = local.call("simulateBundle", bundle(payment), config(1, simulationBank="tip"))["value"]
    assert value["transactionResults"][0]["err"] == "AlreadyProcessed"
    assert "has already been processed" in value["summary"]["failed"]["error"]["TransactionFailure"][1]


def one(local: LocalNode) -> VersionedTransaction:
    return local.transfer(local.wallet(), Pubkey.new_unique(), 5_000_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (FREE, "pre/post_execution_accounts_configs must be equal in length to the number of transactions"),
        ({}, "Invalid params: missing field `preExecutionAccountsConfigs`."),
        (config(1, transactionEncoding="base58"), "Base64 is the only supported encoding for transactions"),
        (
            config(1, preExecutionAccountsConfigs=[{"encoding": "jsonParsed", "addresses": []}]),
            "Base64 is the only supported encoding for pre-execution accounts",
        ),
        (
            config(1, postExecutionAccountsConfigs=[{"encoding": "base58", "addresses": []}]),
            "Base64 is the only supported encoding for post-execution accounts",
        ),
        (
            config(1, postExecutionAccountsConfigs=[{"addresses": [str(Pubkey.default())] * 129}]),
            "Too many accounts provided; max 128",
        ),
        (config(1, postExecutionAccountsConfigs=[{}]), "Invalid params: missing field `addresses`."),
        (
            config(1, replaceRecentBlockhash=True),
            "replace_recent_blockhash cannot be used with !skip_sig_verify",
        ),
        (
            config(1, simulationBank="top"),
            "Invalid params: unknown variant `top`, expected one of `commitment`, `slot`, `tip`.",
        ),
    ],
)
def test_bad_configurations_are_refused(local: LocalNode, change: dict[str, Any], message: str) -> None:
    """Each is error -32602 with jito-solana's text."""
    assert local.error("simulateBundle", bundle(one(local)), change) == (-32602, message)


def test_bad_bundles_are_refused(local: LocalNode) -> None:
    """More than 20 transactions, a duplicate, a bad signature, other parameters than jito-solana's."""
    payment = one(local)
    again = VersionedTransaction.populate(payment.message, [Signature.default()])
    for request, reason in (
        ({"encodedTransactions": ["AA=="] * 21}, "bundle size too large, max 20 transactions"),
        (bundle(payment, again), "duplicate transactions"),
        (bundle(again), "transaction signature is invalid: Transaction did not pass signature verification"),
        ({"transactions": []}, "Invalid params: missing field `encodedTransactions`."),
    ):
        assert local.error("simulateBundle", request) == (-32602, reason)
    assert local.error("simulateBundle", ["AA=="])[0] == -32602
    assert local.error("simulateBundle", {"encodedTransactions": ["AA=="]})[0] == -32602
