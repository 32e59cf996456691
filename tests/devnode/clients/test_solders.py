"""solders' response types, which solana-py decodes with, accept what each method of the node says.

Its known gaps are left out: it reads some errors as bare numbers, and no signature notification whose error is an
instruction's.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.message import MessageAddressTableLookup, MessageHeader, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.rpc import responses
from solders.transaction import VersionedTransaction
from solders.transaction_status import UiTransactionStatusMeta

from devnode.encoding.addresses import TIP_ACCOUNTS, TOKEN_PROGRAM, USDC_MINT
from devnode.rpc.table import METHODS
from tests.devnode.execution.test_execution import v1
from tests.devnode.local_node import LocalNode, give, text

BASE64: dict[str, Any] = {"encoding": "base64"}
PARSED = {"encoding": "jsonParsed"}
V1: dict[str, Any] = {"maxSupportedTransactionVersion": 1}
BLOCK_DETAILS = ("signatures", "none", "accounts")
ALWAYS_ERRORS = {"getHighestSnapshotSlot", "getInflationReward"}  # No snapshots; no epoch has ended.


class World:
    """Something of everything that a response can show."""

    def __init__(self, local: LocalNode) -> None:
        self.local = local
        self.wallet = local.wallet(10**10, usdc_base_units=5_000_000)
        self.receiver = Pubkey.new_unique()
        self.payment = local.transfer(self.wallet, self.receiver, 2_000_000)
        self.failure = local.transfer(self.wallet, self.receiver, 10**15)
        self.v1 = v1(self.wallet, self.receiver, 3_000_000, 777, local.blockhash())
        for one in (self.payment, self.failure, self.v1):
            local.land(one)
        self.slot = local.chain.levels.building.slot
        local.finalize()
        held = local.call("getTokenAccountsByOwner", str(self.wallet.pubkey()), {"mint": str(USDC_MINT)}, PARSED)
        self.token_account: str = held["value"][0]["pubkey"]

    def unsent(self) -> VersionedTransaction:
        return self.local.transfer(self.wallet, Pubkey.new_unique(), 4_000_000)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    local = LocalNode(Path(tmp_path_factory.mktemp("solders")))
    yield World(local)
    local.close()


Calls = dict[str, list[tuple[str, list[Any]]]]


def plain_calls(world: World) -> Calls:
    """Methods with one shape of answer, and what they are asked."""
    key, usdc, slot = str(world.wallet.pubkey()), str(USDC_MINT), world.slot
    message = base64.b64encode(to_bytes_versioned(world.unsent().message)).decode()
    signatures = [str(world.payment.signatures[0]), str(world.failure.signatures[0]), "1" * 64]
    sent = [text(world.unsent()), {"encoding": "base64", "preflightCommitment": "processed"}]
    asked: dict[str, list[Any]] = {
        "getBalance": [key],
        "getBlockCommitment": [slot],
        "getBlockTime": [slot],
        "getBlocks": [slot - 2, slot],
        "getBlocksWithLimit": [slot - 2, 2],
        "getFeeForMessage": [message, {"commitment": "processed"}],
        "getMinimumBalanceForRentExemption": [165],
        "getRecentPrioritizationFees": [[key]],
        "getSignatureStatuses": [signatures],
        "getSignaturesForAddress": [key],
        "getSlotLeaders": [slot, 4],
        "getTokenAccountBalance": [world.token_account],
        "getTokenLargestAccounts": [usdc],
        "getTokenSupply": [usdc],
        "isBlockhashValid": [str(world.local.blockhash())],
        "requestAirdrop": [str(TIP_ACCOUNTS[0]), 1_000],
        "sendTransaction": sent,
    }
    without = (
        *("getBlockHeight", "getBlockProduction", "getClusterNodes", "getEpochInfo", "getEpochSchedule"),
        *("getFirstAvailableBlock", "getGenesisHash", "getHealth", "getIdentity", "getInflationGovernor"),
        *("getInflationRate", "getLargestAccounts", "getLatestBlockhash", "getLeaderSchedule"),
        *("getMaxRetransmitSlot", "getMaxShredInsertSlot", "getRecentPerformanceSamples", "getSlot", "getSlotLeader"),
        *("getStakeMinimumDelegation", "getSupply", "getTransactionCount", "getVersion", "getVoteAccounts"),
        "minimumLedgerSlot",
    )
    asked |= {method: [] for method in without}
    return {method: [(f"{method[0].upper()}{method[1:]}Resp", params)] for method, params in asked.items()}


def account_calls(world: World) -> Calls:
    """Methods that show accounts: as bytes and parsed."""
    key, usdc, program = str(world.wallet.pubkey()), str(USDC_MINT), str(TOKEN_PROGRAM)
    token, absent = world.token_account, str(Pubkey.new_unique())
    return {
        "getAccountInfo": [
            ("GetAccountInfoResp", [key, BASE64]),
            ("GetAccountInfoResp", [absent, BASE64]),
            ("GetAccountInfoResp", [usdc, {"encoding": "base64+zstd"}]),
            ("GetAccountInfoJsonParsedResp", [token, PARSED]),
        ],
        "getMultipleAccounts": [
            ("GetMultipleAccountsResp", [[key, absent], BASE64]),
            ("GetMultipleAccountsMaybeJsonParsedResp", [[key, token, usdc], PARSED]),
        ],
        "getProgramAccounts": [
            ("GetProgramAccountsResp", [program, BASE64]),
            ("GetProgramAccountsMaybeJsonParsedResp", [program, PARSED]),
            ("GetProgramAccountsWithContextResp", [program, BASE64 | {"withContext": True}]),
        ],
        "getTokenAccountsByDelegate": [("GetTokenAccountsByDelegateResp", [key, {"programId": program}, BASE64])],
        "getTokenAccountsByOwner": [
            ("GetTokenAccountsByOwnerResp", [key, {"mint": usdc}, BASE64]),
            ("GetTokenAccountsByOwnerJsonParsedResp", [key, {"programId": program}, PARSED]),
        ],
    }


def transaction_calls(world: World) -> Calls:
    """Methods that show transactions: in every encoding, of every version, good and failed."""
    encodings = ("json", "jsonParsed", "base64", "base58")
    options: tuple[dict[str, Any], ...] = (
        {},
        {"innerInstructions": True, "sigVerify": True},
        {"replaceRecentBlockhash": True, "accounts": BASE64 | {"addresses": [str(world.wallet.pubkey())]}},
    )
    shown = [str(one.signatures[0]) for one in (world.payment, world.failure, world.v1)]
    tried = (world.unsent(), world.payment)
    return {
        "getBlock": [
            *(("GetBlockResp", [world.slot, V1 | {"encoding": one}]) for one in encodings),
            *(("GetBlockResp", [world.slot, V1 | {"transactionDetails": one}]) for one in BLOCK_DETAILS),
        ],
        "getTransaction": [
            *(("GetTransactionResp", [one, V1 | {"encoding": as_}]) for one in shown for as_ in encodings),
            ("GetTransactionResp", ["1" * 64]),
        ],
        "simulateTransaction": [
            ("SimulateTransactionResp", [text(one), BASE64 | {"commitment": "processed"} | option])
            for one in tried
            for option in options
        ],
    }


def calls(world: World) -> Calls:
    """For each method: the name of a type, and parameters that have an answer of it."""
    return plain_calls(world) | account_calls(world) | transaction_calls(world)


def test_every_method_is_asked(world: World) -> None:
    """All but those whose only answer here is an error, and jito-solana's own, which solders has no type for."""
    assert set(calls(world)) == set(METHODS) - {"simulateBundle"} - ALWAYS_ERRORS


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"simulateBundle"} - ALWAYS_ERRORS))
def test_each_answer_is_of_the_type_of_its_method(world: World, method: str) -> None:
    for name, params in calls(world)[method]:
        kind = getattr(responses, name)
        raw = world.local.raw_reply(method, *params)
        assert isinstance(kind.from_json(raw), kind), raw


