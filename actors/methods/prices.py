"""The classes of methods, and the prices: of classes, bulk look-ups, the block engine, streams and webhooks.

Implements: interface, "Method classes and credits", "Timeouts", "WebSocket /ws" and "Signal billing";
decisions, "pricing", "sendAndConfirm price", "native WebSocket subscriptions".
Pure data. gateway/calls/outcomes.py judges the answers.
"""

from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType

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


WEBHOOK_DELIVERY_CREDITS = 1  # Price of each delivered event; events of lifecycle webhooks are free.


@dataclass(frozen=True, slots=True)
class BulkRow:
    """A look-up by list (interface, "Bulk endpoints"). name: in the ledger; with a "/" before it, also the path."""

    name: str
    items: str  # The field of the request that has the list.
    item: str  # Name of one item in the price list.
    credits_per_item: Credits
    items_max: int
    timeout_ms: int
    commitments: tuple[str, ...]  # Commitments that a request may name; the first one is the default.


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
        # history_credits: of each started history_events of GET /signals/history.
        "signals": MappingProxyType(
            {
                "connect_credits": 5,
                "event_credits": 1,
                "unsubscribe_credits": 0,
                "history_credits": 10,
                "history_events": 1_000,
            }
        ),
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
HISTORY = "signals/history"  # Name in the ledger.


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


FREE = frozenset((MethodClass.SEND_STATUS, MethodClass.DISCOVERY))  # Free on purpose; a call takes a rate unit.
# Priced in the settings' pricing branch, or free.
PRICED_ELSEWHERE = FREE | {MethodClass.SEND_AND_CONFIRM, MethodClass.TRADE_BUILD}
