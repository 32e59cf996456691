import hashlib

import pytest
from solders.keypair import Keypair
from solders.message import MessageAddressTableLookup, MessageHeader, MessageV0
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.block_engine.bundles import Bundle, BundleRefusal, bundle_id, bundle_of
from devnode.encoding.addresses import TIP_ACCOUNTS

from .conftest import Engine, decoded


def test_the_id_is_a_hash_of_the_signatures() -> None:
    """It is the lower-case hex SHA-256 of the base58 signatures, joined by commas, in order."""
    one, two = Signature.from_bytes(b"\x01" * 64), Signature.from_bytes(b"\x02" * 64)
    assert bundle_id([one, two]) == hashlib.sha256(f"{one},{two}".encode()).hexdigest()
    assert bundle_id([one, two]) != bundle_id([two, one])


def test_a_bundle_has_at_most_five_signed_transactions_and_none_twice(engine: Engine) -> None:
    payer = engine.local.wallet()
    five = [decoded(engine.tip(payer, 10_000 + number)) for number in range(5)]
    assert isinstance(bundle_of(five), Bundle)
    duplicates = BundleRefusal(
        "bundles must not contain any duplicate transactions and every transaction must be signed"
    )
    assert bundle_of([*five, five[0]]) == BundleRefusal("bundle exceeds max transaction length")
    assert bundle_of([five[0], five[0]]) == duplicates
    assert bundle_of([]) == BundleRefusal("bundle contains no transactions")
    unsigned = VersionedTransaction.populate(five[0].message, [Signature.from_bytes(b"\x05" * 64)])
    assert bundle_of([decoded(unsigned)]) == duplicates


@pytest.mark.parametrize("position", range(len(TIP_ACCOUNTS)))
def test_every_tip_account_is_accepted(engine: Engine, position: int) -> None:
    payer = engine.local.wallet()
    assert isinstance(bundle_of([decoded(engine.tip(payer, account=position))]), Bundle)


def test_a_tip_account_must_be_write_locked(engine: Engine) -> None:
    """A read-only tip account is not enough."""
    payer = engine.local.wallet()
    tip = engine.tip(payer)
    message = tip.message
    assert isinstance(message, MessageV0)
    header = MessageHeader(1, 0, 2)  # The tip account is read-only, like the program.
    readonly = MessageV0(header, message.account_keys, message.recent_blockhash, message.instructions, [])
    fault = BundleRefusal("Bundles must write lock at least one tip account to be eligible for the auction.")
    assert bundle_of([decoded(VersionedTransaction(readonly, [payer]))]) == fault
    assert bundle_of([decoded(engine.pay(payer))]) == fault
    assert isinstance(bundle_of([decoded(engine.pay(payer)), decoded(tip)]), Bundle)


def test_locks_include_accounts_from_lookup_tables(engine: Engine) -> None:
    payer = Keypair()
    lookup = MessageAddressTableLookup(Keypair().pubkey(), bytes(range(100)), bytes(range(100, 130)))
    message = MessageV0(MessageHeader(1, 0, 0), [payer.pubkey()], engine.local.blockhash(), [], [lookup])
    fault = bundle_of([decoded(VersionedTransaction(message, [payer]))])
    assert fault == BundleRefusal("transaction has too many account locks", -32603)
