"""A relayed payment that is brought again: the result of the first time, and nothing settled twice."""

import asyncio

from actors.upstream import replies
from actors.x402_types import Lack, Settled

from .x402_world import USDC, lack


async def test_the_relay_answers_a_retry_as_the_first_time_and_settles_nothing_again(world):
    """For both kinds, at the same replica or another: a client that lost the answer asks again."""
    for raw in (world.bare(), world.self_paid()):
        first = await world.settler.relay(raw, "")
        sent = world.node.count("sendTransaction")
        for settler in (world.settler, world.new_settler()):
            assert isinstance(first, Settled) and await settler.relay(raw, "") == first
        assert world.node.count("sendTransaction") == sent
    assert len(world.sponsor.signed) == 1 and world.accounts.credits == []


async def test_the_relay_gives_requests_at_once_one_answer(world):
    """One settlement, and each request has its result."""
    raw = world.bare()
    first, *others = await asyncio.gather(*(world.settler.relay(raw, "") for _ in range(5)))
    assert isinstance(first, Settled) and others == [first] * 4
    assert len(world.sponsor.signed) == 1 and world.node.count("sendTransaction") == 1


async def test_the_relay_answers_a_retry_of_what_is_pending_as_pending(world):
    """With the signature of the first time; what failed is an error again, and needs another payment."""
    raw = world.self_paid()
    world.node.before["getSignatureStatuses"] = replies.TIMED_OUT
    first, again = await world.settler.relay(raw, ""), await world.settler.relay(raw, "")
    assert lack(first) is Lack.PENDING and first == again
    refused = world.self_paid(11 * USDC)
    assert lack(await world.settler.relay(refused, "")) is Lack.REJECTED
    assert lack(await world.settler.relay(refused, "")) is Lack.DUPLICATE
