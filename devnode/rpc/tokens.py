"""JSON-RPC methods about token accounts and mints.

Implements: getTokenAccountBalance, getTokenSupply, getTokenAccountsByOwner, getTokenAccountsByDelegate,
getTokenLargestAccounts. Reads only; finds token accounts by index, without a scan.
"""

from collections.abc import Callable, Iterator
from typing import Any

from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.accounts import ui_token_amount
from devnode.encoding.addresses import TOKEN_PROGRAMS
from devnode.parsing.token_accounts import Holding, holding, mint_decimals, mint_supply
from devnode.records.commitment import Commitment
from devnode.rpc import params as read
from devnode.rpc.accounts import LARGEST_MAX, AccountView
from devnode.rpc.errors import invalid_params
from devnode.rpc.node import Node, in_context
from devnode.rpc.params import Params


def get_token_account_balance(node: Node, params: Params) -> Any:
    pubkey = read.pubkey(params, 0)
    level, slot = node.bank(read.config(params, 1, "CommitmentConfig"))
    account = node.chain.account(pubkey, level)
    if account is None:
        raise invalid_params("Invalid param: could not find account")
    if account.owner not in TOKEN_PROGRAMS:
        raise invalid_params("Invalid param: not a Token account")
    held = holding(account)
    if held is None:
        raise invalid_params("Invalid param: not a Token account")
    return in_context(slot, ui_token_amount(held.amount, _decimals(node, held.mint, level)))


def get_token_supply(node: Node, params: Params) -> Any:
    pubkey = read.pubkey(params, 0)
    level, slot = node.bank(read.config(params, 1, "CommitmentConfig"))
    account = node.chain.account(pubkey, level)
    if account is None:
        raise invalid_params("Invalid param: could not find account")
    decimals = mint_decimals(pubkey, account)
    if decimals is None:
        raise invalid_params("Invalid param: not a Token mint")
    return in_context(slot, ui_token_amount(mint_supply(account.data), decimals))


def get_token_accounts_by_owner(node: Node, params: Params) -> Any:
    owner = read.pubkey(params, 0)
    return _token_accounts(node, params, node.chain.indexes.token_accounts_of(owner), lambda held: held.owner == owner)


def get_token_accounts_by_delegate(node: Node, params: Params) -> Any:
    delegate = read.pubkey(params, 0)
    return _token_accounts(
        node, params, node.chain.indexes.token_accounts_delegated_to(delegate), lambda held: held.delegate == delegate
    )


def get_token_largest_accounts(node: Node, params: Params) -> Any:
    mint = read.pubkey(params, 0)
    level, slot = node.bank(read.config(params, 1, "CommitmentConfig"))
    account = node.chain.account(mint, level)
    decimals = mint_decimals(mint, account)
    if account is None or decimals is None:
        raise invalid_params("Invalid param: not a Token mint")
    found = [
        (held.amount, str(pubkey))
        for pubkey, _, held in _held(node, level, node.chain.indexes.token_accounts_of_mint(mint))
        if held.mint == mint
    ]
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    rows = [{"address": text} | ui_token_amount(amount, decimals) for amount, text in found[:LARGEST_MAX]]
    return in_context(slot, rows)


def _token_accounts(
    node: Node, params: Params, indexed: frozenset[Pubkey] | set[Pubkey], belongs: Callable[[Holding], bool]
) -> Any:
    config = read.config(params, 2, "RpcAccountInfoConfig")
    level, slot = node.bank(config)
    mint, program = _token_filter(node, read.at(params, 1), level)
    shown = AccountView(node, level, config, "binary")
    rows = [
        {"account": shown.of(pubkey, account), "pubkey": str(pubkey)}
        for pubkey, account, held in _held(node, level, indexed)
        if belongs(held) and held.program == program and (mint is None or held.mint == mint)
    ]
    return in_context(slot, rows)


def _token_filter(node: Node, value: Any, level: Commitment) -> tuple[Pubkey | None, Pubkey]:
    """Read the caller's filter: (mint or None, token program)."""
    if isinstance(value, dict) and "mint" in value:
        mint = read.pubkey_of(value["mint"])
        account = node.chain.account(mint, level)
        if account is None:
            raise invalid_params("Invalid param: could not find mint")
        if mint_decimals(mint, account) is None:
            raise invalid_params("Invalid param: not a Token mint")
        return mint, account.owner
    if isinstance(value, dict) and "programId" in value:
        program = read.pubkey_of(value["programId"])
        if program not in TOKEN_PROGRAMS:
            raise invalid_params("Invalid param: unrecognized Token program id")
        return None, program
    raise invalid_params("Invalid params: expected `mint` or `programId`.")


def _held(
    node: Node, level: Commitment, indexed: frozenset[Pubkey] | set[Pubkey]
) -> Iterator[tuple[Pubkey, Account, Holding]]:
    """Token accounts as they were at the level: those in the index, and all that changed after the level."""
    overlay = node.chain.overlay(level)
    for pubkey in sorted(indexed | overlay.keys(), key=bytes):
        account = overlay[pubkey] if pubkey in overlay else node.chain.vm.account(pubkey)
        held = holding(account)
        if account is not None and held is not None:
            yield pubkey, account, held


def _decimals(node: Node, mint: Pubkey, level: Commitment) -> int:
    decimals = mint_decimals(mint, node.chain.account(mint, level))
    if decimals is None:
        raise invalid_params("Invalid param: could not find mint")
    return decimals
