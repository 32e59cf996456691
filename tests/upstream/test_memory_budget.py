import asyncio

from hypothesis import given
from hypothesis import strategies as st

from actors.upstream.memory_budget import MemoryBudget


async def settled() -> None:
    """Let every task run that can."""
    for _ in range(4):
        await asyncio.sleep(0)


async def test_claims_without_room_are_granted_in_their_order():
    """Smaller answers do not pass a large one for ever."""
    budget = MemoryBudget(10)
    await budget.claim(6)
    large, small = asyncio.ensure_future(budget.claim(8)), asyncio.ensure_future(budget.claim(1))
    await settled()
    assert not large.done() and not small.done()
    budget.give_back(6)
    assert await asyncio.gather(large, small) == [8, 1]
    assert budget.bytes_free == 1


async def test_a_caller_who_leaves_delays_no_other():
    """A client that left must not keep others waiting."""
    budget = MemoryBudget(10)
    await budget.claim(6)
    large, small = asyncio.ensure_future(budget.claim(10)), asyncio.ensure_future(budget.claim(4))
    await settled()
    large.cancel()
    assert await small == 4
    assert budget.bytes_free == 0


@given(st.lists(st.tuples(st.sampled_from(["claim", "back", "leave", "back, leave"]), st.integers(1, 10)), max_size=60))
def test_bytes_are_neither_made_nor_lost(steps):
    """Whatever is claimed, given back and abandoned, the bytes in use and the free bytes are the whole budget."""

    async def run() -> None:
        budget, claims, held = MemoryBudget(10), [], []
        for step, size in steps:
            if step == "claim":
                claims.append(asyncio.ensure_future(budget.claim(size)))
            if step.startswith("back") and held:
                budget.give_back(held.pop(0))
            if step.endswith("leave") and claims:
                claims.pop(size % len(claims)).cancel()  # After "back", perhaps a claim that was granted just now.
            await settled()
            held += [claim.result() for claim in claims if claim.done()]
            claims = [claim for claim in claims if not claim.done()]
            assert sum(held) + budget.bytes_free == 10
            assert budget.bytes_free >= 0
            assert all(budget.bytes_free < 10 for _ in claims)

    asyncio.run(run())
