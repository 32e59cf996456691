"""Guards that made-up keys use up a share of their own of the calls in flight, and none of the customers'."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from actors.calls import KeyProof
from actors.gateway.calls.refusal_limits import RefusalLimits
from actors.gateway.calls.requests import AsgiClient
from actors.gateway.calls.unproven_calls import ADDRESS_SHARE, ADDRESS_WAITING_MAX, UnprovenCalls
from actors.identity.client_addresses import UNKNOWN

HERE, THERE, NOWHERE = AsgiClient([], "192.0.2.1"), AsgiClient([], "192.0.2.2"), AsgiClient([], None)
MOST = 40  # Of all strangers; of one address a quarter, 10.


def calls_of(most: int = MOST) -> tuple[RefusalLimits, UnprovenCalls]:
    limits = RefusalLimits(500, 500, lambda client: client.peer or UNKNOWN)
    return limits, UnprovenCalls(most, limits)


def key(number: int) -> KeyProof:
    return KeyProof(number.to_bytes(32, "big"), bytes(8))


async def waits(task: asyncio.Task) -> bool:
    for _ in range(3):
        await asyncio.sleep(0)
    return not task.done()


async def test_an_address_waits_when_its_share_is_used_and_another_does_not():
    """Threat 63: one address cannot have all places, so newcomers from elsewhere are proven at once."""
    _, calls = calls_of()
    first = await calls.enter(key(1), HERE, MOST // ADDRESS_SHARE)
    waiting = asyncio.ensure_future(calls.enter(key(2), HERE, 1))
    assert await waits(waiting)
    other = await calls.enter(key(3), THERE, 1)
    assert first is not None and other is not None
    calls.leave(first)
    assert await waiting is not None


async def test_all_addresses_together_have_no_more_than_the_share():
    """Rule: many addresses of strangers leave the customers their calls in flight too."""
    _, calls = calls_of()
    inside = [await calls.enter(key(n), AsgiClient([], f"192.0.2.{n}"), 10) for n in range(4)]
    waiting = [asyncio.ensure_future(calls.enter(key(9), AsgiClient([], f"192.0.2.{n}"), 10)) for n in (8, 9)]
    assert await waits(waiting[0]) and await waits(waiting[1])
    calls.leave(inside[0])
    assert await waiting[0] is not None and await waits(waiting[1])
    calls.leave(inside[1])
    assert await waiting[1] is not None


async def test_a_confirmed_credential_gives_its_places_back_at_once():
    """Rule: a place is held for as long as the owner needs to answer, not for as long as the calls run."""
    limits, calls = calls_of()
    await calls.enter(key(1), HERE, 10)
    waiting = asyncio.ensure_future(calls.enter(key(2), HERE, 10))
    assert await waits(waiting)
    limits.confirmed(key(1))
    assert await waiting is not None


async def test_a_request_that_is_larger_than_the_share_is_let_in_alone():
    """Rule: the batch of a newcomer is served, however small the share is."""
    _, calls = calls_of()
    large = await calls.enter(key(1), HERE, 100)
    waiting = asyncio.ensure_future(calls.enter(key(2), HERE, 100))
    assert large is not None and await waits(waiting)
    with large:
        assert await waits(waiting)
    assert await waiting is not None


async def test_those_who_wait_are_bounded():
    """Rule: what waits has a bound, and beyond it the client is refused at once."""
    _, calls = calls_of()
    await calls.enter(key(1), HERE, 10)
    waiting = [asyncio.ensure_future(calls.enter(key(2), HERE, 512)) for _ in range(ADDRESS_WAITING_MAX // 512)]
    assert await waits(waiting[-1])
    assert await calls.enter(key(2), HERE, 1) is None
    assert await calls.enter(key(2), THERE, 1) is not None
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    again = asyncio.ensure_future(calls.enter(key(2), HERE, 1))
    assert await waits(again)
    again.cancel()


async def test_a_client_that_leaves_while_it_waits_takes_no_place():
    """Rule: a place goes to nobody who has left, whether before or in the moment of being let in."""
    _, calls = calls_of()
    first = await calls.enter(key(1), HERE, 10)
    gone = asyncio.ensure_future(calls.enter(key(2), HERE, 10))
    stays = asyncio.ensure_future(calls.enter(key(3), HERE, 10))
    assert await waits(gone) and first is not None
    calls.leave(first)
    gone.cancel()
    assert await stays is not None


async def test_clients_without_a_known_address_share_only_the_bound_of_all():
    """Rule: a proxy that tells no addresses must not make its clients wait for one another's quarter."""
    _, calls = calls_of()
    assert await calls.enter(key(1), NOWHERE, 30) is not None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60), st.booleans()), max_size=40))
def test_everybody_is_let_in_once_and_nothing_is_kept(steps):
    """Any order of arriving and leaving: no place is lost, and at the end nothing is counted for anybody."""

    async def run() -> None:
        limits, calls = calls_of()
        tasks = []
        for number, (address, count, confirms) in enumerate(steps):
            tasks.append(asyncio.ensure_future(calls.enter(key(number), AsgiClient([], f"192.0.2.{address}"), count)))
            await asyncio.sleep(0)
            if confirms:
                limits.confirmed(key(number))
        for _ in range(2 * len(steps) + 2):
            for task in [task for task in tasks if task.done()]:
                tasks.remove(task)
                assert task.result() is not None
                calls.leave(task.result())
                calls.leave(task.result())
            await asyncio.sleep(0)
        assert not tasks, "somebody was never let in"
        assert (calls._total, dict(calls._by_address), calls._inside, dict(calls._waiting)) == (0, {}, {}, {})
        assert (calls._waiting_total, dict(calls._waiting_by_address)) == (0, {})

    asyncio.run(run())
