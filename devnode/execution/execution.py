"""Runs one transaction on the VM and collects its results.

Implements: pre and post balances in lamports and tokens, resolved lookup tables, the list of account writes. Adds
rules that the VM lacks: the inline priority fee of v1, the limit on loaded account data, this chain's nonce values.
Changes the VM and nothing else. Not here: whether the transaction may run at all (chain/chain.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from solders.account import Account
from solders.hash import Hash
from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey

from devnode.encoding.addresses import ADDRESS_LOOKUP_TABLE_PROGRAM, TOKEN_PROGRAMS
from devnode.encoding.wire import Decoded, writable_indexes
from devnode.execution.fees import LOADED_DATA_BYTES_MAX, ComputeBudget, compute_budget, for_vm, loaded_data_bytes
from devnode.execution.vm import Outcome, Vm
from devnode.parsing.token_accounts import holding, mint_decimals
from devnode.records.blockhashes import nonce_account_of, stored_value, with_value
from devnode.records.records import TokenBalance, TransactionMeta

TOO_MUCH_DATA = "MaxLoadedAccountsDataSizeExceeded"
_LOOKUP_TABLE_META_BYTES = 56
ReadAccount = Callable[[Pubkey], Account | None]


class LoadedKeys(msgspec.Struct, frozen=True):
    """Every account of a transaction: static keys, then loaded writable, then loaded readonly."""

    all: tuple[Pubkey, ...]
    writable: tuple[int, ...]  # Indexes of the write-locked accounts.
    loaded_writable: tuple[Pubkey, ...]
    loaded_readonly: tuple[Pubkey, ...]


class Write(msgspec.Struct, frozen=True):
    pubkey: Pubkey
    before: Account | None
    after: Account | None


class Execution(msgspec.Struct, frozen=True):
    keys: LoadedKeys
    meta: TransactionMeta
    writes: tuple[Write, ...]
    budget: ComputeBudget


@dataclass(frozen=True, slots=True)
class Refused:
    """The runtime refused the transaction: no fee was charged, no block has it."""

    err: Any
    logs: tuple[str, ...] = ()


def load_keys(decoded: Decoded, read: ReadAccount) -> LoadedKeys:
    static = decoded.keys
    writable = writable_indexes(decoded.message, static)
    loaded_writable: list[Pubkey] = []
    loaded_readonly: list[Pubkey] = []
    if isinstance(decoded.message, MessageV0):
        for lookup in decoded.message.address_table_lookups:
            table = _table_addresses(read(lookup.account_key))
            loaded_writable += [table[i] for i in lookup.writable_indexes if i < len(table)]
            loaded_readonly += [table[i] for i in lookup.readonly_indexes if i < len(table)]
    writable += range(len(static), len(static) + len(loaded_writable))
    return LoadedKeys(
        (*static, *loaded_writable, *loaded_readonly), tuple(writable), tuple(loaded_writable), tuple(loaded_readonly)
    )


def _table_addresses(account: Account | None) -> list[Pubkey]:
    """Addresses of a lookup table; an empty list where there is no table (the VM then refuses the transaction)."""
    if account is None or account.owner != ADDRESS_LOOKUP_TABLE_PROGRAM:
        return []
    data = account.data[_LOOKUP_TABLE_META_BYTES:]
    return [Pubkey.from_bytes(data[at : at + 32]) for at in range(0, len(data) - 31, 32)]


def run(vm: Vm, decoded: Decoded, verify_signatures: bool, next_nonce: Hash) -> Execution | Refused:
    """Execute a transaction and keep its changes.

    next_nonce: the new value of nonce accounts that this transaction advances."""
    keys = load_keys(decoded, vm.account)
    budget = compute_budget(decoded)
    before = [vm.account(pubkey) for pubkey in keys.all]
    inline_fee = budget.priority_fee_lamports if isinstance(decoded.message, MessageV1) else 0
    if inline_fee:
        payer = before[0]
        if payer is None:
            return Refused("AccountNotFound")
        if payer.lamports < budget.fee_lamports:
            return Refused("InsufficientFundsForFee")
        vm.put(keys.all[0], with_lamports(payer, payer.lamports - inline_fee))
    outcome = _outcome(vm, decoded, budget, before, verify_signatures)
    if not outcome.landed:
        if inline_fee:
            vm.put(keys.all[0], before[0])
        return Refused(outcome.err, outcome.logs)
    after = list(before)
    for index in keys.writable:
        after[index] = vm.account(keys.all[index])
    _renew_nonces(vm, decoded, keys, before, after, next_nonce)
    writes = tuple(
        Write(keys.all[index], before[index], after[index])
        for index in keys.writable
        if _differ(before[index], after[index])
    )
    return Execution(keys, _meta(outcome, keys, before, after, vm.account, inline_fee), writes, budget)


def _outcome(
    vm: Vm, decoded: Decoded, budget: ComputeBudget, before: list[Account | None], verify_signatures: bool
) -> Outcome:
    """Run the transaction; where it would load more data than its limit, only charge its fee."""
    transaction = for_vm(decoded)
    verified = not verify_signatures
    too_large = loads_too_much(decoded, budget, before, vm.account)
    if not verified and (too_large or transaction is not decoded.transaction):
        if not all(decoded.transaction.verify_with_results()):
            return _not_run("SignatureFailure", landed=False)
        verified = True
    if not too_large:
        vm.limit(budget.compute_unit_limit, budget.heap_bytes)
        return vm.execute(transaction, not verified)
    return _charge_only(vm, decoded, budget)


def _charge_only(vm: Vm, decoded: Decoded, budget: ComputeBudget) -> Outcome:
    """Charge the fee without running the transaction, by the rules for fee payers."""
    payer = vm.account(decoded.keys[0])  # The inline fee of v1 is charged already.
    fee = budget.signature_fee_lamports if isinstance(decoded.message, MessageV1) else budget.fee_lamports
    if payer is None:
        return _not_run("AccountNotFound", landed=False)
    left = payer.lamports - fee
    if left < 0:
        return _not_run("InsufficientFundsForFee", landed=False)
    if 0 < left < vm.rent_exempt_lamports(len(payer.data)):
        return _not_run({"InsufficientFundsForRent": {"account_index": 0}}, landed=False)
    vm.put(decoded.keys[0], with_lamports(payer, left))
    return _not_run(TOO_MUCH_DATA, landed=True, fee_lamports=fee)


def loads_too_much(
    decoded: Decoded, budget: ComputeBudget, accounts: Sequence[Account | None], read: ReadAccount
) -> bool:
    limit = budget.loaded_data_bytes_max
    if limit == LOADED_DATA_BYTES_MAX:  # The default: skip the measurement.
        return False
    if limit == 0 and not isinstance(decoded.message, MessageV1):
        return False  # An instruction that sets the limit to 0 is invalid, and the VM refuses it.
    return loaded_data_bytes(decoded, accounts, read) > limit


def _not_run(err: Any, landed: bool, fee_lamports: int = 0) -> Outcome:
    return Outcome(landed, err, fee_lamports, 0, (), (), None)


def _renew_nonces(
    vm: Vm,
    decoded: Decoded,
    keys: LoadedKeys,
    before: list[Account | None],
    after: list[Account | None],
    next_nonce: Hash,
) -> None:
    """Set advanced nonces to this chain's value; the nonce of a failed durable transaction advances as well."""
    advanced = durable_nonce_account(decoded)
    for index in keys.writable:
        account = after[index]
        value = stored_value(account)
        if account is None or value is None or (value == stored_value(before[index]) and keys.all[index] != advanced):
            continue
        renewed = with_value(account, next_nonce)
        vm.put(keys.all[index], renewed)
        after[index] = renewed


