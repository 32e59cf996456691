"""For every method that a node answers: parameters at the limit of what it takes, and parameters just beyond it."""

import base64
from typing import Any

from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message, MessageV0, to_bytes_versioned
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction

KEY = "So11111111111111111111111111111111111111112"
TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
SIGNATURE = "5" * 87
PAYER = Keypair.from_seed(bytes(31) + b"\x01")
LEGACY = base64.b64encode(bytes(Transaction([PAYER], Message([], PAYER.pubkey()), Hash.default()))).decode()
_TRANSFER = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=PAYER.pubkey(), lamports=1))
MESSAGE = base64.b64encode(
    to_bytes_versioned(MessageV0.try_compile(PAYER.pubkey(), [_TRANSFER], [], Hash.default()))
).decode()
BASE64 = {"encoding": "base64"}

# Methods whose every parameter may be left out, beside those that take none.
OPTIONAL = """
getBlockHeight getBlockProduction getEpochInfo getInflationGovernor getLatestBlockhash getLeaderSchedule
getRecentPerformanceSamples getRecentPrioritizationFees getSlot getSlotLeader getStakeMinimumDelegation
getTransactionCount getVoteAccounts
"""
_NOTHING = """
getClusterNodes getEpochSchedule getFirstAvailableBlock getGenesisHash getHealth getHighestSnapshotSlot getIdentity
getInflationRate getMaxRetransmitSlot getMaxShredInsertSlot getVersion minimumLedgerSlot
"""
_CONTEXT = """
getBlockHeight getEpochInfo getLatestBlockhash getSlot getSlotLeader getStakeMinimumDelegation getTransactionCount
"""
Boundary = tuple[str, list[Any], list[Any]]


def _simulated(count: int) -> list[Any]:
    """Wanting so many accounts of a transaction that has one."""
    return [LEGACY, {**BASE64, "accounts": {"addresses": [KEY] * count}}]


