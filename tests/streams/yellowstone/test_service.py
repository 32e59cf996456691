"""Yellowstone through the service, over real connections: the same updates as from the node, and what they cost."""

import contextlib
from pathlib import Path
from typing import Any

import grpc
import pytest
from solders.keypair import Keypair

from actors.geyser_proto import api, geyser_pb2
from tests.gateway.doubles import PROOF
from tests.streams.geyser_world import (
    GeyserWorld,
    everything,
    geyser_world,
    settled,
    shown,
    traffic,
    until_slot,
)


@pytest.mark.parametrize("level", [geyser_pb2.PROCESSED, geyser_pb2.CONFIRMED, geyser_pb2.FINALIZED])
async def test_updates_are_those_of_the_node_in_its_order(world: GeyserWorld, level: Any) -> None:
    """Correctness first: the same updates as direct, byte for byte, in order, at every level."""
    payer = world.local.wallet()
    through, direct = world.client(), world.direct()
    for client in (through, direct):
        await client.ask(everything(level))
    await settled(world, through)
    start = world.local.chain.levels.building.slot
    for _ in range(3):
        world.local.land(world.local.transfer(payer, Keypair().pubkey(), 10**7))
        world.local.beat()
    last = world.local.chain.levels.building.slot - 1
    world.local.finalize()
    got = [await until_slot(client, last, geyser_pb2.SLOT_FINALIZED) for client in (through, direct)]
    found, wanted = ([one for one in updates if one.slot.slot >= start or not one.HasField("slot")] for updates in got)
    first = next(i for i, one in enumerate(wanted) if one.slot.slot == start)
    begin = next(i for i, one in enumerate(found) if one.slot.slot == start)
    assert shown(found[begin:]) == shown(wanted[first:])
    kinds = {one.WhichOneof("update_oneof") for one in found}
    assert kinds == {"account", "slot", "transaction", "transaction_status", "block", "block_meta", "entry"}


async def test_calls_are_the_nodes_answers_for_a_credit_each(world: GeyserWorld) -> None:
    """Interface: 1 credit for each call; what the node refuses costs nothing and keeps its status."""
    for rpc in (api.GET_SLOT, api.GET_BLOCK_HEIGHT, api.GET_LATEST_BLOCKHASH, api.GET_VERSION, api.PING):
        assert await world.call(rpc, rpc.request()) == await world.call(rpc, rpc.request(), world.node_port)
    assert world.account.posted == {
        f"grpc/{name}": 1 for name in ("GetSlot", "GetBlockHeight", "GetLatestBlockhash", "GetVersion", "Ping")
    }
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await world.call(api.GET_SLOT, geyser_pb2.GetSlotRequest(commitment=7))  # type: ignore[arg-type]
    assert refused.value.code() is grpc.StatusCode.UNKNOWN
    assert sum(world.account.posted.values()) == 5 and world.account.held == {}


class Hurried:
    """A call with a deadline; `left`: what remains of it each time the service looks."""

    def __init__(self, *left: float) -> None:
        self._left = iter(left)
        self.code: grpc.StatusCode | None = None

    def time_remaining(self) -> float:
        return next(self._left)

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        self.code = code
        raise grpc.aio.AbortError(text)


@pytest.mark.parametrize(("left", "holds"), [((0.0,), 0), ((30.0, 30.0, 0.0), 1)])
async def test_a_call_whose_deadline_is_over_costs_nothing(
    world: GeyserWorld, left: tuple[float, ...], holds: int
) -> None:
    """Money rule 1: nobody reads the answer. One that is late from the start asks nothing of the ledger."""
    late = Hurried(*left)
    with pytest.raises(grpc.aio.AbortError, match="nothing is charged"):
        await world.service.answer(api.GET_SLOT, b"", late, PROOF, lambda refusal: (8, refusal.message))
    await world.until(lambda: not world.account.held)
    assert late.code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert len(world.account.holds) == holds and world.account.posted == {}


async def test_a_stream_costs_a_credit_and_sixty_for_each_further_minute(tmp_path: Path) -> None:
    """Interface: 1 credit, then 60 for each interval; when they cannot be paid the end names the lack."""
    async with geyser_world(tmp_path, credits=130, minute_seconds=0.05) as world:
        client = world.client()
        await client.ask(traffic())
        await settled(world, client)
        code, text = await client.end()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and "credits" in text
        assert world.account.posted == {"grpc/Subscribe": 1, "grpc/minute": 120}
        assert world.account.held == {} and world.service.streams_open == 0


@pytest.mark.parametrize(
    ("limit", "code_wanted", "words"),
    [
        ("streams_per_account", grpc.StatusCode.RESOURCE_EXHAUSTED, "max subscription limit exceeded"),
        ("streams_max", grpc.StatusCode.UNAVAILABLE, "2 streams are open here, which is the most; try again"),
    ],
)
async def test_an_account_and_a_replica_have_so_many_streams(
    tmp_path: Path, limit: str, code_wanted: grpc.StatusCode, words: str
) -> None:
    """Streams without end. The next one is refused, of an account with Yellowstone's text, and costs
    nothing."""
    async with geyser_world(tmp_path, **{limit: 2}) as world:
        clients = [world.client() for _ in range(2)]
        for client in clients:
            await client.until_pong(1)
        code, text = await world.client().end()
        assert code is code_wanted and text.startswith(words)
        clients[0].call.cancel()
        await world.until(lambda: world.service.streams_open == 1)
        await world.client().until_pong(1)


async def test_a_revoked_credential_ends_its_streams(world: GeyserWorld) -> None:
    """A stream of a revoked key ends, and is billed no further."""
    client = world.client()
    await client.ask(traffic())
    await settled(world, client)
    await world.credentials.check()
    assert world.service.streams_open == 1
    world.account.refusal = "AUTH_FAILED"
    await world.credentials.check()
    code, _ = await client.end()
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert world.service.streams_open == 0


async def test_a_gateway_that_stops_says_so(world: GeyserWorld) -> None:
    client = world.client()
    await client.ask(traffic())
    await settled(world, client)
    await world.service.close()
    code, text = await client.end()
    assert code is grpc.StatusCode.UNAVAILABLE and "subscribe again with from_slot" in text


async def test_a_gateway_that_leaves_takes_no_new_stream_and_charges_none(world: GeyserWorld) -> None:
    """Its calls are answered all the while. A stream that has had nothing has no slot to go on from."""
    waiting = world.client()
    await waiting.until_pong(1)
    world.service.stop_taking()
    assert world.service.left == 1
    late = world.client()
    with contextlib.suppress(grpc.aio.AioRpcError):  # It may be refused before it has asked.
        await late.ask(traffic())
    assert (await late.end())[0] is grpc.StatusCode.UNAVAILABLE
    assert (await world.call(api.GET_SLOT, api.GET_SLOT.request())).slot > 0
    world.service.end_some(5)
    assert await waiting.end() == (grpc.StatusCode.UNAVAILABLE, "the service restarts; subscribe again")
    assert world.service.left == 0 and world.account.posted == {"grpc/GetSlot": 1}
    assert world.account.held == {}
