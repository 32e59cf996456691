from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey

from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM
from devnode.records.nonces import durable_nonce, nonce_account_of, stored_value, with_value

VALUE = Hash.from_bytes(b"\x07" * 32)


def nonce_account(state: int = 1, owner: Pubkey = SYSTEM_PROGRAM) -> Account:
    head = (1).to_bytes(4, "little") + state.to_bytes(4, "little")
    data = head + bytes(32) + bytes(VALUE) + (5_000).to_bytes(8, "little")
    return Account(1_447_680, data, owner, False, 0)


def test_only_initialized_nonce_accounts_have_a_value() -> None:
    assert stored_value(nonce_account()) == VALUE
    assert stored_value(nonce_account(state=0)) is None
    assert stored_value(nonce_account(owner=TOKEN_PROGRAM)) is None
    assert stored_value(Account(1, b"", SYSTEM_PROGRAM, False, 0)) is None
    assert stored_value(None) is None


def test_setting_the_value_touches_nothing_else() -> None:
    other = Hash.from_bytes(b"\x08" * 32)
    changed = with_value(nonce_account(), other)
    assert stored_value(changed) == other
    assert changed.data[:40] == nonce_account().data[:40] and changed.data[72:] == nonce_account().data[72:]
    assert changed.lamports == 1_447_680


def test_nonces_of_different_hashes_differ() -> None:
    assert durable_nonce(VALUE) != durable_nonce(Hash.default())
    assert durable_nonce(VALUE) != VALUE


def test_the_nonce_account_is_the_first_of_advance() -> None:
    key = Pubkey.from_bytes(b"\x01" * 32)
    advance = (4).to_bytes(4, "little")
    assert nonce_account_of(SYSTEM_PROGRAM, advance, (key,)) == key
    assert nonce_account_of(TOKEN_PROGRAM, advance, (key,)) is None
    assert nonce_account_of(SYSTEM_PROGRAM, (2).to_bytes(4, "little"), (key,)) is None
    assert nonce_account_of(SYSTEM_PROGRAM, advance, ()) is None