BOUNDARIES: list[Boundary] = [
    *((method, [], [None]) for method in _NOTHING.split()),
    *((method, [{"commitment": "processed", "minContextSlot": 0}], ["confirmed"]) for method in _CONTEXT.split()),
    *((method, [{"commitment": None}], [{"commitment": "certain"}]) for method in _CONTEXT.split()),
    *((method, [{"unknown": 1}], [{"minContextSlot": -1}]) for method in _CONTEXT.split()),
    ("getAccountInfo", [KEY, {"encoding": "base64+zstd"}], [KEY, {"encoding": "base32"}]),
    ("getAccountInfo", [KEY, {"dataSlice": {"offset": 0, "length": 0}}], [KEY, {"dataSlice": {"offset": 0}}]),
    ("getAccountInfo", [KEY, {"dataSlice": None}], [KEY, {"dataSlice": {"offset": 0, "length": -1}}]),
    ("getBalance", [KEY, {"minContextSlot": 5}], [KEY, {"minContextSlot": "5"}]),
    ("getBalance", [KEY, None], [KEY, []]),
    ("getBlock", [5], ["5"]),
    ("getBlock", [(1 << 64) - 1], [5.0]),
    ("getBlock", [5, {"transactionDetails": "accounts"}], [5, {"transactionDetails": "some"}]),
    ("getBlock", [5, {"commitment": "confirmed", "rewards": False}], [5, {"commitment": "processed"}]),
    ("getBlock", [5, {"encoding": "jsonParsed"}], [5, {"encoding": "base64+zstd"}]),
    ("getBlock", [5, {"maxSupportedTransactionVersion": 255}], [5, {"maxSupportedTransactionVersion": 256}]),
    ("getBlock", [5, "base58"], [5, "base32"]),
    ("getBlock", [5, {"rewards": None}], [5, {"rewards": "no"}]),
    ("getBlockCommitment", [5], [-5]),
    ("getBlockProduction", [{"identity": KEY}], [{"identity": "x"}]),
    ("getBlockProduction", [{"range": {"firstSlot": 5, "lastSlot": 5}}], [{"range": {"firstSlot": 5, "lastSlot": 4}}]),
    ("getBlockProduction", [{"range": {"firstSlot": 5}}], [{"range": {"lastSlot": 5}}]),
    ("getBlocks", [5, 500_005], [5, 500_006]),
    ("getBlocks", [5, None, {"commitment": "confirmed"}], [5, "6"]),
    ("getBlocks", [5, {"commitment": "confirmed"}], [5, {"commitment": "processed"}]),
    ("getBlocks", [5, 4], [5, 6, {"commitment": "processed"}]),
    ("getBlocks", [5], [True]),
    ("getBlocks", [0], [5.0]),
    ("getBlocksWithLimit", [5, 500_000], [5, 500_001]),
    ("getBlocksWithLimit", [5, 0, {"maxSupportedTransactionVersion": 1}], [5, 0, {"commitment": "processed"}]),
    ("getBlockTime", [5], [None]),
    ("getFeeForMessage", [MESSAGE], ["A-_A"]),
    ("getFeeForMessage", [MESSAGE, {"commitment": "processed"}], ["AAAA"]),
    ("getInflationGovernor", [{"commitment": "finalized"}], [{"commitment": 1}]),
    ("getLeaderSchedule", [5, {"identity": KEY}], [5, {"identity": "x"}]),
    ("getLeaderSchedule", [{"identity": KEY}], [-1]),
    ("getMinimumBalanceForRentExemption", [10 * 1024 * 1024], [10 * 1024 * 1024 + 1]),
    ("getMinimumBalanceForRentExemption", [165, {"commitment": "max"}], [1.5]),
    ("getMultipleAccounts", [[KEY] * 100], [[KEY] * 101]),
    ("getMultipleAccounts", [[]], [KEY]),
    ("getMultipleAccounts", [[KEY], {"encoding": "jsonParsed"}], [[KEY], {"encoding": "json"}]),
    ("getRecentPerformanceSamples", [720], [721]),
    ("getRecentPerformanceSamples", [0], ["7"]),
    ("getRecentPrioritizationFees", [[KEY] * 128], [[KEY] * 129]),
    ("getRecentPrioritizationFees", [[]], [KEY]),
    ("getSignatureStatuses", [[SIGNATURE] * 256], [[SIGNATURE] * 257]),
    ("getSignatureStatuses", [[]], [["1"]]),
    ("getSignatureStatuses", [[], {"searchTransactionHistory": True}], [[], {"searchTransactionHistory": 1}]),
    ("getSignaturesForAddress", [KEY, {"limit": 1_000}], [KEY, {"limit": 1_001}]),
    ("getSignaturesForAddress", [KEY, {"limit": 1}], [KEY, {"limit": 0}]),
    ("getSignaturesForAddress", [KEY, {"before": SIGNATURE}], [KEY, {"until": "x"}]),
    ("getSignaturesForAddress", [KEY, {"commitment": "confirmed"}], [KEY, {"commitment": "processed"}]),
    ("getSignaturesForAddress", [KEY, None], [KEY, "x"]),
    ("getSlotLeaders", [1, 5_000], [1, 5_001]),
    ("getSlotLeaders", [0, 0], [-1, 1]),
    ("getTokenAccountBalance", [KEY], [SIGNATURE]),
    ("getTokenAccountsByOwner", [KEY, {"mint": KEY}], [KEY, {}]),
    ("getTokenAccountsByOwner", [KEY, {"programId": TOKEN_PROGRAM}], [KEY, {"programId": KEY}]),
    ("getTokenAccountsByOwner", [KEY, {"mint": KEY}, {}], [KEY, {"mint": KEY, "programId": TOKEN_PROGRAM}]),
    ("getTokenAccountsByOwner", [KEY, {"mint": KEY}, {"encoding": "base58"}], [KEY, {"mint": KEY}, "jsonParsed"]),
    ("getTokenAccountsByOwner", [KEY, {"mint": KEY}, None], [KEY, {"mint": KEY}, {"encoding": "x"}]),
    ("getTokenSupply", [KEY], [KEY[:-1] + "l"]),
    ("getTransaction", [SIGNATURE], [KEY]),
    ("getTransaction", [SIGNATURE, "base64"], [SIGNATURE, 7]),
    ("getTransaction", [SIGNATURE, {"commitment": "finalized"}], [SIGNATURE, {"commitment": "processed"}]),
    ("getTransaction", [SIGNATURE, {"encoding": "json"}], [SIGNATURE, {"encoding": "xml"}]),
    ("getVoteAccounts", [{"votePubkey": KEY}], [{"votePubkey": "x"}]),
    ("getVoteAccounts", [{"delinquentSlotDistance": 0}], [{"delinquentSlotDistance": "0"}]),
    ("getVoteAccounts", [{"keepUnstakedDelinquents": True}], [{"keepUnstakedDelinquents": 1}]),
    ("isBlockhashValid", [KEY], ["x"]),
    ("isBlockhashValid", ["1" * 32], ["l" * 43]),
    ("isBlockhashValid", [KEY, {"commitment": "processed"}], [KEY, {"commitment": "Processed"}]),
    ("sendTransaction", [LEGACY, BASE64], [LEGACY]),
    ("sendTransaction", [LEGACY, {**BASE64, "maxRetries": 0}], [LEGACY, {**BASE64, "maxRetries": -1}]),
    ("sendTransaction", [LEGACY, {**BASE64, "skipPreflight": True}], [LEGACY, {**BASE64, "skipPreflight": "yes"}]),
    (
        "sendTransaction",
        [LEGACY, {**BASE64, "preflightCommitment": "processed"}],
        [LEGACY, {**BASE64, "preflightCommitment": "now"}],
    ),
    ("simulateTransaction", _simulated(1), _simulated(2)),
    ("simulateTransaction", [LEGACY, {**BASE64, "accounts": None}], [LEGACY, {**BASE64, "accounts": {}}]),
    (
        "simulateTransaction",
        [LEGACY, {**BASE64, "accounts": {"addresses": [], "encoding": "jsonParsed"}}],
        [LEGACY, {**BASE64, "accounts": {"addresses": [], "encoding": "base58"}}],
    ),
    (
        "simulateTransaction",
        [LEGACY, {**BASE64, "sigVerify": False, "replaceRecentBlockhash": True}],
        [LEGACY, {**BASE64, "sigVerify": True, "replaceRecentBlockhash": True}],
    ),
    (
        "simulateTransaction",
        [LEGACY, {**BASE64, "maxSupportedTransactionVersion": 1, "innerInstructions": True}],
        [LEGACY, {**BASE64, "maxSupportedTransactionVersion": "1"}],
    ),
]