def durable_nonce_account(decoded: Decoded) -> Pubkey | None:
    """The nonce account of a durable transaction, from its first instruction; None for other transactions."""
    if not decoded.transaction.uses_durable_nonce():
        return None
    first = decoded.message.instructions[0]
    accounts = tuple(decoded.keys[index] for index in first.accounts if index < len(decoded.keys))
    return nonce_account_of(decoded.keys[first.program_id_index], first.data, accounts)


def _meta(
    outcome: Outcome,
    keys: LoadedKeys,
    before: list[Account | None],
    after: list[Account | None],
    read: ReadAccount,
    inline_fee: int,
) -> TransactionMeta:
    has_tokens = not TOKEN_PROGRAMS.isdisjoint(keys.all)
    return TransactionMeta(
        err=outcome.err,
        fee_lamports=outcome.fee_lamports + inline_fee,
        compute_units=outcome.compute_units,
        pre_lamports=tuple([0 if account is None else account.lamports for account in before]),
        post_lamports=tuple([0 if account is None else account.lamports for account in after]),
        pre_tokens=token_balances(before, read) if has_tokens else (),
        post_tokens=token_balances(after, read) if has_tokens else (),
        inner=outcome.inner,
        logs=outcome.logs,
        loaded_writable=tuple(map(str, keys.loaded_writable)),
        loaded_readonly=tuple(map(str, keys.loaded_readonly)),
        return_data=outcome.return_data,
    )


def token_balances(accounts: list[Account | None], read: ReadAccount) -> tuple[TokenBalance, ...]:
    """One entry for each token account, in the order of the transaction's keys."""
    found = []
    for index, account in enumerate(accounts):
        held = holding(account)
        if held is None:
            continue
        decimals = mint_decimals(held.mint, read(held.mint))
        if decimals is not None:
            found.append(TokenBalance(index, str(held.mint), str(held.owner), str(held.program), held.amount, decimals))
    return tuple(found)


def with_lamports(account: Account, lamports: int) -> Account:
    return Account(lamports, account.data, account.owner, account.executable, account.rent_epoch)


def _differ(before: Account | None, after: Account | None) -> bool:
    """Compare field by field: `==` of two Account objects formats both and takes 60 microseconds."""
    if before is None or after is None:
        return before is not after
    return before.lamports != after.lamports or before.data != after.data or before.owner != after.owner
