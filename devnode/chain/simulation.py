"""Runs transactions without keeping their changes.

Implements: simulateTransaction and the preflight of sendTransaction, at any commitment; and rehearsals, which these and
the block engine use: transactions run one after the other on the accounts of one slot. Each sees the changes of the
ones before it, and the code that runs them is the code that lands them. At the end every account is restored.
The VM is changed meanwhile, so a rehearsal must not await. Not here: the RPC shapes (rpc/sending.py).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from solders.account import Account
from solders.hash import Hash
from solders.message import Message, MessageHeader, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.chain.chain import Chain
from devnode.encoding.wire import AnyMessage, Decoded
from devnode.execution.execution import Execution, LoadedKeys, Refused, load_keys, run, token_balances
from devnode.execution.fees import LOADED_DATA_BYTES_MAX, compute_budget, loaded_data_bytes
from devnode.execution.vm import Outcome
from devnode.records.blockhashes import durable_nonce
from devnode.records.commitment import Commitment
from devnode.records.records import TokenBalance


class Rehearsal:
    """One rehearsal. Create it with `rehearsing`."""

    def __init__(self, chain: Chain, slot: int) -> None:
        self._chain, self._slot = chain, slot
        self._is_now = slot >= chain.levels.building.slot
        self._next_nonce = durable_nonce(chain.blockhashes.latest().blockhash)
        self._original: dict[Pubkey, Account | None] = {}  # Accounts of the VM before their first change.

    def read(self, pubkey: Pubkey) -> Account | None:
        """The account at this point of the rehearsal."""
        self._load_past((pubkey,))
        return self._chain.vm.account(pubkey)

    def keys(self, decoded: Decoded) -> LoadedKeys:
        if isinstance(decoded.message, MessageV0):
            self._load_past(lookup.account_key for lookup in decoded.message.address_table_lookups)
        return load_keys(decoded, self._chain.vm.account)

    def read_all(self, decoded: Decoded) -> None:
        """Load the slot's contents of every account of the transaction into the VM."""
        if not self._is_now:
            self._load_past(self.keys(decoded).all)

    def run(self, decoded: Decoded, verify_signatures: bool) -> Execution | Refused:
        """Run one transaction; its changes stay until the end of the rehearsal. Does not check blockhash, nonce or
        duplicates."""
        keys = self.keys(decoded)
        self._load_past(keys.all)
        vm = self._chain.vm
        for index in keys.writable:
            pubkey = keys.all[index]
            if pubkey not in self._original:
                self._original[pubkey] = vm.account(pubkey)
        return run(vm, decoded, verify_signatures, self._next_nonce)

    def _load_past(self, pubkeys: Iterable[Pubkey]) -> None:
        """Load the slot's contents of these accounts into the VM. A program that changed since keeps its present
        code: setting it costs a compilation, and no caller needs the old code."""
        if self._is_now:
            return
        chain = self._chain
        for pubkey in chain.history.changed_among(pubkeys, self._slot):
            if pubkey in self._original:
                continue
            account = chain.vm.account(pubkey)
            if account is None or not account.executable:
                self._original[pubkey] = account
                chain.vm.put(pubkey, chain.history.as_of(pubkey, self._slot))

    def put_back(self) -> None:
        """Restore all accounts, changed or not: setting an account costs less than comparing two. Programs last: the
        VM compiles a program when it is set, and reads its data account for that."""
        for programs in (False, True):
            for pubkey, account in self._original.items():
                if (account is not None and account.executable) == programs:
                    self._chain.vm.put(pubkey, account)


@contextmanager
def rehearsing(chain: Chain, slot: int) -> Iterator[Rehearsal]:
    """Start a rehearsal on the accounts at the end of the slot, and undo it on exit. The slot being built means the
    present accounts."""
    rehearsal = Rehearsal(chain, slot)
    try:
        yield rehearsal
    finally:
        rehearsal.put_back()


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
