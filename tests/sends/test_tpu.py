"""The TPU leg over real QUIC: warm connections to the next leaders alone, and sends without an answer."""

import asyncio
import gc
import socket
from typing import Any

import pytest
from aioquic.buffer import Buffer
from aioquic.quic.connection import QuicConnection
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import SecretStr
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.clock import ManualClock
from actors.config import SendsConfig
from actors.sends import tpu as tpu_module
from actors.sends.host import identity_of
from actors.sends.tpu import TpuQuicLeg
from actors.upstream.replies import NodeAnswer
from devnode.tpu.door import TpuDoor
from tests.devnode.local_node import give
from tests.sends.conftest import Here, signed

WAIT_SECONDS_MAX = 30


def a_leg(here: Here, clock: ManualClock) -> TpuQuicLeg:
    return TpuQuicLeg(
        here, clock, lambda: here.local.call("getSlot"), Ed25519PrivateKey.generate(), private_leaders=True
    )


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


async def test_leaders_see_the_identity_of_the_settings(here: Here, tpu: TpuDoor) -> None:
    """The key of the client's certificate, by which a leader finds the stake; proven in the handshake."""
    keypair = Keypair()
    sends = SendsConfig(tpu_identity_key=SecretStr(str(keypair)))
    leg = TpuQuicLeg(here, ManualClock(), lambda: here.local.call("getSlot"), identity_of(sends), private_leaders=True)
    await leg.refresh()
    await until_warm(leg)
    payment = here.payment()
    assert (await leg.send(payment)).acknowledged_ms is not None and here.landed(payment)
    assert set(tpu._peers.values()) == {keypair.pubkey()}
    await leg.close()


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


async def test_a_node_that_refuses_to_tell_leaders_is_asked_seldom(here: Here) -> None:
    """The upkeep runs four times a second, and a list of all validators is large."""
    clock = ManualClock()
    leg = a_leg(here, clock)
    here.silent, asked = True, list[str]()
    right = here.call

    async def call(method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        asked.append(method)
        return await right(method, params, timeout_ms)

    here.call = call  # type: ignore[method-assign]
    for _ in range(20):
        await leg.refresh()
        clock.advance(0.25)
    assert asked == ["getClusterNodes", "getSlotLeaders"]
    await leg.refresh()
    assert len(asked) == 4


async def test_a_leader_that_allows_no_streams_leaves_nothing_waiting(
    here: Here, tpu: TpuDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers pings, so that a send to it would wait and ping for ever."""

    def unheard(_: QuicConnection, context: Any, frame_type: int, buffer: Buffer) -> None:
        buffer.pull_uint_var()  # The real leader may allow more at any moment.

    monkeypatch.setattr(QuicConnection, "_handle_max_streams_uni_frame", unheard)
    leg = a_leg(here, ManualClock())
    await leg.refresh()
    await until_warm(leg)
    (link,) = leg._links.values()
    assert link._client is not None
    link._client._quic._remote_max_streams_uni = 0
    monkeypatch.setattr(tpu_module, "LEG_MS", 200)
    monkeypatch.setattr(tpu_module, "_STREAMS_MAX", 2)
    before = asyncio.all_tasks()
    for _ in range(2):
        assert (await leg.send(here.payment())).error == "no leader acknowledged the bytes"
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while asyncio.all_tasks() - before:  # noqa: ASYNC110 - a task tells nobody.
            await asyncio.sleep(0.01)
    full = await leg.send(here.payment())
    assert full.submitted_ms is None
    await leg.close()


async def test_a_leader_that_does_not_answer_is_no_error(
    here: Here, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many do not. Each try of each leader, eight seconds apart, left an exception that nobody had looked at."""
    monkeypatch.setattr(tpu_module, "_HANDSHAKE_SECONDS", 0.05)
    leg = a_leg(here, ManualClock())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        address = silent.getsockname()
        await tpu_module._Link(address, leg._configuration(address), ManualClock())._hold()
        assert silent.recv(2_000)
    gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []
    await leg.close()
