"""Indexes of accounts by program, and of token accounts by owner, mint and delegate.

Implements: the searches of getProgramAccounts and the token account queries, without a scan of all accounts.
Pure: updated with every write. Holds addresses only; contents are read from the VM.
"""

from dataclasses import dataclass, field

from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.addresses import TOKEN_PROGRAMS
from devnode.parsing.token_accounts import Holding, holding

_NONE: frozenset[Pubkey] = frozenset()
_Index = dict[Pubkey, set[Pubkey]]


@dataclass(slots=True)
class AccountIndexes:
    _by_program: _Index = field(default_factory=dict)
    _by_owner: _Index = field(default_factory=dict)
    _by_mint: _Index = field(default_factory=dict)
    _by_delegate: _Index = field(default_factory=dict)

    def update(self, pubkey: Pubkey, before: Account | None, after: Account | None) -> None:
        """Update the indexes after a write; None means that the account is absent."""
        program_before = before.owner if before is not None else None
        program_after = after.owner if after is not None else None
        if program_before != program_after:
            _drop(self._by_program, program_before, pubkey)
            _add(self._by_program, program_after, pubkey)
        if program_before not in TOKEN_PROGRAMS and program_after not in TOKEN_PROGRAMS:
            return
        old, new = holding(before), holding(after)
        if old is not None and (new is None or _keys(old) != _keys(new)):
            _drop(self._by_owner, old.owner, pubkey)
            _drop(self._by_mint, old.mint, pubkey)
            _drop(self._by_delegate, old.delegate, pubkey)
        if new is not None and (old is None or _keys(old) != _keys(new)):
            _add(self._by_owner, new.owner, pubkey)
            _add(self._by_mint, new.mint, pubkey)
            _add(self._by_delegate, new.delegate, pubkey)

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


def _keys(token_account: Holding) -> tuple[Pubkey, Pubkey, Pubkey | None]:
    return token_account.owner, token_account.mint, token_account.delegate


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