def test_what_failed_is_read_as_failed(world: World) -> None:
    """The error, the fee and the logs of a transaction that landed and failed."""
    config = {"encoding": "json", "maxSupportedTransactionVersion": 0}
    shown = responses.GetTransactionResp.from_json(
        world.local.raw_reply("getTransaction", str(world.failure.signatures[0]), config)
    )
    assert isinstance(shown, responses.GetTransactionResp) and shown.value is not None
    meta = shown.value.transaction.meta
    assert isinstance(meta, UiTransactionStatusMeta)
    assert meta.err is not None and meta.fee == 5_000 and meta.log_messages


def test_a_table_that_is_not_there_is_told_before_anything_lands(world: World) -> None:
    payer = Keypair.from_seed(bytes(range(32)))
    lookup = MessageAddressTableLookup(Pubkey.new_unique(), b"\x00", b"")
    keys = [world.wallet.pubkey(), Pubkey.default()]
    instruction = give(payer, Pubkey.new_unique(), 1)
    compiled = MessageV0.try_compile(payer.pubkey(), [instruction], [], world.local.blockhash()).instructions[0]
    moved = type(compiled)(program_id_index=1, data=compiled.data, accounts=b"\x00\x02")
    message = MessageV0(MessageHeader(1, 0, 1), keys, world.local.blockhash(), [moved], [lookup])
    transaction = VersionedTransaction(message, [world.wallet])
    options = {"encoding": "base64", "preflightCommitment": "processed"}
    error = world.local.reply("sendTransaction", text(transaction), options)["error"]
    assert (error["code"], error["data"]["err"]) == (-32002, "AddressLookupTableNotFound")
