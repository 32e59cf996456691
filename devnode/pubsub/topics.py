"""Topics of subscriptions, as values: equal topics share one id and one serialized notification.

Implements: the parameters of each subscription, read with the error texts of Agave and with defaults filled in; the
route of a topic, which is the key under which events look topics up. Ignores minContextSlot and withContext, as Agave
does. Changes nothing; every refusal is an RpcError. Not here: subscribers (registry.py).
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from solders.pubkey import Pubkey
from solders.signature import Signature

from devnode.encoding.accounts import ENCODINGS as ACCOUNT_ENCODINGS
from devnode.parsing.transactions import DETAILS
from devnode.parsing.transactions import ENCODINGS as TRANSACTION_ENCODINGS
from devnode.records.commitment import Commitment
from devnode.rpc import params as read
from devnode.rpc.accounts import AccountView, Filter, filters_of
from devnode.rpc.errors import RpcError, invalid_params
from devnode.rpc.node import Node
from devnode.rpc.params import Params

_LOGS_FILTERS = ("all", "allWithVotes", "mentions")
_BLOCK_FILTERS = ("all", "mentionsAccountOrProgram")


@dataclass(frozen=True, slots=True)
class Shape:
    """How account contents are shown."""

    encoding: str
    # The data slice, both or neither. As on a node, it makes another topic, and notifications have the whole data.
    offset: int | None = None
    length: int | None = None

    def config(self) -> dict[str, Any]:
        """The shape as the configuration object of a call."""
        return {"encoding": self.encoding}


@dataclass(frozen=True, slots=True)
class AccountTopic:
    notification: ClassVar[str] = "accountNotification"
    pubkey: Pubkey
    level: Commitment
    shape: Shape

    @property
    def route(self) -> Hashable:
        return AccountTopic, self.pubkey


@dataclass(frozen=True, slots=True)
class ProgramTopic:
    notification: ClassVar[str] = "programNotification"
    program: Pubkey
    level: Commitment
    shape: Shape
    filters: tuple[Filter, ...]

    @property
    def route(self) -> Hashable:
        return ProgramTopic, self.program


@dataclass(frozen=True, slots=True)
class LogsTopic:
    notification: ClassVar[str] = "logsNotification"
    mention: str | None  # None: every transaction.
    level: Commitment

    @property
    def route(self) -> Hashable:
        return LogsTopic, self.mention


@dataclass(frozen=True, slots=True)
class SignatureTopic:
    notification: ClassVar[str] = "signatureNotification"
    signature: str
    level: Commitment
    wants_received: bool  # Also notify when the node receives the transaction.

    @property
    def route(self) -> Hashable:
        return SignatureTopic, self.signature


@dataclass(frozen=True, slots=True)
class BlockTopic:
    notification: ClassVar[str] = "blockNotification"
    mention: str | None  # None: every block, with all its transactions.
    level: Commitment
    encoding: str
    details: str
    shows_rewards: bool
    max_version: int | None

    @property
    def route(self) -> Hashable:
        return BlockTopic


@dataclass(frozen=True, slots=True)
class _PlainTopic:
    """A topic without parameters."""

    level: ClassVar[None] = None

    @property
    def route(self) -> Hashable:
        kind: type = type(self)
        return kind


@dataclass(frozen=True, slots=True)
class SlotTopic(_PlainTopic):
    notification: ClassVar[str] = "slotNotification"


@dataclass(frozen=True, slots=True)
class RootTopic(_PlainTopic):
    notification: ClassVar[str] = "rootNotification"


@dataclass(frozen=True, slots=True)
class SlotsUpdatesTopic(_PlainTopic):
    notification: ClassVar[str] = "slotsUpdatesNotification"


@dataclass(frozen=True, slots=True)
class VoteTopic(_PlainTopic):
    notification: ClassVar[str] = "voteNotification"


Topic = (
    AccountTopic
    | ProgramTopic
    | LogsTopic
    | SignatureTopic
    | BlockTopic
    | SlotTopic
    | RootTopic
    | SlotsUpdatesTopic
    | VoteTopic
)


def account_topic(node: Node, params: Params) -> AccountTopic:
    pubkey = _pubkey(read.text(params, 0), "pubkey")
    config = read.config(params, 1, "RpcAccountInfoConfig")
    return AccountTopic(pubkey, read.commitment(config), _shape(node, config))


def program_topic(node: Node, params: Params) -> ProgramTopic:
    program = _pubkey(read.text(params, 0), "pubkey")
    config = read.config(params, 1, "RpcProgramAccountsConfig")
    filters = tuple(filters_of(config.get("filters")))
    return ProgramTopic(program, read.commitment(config), _shape(node, config), filters)


def logs_topic(node: Node, params: Params) -> LogsTopic:
    """Read a logs topic. `all` and `allWithVotes` are equal here, because there are no vote transactions."""
    name, wanted = _filter(read.at(params, 0), _LOGS_FILTERS)
    mention = None
    if name == "mentions":
        addresses = read.listed(wanted)
        if len(addresses) != 1:
            raise invalid_params("Invalid Request: Only 1 address supported")
        mention = str(_pubkey(read.text(addresses, 0), "mentions"))
    return LogsTopic(mention, read.commitment(read.config(params, 1, "RpcTransactionLogsConfig")))


def signature_topic(node: Node, params: Params) -> SignatureTopic:
    text = read.text(params, 0)
    try:
        signature = str(Signature.from_string(text))
    except ValueError:
        raise _invalid("signature") from None
    config = read.config(params, 1, "RpcSignatureSubscribeConfig")
    return SignatureTopic(signature, read.commitment(config), read.boolean(config, "enableReceivedNotification"))


def block_topic(node: Node, params: Params) -> BlockTopic:
    name, wanted = _filter(read.at(params, 0), _BLOCK_FILTERS)
    mention = None
    if name == "mentionsAccountOrProgram":
        mention = str(_pubkey(read.text([wanted], 0), "mentions_account_or_program"))
    config = read.config(params, 1, "RpcBlockSubscribeConfig")
    return BlockTopic(
        mention=mention,
        level=read.confirmed_or_higher(config),
        encoding=read.variant(config.get("encoding") or "base64", TRANSACTION_ENCODINGS),
        details=read.variant(config.get("transactionDetails") or "full", DETAILS),
        shows_rewards=read.boolean(config, "showRewards"),
        max_version=read.optional_unsigned(config.get("maxSupportedTransactionVersion"), bits=8),
    )


def _shape(node: Node, config: dict[str, Any]) -> Shape:
    AccountView(node, read.commitment(config), config, "binary")  # Raises for a bad encoding or data slice.
    encoding = read.variant(config.get("encoding") or "binary", ACCOUNT_ENCODINGS)
    data_slice = config.get("dataSlice")
    if data_slice is None:
        return Shape(encoding)
    return Shape(encoding, data_slice["offset"], data_slice["length"])


def _filter(value: Any, names: tuple[str, ...]) -> tuple[str, Any]:
    """Read a filter as (name, content). The last of the names must have content; the others are plain strings."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, content),) = value.items()
        read.variant(name, names)
        if name == names[-1]:
            return name, content
        raise invalid_params("Invalid params: invalid type: map, expected unit variant.")
    if read.variant(value, names) == names[-1]:
        raise invalid_params("Invalid params: invalid type: unit variant, expected newtype variant.")
    return value, None


def _pubkey(text: str, thing: str) -> Pubkey:
    try:
        return Pubkey.from_string(text)
    except ValueError:
        raise _invalid(thing) from None


def _invalid(thing: str) -> RpcError:
    return invalid_params(f"Invalid Request: Invalid {thing} provided")
