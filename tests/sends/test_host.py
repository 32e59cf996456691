"""The racer's actor class over real PostgreSQL and a chain that executes, without Ray."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from pydantic import SecretStr

from actors.actor_settings import fingerprint, part_of
from actors.addresses import TIP_ACCOUNTS
from actors.calls import SettleReply, SettleRequest
from actors.config import Config, SendsConfig, StorageConfig
from actors.sends import host
from actors.sends.api import RaceResult, SliceMoved, WantedRace
from actors.sends.core import RaceState
from actors.sends.engine import EngineCall
from actors.sends.host import SendRacerActor
from actors.sends.slices import SLICES
from actors.telemetry import logs, metrics_page
from tests.databases import as_role
from tests.sends.conftest import EngineServer, Here


class Accounts:
    def __init__(self) -> None:
        self.settled: list[tuple[bytes, int]] = []

    async def settle(self, request: SettleRequest) -> SettleReply:
        self.settled.append((request.operation, request.charged))
        return SettleReply(True, 0)

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        pass


@pytest.fixture
async def actor(
    postgres_url: str, owner_url: str, here: Here, engine_server: EngineServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Any]:
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    monkeypatch.setattr(metrics_page, "tune_gc", lambda: None)
    accounts = Accounts()

    async def open_settling(_: Config) -> Any:
        return accounts

    async def ask_nodes(command: Any) -> Any:
        return "asked", command

    async def open_nodes(_: Config) -> Any:
        return host.OpenedNodes(here, [here], ask_nodes)

    sends = SendsConfig(block_engine_url=engine_server.url, block_engine_requests_per_second=100)
    config = Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url)), sends=sends)
    settings = part_of(config, host.USES)
    made: Any = SendRacerActor(settings, "fingerprint", "send-racer-0", open_settling, open_nodes)
    made.accounts = accounts
    yield made
    made._reporting.cancel()
    await made._background.stop()
    await made._racer.close()
    await made._racer._store._pool.close()
    await as_role(owner_url, "TRUNCATE send_races, ownership, send_leases CASCADE")


async def test_a_race_over_real_stores_and_legs(actor: Any, here: Here) -> None:
    """From the first call, which starts the process, to the charge; the engine has it too, as it tips."""
    payment = here.payment(tip=True)
    wanted = WantedRace(payment.raw, b"o" * 16, b"p" * 32, 1, "sendAndConfirm", 50, 2)
    assert await actor.race(wanted) == SliceMoved() and await actor.has_sent(payment.signature) == SliceMoved()
    await actor.take(range(SLICES))
    async with asyncio.timeout(60):
        while not actor._engines.requests_per_second:  # noqa: ASYNC110 - a lease tells nobody.
            await asyncio.sleep(0.01)
    task = asyncio.create_task(actor.race(wanted))
    async with asyncio.timeout(60):
        while not task.done():
            here.local.beat()
            await asyncio.sleep(0.02)
    result = task.result()
    assert isinstance(result, RaceResult)
    assert result.race.state is RaceState.CONFIRMED and result.ticket.charged == 50
    assert actor.accounts.settled == [(b"o" * 16, 50)]
    assert {report.leg for report in result.reports if report.submitted_ms is not None} >= {"local_rpc", "jito"}
    status = await actor.status(payment.signature, b"p" * 32)
    assert status is not None and status.race == result.race
    assert await actor.status(payment.signature, b"q" * 32) is None
    health = await actor.health()
    assert health["under_way"] == 0 and health["landing"]["landed"] == 1
    assert list(health["landing"]["legs"]) == ["local_rpc", "jito", "tpu_quic"]
    assert health["relay"] == {"reachable": True, "tip_accounts": TIP_ACCOUNTS, "requests_per_second": 100}
    assert health["slices"] == SLICES
    answer = await actor.ask_engine(EngineCall("getTipAccounts", b"[]", 5_000))
    assert orjson.loads(answer.body)["result"] == list(TIP_ACCOUNTS)
    assert await actor.fingerprint() == "fingerprint"
    await actor.give(range(100))
    assert (await actor.health())["slices"] == SLICES - 100


def test_the_number_of_racers_replaces_none_of_them() -> None:
    """Their slices move; a racer that stays goes on with its races."""
    one, three = (Config(sends=SendsConfig(racers=number, tpu=False)) for number in (1, 3))
    assert fingerprint(one, host.USES) == fingerprint(three, host.USES)
    assert fingerprint(one, host.USES) != fingerprint(Config(sends=SendsConfig(tpu=True)), host.USES)
