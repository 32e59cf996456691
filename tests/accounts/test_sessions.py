import asyncio

import pytest

from actors.accounts import sessions as module
from actors.accounts.sessions import Sessions
from actors.clock import ManualClock
from actors.identity.store import IdentityStoreUnavailable
from tests.accounts.making import ALICE, BOB
from tests.accounts.shards import FailingIdentityStore

TOKEN, OTHER = b"t" * 32, b"o" * 32


@pytest.fixture
def store(clock: ManualClock) -> FailingIdentityStore:
    return FailingIdentityStore(clock)


@pytest.fixture
def sessions(store: FailingIdentityStore, clock: ManualClock) -> Sessions:
    return Sessions(store, clock, 3_600)


async def test_a_session_slides_with_its_use(sessions: Sessions, clock: ManualClock) -> None:
    """Interface, "Session token": one hour from the last use, not from the first."""
    await sessions.open(TOKEN, ALICE)
    for _ in range(5):
        clock.advance(3_599)
        assert sessions.use(TOKEN) == ALICE
    clock.advance(3_600)
    assert sessions.use(TOKEN) is None
    assert await sessions.find(TOKEN) is None


async def test_the_slide_survives_the_owner(
    sessions: Sessions, store: FailingIdentityStore, clock: ManualClock
) -> None:
    """Written at most every 30 seconds, so a restart shortens it by so much at most."""
    await sessions.open(TOKEN, ALICE)
    clock.advance(29)
    sessions.use(TOKEN)
    await sessions.flush()
    loaded = await store.load_session(TOKEN)
    assert loaded is not None and loaded[1] == clock.now() - 29 + 3_600
    clock.advance(1)
    sessions.use(TOKEN)
    await sessions.flush()
    clock.advance(3_590)
    successor = Sessions(store, clock, 3_600)
    assert await successor.find(TOKEN) == ALICE


async def test_a_failed_slide_is_tried_again(
    sessions: Sessions, store: FailingIdentityStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sessions.open(TOKEN, ALICE)
    clock.advance(60)
    sessions.use(TOKEN)

    async def away(*_: object) -> None:
        raise IdentityStoreUnavailable("nobody listens")

    with monkeypatch.context() as patched:
        patched.setattr(store, "slide_sessions", away)
        await sessions.flush()
    await sessions.flush()
    loaded = await store.load_session(TOKEN)
    assert loaded is not None and loaded[1] == clock.now() + 3_600


async def test_a_closed_session_stays_closed(sessions: Sessions, store: FailingIdentityStore) -> None:
    """Also when it was being looked up while it was closed."""
    await store.put_session(TOKEN, ALICE, 2_000_000_000)
    finding = asyncio.ensure_future(sessions.find(TOKEN))
    await sessions.close(TOKEN)
    assert await finding is None
    assert await sessions.find(TOKEN) is None
    assert await store.load_session(TOKEN) is None


async def test_unknown_tokens_are_remembered_briefly(
    sessions: Sessions, store: FailingIdentityStore, clock: ManualClock
) -> None:
    assert await sessions.find(TOKEN) is None
    store.away = True
    assert await sessions.find(TOKEN) is None
    with pytest.raises(IdentityStoreUnavailable):
        await sessions.find(OTHER)


async def test_a_session_opened_after_it_was_unknown_counts_at_once(sessions: Sessions) -> None:
    assert await sessions.find(TOKEN) is None
    await sessions.open(TOKEN, BOB)
    assert sessions.use(TOKEN) == BOB


async def test_memory_is_bounded(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest leaves; it is read again when it is used again."""
    monkeypatch.setattr(module, "CACHED_MAX", 2)
    for token in (TOKEN, OTHER, b"x" * 32):
        await sessions.open(token, ALICE)
    assert sessions.use(TOKEN) is None
    assert await sessions.find(TOKEN) == ALICE
