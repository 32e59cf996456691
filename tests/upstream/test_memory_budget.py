import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.upstream.memory_budget import MemoryBudget, NoRoom, being_sent


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


async def test_two_accounts_leave_a_third_to_the_others():
    """Else two of them had all of it, for as long as their clients liked."""
    budget = MemoryBudget(30)
    for account in (b"a", b"b"):
        for _ in range(8):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(budget.claim(2, account), 0.001)
    assert budget.bytes_free >= 6
    assert await budget.claim(6, b"other") == 6


async def test_an_account_with_its_share_is_told_so_soon():
    """It does not wait for its own answers until the call's time is over, as others may wait for the same read. And
    whoever finds no room is told before that time, so that the node is not blamed."""
    budget = MemoryBudget(20, share_seconds=0.01)
    await budget.claim(10, b"one")
    with pytest.raises(NoRoom):
        await asyncio.wait_for(budget.claim(5, b"one"), 1)
    other = asyncio.ensure_future(budget.claim(15, b"other", asyncio.get_running_loop().time() + 0.05))
    await asyncio.sleep(0.03)
    assert not other.done(), "it has no share yet, so it waits for its time"
    with pytest.raises(NoRoom):
        await asyncio.wait_for(other, 1)
    assert budget.bytes_free == 10 and await asyncio.wait_for(budget.claim(9, b"third"), 1) == 9


async def test_small_and_large_answers_are_granted_in_turns():
    """However many accounts wait for large ones, a small one is not behind all of them; nor is a large one behind all
    small ones."""
    budget = MemoryBudget(20)
    await budget.claim(20)
    order: list[bytes] = []

    async def one(size: int, account: bytes) -> None:
        await budget.claim(size, account)
        order.append(account)
        budget.give_back(size, account)

    sizes = [(10, b"large-%d" % number) for number in range(3)] + [(2, b"small-%d" % number) for number in range(3)]
    waiting = [asyncio.create_task(one(*each)) for each in sizes]
    await settled()
    budget.give_back(20)
    await asyncio.gather(*waiting)
    assert order.index(b"small-0") <= 1 and order.index(b"large-1") <= 3, order


async def test_some_memory_is_kept_for_accounts_that_hold_little():
    """However many accounts fill it with large answers, blocks of usual sizes find room at once, also while a large one
    waits; and the whole of it is still for the largest answer that is taken."""
    budget = MemoryBudget(640)
    for number in range(10):
        await budget.claim(60, b"large-%d" % number)
    large = asyncio.ensure_future(budget.claim(60, b"large-10"))
    await settled()
    assert not large.done() and budget.bytes_free == 40
    for number in range(4):
        assert await asyncio.wait_for(budget.claim(10, b"little-%d" % number), 1) == 10
    assert budget.bytes_free == 0
    for number in range(4):
        budget.give_back(10, b"little-%d" % number)
    assert await asyncio.wait_for(budget.claim(4, b"little"), 1) == 4
    assert await asyncio.wait_for(budget.claim(6, b"little"), 1) == 6, "with its second answer it still holds little"
    assert not large.done(), "it may not take what is kept"
    budget.give_back(60, b"large-0")
    assert await asyncio.wait_for(large, 1) == 60
    for account, size in [(b"little", 10), *((b"large-%d" % number, 60) for number in range(1, 11))]:
        budget.give_back(size, account)
    assert await asyncio.wait_for(budget.claim(640, b"huge"), 1) == 640


def sent(budget: MemoryBudget, size: int, account: bytes, ended: list[bytes], stack: contextlib.ExitStack) -> None:
    """An answer that is sent to a client who takes next to nothing."""
    holding = budget.arrived(size, account)

    def break_off() -> None:
        ended.append(account)
        asyncio.get_running_loop().call_soon(budget.give_back, size, account, holding)

    stack.enter_context(being_sent((holding,), break_off))


async def test_answers_that_are_sent_slowly_give_way_to_an_account_that_holds_less():
    """Accounts cost little, so no share for each keeps room for all. The one that holds most goes first, of its answers
    the oldest; and no more of them than are needed."""
    budget, ended = MemoryBudget(20, give_way_seconds=0.05), list[bytes]()
    with contextlib.ExitStack() as stack:
        for size, account in ((6, b"most"), (3, b"most"), (7, b"second"), (2, b"least"), (2, b"other")):
            budget.bytes_free -= size
            budget._held[account] = budget._held.get(account, 0) + size
            sent(budget, size, account, ended, stack)
            await asyncio.sleep(0.001)
        waiting = asyncio.create_task(budget.claim(5, b"victim"))
        await settled()
        assert not ended, "a client has some time for its answer"
        assert await asyncio.wait_for(waiting, 2) == 5
        assert ended == [b"most"] and budget.bytes_free == 1
        mine = asyncio.create_task(budget.claim(4, b"second"))
        await asyncio.sleep(0.4)
        assert not mine.done() and ended == [b"most"], "none gives way to an account that holds more"
        mine.cancel()


async def test_an_answer_that_two_clients_share_is_as_old_as_its_last_one():
    budget, ended = MemoryBudget(10, give_way_seconds=0.3), list[str]()
    await budget.claim(10, b"one")
    holding = budget.arrived(10, b"one")
    with being_sent((holding,), lambda: ended.append("first")):
        await asyncio.sleep(0.3)
        with being_sent((holding,), lambda: ended.append("second")):
            waiting = asyncio.create_task(budget.claim(5, b"victim"))
            await settled()
            assert not ended
            await asyncio.sleep(0.6)
            assert ended == ["first", "second"] and not waiting.done()
    budget.give_back(10, b"one", holding)
    assert await waiting == 5


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
