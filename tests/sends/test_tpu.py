"""The TPU leg over real QUIC: warm connections to the next leaders alone, and sends without an answer."""

import asyncio

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from solders.instruction import Instruction
from solders.message import MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.clock import ManualClock
from actors.devnode.tpu.door import TpuDoor
from actors.sends.tpu import TpuQuicLeg
from tests.devnode.local_node import give
from tests.sends.conftest import Here, signed

WAIT_SECONDS_MAX = 30


def a_leg(here: Here, clock: ManualClock) -> TpuQuicLeg:
    return TpuQuicLeg(here, clock, lambda: here.local.call("getSlot"), Ed25519PrivateKey.generate())


async def until_warm(leg: TpuQuicLeg, connections: int = 1) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while len(leg.warm) != connections:  # noqa: ASYNC110 - a connection tells nobody.
            await asyncio.sleep(0.01)


async def test_transactions_arrive_over_one_warm_connection(here: Here, tpu: TpuDoor) -> None:
    clock = ManualClock()
    leg = a_leg(here, clock)
    await leg.refresh()
    await until_warm(leg)
    for _ in range(3):
        payment = here.payment()
        found = await leg.send(payment)
        assert (found.submitted_ms, found.acknowledged_ms, found.error) == (clock.now_ms(), clock.now_ms(), "")
        assert here.landed(payment)
        await leg.refresh()
    assert len(leg.warm) == 1
    await leg.close()
    assert leg.warm == ()


async def test_without_a_connection_nothing_is_sent(here: Here, tpu: TpuDoor) -> None:
    """The race goes on with the other legs."""
    leg = a_leg(here, ManualClock())
    payment = here.payment()
    assert (await leg.send(payment)).error == "the leader schedule is not known yet"
    tpu.close()  # The port is not told any more.
    await leg.refresh()
    found = await leg.send(payment)
    assert found.submitted_ms is None and found.error == "no leader has a QUIC port"
    await leg.close()


async def test_a_lost_connection_is_opened_again_after_a_while(here: Here, tpu: TpuDoor) -> None:
    """Leaders take few new connections of an address, so one that was just lost is left alone."""
    clock = ManualClock()
    leg = a_leg(here, clock)
    await leg.refresh()
    await until_warm(leg)
    for connection in list(tpu._connections.values()):
        connection.close_with((1, "dropped"))
    await until_warm(leg, 0)
    await leg.refresh()
    assert (await leg.send(here.payment())).error == "no leader is connected"
    clock.advance(9)
    await leg.refresh()
    await until_warm(leg)
    payment = here.payment()
    assert (await leg.send(payment)).acknowledged_ms is not None and here.landed(payment)
    await leg.close()


async def test_a_large_transaction_arrives_whole(here: Here, tpu: TpuDoor) -> None:
    """A v1 transaction may have 4,096 bytes; it takes several packets."""
    payer = here.local.wallet()
    memo = Instruction(Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"), b"m" * 500, [])
    config = TransactionConfig(compute_unit_limit=1_000_000, loaded_accounts_data_size_limit=10_000_000)
    given = [give(payer, Pubkey.new_unique(), 5_000_000), memo, memo, memo]
    message = MessageV1.try_compile(payer.pubkey(), given, here.local.blockhash(), config)
    large = signed(VersionedTransaction(message, [payer]))
    assert len(large.raw) > 1_232
    leg = a_leg(here, ManualClock())
    await leg.refresh()
    await until_warm(leg)
    assert (await leg.send(large)).acknowledged_ms is not None
    assert here.landed(large)
    await leg.close()
