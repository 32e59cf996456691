"""Rows of x402 payments that the service did not write are never sent or credited: they end UNPROVEN, with an error."""

import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from actors.deposits.x402.rules import Payment, check_standard
from actors.deposits.x402.states import PaymentKind, PaymentState, Record
from actors.deposits.x402.store import PostgresPaymentStore
from actors.x402_types import Settled
from tests.databases import as_role, emptied
from tests.deposits.x402_making import half_signed, message_of
from tests.deposits.x402_world import PaymentWorld, a_payment_world

THIEF = Keypair.from_seed(bytes(31) + b"\x7f")
MINTED = 10**12


@pytest.fixture(params=["memory", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PaymentWorld]:
    """Over each store. Rows are written as the product's role."""
    if request.param == "memory":
        made = await a_payment_world(tmp_path)
        yield made
        await made.close()
        return
    urls = (request.getfixturevalue(name) for name in ("postgres_url", "owner_url"))
    async with emptied(*urls, "TRUNCATE x402_payments") as pool:
        made = await a_payment_world(tmp_path, store=PostgresPaymentStore(pool))
        yield made
        await made.close()


def row_of(world: PaymentWorld, whole: VersionedTransaction) -> Record:
    """The row that the service would store for this transaction, of which it has none."""
    message = to_bytes_versioned(whole.message)
    keys = whole.message.account_keys
    payment = check_standard(bytes(whole), world.rules, 0)
    payer, source, amount = (
        (payment.payer, payment.source, payment.amount_base_units)
        if isinstance(payment, Payment)
        else (keys[1], keys[2], 100_000)
    )
    return Record(
        hashlib.sha256(message).digest(),
        PaymentKind.STANDARD,
        PaymentState.SENT,
        bytes(payer),
        amount,
        bytes(whole),
        bytes(whole.signatures[0]),
        10**9,
        world.clock.now_ms(),
        source=bytes(source),
    )


def co_signed(world: PaymentWorld, sponsor: Keypair | None = None, text: str = "memo") -> VersionedTransaction:
    half = VersionedTransaction.from_bytes(world.standard(text=text))
    if sponsor is not None:
        frame = [set_compute_unit_limit(20_000), set_compute_unit_price(1), world.transfer(100_000, world.payer)]
        message = message_of(frame, sponsor.pubkey(), world.chain.blockhash())
        half = VersionedTransaction.from_bytes(half_signed(message, world.payer))
    signed = (sponsor or world.sponsor_keys).sign_message(to_bytes_versioned(half.message))
    return VersionedTransaction.populate(half.message, [signed, half.signatures[1]])


async def assert_never_used(world: PaymentWorld, row: Record, caplog: pytest.LogCaptureFixture, why: str) -> None:
    sent = world.node.count("sendTransaction")
    assert await world.store.claim(row, 0)
    with caplog.at_level(logging.ERROR):
        await world.rounds(3)
    assert world.accounts.credits == []
    assert world.node.count("sendTransaction") == sent
    kept = await world.store.find(row.message_hash)
    assert kept is not None and kept.state is PaymentState.UNPROVEN and why in kept.reason
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1 and row.message_hash.hex() in told[0] and why in told[0]


async def test_a_forged_row_with_a_garbage_transaction_is_never_credited(world, caplog):
    """The signature is of a stranger's transaction that landed; the row names a wallet that paid nothing."""
    landed = world.chain.transfer(world.payer, THIEF.pubkey(), 1_000_000)
    world.chain.land(landed)
    row = row_of(world, co_signed(world))
    row = replace(row, payer=bytes(THIEF.pubkey()), amount_base_units=MINTED, transaction=b"\x00", source=b"")
    row = replace(row, signature=bytes(landed.signatures[0]))
    await assert_never_used(world, row, caplog, "is no payment")


CHANGES: dict[str, Callable[[Record], Record]] = {
    "amount": lambda row: replace(row, amount_base_units=MINTED),
    "payer": lambda row: replace(row, payer=bytes(THIEF.pubkey())),
    "source": lambda row: replace(row, source=b""),
    "message hash": lambda row: replace(row, message_hash=b"f" * 32),
    "payer, amount": lambda row: replace(row, payer=bytes(THIEF.pubkey()), amount_base_units=MINTED),
}


@pytest.mark.parametrize("changed", CHANGES)
async def test_a_real_landed_payment_with_another_word_in_its_row_is_never_credited(world, caplog, changed):
    """The transaction is somebody's good payment, co-signed and landed; the row differs from it."""
    whole = co_signed(world)
    world.chain.land(whole)
    await assert_never_used(world, CHANGES[changed](row_of(world, whole)), caplog, f"another {changed}")


async def test_a_row_with_another_landed_signature_is_never_credited(world, caplog):
    """A good payment that never landed, with the signature of one that did."""
    landed = co_signed(world, text="landed")
    world.chain.land(landed)
    row = replace(row_of(world, co_signed(world)), signature=bytes(landed.signatures[0]))
    await assert_never_used(world, row, caplog, "another signature")


@pytest.mark.parametrize("state", [PaymentState.SENT, PaymentState.CREDITED])
@pytest.mark.parametrize("signature", [Signature.default(), Signature(b"\x07" * 64)])
async def test_a_row_that_the_sponsor_never_signed_is_never_sent(world, caplog, signature, state):
    """All of it is a payer's good payment, and the service has never seen it: nothing is sent or signed for it."""
    half = VersionedTransaction.from_bytes(world.standard())
    whole = VersionedTransaction.populate(half.message, [signature, half.signatures[1]])
    await assert_never_used(world, replace(row_of(world, whole), state=state), caplog, "the sponsor's signature")
    assert world.sponsor.signed == []


async def test_a_row_under_another_sponsor_key_goes_to_the_operator(world, caplog):
    """A stranger's fee payer, or the key before a rotation: it landed, and the operator decides."""
    other = world.chain.wallet(lamports=10**9)
    whole = co_signed(world, other)
    world.chain.land(whole)
    await assert_never_used(world, row_of(world, whole), caplog, "the fee payer must be")


async def test_a_relayed_row_of_the_wrong_kind_is_never_sent(world, caplog):
    """A self-paid transaction in a row of the sponsored kind is not what the service stored."""
    whole = world.chain.signed(world.payer, world.transfer(100_000, world.payer))
    row = replace(row_of(world, co_signed(world)), kind=PaymentKind.SPONSORED, transaction=bytes(whole))
    await assert_never_used(world, row, caplog, "another signature, message hash, kind")


async def test_a_row_that_its_transaction_proves_is_credited(world):
    """The control: the same row, unchanged, of a payment whose settler was killed."""
    whole = co_signed(world)
    world.chain.land(whole)
    row = row_of(world, whole)
    assert await world.store.claim(row, 0)
    await world.rounds(2)
    assert (await world.store.find(row.message_hash)).state is PaymentState.FINAL
    assert await world.accounts.balance(world.payer.pubkey()) == 10_000


async def test_forged_rows_do_not_stop_the_follow_up_of_others(world, postgres_url):
    """No row raises: not one with a signature of three bytes, nor one of a state and a kind that do not exist."""
    raw = world.standard()
    assert isinstance(await world.settler.pay(raw, 10_000, ""), Settled)
    forged = replace(row_of(world, co_signed(world)), message_hash=b"f", transaction=b"", signature=b"abc", payer=b"")
    assert await world.store.claim(replace(forged, source=b""), 0)
    if isinstance(world.store, PostgresPaymentStore):
        for state, kind in ((5, 0), (-1, 0), (1, 9)):
            await as_role(
                postgres_url,
                "INSERT INTO x402_payments (message_hash, kind, state, payer, amount_base_units, transaction, "
                "signature, last_valid_height, created_at_ms, slot, reason, look_at_ms) VALUES "
                f"('\\x{state + 2:02x}{kind:02x}', {kind}, {state}, '', 1, '', 'abc', 0, 0, 0, '', 0)",
            )
    await world.rounds(2)
    message = VersionedTransaction.from_bytes(raw).message
    kept = await world.store.find(hashlib.sha256(to_bytes_versioned(message)).digest())
    assert kept is not None and kept.state is PaymentState.FINAL
    assert len(world.accounts.credits) == 1
