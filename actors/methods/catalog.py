"""Every method and subscription, with class, price and timeout: the one table behind billing, pricing and documents.

Implements: interface, "Method classes and credits", "Timeouts", "WebSocket /ws" and "Signal billing";
decisions, "pricing", "sendAndConfirm price", "native WebSocket subscriptions".
Pure data. gateway/calls/outcomes.py judges the answers, methods/rules.py checks the parameters.
A method that is not in this table does not exist: a method without a price is refused, never free (money rule 8).
"""

from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType

from actors.config import PricingConfig
from actors.units import Credits


@unique
class MethodClass(Enum):
    READ_CHEAP = "READ_CHEAP"
    READ_MEDIUM = "READ_MEDIUM"
    READ_HEAVY = "READ_HEAVY"
    SEND = "SEND"
    SEND_AND_CONFIRM = "SEND_AND_CONFIRM"
    SEND_BUNDLE = "SEND_BUNDLE"
    SEND_STATUS = "SEND_STATUS"
    TRADE_BUILD = "TRADE_BUILD"
    DISCOVERY = "DISCOVERY"
    ARCHIVE_HISTORY = "ARCHIVE_HISTORY"
    DENIED = "DENIED"


@unique
class Availability(Enum):
    NODE = "node"  # Answered by the node, after parameter rules.
    COMPOSED = "composed"  # Answered by this service, from several answers of the node.
    RELAY = "relay"  # Answered by the block engine, where one is configured; else as NOT_BUILT.
    NOT_BUILT = "not_built"  # Published in the table, not offered by this build: -32004, free.
    ARCHIVE = "archive"  # Not enabled in this profile: -32004, free.
    DENIED = "denied"  # -32601, free.
    FORBIDDEN = "forbidden"  # As DENIED, and HTTP 403 METHOD_NOT_ALLOWED.


@dataclass(frozen=True, slots=True)
class ClassRow:
    credits: Credits | None  # None: priced by outcome or percentage, or never charged.
    timeout_ms: int


CLASSES: MappingProxyType[MethodClass, ClassRow] = MappingProxyType(
    {
        MethodClass.READ_CHEAP: ClassRow(Credits(1), 5_000),
        MethodClass.READ_MEDIUM: ClassRow(Credits(5), 15_000),
        MethodClass.READ_HEAVY: ClassRow(Credits(25), 30_000),
        MethodClass.SEND: ClassRow(Credits(2), 10_000),
        MethodClass.SEND_AND_CONFIRM: ClassRow(None, 30_000),
        MethodClass.SEND_BUNDLE: ClassRow(Credits(10), 10_000),
        MethodClass.SEND_STATUS: ClassRow(Credits(0), 5_000),
        MethodClass.TRADE_BUILD: ClassRow(None, 15_000),
        MethodClass.DISCOVERY: ClassRow(Credits(0), 5_000),
        MethodClass.ARCHIVE_HISTORY: ClassRow(None, 30_000),
        MethodClass.DENIED: ClassRow(None, 5_000),
    }
)


@dataclass(frozen=True, slots=True)
class MethodRow:
    name: str
    method_class: MethodClass
    availability: Availability
    credits: Credits | None
    timeout_ms: int

    @property
    def callable(self) -> bool:
        return self.availability in (Availability.NODE, Availability.COMPOSED, Availability.RELAY)


_READ_CHEAP = """
getAccountInfo getBalance getBlockCommitment getBlockHeight getBlockProduction getBlockTime getEpochInfo
getEpochSchedule getFeeForMessage getFirstAvailableBlock getGenesisHash getHealth getHighestSnapshotSlot getIdentity
getInflationGovernor getInflationRate getLatestBlockhash getLeaderSchedule getMaxRetransmitSlot getMaxShredInsertSlot
getMinimumBalanceForRentExemption getMultipleAccounts getRecentPerformanceSamples getRecentPrioritizationFees
getSignatureStatuses getSlot getSlotLeader getSlotLeaders getStakeMinimumDelegation getTokenAccountBalance
getTokenSupply getTransactionCount getVersion getVoteAccounts isBlockhashValid minimumLedgerSlot
"""
_READ_MEDIUM = "simulateTransaction getTransaction getSignaturesForAddress getClusterNodes"
_READ_HEAVY = "getBlock getBlocks getBlocksWithLimit getTokenAccountsByOwner simulateBundle"
_ARCHIVE = "getEnrichedTransaction explainTransaction getConfirmedTransaction getConfirmedSignaturesForAddress2"
_DENIED = """
getProgramAccounts getSupply getStakeActivation getTokenLargestAccounts getTokenAccountsByDelegate getInflationReward
"""


