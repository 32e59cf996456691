import asyncio

import pytest

from actors.accounts.nonce_log import WAITING_MAX, NonceLog
from actors.clock import ManualClock
from actors.identity.store import IdentityStoreUnavailable
from tests.accounts.making import ALICE
from tests.accounts.shards import FailingIdentityStore


async def test_all_that_wait_go_together(clock: ManualClock) -> None:
    store = FailingIdentityStore(clock)
    log = NonceLog(store, clock)
    expires_at = clock.now() + 130
    first = {log.put(ALICE, f"n{number}", expires_at) for number in range(5)}
    assert len(first) == 1
    await asyncio.sleep(0)
    second = {log.put(ALICE, f"m{number}", expires_at) for number in range(5)}
    await asyncio.gather(*first, *second)
    assert store.pipelines == 2
    assert len(await store.load_nonces(ALICE)) == 10
    await log.stop()


async def test_a_failure_is_told_to_all_and_then_at_once_for_a_while(clock: ManualClock) -> None:
    """A store that hangs must not make every caller wait for its time-out."""
    store = FailingIdentityStore(clock)
    log = NonceLog(store, clock)
    store.away = True
    future = log.put(ALICE, "n", clock.now() + 130)
    with pytest.raises(IdentityStoreUnavailable):
        await future
    assert not log.available
    store.away = False
    clock.advance(1)
    assert log.available
    await log.put(ALICE, "n", clock.now() + 130)


async def test_what_waits_is_bounded(clock: ManualClock) -> None:
    log = NonceLog(FailingIdentityStore(clock), clock)
    futures = [log.put(ALICE, str(number), clock.now() + 130) for number in range(WAITING_MAX)]
    assert not log.available
    await futures[-1]
    assert log.available
