"""Reads the parameters of a subscribe call into a topic, with the error texts of Agave.

Implements: the parameters of accountSubscribe, programSubscribe, logsSubscribe, signatureSubscribe, blockSubscribe,
slotSubscribe, rootSubscribe, slotsUpdatesSubscribe and voteSubscribe. Ignores minContextSlot and withContext, as Agave
does. Changes nothing; every refusal is an RpcError. Not here: subscribers (registry.py).
"""

from typing import Any

from solders.pubkey import Pubkey
from solders.signature import Signature

from devnode.encoding.accounts import ENCODINGS as ACCOUNT_ENCODINGS
from devnode.parsing.transactions import ENCODINGS as TRANSACTION_ENCODINGS
from devnode.pubsub.topics import (
    AccountTopic,
    BlockTopic,
    LogsTopic,
    ProgramTopic,
    RootTopic,
    Shape,
    SignatureTopic,
    SlotsUpdatesTopic,
    SlotTopic,
    VoteTopic,
)
from devnode.rpc import params as read
from devnode.rpc.accounts import AccountView, filters_of
from devnode.rpc.errors import RpcError, invalid_params
from devnode.rpc.node import Node
from devnode.rpc.params import Params

_LOGS_FILTERS = ("all", "allWithVotes", "mentions")
_BLOCK_FILTERS = ("all", "mentionsAccountOrProgram")
_BLOCK_DETAILS = ("full", "signatures", "none", "accounts")


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
        details=read.variant(config.get("transactionDetails") or "full", _BLOCK_DETAILS),
        shows_rewards=read.boolean(config, "showRewards"),
        max_version=read.optional_unsigned(config.get("maxSupportedTransactionVersion"), bits=8),
    )


def slot_topic(node: Node, params: Params) -> SlotTopic:
    return SlotTopic()


def root_topic(node: Node, params: Params) -> RootTopic:
    return RootTopic()


def slots_updates_topic(node: Node, params: Params) -> SlotsUpdatesTopic:
    return SlotsUpdatesTopic()


def vote_topic(node: Node, params: Params) -> VoteTopic:
    return VoteTopic()


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
