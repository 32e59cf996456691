"""JSON-RPC methods about accounts.

Implements: getBalance, getAccountInfo, getMultipleAccounts, getProgramAccounts,
getMinimumBalanceForRentExemption, getSupply, getLargestAccounts. Reads only.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import base58
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.accounts import ENCODINGS, DataSlice, TooLargeForBase58, ui_account
from devnode.encoding.addresses import NATIVE_MINT
from devnode.parsing.accounts import parse_account
from devnode.parsing.token_accounts import is_token_account, mint_decimals
from devnode.records.commitment import Commitment
from devnode.rpc import params as read
from devnode.rpc.errors import RpcError, invalid_params, invalid_request
from devnode.rpc.node import Node, in_context
from devnode.rpc.params import Params

ACCOUNTS_MAX = 100
FILTERS_MAX = 4
MEMCMP_BYTES_MAX = 128
LARGEST_MAX = 20
DATA_BYTES_MAX = 10 * 1024 * 1024  # Solana's limit for one account.


def get_balance(node: Node, params: Params) -> Any:
    pubkey = read.pubkey(params, 0)
    level, slot = node.bank(read.config(params, 1, "RpcContextConfig"))
    account = node.chain.account(pubkey, level)
    return in_context(slot, 0 if account is None else account.lamports)


def get_account_info(node: Node, params: Params) -> Any:
    pubkey = read.pubkey(params, 0)
    config = read.config(params, 1, "RpcAccountInfoConfig")
    level, slot = node.bank(config)
    shown = AccountView(node, level, config, "binary")
    return in_context(slot, shown.of(pubkey, node.chain.account(pubkey, level)))


def get_multiple_accounts(node: Node, params: Params) -> Any:
    addresses = read.listed(read.at(params, 0))
    if len(addresses) > ACCOUNTS_MAX:
        raise invalid_params(f"Too many inputs provided; max {ACCOUNTS_MAX}")
    pubkeys = [read.pubkey_of(address) for address in addresses]
    config = read.config(params, 1, "RpcAccountInfoConfig")
    level, slot = node.bank(config)
    shown = AccountView(node, level, config, "base64")
    return in_context(slot, [shown.of(pubkey, node.chain.account(pubkey, level)) for pubkey in pubkeys])


def get_program_accounts(node: Node, params: Params) -> Any:
    program = read.pubkey(params, 0)
    config = read.config(params, 1, "RpcProgramAccountsConfig")
    filters = filters_of(config.get("filters"))
    level, slot = node.bank(config)
    shown = AccountView(node, level, config, "binary")
    found = [
        {"account": shown.of(pubkey, account), "pubkey": str(pubkey)}
        for pubkey, account in program_accounts(node, program, level)
        if passes(account, filters)
    ]
    return in_context(slot, found) if read.boolean(config, "withContext") else found


def get_minimum_balance_for_rent_exemption(node: Node, params: Params) -> Any:
    size = read.unsigned(read.at(params, 0))
    if size > DATA_BYTES_MAX:
        raise invalid_params(f"Invalid param: data length above {DATA_BYTES_MAX}")
    read.commitment(read.config(params, 1, "CommitmentConfig"))
    return node.chain.vm.rent_exempt_lamports(size)


def get_supply(node: Node, params: Params) -> Any:
    """The sum of all accounts; only the faucet's lamports count as non-circulating."""
    config = read.config(params, 0, "RpcSupplyConfig")
    level, slot = node.bank(config)
    faucet = node.keys.faucet.pubkey()
    # Accounts from files and from another node may claim more lamports than a number of 64 bits can add up.
    total = min(sum(account.lamports for _, account in _all_accounts(node, level)), 2**64 - 1)
    held = node.chain.account(faucet, level)
    idle = held.lamports if held is not None else 0
    listed = [] if read.boolean(config, "excludeNonCirculatingAccountsList") else [str(faucet)]
    value = {
        "circulating": total - idle,
        "nonCirculating": idle,
        "nonCirculatingAccounts": listed,
        "total": total,
    }
    return in_context(slot, value)


def get_largest_accounts(node: Node, params: Params) -> Any:
    config = read.config(params, 0, "RpcLargestAccountsConfig")
    level, slot = node.bank(config)
    kind = config.get("filter")
    if kind is not None:
        read.variant(kind, ("circulating", "nonCirculating"))
    faucet = node.keys.faucet.pubkey()
    accounts = [
        (account.lamports, str(pubkey))
        for pubkey, account in _all_accounts(node, level)
        if kind is None or (pubkey == faucet) == (kind == "nonCirculating")
    ]
    accounts.sort(key=lambda pair: (-pair[0], pair[1]))
    return in_context(slot, [{"address": text, "lamports": amount} for amount, text in accounts[:LARGEST_MAX]])


