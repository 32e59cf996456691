"""Which accounts belong to a program, a wallet, a mint or a delegate.

Implements: what getProgramAccounts and the token account queries search, so that none of them scans everything.
Pure: kept up to date write by write. Holds addresses only; contents are read from the VM.
"""

from dataclasses import dataclass, field

from solders.account import Account
from solders.pubkey import Pubkey

from actors.devnode.encoding.addresses import TOKEN_PROGRAMS
from actors.devnode.parsing.token_state import Holding, holding

_NONE: frozenset[Pubkey] = frozenset()
_Index = dict[Pubkey, set[Pubkey]]


@dataclass(slots=True)
class AccountIndexes:
    _by_program: _Index = field(default_factory=dict)
    _by_owner: _Index = field(default_factory=dict)
    _by_mint: _Index = field(default_factory=dict)
    _by_delegate: _Index = field(default_factory=dict)

    def update(self, pubkey: Pubkey, before: Account | None, after: Account | None) -> None:
        """An account went from one content to another; None means absent."""
        program_before = before.owner if before is not None else None
        program_after = after.owner if after is not None else None
        if program_before != program_after:
            _drop(self._by_program, program_before, pubkey)
            _add(self._by_program, program_after, pubkey)
        if program_before not in TOKEN_PROGRAMS and program_after not in TOKEN_PROGRAMS:
            return
        held, holds = holding(before), holding(after)
        if held is not None and (holds is None or _place(held) != _place(holds)):
            _drop(self._by_owner, held.owner, pubkey)
            _drop(self._by_mint, held.mint, pubkey)
            _drop(self._by_delegate, held.delegate, pubkey)
        if holds is not None and (held is None or _place(held) != _place(holds)):
            _add(self._by_owner, holds.owner, pubkey)
            _add(self._by_mint, holds.mint, pubkey)
            _add(self._by_delegate, holds.delegate, pubkey)

    def of_program(self, program: Pubkey) -> frozenset[Pubkey] | set[Pubkey]:
        return self._by_program.get(program, _NONE)

    def token_accounts_of(self, owner: Pubkey) -> frozenset[Pubkey] | set[Pubkey]:
        return self._by_owner.get(owner, _NONE)

    def token_accounts_of_mint(self, mint: Pubkey) -> frozenset[Pubkey] | set[Pubkey]:
        return self._by_mint.get(mint, _NONE)

    def token_accounts_delegated_to(self, delegate: Pubkey) -> frozenset[Pubkey] | set[Pubkey]:
        return self._by_delegate.get(delegate, _NONE)

    def all_accounts(self) -> list[Pubkey]:
        return [pubkey for accounts in self._by_program.values() for pubkey in accounts]


def _place(held: Holding) -> tuple[Pubkey, Pubkey, Pubkey | None]:
    return held.owner, held.mint, held.delegate


def _add(index: _Index, key: Pubkey | None, pubkey: Pubkey) -> None:
    if key is not None:
        index.setdefault(key, set()).add(pubkey)


def _drop(index: _Index, key: Pubkey | None, pubkey: Pubkey) -> None:
    if key is None:
        return
    known = index[key]
    known.discard(pubkey)
    if not known:
        del index[key]
