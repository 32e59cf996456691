"""Finds out whether transactions pay a tip to a block engine.

Implements: interface, "Bundle relay" (a bundle must include a tip to a tip account); the JSON-RPC of Jito's block
engine (a transfer of at least 1,000 lamports, in an instruction of a transaction or made by a program that it calls; an
account that a lookup table names does not count).
Pure. A transfer by the system program is counted. What another program does with a tip account is not known before it
runs: a transaction that hands it one to write is let through, and the engine decides.
"""

from collections.abc import Collection, Iterable

from solders.transaction import VersionedTransaction

from actors.addresses import SYSTEM_PROGRAM
from actors.methods.transactions import whole_transaction, written_keys

TIP_LAMPORTS_MIN = 1_000
# Instructions of the system program that move lamports: number, place of the amount, and of the receiving account.
_TRANSFERS = {(2).to_bytes(4, "little"): 1, (11).to_bytes(4, "little"): 2}
_AMOUNT_FROM, _AMOUNT_TO = 4, 12
_UNKNOWN = -1


def lacking_tip(transactions: Iterable[bytes], accounts: Collection[str]) -> str:
    """Return why these transactions pay no tip to one of the accounts; empty when they pay one, or may."""
    lamports = 0
    for raw in transactions:
        found = _tip_lamports(whole_transaction(raw), accounts)
        if found == _UNKNOWN:
            return ""
        lamports += found
    if lamports >= TIP_LAMPORTS_MIN:
        return ""
    if lamports:
        return f"it tips {lamports} lamports, at least {TIP_LAMPORTS_MIN:,} are wanted"
    return "it pays none of the tip accounts of GET /relay/getTipAccounts (one in a lookup table does not count)"


def _tip_lamports(transaction: VersionedTransaction, accounts: Collection[str]) -> int:
    """Lamports that a transaction transfers to these accounts; _UNKNOWN where another program may."""
    message = transaction.message
    keys, written = [str(key) for key in message.account_keys], set(written_keys(transaction))
    tipped = {place for place, key in enumerate(keys) if key in accounts and key in written}
    lamports = 0
    for instruction in message.instructions:
        named, program = bytes(instruction.accounts), instruction.program_id_index
        if tipped.isdisjoint(named) or program >= len(keys):
            continue
        if keys[program] != SYSTEM_PROGRAM:
            return _UNKNOWN
        data = bytes(instruction.data)
        receiver = _TRANSFERS.get(data[:_AMOUNT_FROM])
        if receiver is not None and len(data) >= _AMOUNT_TO and len(named) > receiver and named[receiver] in tipped:
            lamports += int.from_bytes(data[_AMOUNT_FROM:_AMOUNT_TO], "little")
    return lamports
