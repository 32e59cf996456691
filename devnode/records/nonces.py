"""Durable nonces: reading the stored value, and deriving the next one.

Implements: nonce accounts of the System program (80 bytes: version, state, authority, value, fee), and the chain's
derivation of a durable nonce from a blockhash. The VM's own blockhashes repeat after a restart, so its nonce values
are replaced by values of this chain's salted queue: an old nonce transaction is never valid a second time.
Pure: no clock, no I/O.
"""

import hashlib

from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey

from devnode.encoding.addresses import NONCE_ACCOUNT_BYTES, SYSTEM_PROGRAM

_STATE_INITIALIZED = 1
_VALUE = slice(40, 72)
_ADVANCE_NONCE = (4).to_bytes(4, "little")


def durable_nonce(blockhash: Hash) -> Hash:
    return Hash.from_bytes(hashlib.sha256(b"DURABLE_NONCE" + bytes(blockhash)).digest())


def stored_value(account: Account | None) -> Hash | None:
    """The nonce that a durable transaction must name; None when the account is not an initialized nonce account."""
    # Check the owner first: reading `data` copies it, and a program's data can be megabytes.
    if account is None or account.owner != SYSTEM_PROGRAM:
        return None
    data = account.data
    if len(data) != NONCE_ACCOUNT_BYTES or int.from_bytes(data[4:8], "little") != _STATE_INITIALIZED:
        return None
    return Hash.from_bytes(data[_VALUE])


def with_value(account: Account, value: Hash) -> Account:
    data = bytearray(account.data)
    assert len(data) == NONCE_ACCOUNT_BYTES, len(data)
    data[_VALUE] = bytes(value)
    return Account(account.lamports, bytes(data), account.owner, account.executable, account.rent_epoch)


def nonce_account_of(program: Pubkey, data: bytes, accounts: tuple[Pubkey, ...]) -> Pubkey | None:
    """The nonce account that an instruction advances, or None. The chain looks only at a first instruction."""
    if program != SYSTEM_PROGRAM or data[:4] != _ADVANCE_NONCE or not accounts:
        return None
    return accounts[0]
