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


async def test_one_account_leaves_half_to_the_others():
    """An account whose clients take their answers slowly holds up nobody else; its own next answer waits."""
    budget = MemoryBudget(20)
    assert await budget.claim(8, b"slow") == 8
    own = [asyncio.ensure_future(budget.claim(6, b"slow")) for _ in range(2)]
    await settled()
    assert not any(claim.done() for claim in own)
    assert await asyncio.wait_for(budget.claim(8, b"other"), 1) == 8
    third = asyncio.ensure_future(budget.claim(5, b"third"))
    await settled()
    assert not third.done() and budget.bytes_free == 4
    budget.give_back(8, b"slow")
    await settled()
    assert [own[0].done(), own[1].done(), third.done()] == [True, False, True], "each in its turn, within its share"


async def test_an_account_that_holds_nothing_may_have_any_one_answer():
    budget = MemoryBudget(10)
    assert await budget.claim(9, b"one") == 9
    budget.give_back(9, b"one")
    assert budget.bytes_free == 10


_ACCOUNTS = st.sampled_from([b"", b"a", b"b"])
_STEPS = st.sampled_from(["claim", "back", "leave", "back, leave"])


@given(st.lists(st.tuples(_STEPS, st.integers(1, 10), _ACCOUNTS), max_size=60))
def test_bytes_are_neither_made_nor_lost(steps):
    """Whatever is claimed, given back and abandoned, the bytes in use and the free bytes are the whole budget; and no
    claim waits that could be granted."""

    async def run() -> None:
        budget, claims, held = MemoryBudget(10), [], []
        for step, size, account in steps:
            if step == "claim":
                claims.append((asyncio.ensure_future(budget.claim(size, account)), account))
            if step.startswith("back") and held:
                budget.give_back(*held.pop(0))
            if step.endswith("leave") and claims:
                claims.pop(size % len(claims))[0].cancel()  # After "back", perhaps one that was granted just now.
            await settled()
            held += [(claim.result(), of) for claim, of in claims if claim.done()]
            claims = [(claim, of) for claim, of in claims if not claim.done()]
            assert sum(size for size, _ in held) + budget.bytes_free == 10
            assert budget.bytes_free >= 0
            assert all(budget.bytes_free < 10 for _ in claims)
            for name in (b"a", b"b"):
                mine = [size for size, of in held if of == name]
                assert sum(mine) <= 5 or len(mine) == 1

    asyncio.run(run())
