"""Launches and trades over JSON-RPC, in bundles, with lookup tables and durable nonces, and on lost forks."""

import base64
from typing import Any

import pytest
from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.launch_programs import pdas
from actors.launch_programs.addresses import EVENT_AUTHORITY, PUMP
from actors.launch_programs.events import CreateEvent, TradeEvent, decode_event
from actors.launch_programs.instructions import Kind
from devnode.encoding.addresses import ADDRESS_LOOKUP_TABLE_PROGRAM
from devnode.records.blockhashes import stored_value
from tests.devnode.execution.test_execution import advance
from tests.devnode.local_node import nonce_instructions, text
from tests.devnode.pad import SOL, Pad


def landed(pad: Pad, signature: str, encoding: str) -> Any:
    config = {"encoding": encoding, "commitment": "confirmed", "maxSupportedTransactionVersion": 0}
    return pad.local.call("getTransaction", signature, config)


@pytest.mark.parametrize("encoding", ["json", "jsonParsed", "base64"])
def test_a_transaction_has_all_data_for_a_classifier(pad: Pad, encoding: str) -> None:
    """A launch and a buy have their events in inner instructions and in the log, and token balances."""
    mint = Keypair()
    key = mint.pubkey()
    pad.local.finalize()
    launch = pad.transaction(pad.creation(key), signers=(mint,))
    pad.local.finalize()
    pad.local.call("sendTransaction", text(launch), {"encoding": "base64"})
    pad.local.finalize()
    buy = pad.transaction(pad.base_account(key), pad.trade(key, Kind.BUY, 10**9, SOL))
    pad.local.finalize()
    pad.local.call("sendTransaction", text(buy), {"encoding": "base64"})
    pad.local.finalize()
    meta = landed(pad, str(buy.signatures[0]), encoding)["meta"]
    assert meta["err"] is None and {one["mint"] for one in meta["postTokenBalances"]} == {str(key)}
    logged = [line for line in meta["logMessages"] if line.startswith("Program data: ")]
    assert len(logged) == 1 and isinstance(decode_event(base64.b64decode(logged[0][14:])), TradeEvent)
    created = landed(pad, str(launch.signatures[0]), encoding)["meta"]
    (group,) = created["innerInstructions"]
    if encoding == "jsonParsed":
        assert group["instructions"][-1]["programId"] == str(PUMP)
        assert group["instructions"][-1]["accounts"] == [str(EVENT_AUTHORITY)]
    (line,) = [line for line in created["logMessages"] if line.startswith("Program data: ")]
    assert isinstance(decode_event(base64.b64decode(line[14:])), CreateEvent)


def test_a_failed_preflight_has_error_and_log(pad: Pad) -> None:
    mint = pad.coin()
    pad.local.finalize()
    bad = pad.transaction(pad.trade(mint, Kind.BUY, 10**9, 1))
    pad.local.finalize()
    reply = pad.local.reply("sendTransaction", text(bad), {"encoding": "base64"})["error"]
    assert reply["code"] == -32002 and reply["data"]["err"] == {"InstructionError": [0, {"Custom": 6002}]}
    assert any("TooMuchSolRequired" in line for line in reply["data"]["logs"])


def test_simulation_shows_the_curve_afterwards(pad: Pad) -> None:
    mint = pad.coin()
    pad.local.finalize()
    trade = pad.transaction(pad.trade(mint, Kind.BUY, 10**9, SOL))
    curve = str(pdas.bonding_curve(mint))
    config = {
        "encoding": "base64",
        "replaceRecentBlockhash": True,
        "innerInstructions": True,
        "accounts": {"addresses": [curve], "encoding": "base64"},
    }
    value = pad.local.call("simulateTransaction", text(trade), config)["value"]
    assert value["err"] is None and value["unitsConsumed"] > 60_000 and value["innerInstructions"]
    before = pad.local.chain.vm.account(pdas.bonding_curve(mint))
    assert before is not None and base64.b64decode(value["accounts"][0]["data"][0]) != before.data
    assert pad.curve(mint).real_quote_reserves == 0