def _rows(names: str, method_class: MethodClass, availability: Availability = Availability.NODE) -> list[MethodRow]:
    row = CLASSES[method_class]
    return [MethodRow(name, method_class, availability, row.credits, row.timeout_ms) for name in names.split()]


_TABLE: tuple[MethodRow, ...] = (
    *_rows(_READ_CHEAP, MethodClass.READ_CHEAP),
    *_rows("getPriorityFeeEstimate", MethodClass.READ_CHEAP, Availability.COMPOSED),
    *_rows(_READ_MEDIUM, MethodClass.READ_MEDIUM),
    *_rows("suggestPriorityFee", MethodClass.READ_MEDIUM, Availability.COMPOSED),
    *_rows(_READ_HEAVY, MethodClass.READ_HEAVY),
    *_rows("getAssetsByOwner getTransactionHistory", MethodClass.READ_HEAVY, Availability.COMPOSED),
    *_rows("sendTransaction", MethodClass.SEND),
    *_rows("sendSmartTransaction", MethodClass.SEND, Availability.COMPOSED),
    *_rows("sendAndConfirm", MethodClass.SEND_AND_CONFIRM, Availability.COMPOSED),
    *_rows("getSendStatus", MethodClass.SEND_STATUS, Availability.COMPOSED),
    *_rows("sendBundle", MethodClass.SEND_BUNDLE, Availability.RELAY),
    *_rows("executeSnipe executeSell", MethodClass.TRADE_BUILD, Availability.COMPOSED),
    *_rows("rpc.discover", MethodClass.DISCOVERY, Availability.COMPOSED),
    *_rows(_ARCHIVE, MethodClass.ARCHIVE_HISTORY, Availability.ARCHIVE),
    *_rows(_DENIED, MethodClass.DENIED, Availability.DENIED),
    *_rows("requestAirdrop", MethodClass.DENIED, Availability.FORBIDDEN),
)

WEBHOOK_DELIVERY_CREDITS = 1  # Of each delivered event; those of lifecycle webhooks are free.

METHODS: MappingProxyType[str, MethodRow] = MappingProxyType({row.name: row for row in _TABLE})


@dataclass(frozen=True, slots=True)
class BulkRow:
    """A look-up by list (interface, "Bulk endpoints"). name: in the ledger; with a "/" before it, also the path."""

    name: str
    items: str  # The field of the request that has the list.
    item: str  # The name of one item, in the price list.
    credits_per_item: Credits
    items_max: int
    timeout_ms: int
    commitments: tuple[str, ...]  # Those that a request may name; the first one where it names none.


_OF_STATE, _OF_HISTORY = ("finalized", "confirmed", "processed"), ("confirmed", "finalized")
BULK: tuple[BulkRow, ...] = (
    BulkRow("bulk/getBalances", "addresses", "address", Credits(1), 1_000, 30_000, _OF_STATE),
    BulkRow("bulk/getTokenBalances", "owners", "owner", Credits(5), 100, 30_000, _OF_STATE),
    BulkRow("bulk/getTransactions", "signatures", "signature", Credits(5), 100, 30_000, _OF_HISTORY),
)


@dataclass(frozen=True, slots=True)
class RelayRow:
    """A question to the block engine (interface, "Bundle relay"). name: in the ledger. method: as clients call it."""

    name: str
    method: str
    credits: Credits
    timeout_ms: int = 10_000


# The interface prices the first four; the others are what its block engine's own clients ask beside them.
RELAY: tuple[RelayRow, ...] = (
    RelayRow("sendBundle", "sendBundle", Credits(10)),
    RelayRow("relay/getBundleStatuses", "getBundleStatuses", Credits(2)),
    RelayRow("relay/getTipAccounts", "getTipAccounts", Credits(1)),
    RelayRow("relay/tipFloor", "tipFloor", Credits(1)),
    RelayRow("relay/getInflightBundleStatuses", "getInflightBundleStatuses", Credits(2)),
    RelayRow("relay/sendTransaction", "sendTransaction", Credits(2)),
)

