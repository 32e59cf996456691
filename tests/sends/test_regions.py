"""Several engines as one: the next region is asked where the first one did not get it, and never twice for one send."""

from collections.abc import AsyncIterator

import orjson
import pytest

from actors.addresses import TIP_ACCOUNTS
from actors.clock import ManualClock
from actors.sends.engine import BlockEngineClient, EngineAnswer, EngineAway, EngineCall, EngineUnavailable
from actors.sends.regions import EngineRegions
from tests.devnode.local_node import LocalNode
from tests.sends.conftest import EngineServer, Here, text


class Scene:
    """Two regions of one chain. clients: in their order."""

    def __init__(self, servers: list[EngineServer], clock: ManualClock) -> None:
        self.servers, self.clock = servers, clock
        self.clients = [BlockEngineClient(server.url, clock, requests_per_second=2) for server in servers]
        self.regions = EngineRegions(self.clients, clock)

    @property
    def asked(self) -> list[int]:
        return [len(server.requests) for server in self.servers]

    async def fail(self, number: int) -> None:
        """Three failures in a row, after which it is known to be away; then its rate is as it was."""
        self.servers[number].status = 503
        self.clock.advance(1)
        for _ in range(3):
            await self.clients[number].call("/x", "x", b"[]", 5_000)
            self.clock.advance(1)
        self.servers[number].requests.clear()


@pytest.fixture
async def scene(local: LocalNode) -> AsyncIterator[Scene]:
    servers = [EngineServer(local), EngineServer(local)]
    for server in servers:
        await server.server.start_server()
    made = Scene(servers, ManualClock())
    yield made
    await made.regions.close()
    for server in servers:
        await server.server.close()


async def test_regions_take_turns_and_lend_each_other_their_rates(scene: Scene, here: Here) -> None:
    """Two a second each: four leave at once, and the fifth is refused as over the rate."""
    for _ in range(4):
        answer = await scene.regions.send_transaction(here.payment(tip=True).raw, 2_000)
        assert answer.status == 200
    assert scene.asked == [2, 2]
    with pytest.raises(EngineUnavailable, match="rate limit"):
        await scene.regions.send_transaction(here.payment(tip=True).raw, 2_000)
    assert scene.asked == [2, 2]


async def test_a_region_that_is_away_is_asked_last(scene: Scene, here: Here) -> None:
    await scene.fail(0)
    for _ in range(2):
        await scene.regions.send_transaction(here.payment(tip=True).raw, 2_000)
    assert scene.asked == [0, 2] and scene.regions.reachable
    await scene.fail(1)
    assert not scene.regions.reachable


async def test_an_outage_of_one_region_is_none_of_a_race_or_a_question(scene: Scene, here: Here) -> None:
    """The same signed bytes twice do no harm, nor does a question; a bundle is not sent on after an answer of 500."""
    scene.servers[0].status = scene.servers[1].status = 503
    assert (await scene.regions.send_transaction(here.payment(tip=True).raw, 2_000)).status == 503
    assert scene.asked == [1, 1]
    scene.servers[1].status = None
    asked = EngineCall("getBundleStatuses", b'[["x"]]', 6_000)
    for _ in range(2):
        found = await scene.regions.answer(asked)
        assert isinstance(found, EngineAnswer) and found.status == 200
        scene.clock.advance(1)
    scene.servers[1].status = 503
    before = sum(scene.asked)
    bundle = await scene.regions.answer(EngineCall("sendBundle", b"[]", 5_000, bundle_id="b"))
    assert isinstance(bundle, EngineAnswer) and bundle.status == 503 and sum(scene.asked) == before + 1


async def test_a_region_that_cannot_be_reached_passes_to_the_next(scene: Scene, here: Here) -> None:
    """It did not get the bytes, so they may go elsewhere."""
    gone = BlockEngineClient("http://127.0.0.1:1", scene.clock, requests_per_second=100)
    regions = EngineRegions([gone, scene.clients[1]], scene.clock)
    for _ in range(2):
        assert (await regions.send_transaction(here.payment(tip=True).raw, 2_000)).status == 200
    alone = EngineRegions([gone], scene.clock)
    with pytest.raises(EngineUnavailable) as refused:
        await alone.send_transaction(here.payment(tip=True).raw, 2_000)
    assert not refused.value.sent
    await gone.close()


