"""The catalog is the one price list: a price that changes there changes the page of prices, quotes and charges."""

import subprocess
import sys
from pathlib import Path

_CHANGED = '''
import asyncio
from dataclasses import replace
from types import MappingProxyType as Frozen

from actors.methods import catalog, prices

# Before anything else reads the catalog, as an operator's new release would have it.
rows = dict(catalog.METHODS)
rows["getSlot"] = replace(rows["getSlot"], credits=3)
catalog.METHODS = Frozen(rows)
prices.STREAMS = Frozen(
    {
        "websocket": Frozen({"connect_credits": 6, "notifications_per_credit": 4, "unsubscribe_credits": 0}),
        "signals": Frozen({"connect_credits": 7, "event_credits": 2, "unsubscribe_credits": 0}),
        "grpc": Frozen(
            {**prices.STREAMS["grpc"], "request_credits": 8, "interval_credits": 90, "interval_seconds": 30}
        ),
    }
)
prices.BULK = tuple(replace(row, credits_per_item=9) for row in prices.BULK)
prices.WEBHOOK_DELIVERY_CREDITS = 11

import inspect

from actors.clock import ManualClock
from actors.config import Config
from actors.documents.event_operations import SIGNALS
from actors.gateway.calls import outcomes
from actors.signals import event_stream
from actors.signals.subscriptions import EVENT_UNITS, SignalSubscriptions
from actors.status.endpoints import pricing_document
from actors.status.products import Doors
from actors.streams.websocket import kinds as native_kinds
from actors.streams.yellowstone import charges as geyser_charges, service as geyser_service
from actors.streams.hub.feed import NOTIFICATION_UNITS
from actors.metering.meters import Meters
from actors.webhooks import host
from tests.gateway.doubles import OneAccount
from tests.gateway.world import a_world, call

page = pricing_document(Config().payments, Config().pricing, outcomes.PUBLISHED, Doors())
assert page["methods"]["getSlot"]["credits"] == 3
assert page["bulk"]["getBalances"]["credits"] == 9 and page["webhooks"]["signal"]["credits"] == 11
for name, stream in prices.STREAMS.items():
    assert page["streams"][name].items() >= stream.items(), name
(stream,) = [row for row in SIGNALS if row.endpoint == "GET /signals/stream"]
assert stream.price == "7 credits to connect, 2 for each event"


async def calls() -> None:
    async with a_world() as world:
        wallet = await world.customer(100)
        quoted = (await world.rpc(wallet, call("getSlot"), "/quote")).json()
        assert "3" in str(quoted), quoted
        await world.rpc(wallet, call("getSlot"))
        assert await world.debits(wallet) == [("getSlot", 3)]


class Stream:
    def __call__(self, *_: object) -> None: ...


async def spent(units: int) -> int:
    """The credits that an open stream is charged for events of so many units."""
    owner, clock, left = OneAccount(1_000), ManualClock(), units
    meters, stream = Meters(owner, clock, bytes(16)), Stream()
    meter = meters.open(b"p" * 32, "streams")
    meter.join(stream, stream, stream)
    for _ in range(10_000):  # Turns of the loop: the next part is held meanwhile.
        if not left:
            break
        left -= meter.spend(1, stream)
        await asyncio.sleep(0)
    assert not left
    meter.leave(stream)
    await meters.stop()
    return owner.posted["streams"]


asyncio.run(calls())
assert asyncio.run(spent(20 * EVENT_UNITS)) == 40, "20 signals of 2 credits"
assert asyncio.run(spent(20 * NOTIFICATION_UNITS)) == 5, "20 notifications, 4 for a credit"
assert event_stream.EVENT_UNITS == EVENT_UNITS
assert (native_kinds.CONNECT_CREDITS, SignalSubscriptions.connect_credits) == (6, 7)
assert (geyser_service.REQUEST_CREDITS, geyser_charges.MINUTE_CREDITS) == (8, 90)
assert inspect.signature(geyser_service.GeyserService).parameters["minute_seconds"].default == 30
assert host.WEBHOOK_DELIVERY_CREDITS == 11
print("one price list")
'''


def test_a_price_that_changes_in_the_catalog_changes_page_quote_and_charge() -> None:
    """In a process of its own, as modules read their prices when they are imported."""
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", _CHANGED], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "one price list", done.stderr