STREAMS: MappingProxyType[str, MappingProxyType[str, int]] = MappingProxyType(
    {
        "websocket": MappingProxyType({"connect_credits": 5, "notifications_per_credit": 10, "unsubscribe_credits": 0}),
        "signals": MappingProxyType({"connect_credits": 5, "event_credits": 1, "unsubscribe_credits": 0}),
        # unpaid_seconds_kept: how long the time since a stream's last interval counts on for the next stream.
        "grpc": MappingProxyType(
            {
                "request_credits": 1,
                "replay_request_credits": 1,
                "interval_credits": 60,
                "interval_seconds": 60,
                "unpaid_seconds_kept": 600,
            }
        ),
    }
)
SIGNALS = "subscribeSignal"


def units_per_credit() -> int:
    """Return into how many units an open stream divides a credit: the price of each event is a whole number of them."""
    return STREAMS["websocket"]["notifications_per_credit"]


def signal_units() -> int:
    """Return the price of one delivered signal in these units."""
    return STREAMS["signals"]["event_credits"] * units_per_credit()


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscribe method of a WebSocket. params: its parameters as documents show them; a field with ? is optional."""

    name: str
    delivers: str
    params: str

    @property
    def unsubscribe(self) -> str:
        return "signalUnsubscribe" if self.name == SIGNALS else f"{self.name.removesuffix('Subscribe')}Unsubscribe"


SUBSCRIPTIONS: tuple[SubscriptionRow, ...] = (
    SubscriptionRow("accountSubscribe", "changes of an account", "[pubkey, {commitment?, encoding?}]"),
    SubscriptionRow(
        "logsSubscribe",
        "logs of transactions",
        '["all" | "allWithVotes" | {"mentions": [pubkey]}, {commitment?}]',
    ),
    SubscriptionRow(
        "programSubscribe", "changes of a program's accounts", "[program, {commitment?, encoding?, filters?}]"
    ),
    SubscriptionRow(
        "signatureSubscribe",
        "the outcome of a transaction, once",
        "[signature, {commitment?, enableReceivedNotification?}]",
    ),
    SubscriptionRow("slotSubscribe", "new slots", "[]"),
    SubscriptionRow("rootSubscribe", "new root slots", "[]"),
    SubscriptionRow(
        "blockSubscribe",
        "blocks",
        '["all" | {"mentionsAccountOrProgram": pubkey}, {commitment?, encoding?, transactionDetails?, showRewards?, '
        "maxSupportedTransactionVersion?}]",
    ),
    SubscriptionRow("slotsUpdatesSubscribe", "each step of each slot", "[]"),
    SubscriptionRow("voteSubscribe", "votes", "[]"),
    SubscriptionRow(
        SIGNALS,
        "signals: new coins and pools, graduations, large swaps, wallets",
        "[{kinds?, mint?, programs?, wallets?, min_lamports?, since?}]",
    ),
)


FREE = frozenset((MethodClass.SEND_STATUS, MethodClass.DISCOVERY))  # On purpose; a call takes a rate unit.
# By the settings' pricing branch; or free.
_PRICED_ELSEWHERE = FREE | {MethodClass.SEND_AND_CONFIRM, MethodClass.TRADE_BUILD}


def price_of(row: MethodRow, pricing: PricingConfig) -> tuple[str, int | None]:
    """Return the price of a callable method in words, and the most that a call can cost; None: only a quote tells it.

    Every document that names the price of a method has it from here, so none can tell another one.
    """
    if row.method_class is MethodClass.SEND_AND_CONFIRM:
        landing = pricing.landing_credits
        return f"{landing} credits if it lands, else {pricing.base_credits}", landing
    if row.method_class is MethodClass.TRADE_BUILD:
        return f"{pricing.build_credits} credits and {pricing.trade_bps} basis points of the trade's SOL", None
    credits = row.credits or 0
    return f"{credits} {'credit' if credits == 1 else 'credits'}" if credits else "free", credits


def check() -> None:
    """Refuse to start with a table by which a method could be free (threat 37)."""
    assert len(METHODS) == len(_TABLE), "a method is listed twice"
    for row in _TABLE:
        if row.callable and row.method_class not in _PRICED_ELSEWHERE:
            assert isinstance(row.credits, int) and row.credits > 0, f"{row.name}: a callable method needs a price"
        assert row.timeout_ms > 0, row
    for bulk in BULK:
        assert isinstance(bulk.credits_per_item, int) and bulk.credits_per_item > 0, f"{bulk.name} needs a price"
    for relay in RELAY:
        assert isinstance(relay.credits, int) and relay.credits > 0, f"{relay.name} needs a price"
