"""JSON-RPC methods about landed transactions.

Implements: getTransaction, getSignatureStatuses, getSignaturesForAddress, getTransactionCount. Reads only.
"""

from typing import Any

from solders.signature import Signature

from devnode.journal.archive import AddressEntry
from devnode.parsing.transactions import ENCODINGS, UnsupportedVersion, transaction_json
from devnode.records.commitment import Commitment
from devnode.rpc import params as read
from devnode.rpc.errors import (
    invalid_params,
    min_context_slot_not_reached,
    transaction_not_found,
    unsupported_transaction_version,
)
from devnode.rpc.node import Node, in_context
from devnode.rpc.params import Params

SIGNATURES_MAX = 256
HISTORY_LIMIT_MAX = 1_000


def get_transaction(node: Node, params: Params) -> Any:
    signature = read.signature_of(read.at(params, 0))
    second = read.at(params, 1)
    config = {"encoding": second} if isinstance(second, str) else read.config(params, 1, "RpcTransactionConfig")
    encoding = read.variant(config.get("encoding") or "json", ENCODINGS)
    max_version = read.optional_unsigned(config.get("maxSupportedTransactionVersion"), bits=8)
    level = read.confirmed_or_higher(config)
    stored = node.archive.transaction(str(signature))
    if stored is None or stored.slot > node.chain.levels.at(level).slot:
        return None
    block = node.archive.block(stored.slot)
    assert block is not None, stored.slot
    try:
        body = transaction_json(stored, encoding, max_version)
    except UnsupportedVersion as error:
        raise unsupported_transaction_version(error.version) from None
    return {"blockTime": block.unix_time, "slot": stored.slot, "transactionIndex": stored.position} | body


def get_transaction_count(node: Node, params: Params) -> Any:
    level, _ = node.bank(read.config(params, 0, "RpcContextConfig"))
    return node.chain.transaction_count_at(level)


def get_signature_statuses(node: Node, params: Params) -> Any:
    texts = read.listed(read.at(params, 0))
    if len(texts) > SIGNATURES_MAX:
        raise invalid_params(f"Too many inputs provided; max {SIGNATURES_MAX}")
    signatures = [read.signature_of(text) for text in texts]
    search = read.boolean(read.config(params, 1, "RpcSignatureStatusConfig"), "searchTransactionHistory")
    slot = node.chain.levels.at(Commitment.PROCESSED).slot
    return in_context(slot, [_status(node, signature, search) for signature in signatures])


def _status(node: Node, signature: Signature, search: bool) -> dict[str, Any] | None:
    landed = node.chain.statuses.get(signature)
    if landed is not None:
        slot, err = landed.slot, landed.err
    else:
        stored = node.archive.status(str(signature)) if search else None
        if stored is None:
            return None
        slot, err = stored
    newest = node.chain.levels.at(Commitment.PROCESSED).slot
    if slot > newest:
        return None  # The node lags and does not show this slot yet.
    level = node.chain.levels.level_of(slot)
    final = level is Commitment.FINALIZED
    return {
        "confirmationStatus": level.value,
        "confirmations": None if final else newest - slot,
        "err": err,
        "slot": slot,
        "status": {"Ok": None} if err is None else {"Err": err},
    }


def get_signatures_for_address(node: Node, params: Params) -> Any:
    address = str(read.pubkey(params, 0))
    config = read.config(params, 1, "RpcSignaturesForAddressConfig")
    limit = read.optional_unsigned(config.get("limit"))
    limit = HISTORY_LIMIT_MAX if limit is None else limit
    if not 1 <= limit <= HISTORY_LIMIT_MAX:
        raise invalid_params(f"Invalid limit; max {HISTORY_LIMIT_MAX}")
    level = read.confirmed_or_higher(config)
    newest = node.chain.levels.at(level).slot
    least = read.optional_unsigned(config.get("minContextSlot"))
    if least is not None and newest < least:
        raise min_context_slot_not_reached(newest)
    before = _position(node, config.get("before"))
    until = _position(node, config.get("until"))
    entries = node.archive.address_entries(address, newest, before, until, limit)
    return [_entry_json(node, entry) for entry in entries]


def _position(node: Node, value: Any) -> tuple[int, int] | None:
    """Slot and position of a signature. An unknown signature is an error, as on nodes since Agave 4.0."""
    if value is None:
        return None
    signature = str(read.signature_of(value))
    found = node.archive.position(signature)
    if found is None:
        raise transaction_not_found(signature)
    return found


def _entry_json(node: Node, entry: AddressEntry) -> dict[str, Any]:
    return {
        "blockTime": entry.unix_time,
        "confirmationStatus": node.chain.levels.level_of(entry.slot).value,
        "err": entry.err,
        "memo": entry.memo,
        "signature": entry.signature,
        "slot": entry.slot,
        "transactionIndex": entry.position,
    }
