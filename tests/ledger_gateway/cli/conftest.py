"""A gateway in a thread of its own, as commands run event loops themselves; and the command line in this process."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import base58
import pytest

from actors.accounts.api import AdjustCredits
from actors.call_log.endpoints import CallLogPages
from actors.call_log.writer import CallLogWriter
from actors.clock import ManualClock
from actors.telemetry.metrics import Metrics
from ledger_gateway.cli import deposit_command, shell
from ledger_gateway.cli.app import make_group
from ledger_gateway.cli.arguments import KEY_VARIABLE, KEYPAIR_VARIABLE, PROFILE_VARIABLE, URL_VARIABLE
from ledger_gateway.client import Gateway
from tests.call_log.memory_store import MemoryCallLogStore
from tests.gateway.pages.test_bills import Pages as BillsPages
from tests.gateway.pages.test_hourly_limit import Pages as LimitPages
from tests.gateway.pages.test_keys import Pages as KeysPages
from tests.gateway.pages.test_receipts import Pages

from ..world import Served, Waits, a_gateway

_START_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended. out, err: what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Site:
    """A served world, and its loop."""

    def __init__(self, served: Served, log: CallLogWriter, loop: asyncio.AbstractEventLoop) -> None:
        self.served, self.log, self._loop = served, log, loop
        self.keep_time()  # Credits of the clock's own beginning would have expired by now.

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_SECONDS)

    def keep_time(self) -> None:
        """Set the gateway's clock: commands sign with the real time."""
        clock = self.served.world.clock
        clock.advance(max(0, int(time.time()) - clock.now()))

    def grant(self, pubkey: str, credits: int) -> None:
        answer = self.run(self.served.world.shard.ask(AdjustCredits(base58.b58decode(pubkey), credits, "test", pubkey)))
        assert answer.refusal is None, answer

    def key(self, credits: int) -> str:
        return str(self.run(self.served.world.customer(credits)).api_key)


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    begun: list[Site] = []
    ready, ending = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        pages, bills, keys, limits = Pages(), BillsPages(), KeysPages(), LimitPages()
        store, clock = MemoryCallLogStore(), ManualClock()
        log = CallLogWriter(store, clock, Metrics())
        own = [one for each in (pages, bills, keys, limits, CallLogPages(store, clock)) for one in each.pages()]
        settings = {"identity": {"address_requests_per_minute": 1_000_000}, "clock": clock, "recent": log.recent}
        async with a_gateway(pages=own, **settings) as served:
            pages.open(served.world)
            bills.open(served.world)
            keys.open(served.world)
            limits.open(served.world)
            begun.append(Site(served, log, loop))
            ready.set()
            await ending.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(_START_SECONDS)
        yield begun[0]
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(_START_SECONDS)
        loop.close()


@pytest.fixture
def cli(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Run a command line against the site, with a profile of its own."""
    for name in (KEY_VARIABLE, KEYPAIR_VARIABLE, "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(URL_VARIABLE, site.served.url)
    monkeypatch.setenv(PROFILE_VARIABLE, str(tmp_path / "profile.json"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    for module in (shell, deposit_command):
        monkeypatch.setattr(module, "Gateway", partial(Gateway, sleep=Waits(), jitter=lambda: 0.0))
    group = make_group(None, {"run": "Start."})

    def run(*arguments: str, key: str | None = None) -> Done:
        if key is None:
            monkeypatch.delenv(KEY_VARIABLE, raising=False)
        else:
            monkeypatch.setenv(KEY_VARIABLE, key)
        site.keep_time()
        with pytest.raises(SystemExit) as ended:
            group(list(arguments), prog_name="ledger-gateway")
        told = capsys.readouterr()
        return Done(int(ended.value.code or 0), told.out, told.err)

    return run
