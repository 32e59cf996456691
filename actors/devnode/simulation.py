"""Running a transaction without keeping what it did.

Implements: simulateTransaction and the preflight of sendTransaction, at any commitment: for the length of one run
the VM holds the accounts as that level saw them.
Changes nothing that lasts. Not here: the RPC shapes (rpc/sending.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from solders.account import Account
from solders.hash import Hash
from solders.message import Message, MessageHeader, MessageV0, MessageV1
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.devnode.chain import Chain
from actors.devnode.commitment import Commitment
from actors.devnode.execution import LoadedKeys, load_keys, token_balances, with_lamports
from actors.devnode.fees import compute_budget
from actors.devnode.records import TokenBalance
from actors.devnode.vm import Outcome, Simulated
from actors.devnode.wire import AnyMessage, Decoded

_Result = TypeVar("_Result")
_EMPTY = Outcome(landed=False, err=None, fee_lamports=0, compute_units=0, logs=(), inner=(), return_data=None)


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


def preflight(chain: Chain, decoded: Decoded, level: Commitment) -> Outcome | None:
    """How the transaction would fail, signatures included; None where it would succeed. Collects no balances."""
    reason = chain.refusal(decoded, level)
    if reason is not None:
        signed = all(decoded.transaction.verify_with_results())
        return _refused(reason if signed else "SignatureFailure")
    return _at_level(chain, decoded, level, lambda: chain.vm.would_fail(decoded.transaction))


def simulate(chain: Chain, decoded: Decoded, level: Commitment, verify_signatures: bool, fresh: bool) -> Simulation:
    """fresh: the blockhash counts as known (the caller has replaced it)."""
    if verify_signatures and not all(decoded.transaction.verify_with_results()):
        result = Simulated(_refused("SignatureFailure"), {})
    elif not fresh and (reason := chain.refusal(decoded, level)) is not None:
        result = Simulated(_refused(reason), {})
    else:
        result = _at_level(
            chain, decoded, level, lambda: chain.vm.simulate(decoded.transaction, verify_signatures=False)
        )
    return _collect(chain, decoded, level, result)


def _collect(chain: Chain, decoded: Decoded, level: Commitment, result: Simulated) -> Simulation:
    def read(pubkey: Pubkey) -> Account | None:
        return chain.account(pubkey, level)

    keys = load_keys(decoded, read)
    before = [read(pubkey) for pubkey in keys.all]
    outcome, posts = result.outcome, result.post_accounts
    after = [_gone_is_none(posts.get(pubkey, old)) for pubkey, old in zip(keys.all, before, strict=True)]
    inline_fee = 0
    if isinstance(decoded.message, MessageV1) and outcome.landed:
        inline_fee = compute_budget(decoded).priority_fee_lamports
        payer = after[0]
        if payer is not None and outcome.err is None:
            after[0] = with_lamports(payer, max(payer.lamports - inline_fee, 0))
    return Simulation(
        err=outcome.err,
        outcome=outcome,
        keys=keys,
        before=tuple(before),
        after=tuple(after),
        pre_tokens=token_balances(before, read),
        post_tokens=token_balances(after, read),
        fee_lamports=outcome.fee_lamports + inline_fee,
        loaded_data_bytes=sum(len(account.data) for account in before if account is not None),
    )


def _gone_is_none(account: Account | None) -> Account | None:
    return None if account is None or account.lamports == 0 else account


def _refused(reason: str) -> Outcome:
    return Outcome(False, reason, 0, 0, _EMPTY.logs, _EMPTY.inner, None)


def _at_level(chain: Chain, decoded: Decoded, level: Commitment, run: Callable[[], _Result]) -> _Result:
    """Run with the accounts of the level in the VM, and put back what was there."""
    if level is Commitment.PROCESSED:
        return run()
    slot = chain.levels.at(level).slot
    keys = decoded.keys
    if isinstance(decoded.message, MessageV0) and decoded.message.address_table_lookups:
        keys = load_keys(decoded, lambda pubkey: chain.account(pubkey, level)).all
    now = [(pubkey, chain.vm.account(pubkey)) for pubkey in chain.history.changed_among(keys, slot)]
    if not now:
        return run()
    # A program that changed since stays as it is: putting programs back costs a recompile for no caller's benefit.
    swapped = [(pubkey, account) for pubkey, account in now if account is None or not account.executable]
    for pubkey, _ in swapped:
        chain.vm.put(pubkey, chain.history.as_of(pubkey, slot))
    try:
        return run()
    finally:
        for pubkey, account in swapped:
            chain.vm.put(pubkey, account)


def with_blockhash(decoded: Decoded, blockhash: Hash) -> Decoded:
    """The same transaction on another blockhash; its signatures no longer fit, which only matters to who verifies."""
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