async def test_a_region_that_has_too_many_requests_passes_to_the_next(scene: Scene, here: Here) -> None:
    """Of another program behind the same address, for example. Where all are full, their answer is told."""
    scene.servers[0].status = 429
    answers = [await scene.regions.send_transaction(here.payment(tip=True).raw, 2_000) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    scene.servers[1].status = 429
    scene.clock.advance(1)
    assert (await scene.regions.send_transaction(here.payment(tip=True).raw, 2_000)).status == 429


async def test_a_request_that_may_have_arrived_goes_to_no_other_region(
    scene: Scene, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle may land: sending it again elsewhere, after an answer that was lost, is the customer's decision."""

    async def lost(*_: object, **__: object) -> EngineAnswer:
        raise EngineUnavailable("the answer was lost", sent=True, late=True)

    for client in scene.clients:
        monkeypatch.setattr(client, "_request", lost)
    found = await scene.regions.answer(EngineCall("sendBundle", b"[]", 5_000, bundle_id="b"))
    assert found == EngineAway("the answer was lost", late=True, may_have_it=True)
    with pytest.raises(EngineUnavailable, match="lost"):
        await scene.regions.send_transaction(here.payment(tip=True).raw, 2_000)


async def test_the_region_that_took_a_bundle_is_asked_for_it(scene: Scene, here: Here) -> None:
    """A region knows its own bundles alone while they are in flight."""
    for number in range(4):
        bundle = orjson.dumps([[text(here.payment(tip=True))], {"encoding": "base64"}])
        before = scene.asked
        sent = await scene.regions.answer(EngineCall("sendBundle", bundle, 5_000, bundle_id=f"b{number}"))
        assert isinstance(sent, EngineAnswer) and sent.status == 200
        (region,) = [one for one in range(2) if scene.asked[one] > before[one]]
        scene.clock.advance(1)
        for _ in range(2):
            before = scene.asked
            question = orjson.dumps([[orjson.loads(sent.body)["result"]]])
            asked = EngineCall("getInflightBundleStatuses", question, 5_000, bundle_id=f"b{number}")
            assert isinstance(await scene.regions.answer(asked), EngineAnswer)
            assert scene.asked[region] == before[region] + 1 and scene.asked[1 - region] == before[1 - region]
        scene.clock.advance(1)


async def test_a_question_waits_for_a_rate_only_where_no_region_is_free(scene: Scene) -> None:
    waited = list[float]()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        scene.clock.advance(seconds)

    for client in scene.clients:
        client._sleep = sleep
    asked = EngineCall("getBundleStatuses", b'[["x"]]', 6_000)
    for _ in range(4):
        assert isinstance(await scene.regions.answer(asked), EngineAnswer)
    assert waited == []
    assert isinstance(await scene.regions.answer(asked), EngineAnswer)
    assert sum(waited) == pytest.approx(0.5)


async def test_a_racer_without_a_share_asks_nobody(scene: Scene) -> None:
    """Nor does it wait for a rate that never comes."""
    for client in scene.clients:
        client.lease(0, scene.clock.monotonic() + 6)
    found = await scene.regions.answer(EngineCall("getBundleStatuses", b'[["x"]]', 6_000))
    assert isinstance(found, EngineAway) and found.busy
    assert scene.asked == [0, 0] and scene.regions.requests_per_second == 0
    for client in scene.clients:
        client.lease(1_500, scene.clock.monotonic() + 6)
    assert scene.regions.requests_per_second == 3


async def test_what_is_kept_of_the_engines_costs_one_request(scene: Scene) -> None:
    for _ in range(3):
        answer = await scene.regions.answer(EngineCall("getTipAccounts", b"[]", 5_000))
        assert isinstance(answer, EngineAnswer) and orjson.loads(answer.body)["result"] == list(TIP_ACCOUNTS)
    assert scene.asked == [1, 0] and scene.regions.known_tip_accounts == TIP_ACCOUNTS
