"""Requests of the measurement of Yellowstone streams, and the rates that its source reads from them."""

import asyncio

import pytest
from solders.pubkey import Pubkey

from actors.geyser_proto import geyser_pb2
from bench.grpc_streams import Counter, Wanted
from bench.yellowstone_servers import UpdateSource

RATE = 1_000


class Context:
    """A call at the source, which notes what it sends."""

    def __init__(self) -> None:
        self.sent: list[geyser_pb2.SubscribeUpdate] = []

    async def send_initial_metadata(self, metadata: object) -> None: ...

    async def write(self, update: bytes) -> None:
        self.sent.append(geyser_pb2.SubscribeUpdate.FromString(update))


async def _sent(request: geyser_pb2.SubscribeRequest, seconds: float) -> list[str]:
    async def requests() -> object:
        yield request
        await asyncio.Event().wait()

    context = Context()
    serving = asyncio.create_task(UpdateSource().subscribe(requests(), context))  # type: ignore[arg-type]
    await asyncio.sleep(seconds)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    return [str(update.WhichOneof("update_oneof")) for update in context.sent]


@pytest.mark.parametrize("number", [0, 7, 150])
async def test_a_rate_is_kept_in_whatever_order_keys_come(number: int) -> None:
    """The product sorts the keys of a filter: a stream's own key must not be taken for its rate."""
    request = Wanted(streams=200, rate=RATE, differ=True, transactions=True).request(number)
    for keys in (sorted, lambda keys: sorted(keys, reverse=True)):
        ordered = keys(request.transactions["some"].account_include)
        del request.transactions["some"].account_include[:]
        request.transactions["some"].account_include.extend(ordered)
        sent = await _sent(request, 0.3)
        assert 0 < sent.count("transaction") <= RATE


async def test_other_subscriptions_of_the_product_get_statuses_alone() -> None:
    """Its classifiers subscribe to programs. Sent as fast as possible, transactions for them took a core."""
    request = geyser_pb2.SubscribeRequest()
    request.transactions["programs"].account_include.append(str(Pubkey(bytes(range(32)))))
    request.slots["slots"].interslot_updates = True
    assert set(await _sent(request, 0.2)) == {"slot"}


def test_only_updates_of_the_measured_time_count() -> None:
    counter, update = Counter(), bytes(200)
    counter.take(update)
    counter.is_open = True
    for payload in (update, b"status"):
        counter.take(payload)
    assert (counter.count, counter.bytes) == (1, 200)