class AccountView:
    """Shows accounts with the encoding and data slice of one call; reads mint decimals at its level."""

    def __init__(self, node: Node, level: Commitment, config: dict[str, Any], default_encoding: str) -> None:
        encoding = config.get("encoding")
        self._node, self._level = node, level
        self._encoding = default_encoding if encoding is None else read.variant(encoding, ENCODINGS)
        self._slice = _data_slice(config.get("dataSlice"))

    def of(self, pubkey: Pubkey, account: Account | None) -> dict[str, Any] | None:
        if account is None:
            return None
        try:
            return ui_account(pubkey, account, self._encoding, self._slice, self._parse)
        except TooLargeForBase58:
            raise _too_large_for_base58() from None

    def _parse(self, pubkey: Pubkey, account: Account, data: bytes) -> dict[str, Any] | None:
        return parse_account(pubkey, account, data, self._decimals)

    def _decimals(self, mint: Pubkey) -> int | None:
        return mint_decimals(mint, None if mint == NATIVE_MINT else self._node.chain.account(mint, self._level))


def _too_large_for_base58() -> RpcError:
    return invalid_request("Encoded binary (base 58) data should be less than 128 bytes, please use Base64 encoding.")


def _data_slice(value: Any) -> DataSlice | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise read.wrong_type(value, "struct UiDataSliceConfig")
    for name in ("offset", "length"):
        if name not in value:
            raise invalid_params(f"Invalid params: missing field `{name}`.")
    return DataSlice(read.unsigned(value["offset"]), read.unsigned(value["length"]))


def program_accounts(node: Node, program: Pubkey, level: Commitment) -> Iterator[tuple[Pubkey, Account]]:
    """Accounts that the program owned at the level."""
    chain = node.chain
    overlay = chain.overlay(level)
    for pubkey in sorted(chain.indexes.of_program(program), key=bytes):
        if pubkey not in overlay and (account := chain.vm.account(pubkey)) is not None:
            yield pubkey, account
    for pubkey, account in overlay.items():
        if account is not None and account.owner == program:
            yield pubkey, account


def _all_accounts(node: Node, level: Commitment) -> Iterator[tuple[Pubkey, Account]]:
    overlay = node.chain.overlay(level)
    for pubkey in {*node.chain.indexes.all_accounts(), *overlay}:
        account = overlay[pubkey] if pubkey in overlay else node.chain.vm.account(pubkey)
        if account is not None:
            yield pubkey, account


Filter = int | tuple[int, bytes] | str  # dataSize, memcmp (offset, bytes), or "tokenAccountState".


def filters_of(value: Any) -> list[Filter]:
    if value is None:
        return []
    filters = read.listed(value)
    if len(filters) > FILTERS_MAX:
        raise invalid_params(f"Too many filters provided; max {FILTERS_MAX}")
    return [_filter(item) for item in filters]


def _filter(item: Any) -> Filter:
    if item == "tokenAccountState":
        return "tokenAccountState"
    if not isinstance(item, dict) or len(item) != 1:
        raise invalid_params("Invalid params: expected one of `dataSize`, `memcmp`, `tokenAccountState`.")
    if "dataSize" in item:
        return read.unsigned(item["dataSize"])
    memcmp = item.get("memcmp")
    if not isinstance(memcmp, dict) or not isinstance(memcmp.get("bytes"), str):
        raise invalid_params("Invalid params: missing field `bytes`.")
    offset = read.unsigned(memcmp.get("offset"))
    return offset, _memcmp_bytes(memcmp["bytes"], memcmp.get("encoding"))


def _memcmp_bytes(text: str, encoding: Any) -> bytes:
    try:
        if encoding == "base64":
            raw = base64.b64decode(text, validate=True)
        elif encoding in (None, "base58", "binary"):
            raw = base58.b58decode(text) if len(text) <= 2 * MEMCMP_BYTES_MAX else bytes(MEMCMP_BYTES_MAX + 1)
        else:
            raise invalid_params(f"Invalid params: unknown variant `{encoding}`, expected `base58` or `base64`.")
    except (ValueError, binascii.Error):
        raise invalid_params("Invalid param: memcmp bytes cannot be decoded") from None
    if len(raw) > MEMCMP_BYTES_MAX:
        raise invalid_params("Invalid param: encoded binary data should be less than 128 bytes")
    return raw


def passes(account: Account, filters: list[Filter]) -> bool:
    if not filters:
        return True
    data = account.data
    for wanted in filters:
        if isinstance(wanted, int):
            if len(data) != wanted:
                return False
        elif isinstance(wanted, str):
            if not is_token_account(data):
                return False
        else:
            offset, expected = wanted
            if data[offset : offset + len(expected)] != expected:
                return False
    return True
