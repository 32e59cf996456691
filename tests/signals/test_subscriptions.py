"""subscribeSignal as the WebSocket door takes it."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from actors.errors import Err, Refusal
from actors.metering.api import StreamEvent
from actors.signals.filters import SignalFilter, WantedSignals
from actors.signals.hub import ACCOUNT_WALLETS_MAX, WALLETS
from actors.signals.log import NO_CURSOR
from actors.signals.subscriptions import SignalSubscriptions
from tests.signals.test_hub import ACCOUNT, World, settled


class Socket:
    """A sink of the door."""

    def __init__(self, account: bytes = ACCOUNT, balance: int = 1_000_000) -> None:
        self.account, self.balance = account, balance
        self.events: list[StreamEvent] = []
        self.is_clear = True
        self.on_clear: Callable[[], None] | None = None

    def __call__(self, event: StreamEvent) -> None:
        self.events.append(event)


async def test_a_notification_has_the_form_of_the_interface() -> None:
    """`{jsonrpc, method, params: {subscription, result}}`, a string id, 10 tenths for each event."""
    world, socket = World(), Socket()
    hub = await world.hub()
    kind = SignalSubscriptions(hub)
    wanted = kind.check([{"kinds": ["newPair"]}])
    assert not isinstance(wanted, Refusal)
    opened = await kind.open(wanted, socket)
    assert not isinstance(opened, Refusal)
    await world.write(1)
    await world.publish(hub)
    (event,) = socket.events
    notification = orjson.loads(event.head + b'"sig_sub_1"}}')
    assert event.units == 10 and notification["method"] == "signalNotification"
    assert notification["params"]["subscription"] == "sig_sub_1" and notification["params"]["result"]["mint"] == "M0"
    opened.close()
    assert hub.count == 0


async def test_one_event_is_made_for_all_sockets() -> None:
    world, sockets = World(), [Socket(), Socket()]
    hub = await world.hub()
    kind = SignalSubscriptions(hub)
    for socket in sockets:
        await kind.open(kind.check([]), socket)  # type: ignore[arg-type]
    await world.write(3)
    await world.publish(hub)
    one, two = (socket.events for socket in sockets)
    assert len(one) == 3 and all(mine is theirs for mine, theirs in zip(one, two, strict=True))


async def test_a_full_socket_gets_the_rest_when_it_is_clear() -> None:
    """A long replay does not fill the socket's memory."""
    world, socket = World(), Socket()
    await world.write(5)
    hub = await world.hub()
    kind = SignalSubscriptions(hub)
    socket.is_clear = False
    await kind.open(kind.check([{"since": NO_CURSOR}]), socket)  # type: ignore[arg-type]
    for _ in range(20):
        await asyncio.sleep(0)
    assert socket.events == [] and socket.on_clear is not None
    socket.is_clear = True
    socket.on_clear()
    await settled()
    assert len(socket.events) == 5


async def test_stores_that_are_away_are_a_refusal_before_any_charge() -> None:
    world = World()
    hub = await world.hub()
    world.deliveries.is_away = True
    refusal = await SignalSubscriptions(hub).open(_all(), Socket())
    assert isinstance(refusal, Refusal) and refusal.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE


async def test_one_account_cannot_use_up_the_wallets_that_are_watched_for_all() -> None:
    """The classifiers watch 10,000 wallets; a hundred subscriptions of one socket could name as many."""
    world, socket = World(), Socket()
    hub = await world.hub()
    kind = SignalSubscriptions(hub)
    opened = []
    for first in range(0, ACCOUNT_WALLETS_MAX + 100, 100):
        wallets = frozenset(f"w{number}" for number in range(first, first + 100))
        opened.append(await kind.open(WantedSignals(SignalFilter(wallets=wallets), None), socket))
    *taken, refused = opened
    assert isinstance(refused, bytes) and orjson.loads(refused)["message"] == "Subscription limit reached (1000/1000)"
    assert not any(isinstance(each, Refusal | bytes) for each in taken) and len(hub.wallets()) == ACCOUNT_WALLETS_MAX
    again = WantedSignals(SignalFilter(wallets=frozenset(["w1", "w2"])), None)
    assert not isinstance(await kind.open(again, socket), Refusal | bytes)


@pytest.mark.threat(68)
async def test_accounts_with_small_balances_leave_wallets_for_one_that_pays() -> None:
    """Ten with a balance of 10 take a wallet each; twenty that are rich take what is not kept; a newcomer finds 10."""
    hub = await World().hub()
    kind = SignalSubscriptions(hub)
    for number in range(10):
        poor = Socket(b"poor%d" % number, 10)
        refused = await kind.open(_wallets(poor.account, 100), poor)
        assert isinstance(refused, bytes)
        error = orjson.loads(refused)
        assert error["code"] == -32000 and error["message"] == "Subscription limit reached (1/1)"
        assert error["data"]["constant"] == "SUBSCRIPTION_LIMIT" and "balance of 1000 credits" in error["data"]["hint"]
        assert not isinstance(await kind.open(_wallets(poor.account, 1), poor), Refusal | bytes)
    opened = []
    for number in range(20):
        rich = Socket(b"rich%d" % number)
        for first in range(0, ACCOUNT_WALLETS_MAX, 100):
            opened.append(await kind.open(_wallets(rich.account, 100, first), rich))
    assert any(isinstance(each, bytes) for each in opened)
    assert WALLETS.total - WALLETS.kept - 1_000 <= len(hub.wallets()) <= WALLETS.total - WALLETS.kept
    newcomer = Socket(b"newcomer", 100)
    taken = await kind.open(_wallets(newcomer.account, WALLETS.base), newcomer)
    assert not isinstance(taken, Refusal | bytes)
    taken.close()
    other_names = await kind.open(_wallets(newcomer.account, 1, 50), newcomer)
    assert isinstance(other_names, bytes), "a wallet keeps its place for a minute"
    again = await kind.open(_wallets(newcomer.account, WALLETS.base), newcomer)
    assert not isinstance(again, Refusal | bytes), "the same ones need no further place"


def _wallets(account: bytes, count: int, first: int = 0) -> WantedSignals:
    names = frozenset(f"{account.decode()}-{number}" for number in range(first, first + count))
    return WantedSignals(SignalFilter(wallets=names), None)


def _all() -> Any:
    return SignalSubscriptions.check(None, [])  # type: ignore[arg-type]


@pytest.mark.threat(68)
async def test_openings_at_once_give_no_place_that_the_balance_does_not() -> None:
    """What an opening under way names is not held yet: a twin of it must not count as its renewal."""
    world, poor = World(), Socket(b"poor", 10)
    hub, count = await world.hub(), world.log.subscribed_wallets

    async def later(now: int) -> int:
        await asyncio.sleep(0)
        return await count(now)

    world.log.subscribed_wallets = later  # type: ignore[method-assign]
    kind = SignalSubscriptions(hub)
    opened = await asyncio.gather(*(kind.open(_wallets(poor.account, 100), poor) for _ in range(3)))
    assert all(isinstance(each, bytes) for each in opened) and hub.wallets() == frozenset()
