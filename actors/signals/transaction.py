"""One executed transaction as the classifiers read it, whichever source it came from.

Implements: interface, "Signal event": all instructions, outer and inner, in the order of their execution, with resolved
account keys; token transfers inside an instruction.
Pure. Not here: reading a source (from_geyser.py, from_json.py), the meaning of an instruction (families/).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec
from solders.pubkey import Pubkey
from solders.signature import Signature

from actors.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAMS

KEY_BYTES = 32
SIGNATURE_BYTES = 64
SELF_CPI_PREFIX = bytes.fromhex("e445a52e51cb9a1d")  # Anchor's prefix of an event in an inner instruction.
Key = TypeVar("Key")
Value = TypeVar("Value")
_TRANSFER, _TRANSFER_CHECKED, _TRANSFER_WITH_FEE = 3, 12, 26
_KEYS_CACHED = 65_536


@lru_cache(_KEYS_CACHED)
def key_text(key: bytes) -> str:
    return str(Pubkey.from_bytes(key))


@lru_cache(_KEYS_CACHED)
def key_bytes(text: str) -> bytes | None:
    """Decode a base58 key. None: the text is no key."""
    try:
        return bytes(Pubkey.from_string(text))
    except ValueError:
        return None


def known_key(text: str) -> bytes:
    return bytes(Pubkey.from_string(text))


def signature_text(signature: bytes) -> str:
    return str(Signature.from_bytes(signature))


_TOKEN_PROGRAMS = frozenset(known_key(text) for text in TOKEN_PROGRAMS)
_SYSTEM_PROGRAM = known_key(SYSTEM_PROGRAM)


class LazyMapping(Mapping[Key, Value]):
    """A mapping computed at first use: most transactions' balances are never read."""

    __slots__ = ("_compute", "_found")

    def __init__(self, compute: Callable[[], Mapping[Key, Value]]) -> None:
        self._compute = compute
        self._found: Mapping[Key, Value] | None = None

    def _computed(self) -> Mapping[Key, Value]:
        if self._found is None:
            self._found = self._compute()
        return self._found

    def __getitem__(self, key: Key) -> Value:
        return self._computed()[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._computed())

    def __len__(self) -> int:
        return len(self._computed())


class Instruction(msgspec.Struct, frozen=True, gc=False):
    """accounts: None where the message names an account that it does not have. outer: the number of the outer
    instruction. height: 1 for an outer instruction; 0: the source does not tell how deep an inner one is."""

    program: bytes
    accounts: tuple[bytes | None, ...]
    data: bytes
    outer: int
    height: int = 1

    def account(self, position: int) -> bytes | None:
        return self.accounts[position] if -len(self.accounts) <= position < len(self.accounts) else None


class MovedTokens(msgspec.Struct, frozen=True, gc=False):
    source: bytes
    destination: bytes
    amount: int
    mint: bytes | None


class Transaction(msgspec.Struct, frozen=True):
    """token_mints: the mint of each token account. token_changes: for each owner, the mints whose balances changed.
    lamports: of each account whose balance changed, before and after."""

    signature: bytes
    slot: int
    failed: bool
    keys: tuple[bytes, ...]
    signers_count: int
    instructions: tuple[Instruction, ...]
    token_mints: Mapping[bytes, bytes] = msgspec.field(default_factory=dict)
    token_changes: Mapping[bytes, frozenset[bytes]] = msgspec.field(default_factory=dict)
    lamports: Mapping[bytes, tuple[int, int]] = msgspec.field(default_factory=dict)
    block_time: int | None = None

    @property
    def signers(self) -> tuple[bytes, ...]:
        return self.keys[: self.signers_count]

    def inside(self, index: int) -> Iterator[Instruction]:
        """Yield the instructions that the instruction at this index called, at any depth.

        Without heights, in transactions of 2024 and before: the token and system instructions and the events that
        directly follow it.
        """
        caller = self.instructions[index]
        for later in self.instructions[index + 1 :]:
            if later.outer != caller.outer or later.height == 1:
                return
            if caller.height and later.height:
                if later.height <= caller.height:
                    return
            elif caller.height != 1 and not _is_part_of(later, caller):
                return
            yield later

    def events_inside(self, index: int) -> Iterator[bytes]:
        """Yield discriminator and fields of each event that the program at this index emitted as an instruction."""
        program = self.instructions[index].program
        for inner in self.inside(index):
            if inner.program == program and inner.data.startswith(SELF_CPI_PREFIX):
                yield inner.data[len(SELF_CPI_PREFIX) :]

    def transfers_inside(self, index: int) -> Iterator[MovedTokens]:
        """Yield the token transfers inside an instruction."""
        for inner in self.inside(index):
            transfer = self._token_transfer(inner) if inner.program in _TOKEN_PROGRAMS else None
            if transfer is not None:
                yield transfer

    def _token_transfer(self, instruction: Instruction) -> MovedTokens | None:
        data = instruction.data
        tag = data[0] if data else -1
        checked = tag == _TRANSFER_CHECKED or (tag == _TRANSFER_WITH_FEE and data[1:2] == b"\x01")
        if tag != _TRANSFER and not checked:
            return None
        start = 2 if tag == _TRANSFER_WITH_FEE else 1
        if len(data) < start + 8:
            return None
        source, destination = instruction.account(0), instruction.account(2 if checked else 1)
        if source is None or destination is None:
            return None
        mint = instruction.account(1) if checked else self.token_mints.get(source, self.token_mints.get(destination))
        return MovedTokens(source, destination, int.from_bytes(data[start : start + 8], "little"), mint)


def _is_part_of(later: Instruction, caller: Instruction) -> bool:
    if later.program == caller.program:
        return later.data.startswith(SELF_CPI_PREFIX)
    return later.program in _TOKEN_PROGRAMS or later.program == _SYSTEM_PROGRAM


def token_tables(
    before: Sequence[tuple[bytes, bytes, bytes | None, str]], after: Sequence[tuple[bytes, bytes, bytes | None, str]]
) -> tuple[dict[bytes, bytes], dict[bytes, frozenset[bytes]]]:
    """Return the mint of each token account, and for each owner the mints whose balances changed.

    before, after: account, mint, owner and amount of each token balance.
    """
    mints = {account: mint for account, mint, _, _ in (*before, *after)}
    amounts_before = {account: amount for account, _, _, amount in before}
    amounts_after = {account: amount for account, _, _, amount in after}
    changed: dict[bytes, set[bytes]] = {}
    for account, mint, owner, _ in (*before, *after):
        if owner is not None and amounts_before.get(account, "0") != amounts_after.get(account, "0"):
            changed.setdefault(owner, set()).add(mint)
    return mints, {owner: frozenset(found) for owner, found in changed.items()}
