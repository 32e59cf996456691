"""Runs a transaction without keeping its changes.

Implements: simulateTransaction and the preflight of sendTransaction, at any commitment.
Not here: the RPC shapes (rpc/sending.py), how changes are undone (rehearsal.py).
"""

from dataclasses import dataclass
from typing import Any

from solders.account import Account
from solders.hash import Hash
from solders.message import Message, MessageHeader, MessageV0, MessageV1
from solders.transaction import VersionedTransaction

from devnode.chain.chain import Chain
from devnode.chain.rehearsal import Rehearsal, rehearsing
from devnode.encoding.wire import AnyMessage, Decoded
from devnode.execution.execution import LoadedKeys, Refused, token_balances
from devnode.execution.fees import LOADED_DATA_BYTES_MAX, compute_budget
from devnode.execution.inline_config import loaded_data_bytes
from devnode.execution.vm import Outcome
from devnode.records.commitment import Commitment
from devnode.records.records import TokenBalance


@dataclass(frozen=True, slots=True)
class Simulation:
    err: Any
    outcome: Outcome
    keys: LoadedKeys
    before: tuple[Account | None, ...]
    after: tuple[Account | None, ...]
    pre_tokens: tuple[TokenBalance, ...]
    post_tokens: tuple[TokenBalance, ...]
    fee_lamports: int
    loaded_data_bytes: int


def sees_the_present(chain: Chain, decoded: Decoded, level: Commitment) -> bool:
    """Whether the transaction's accounts are the same at this level and in the slot being built, so that preflight
    at this level has the same result as landing."""
    if chain.levels.is_lagging:
        return False
    if level is Commitment.PROCESSED:
        return True
    if isinstance(decoded.message, MessageV0) and decoded.message.address_table_lookups:
        return False  # The accounts in its lookup tables are not resolved yet.
    bank = chain.levels.at(level)
    is_fresh = chain.blockhashes.is_usable(decoded.blockhash, bank.slot, bank.height)
    return is_fresh and not chain.history.changed_among(decoded.keys, bank.slot)


def preflight(chain: Chain, decoded: Decoded, level: Commitment, is_signed: bool = False) -> Outcome | None:
    """How the transaction would fail; None where it would succeed. Checks signatures; collects no balances.

    is_signed: the signatures are already verified."""
    reason = chain.refusal(decoded, level)
    if reason is not None:
        is_signed = is_signed or all(decoded.transaction.verify_with_results())
        return refused(reason if is_signed else "SignatureFailure")
    budget = compute_budget(decoded)
    plain = not isinstance(decoded.message, MessageV1) and budget.loaded_data_bytes_max == LOADED_DATA_BYTES_MAX
    with rehearsing(chain, chain.levels.at(level).slot) as rehearsal:
        if plain:  # The VM applies all limits itself, so its own simulation is enough, and it is faster.
            rehearsal.read_all(decoded)
            chain.vm.limit(budget.compute_unit_limit, budget.heap_bytes)
            return chain.vm.would_fail(decoded.transaction, not is_signed)
        done = rehearsed(rehearsal, decoded, verify_signatures=not is_signed)
        return None if done.err is None else done.outcome


def simulate(chain: Chain, decoded: Decoded, level: Commitment, verify_signatures: bool, fresh: bool) -> Simulation:
    """Run the transaction at the level and undo it.

    fresh: skip the check of the blockhash (the caller has replaced it)."""
    with rehearsing(chain, chain.levels.at(level).slot) as rehearsal:
        if verify_signatures and not all(decoded.transaction.verify_with_results()):
            return not_run(rehearsal, decoded, refused("SignatureFailure"))
        if not fresh and (reason := chain.refusal(decoded, level)) is not None:
            return not_run(rehearsal, decoded, refused(reason))
        return rehearsed(rehearsal, decoded, verify_signatures=False)


def rehearsed(rehearsal: Rehearsal, decoded: Decoded, verify_signatures: bool) -> Simulation:
    """Run one transaction in a rehearsal; later ones of the same rehearsal see its changes."""
    keys = rehearsal.keys(decoded)
    before = tuple(map(rehearsal.read, keys.all))
    weight = loaded_data_bytes(decoded, before, rehearsal.read)
    done = rehearsal.run(decoded, verify_signatures)
    if isinstance(done, Refused):
        outcome = refused(done.err, done.logs)
        balances = token_balances(list(before), rehearsal.read)
        return Simulation(done.err, outcome, keys, before, before, balances, balances, 0, weight)
    meta = done.meta
    return Simulation(
        err=meta.err,
        outcome=Outcome(True, meta.err, meta.fee_lamports, meta.compute_units, meta.logs, meta.inner, meta.return_data),
        keys=keys,
        before=before,
        after=tuple(map(rehearsal.read, keys.all)),
        pre_tokens=meta.pre_tokens,
        post_tokens=meta.post_tokens,
        fee_lamports=meta.fee_lamports,
        loaded_data_bytes=weight,
    )


def not_run(rehearsal: Rehearsal, decoded: Decoded, outcome: Outcome) -> Simulation:
    keys = rehearsal.keys(decoded)
    held = tuple(map(rehearsal.read, keys.all))
    balances = token_balances(list(held), rehearsal.read)
    weight = loaded_data_bytes(decoded, held, rehearsal.read)
    return Simulation(outcome.err, outcome, keys, held, held, balances, balances, 0, weight)


def refused(err: Any, logs: tuple[str, ...] = ()) -> Outcome:
    return Outcome(landed=False, err=err, fee_lamports=0, compute_units=0, logs=logs, inner=(), return_data=None)


def with_blockhash(decoded: Decoded, blockhash: Hash) -> Decoded:
    """The same transaction with another blockhash. Its signatures become invalid, so do not verify them."""
    message = _rebuilt(decoded.message, blockhash)
    transaction = VersionedTransaction.populate(message, decoded.transaction.signatures)
    return Decoded(
        bytes(transaction), transaction, message, decoded.signature, decoded.keys, blockhash, decoded.version
    )


def _rebuilt(message: AnyMessage, blockhash: Hash) -> AnyMessage:
    header: MessageHeader = message.header
    if isinstance(message, MessageV0):
        return MessageV0(header, message.account_keys, blockhash, message.instructions, message.address_table_lookups)
    if isinstance(message, MessageV1):
        return MessageV1(header, message.config, blockhash, message.account_keys, message.instructions)
    return Message.new_with_compiled_instructions(
        header.num_required_signatures,
        header.num_readonly_signed_accounts,
        header.num_readonly_unsigned_accounts,
        message.account_keys,
        blockhash,
        message.instructions,
    )
