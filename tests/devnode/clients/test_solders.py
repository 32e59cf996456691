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

from actors.devnode.addresses import TIP_ACCOUNTS, TOKEN_PROGRAM, USDC_MINT
from actors.devnode.rpc.table import METHODS

from ..local_node import LocalNode, give
from ..test_execution import v1

CONFIRMED = {"commitment": "confirmed"}
PARSED = {"encoding": "jsonParsed"}
NO_TYPE = {"simulateBundle"}  # jito-solana's own: solders has no type for it.


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

    def unsent(self) -> VersionedTransaction:
        return self.local.transfer(self.wallet, Pubkey.new_unique(), 4_000_000)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    local = LocalNode(Path(tmp_path_factory.mktemp("solders")))
    yield World(local)
    local.close()


def encoded(transaction: VersionedTransaction) -> str:
    return base64.b64encode(bytes(transaction)).decode()


def calls(world: World) -> dict[str, list[tuple[str, list[Any]]]]:
    """For each method: the name of its type, less Get and Resp, and parameters that have an answer."""
    key, usdc = str(world.wallet.pubkey()), str(USDC_MINT)
    token = world.local.call("getTokenAccountsByOwner", key, {"mint": usdc}, PARSED)["value"][0]["pubkey"]
    slot, signature = world.slot, str(world.payment.signatures[0])
    blockhash = str(world.local.blockhash())
    message = base64.b64encode(to_bytes_versioned(world.unsent().message)).decode()
    latest = {"encoding": "base64", "maxSupportedTransactionVersion": 1}
    program = str(TOKEN_PROGRAM)
    return {
        "getAccountInfo": [
            ("GetAccountInfoResp", [key, {"encoding": "base64"}]),
            ("GetAccountInfoResp", [str(Pubkey.new_unique()), {"encoding": "base64"}]),
            ("GetAccountInfoResp", [usdc, {"encoding": "base64+zstd"}]),
            ("GetAccountInfoJsonParsedResp", [token, PARSED]),
        ],
        "getBalance": [("GetBalanceResp", [key])],
        "getBlock": [
            ("GetBlockResp", [slot, {"encoding": encoding, "maxSupportedTransactionVersion": 1}])
            for encoding in ("json", "jsonParsed", "base64", "base58")
        ]
        + [
            ("GetBlockResp", [slot, {"transactionDetails": details, "maxSupportedTransactionVersion": 1}])
            for details in ("signatures", "none", "accounts")
        ],
        "getBlockCommitment": [("GetBlockCommitmentResp", [slot])],
        "getBlockHeight": [("GetBlockHeightResp", [])],
        "getBlockProduction": [("GetBlockProductionResp", [])],
        "getBlockTime": [("GetBlockTimeResp", [slot])],
        "getBlocks": [("GetBlocksResp", [slot - 2, slot])],
        "getBlocksWithLimit": [("GetBlocksWithLimitResp", [slot - 2, 2])],
        "getClusterNodes": [("GetClusterNodesResp", [])],
        "getEpochInfo": [("GetEpochInfoResp", [])],
        "getEpochSchedule": [("GetEpochScheduleResp", [])],
        "getFeeForMessage": [("GetFeeForMessageResp", [message, {"commitment": "processed"}])],
        "getFirstAvailableBlock": [("GetFirstAvailableBlockResp", [])],
        "getGenesisHash": [("GetGenesisHashResp", [])],
        "getHealth": [("GetHealthResp", [])],
        "getHighestSnapshotSlot": [],  # There is none, which is an error.
        "getIdentity": [("GetIdentityResp", [])],
        "getInflationGovernor": [("GetInflationGovernorResp", [])],
        "getInflationRate": [("GetInflationRateResp", [])],
        "getInflationReward": [],  # No epoch has ended, which is an error.
        "getLargestAccounts": [("GetLargestAccountsResp", [])],
        "getLatestBlockhash": [("GetLatestBlockhashResp", [])],
        "getLeaderSchedule": [("GetLeaderScheduleResp", [])],
        "getMaxRetransmitSlot": [("GetMaxRetransmitSlotResp", [])],
        "getMaxShredInsertSlot": [("GetMaxShredInsertSlotResp", [])],
        "getMinimumBalanceForRentExemption": [("GetMinimumBalanceForRentExemptionResp", [165])],
        "getMultipleAccounts": [
            ("GetMultipleAccountsResp", [[key, str(Pubkey.new_unique())], {"encoding": "base64"}]),
            ("GetMultipleAccountsMaybeJsonParsedResp", [[key, token, usdc], PARSED]),
        ],
        "getProgramAccounts": [
            ("GetProgramAccountsResp", [program, {"encoding": "base64"}]),
            ("GetProgramAccountsMaybeJsonParsedResp", [program, PARSED]),
            ("GetProgramAccountsWithContextResp", [program, {"encoding": "base64", "withContext": True}]),
        ],
        "getRecentPerformanceSamples": [("GetRecentPerformanceSamplesResp", [])],
        "getRecentPrioritizationFees": [("GetRecentPrioritizationFeesResp", [[key]])],
        "getSignatureStatuses": [
            ("GetSignatureStatusesResp", [[signature, str(world.failure.signatures[0]), "1" * 64]])
        ],
        "getSignaturesForAddress": [("GetSignaturesForAddressResp", [key])],
        "getSlot": [("GetSlotResp", [])],
        "getSlotLeader": [("GetSlotLeaderResp", [])],
        "getSlotLeaders": [("GetSlotLeadersResp", [slot, 4])],
        "getStakeMinimumDelegation": [("GetStakeMinimumDelegationResp", [])],
        "getSupply": [("GetSupplyResp", [])],
        "getTokenAccountBalance": [("GetTokenAccountBalanceResp", [token])],
        "getTokenAccountsByDelegate": [
            ("GetTokenAccountsByDelegateResp", [key, {"programId": program}, {"encoding": "base64"}])
        ],
        "getTokenAccountsByOwner": [
            ("GetTokenAccountsByOwnerResp", [key, {"mint": usdc}, {"encoding": "base64"}]),
            ("GetTokenAccountsByOwnerJsonParsedResp", [key, {"programId": program}, PARSED]),
        ],
        "getTokenLargestAccounts": [("GetTokenLargestAccountsResp", [usdc])],
        "getTokenSupply": [("GetTokenSupplyResp", [usdc])],
        "getTransaction": [
            ("GetTransactionResp", [str(one.signatures[0]), latest | {"encoding": encoding}])
            for one in (world.payment, world.failure, world.v1)
            for encoding in ("json", "jsonParsed", "base64", "base58")
        ]
        + [("GetTransactionResp", ["1" * 64])],
        "getTransactionCount": [("GetTransactionCountResp", [])],
        "getVersion": [("GetVersionResp", [])],
        "getVoteAccounts": [("GetVoteAccountsResp", [])],
        "isBlockhashValid": [("IsBlockhashValidResp", [blockhash])],
        "minimumLedgerSlot": [("MinimumLedgerSlotResp", [])],
        "requestAirdrop": [("RequestAirdropResp", [str(TIP_ACCOUNTS[0]), 1_000])],
        "sendTransaction": [
            (
                "SendTransactionResp",
                [encoded(world.unsent()), {"encoding": "base64", "preflightCommitment": "processed"}],
            )
        ],
        "simulateTransaction": [
            ("SimulateTransactionResp", [encoded(one), {"encoding": "base64", "commitment": "processed"} | options])
            for one in (world.unsent(), world.payment)
            for options in (
                {},
                {"innerInstructions": True, "sigVerify": True},
                {"replaceRecentBlockhash": True, "accounts": {"encoding": "base64", "addresses": [key]}},
            )
        ],
    }


@pytest.mark.parametrize("method", sorted(set(METHODS) - NO_TYPE))
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
    error = world.local.reply("sendTransaction", encoded(transaction), options)["error"]
    assert (error["code"], error["data"]["err"]) == (-32002, "AddressLookupTableNotFound")
