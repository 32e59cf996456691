import base64
import json
from typing import Any

import base58
import pytest
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.rpc.responses import GetTransactionResp
from solders.transaction import VersionedTransaction

from devnode.parsing.transactions import (
    UnsupportedVersion,
    return_data_json,
    transaction_accounts_json,
    transaction_json,
)
from devnode.records.records import TransactionRecord
from tests.devnode.execution.test_execution import v1
from tests.devnode.local_node import LocalNode, give
from tests.devnode.records.test_records import META


def as_response(body: dict[str, Any]) -> Any:
    """Decode the JSON with the types of an independent library."""
    result = {"slot": 5, "blockTime": 6} | body
    return GetTransactionResp.from_json(json.dumps({"jsonrpc": "2.0", "id": 0, "result": result})).value


@pytest.fixture
def record(local: LocalNode) -> TransactionRecord:
    """The faucet's USDC transaction: it creates an account and mints, with four inner instructions."""
    local.faucet.fund(Pubkey.new_unique(), 0, 5_000_000)
    return list(local.chain.open_transactions())[-1]


@pytest.mark.parametrize("encoding", ["json", "jsonParsed", "base64", "base58", "binary"])
def test_an_independent_library_reads_every_encoding(record: TransactionRecord, encoding: str) -> None:
    value = as_response(transaction_json(record, encoding, 0))
    meta = value.transaction.meta
    assert meta.fee == record.meta.fee_lamports and meta.compute_units_consumed == record.meta.compute_units
    assert tuple(meta.post_balances) == record.meta.post_lamports
    assert meta.post_token_balances[0].ui_token_amount.amount == "5000000"
    assert len(meta.inner_instructions[0].instructions) == 4
    assert value.transaction.version == 0


def test_the_binary_encodings_hold_the_transaction(record: TransactionRecord) -> None:
    assert transaction_json(record, "base64", 0)["transaction"] == [base64.b64encode(record.raw).decode(), "base64"]
    text = base58.b58encode(record.raw).decode()
    assert transaction_json(record, "base58", 0)["transaction"] == [text, "base58"]
    assert transaction_json(record, "binary", 0)["transaction"] == text


def test_json_names_accounts_by_number_and_parsed_by_key(record: TransactionRecord) -> None:
    raw = transaction_json(record, "json", 0)
    keys = raw["transaction"]["message"]["accountKeys"]
    assert keys == list(record.keys) and raw["meta"]["loadedAddresses"] == {"readonly": [], "writable": []}
    parsed = transaction_json(record, "jsonParsed", 0)
    assert "loadedAddresses" not in parsed["meta"]
    shown = parsed["transaction"]["message"]["accountKeys"]
    assert [one["pubkey"] for one in shown] == keys
    assert shown[0] == {"pubkey": keys[0], "signer": True, "source": "transaction", "writable": True}
    assert {one["writable"] for one in shown if one["pubkey"].startswith("1111")} == {False}
    kinds = [one.get("program") for one in parsed["transaction"]["message"]["instructions"]]
    assert kinds == [None, "spl-associated-token-account", "spl-token"]
    inner = parsed["meta"]["innerInstructions"][0]
    assert inner["index"] == 1 and [one["program"] for one in inner["instructions"]].count("spl-token") == 3


def test_a_version_above_the_maximum_of_the_caller_is_refused(local: LocalNode) -> None:
    """No maximum means legacy only; a legacy transaction then has no version field."""
    payer = local.wallet()
    instruction = give(payer, Pubkey.new_unique(), 2_000_000)
    message = Message.new_with_blockhash([instruction], payer.pubkey(), local.blockhash())
    legacy = local.land(VersionedTransaction(message, [payer]))
    zero = local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
    one = local.land(v1(payer, Pubkey.new_unique(), 2_000_000, 777, local.blockhash()))
    assert "version" not in transaction_json(legacy, "json", None)
    assert transaction_json(legacy, "json", 0)["version"] == "legacy"
    assert transaction_json(zero, "json", 1)["version"] == 0
    shown = transaction_json(one, "json", 1)
    assert shown["version"] == 1 and shown["meta"]["fee"] == 5_777
    assert shown["transaction"]["message"]["transactionConfig"]["priorityFee"] == 777
    assert "addressTableLookups" not in shown["transaction"]["message"]
    for record, maximum in ((zero, None), (one, None), (one, 0)):
        with pytest.raises(UnsupportedVersion):
            transaction_json(record, "json", maximum)


def test_a_failure_is_in_err_and_status(local: LocalNode) -> None:
    """The meta has the error twice: in `err`, and in the older field `status`."""
    payer = local.wallet()
    failed = local.land(local.transfer(payer, Pubkey.new_unique(), 10**12))
    meta = transaction_json(failed, "json", 0)["meta"]
    assert meta["err"] == {"InstructionError": [0, {"Custom": 1}]} and meta["status"] == {"Err": meta["err"]}
    assert as_response(transaction_json(failed, "json", 0)).transaction.meta.err is not None


def test_the_short_form_has_keys_and_balances_only(record: TransactionRecord) -> None:
    shown = transaction_accounts_json(record, 0)
    assert set(shown["transaction"]) == {"accountKeys", "signatures"}
    assert set(shown["meta"]) == {
        "err",
        "fee",
        "postBalances",
        "postTokenBalances",
        "preBalances",
        "preTokenBalances",
        "status",
    }


def test_return_data() -> None:
    """Return data is base64 with the program that set it; null when no program did."""
    assert return_data_json(None) is None
    assert return_data_json(META.return_data) == {"data": ["AAE=", "base64"], "programId": "program"}


def test_signatures_of_all_signers_are_shown(local: LocalNode) -> None:
    payer, second = local.wallet(), Keypair()
    local.faucet.airdrop(second.pubkey(), 10**9)
    message = Message.new_with_blockhash(
        [give(payer, Pubkey.new_unique(), 2_000_000), give(second, Pubkey.new_unique(), 2_000_000)],
        payer.pubkey(),
        local.blockhash(),
    )
    record = local.land(VersionedTransaction(message, [payer, second]))
    assert len(transaction_json(record, "json", None)["transaction"]["signatures"]) == 2