def test_a_bundle_launches_and_buys(pad: Pad) -> None:
    """The simulated buy sees the simulated launch; afterwards neither mint nor curve exists."""
    mint = Keypair()
    key = mint.pubkey()
    made = pad.launch()  # Its trade, with replaced addresses, becomes the trade of the bundle's coin.
    keys = {"mint": key}
    pad.local.finalize()
    first = pad.transaction(pad.creation(key), signers=(mint,))
    program = pad.program_of(made)
    curve = pdas.bonding_curve(key)
    user = pad.user.pubkey()
    other = {
        **keys,
        "bonding_curve": curve,
        "curve_base": pdas.associated_token(curve, program, key),
        "user_base": pdas.associated_token(user, program, key),
        "bonding_curve_v2": pdas.bonding_curve_v2(key),
    }
    account = Instruction(
        pad.base_account(made).program_id,
        pad.base_account(made).data,
        [
            type(meta)(
                {made: key, pdas.associated_token(user, program, made): other["user_base"]}.get(
                    meta.pubkey, meta.pubkey
                ),
                meta.is_signer,
                meta.is_writable,
            )
            for meta in pad.base_account(made).accounts
        ],
    )
    second = pad.transaction(account, pad.trade(made, Kind.BUY, 10**9, SOL, **other))
    none: list[Any] = [None, None]
    config = {"preExecutionAccountsConfigs": none, "postExecutionAccountsConfigs": none, "replaceRecentBlockhash": True}
    config["skipSigVerify"] = True
    value = pad.local.call("simulateBundle", {"encodedTransactions": [text(first), text(second)]}, config)["value"]
    assert value["summary"] == "succeeded", value
    assert [one["err"] for one in value["transactionResults"]] == [None, None]
    assert pad.local.chain.vm.account(key) is None and pad.local.chain.vm.account(curve) is None


def test_accounts_may_come_from_a_lookup_table(pad: Pad) -> None:
    """All accounts except user and program come from the table; indexes in the meta count static keys first."""
    mint = pad.coin()
    trade = pad.trade(mint, Kind.BUY_V2, 10**9, SOL)
    loaded = [meta.pubkey for meta in trade.accounts if not meta.is_signer and meta.pubkey != PUMP]
    addresses = list(dict.fromkeys(loaded))
    table = Pubkey.new_unique()
    active = (1).to_bytes(4, "little") + b"\xff" * 8 + bytes(44)
    data = active + b"".join(map(bytes, addresses))
    pad.local.chain.place(table, Account(10**9, data, ADDRESS_LOOKUP_TABLE_PROGRAM, False, 0))
    pad.local.beat(2)
    lookup = AddressLookupTableAccount(table, addresses)
    message = MessageV0.try_compile(pad.user.pubkey(), [trade], [lookup], pad.local.blockhash())
    assert len(message.account_keys) == 2
    record = pad.local.land(VersionedTransaction(message, [pad.user]))
    assert record.meta.err is None and len(record.meta.loaded_writable) > 5
    (group,) = record.meta.inner
    assert record.keys[group.instructions[-1].accounts[0]] == str(EVENT_AUTHORITY)
    assert pad.tokens(pad.keys(mint)["user_base"]) == 10**9


@pytest.mark.parametrize("limit", [SOL, 1])
def test_a_durable_nonce_works_once_even_when_the_trade_fails(pad: Pad, limit: int) -> None:
    owner, nonce = pad.user, Keypair()
    assert pad.land(*nonce_instructions(owner, nonce), signers=(nonce,)).err is None
    mint = pad.coin()
    pad.local.beat()
    value = stored_value(pad.local.chain.vm.account(nonce.pubkey()))
    assert value is not None
    trade = pad.trade(mint, Kind.BUY, 10**9, limit)
    message = MessageV0.try_compile(owner.pubkey(), [advance(owner, nonce), trade], [], value)
    record = pad.local.land(VersionedTransaction(message, [owner]))
    wanted = None if limit == SOL else {"InstructionError": [1, {"Custom": 6002}]}
    assert record.meta.err == wanted
    assert stored_value(pad.local.chain.vm.account(nonce.pubkey())) != value


def test_a_lost_fork_undoes_a_launch(pad: Pad) -> None:
    """Mint and curve are gone, the creator has the lamports again, and the same transaction can land again."""
    pad.local.beat()
    had, mint = pad.lamports(pad.user.pubkey()), Keypair()
    launch = pad.transaction(pad.creation(mint.pubkey()), signers=(mint,))
    assert pad.local.land(launch).meta.err is None
    assert pad.local.chain.vm.account(pdas.bonding_curve(mint.pubkey())) is not None
    pad.local.lose()
    assert pad.local.chain.vm.account(mint.pubkey()) is None
    assert pad.local.chain.vm.account(pdas.bonding_curve(mint.pubkey())) is None
    assert pad.lamports(pad.user.pubkey()) == had
    assert pad.local.land(launch).meta.err is None
