"""The identity store: one suite that the memory store and a real Redis 6.2 must both pass, then what is Redis's own."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from actors.clock import ManualClock
from actors.identity.store import IdentityStore, IdentityStoreUnavailable, MemoryIdentityStore, RedisIdentityStore

ALICE, BOB = b"a" * 32, b"b" * 32
TOKEN, OTHER_TOKEN = b"t" * 32, b"u" * 32


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest, clock: ManualClock) -> IdentityStore:
    if request.param == "memory":
        return MemoryIdentityStore(clock)
    return RedisIdentityStore(request.getfixturevalue("redis_client"), clock)


async def test_nonces_are_kept_by_public_key(store: IdentityStore, clock: ManualClock) -> None:
    """Money rule 11: taken nonces are read back when the account is loaded, so a restart forgets none."""
    until = clock.now() + 130
    await store.take_nonces([(ALICE, "n-1", until), (BOB, "n-1", until), (ALICE, "a:b.c,d_e", until + 1)])
    assert sorted(await store.load_nonces(ALICE)) == [("a:b.c,d_e", until + 1), ("n-1", until)]
    assert await store.load_nonces(BOB) == [("n-1", until)]
    assert await store.load_nonces(b"c" * 32) == []


async def test_taking_nothing_or_the_same_again_changes_nothing(store: IdentityStore, clock: ManualClock) -> None:
    until = clock.now() + 130
    await store.take_nonces([])
    await store.take_nonces([(ALICE, "n", until)])
    await store.take_nonces([(ALICE, "n", until)])
    assert await store.load_nonces(ALICE) == [("n", until)]


async def test_hostile_4_nonces_are_kept_for_their_time_and_no_longer(store: IdentityStore, clock: ManualClock) -> None:
    """Retained for both sides of the window, evicted after it."""
    first = clock.now() + 130
    await store.take_nonces([(ALICE, "first", first)])
    clock.advance(129)
    await store.take_nonces([(ALICE, "second", clock.now() + 130)])
    assert sorted(nonce for nonce, _ in await store.load_nonces(ALICE)) == ["first", "second"]
    clock.advance(1)
    assert [nonce for nonce, _ in await store.load_nonces(ALICE)] == ["second"]


async def test_hostile_4_many_nonces_in_one_turn(store: IdentityStore, clock: ManualClock) -> None:
    """What gathered goes in one round trip, whatever its size; a restart inside the window still knows them all."""
    until = clock.now() + 130
    entries = [(ALICE if number % 2 else BOB, f"n-{number}", until) for number in range(10_000)]
    await store.take_nonces(entries)
    assert len(await store.load_nonces(ALICE)) == len(await store.load_nonces(BOB)) == 5_000


async def test_a_session_lives_until_it_expires(store: IdentityStore, clock: ManualClock) -> None:
    until = clock.now() + 3_600
    assert await store.load_session(TOKEN) is None
    await store.put_session(TOKEN, ALICE, until)
    assert await store.load_session(TOKEN) == (ALICE, until)
    assert await store.load_session(OTHER_TOKEN) is None
    clock.advance(3_599)
    assert await store.load_session(TOKEN) == (ALICE, until)
    clock.advance(1)
    assert await store.load_session(TOKEN) is None


async def test_a_session_slides_later_only(store: IdentityStore, clock: ManualClock) -> None:
    """Interface: sliding TTL. A slide that arrives late, from a former owner, shortens nothing."""
    until = clock.now() + 3_600
    await store.put_session(TOKEN, ALICE, until)
    await store.put_session(OTHER_TOKEN, BOB, until)
    await store.slide_sessions([(TOKEN, until + 100), (OTHER_TOKEN, until - 100)])
    await store.slide_sessions([])
    assert await store.load_session(TOKEN) == (ALICE, until + 100)
    assert await store.load_session(OTHER_TOKEN) == (BOB, until)


async def test_a_slide_brings_no_dropped_or_expired_session_back(store: IdentityStore, clock: ManualClock) -> None:
    """Interface: logout revokes, whatever write is still under way."""
    await store.put_session(TOKEN, ALICE, clock.now() + 3_600)
    await store.drop_session(TOKEN)
    await store.drop_session(TOKEN)
    await store.slide_sessions([(TOKEN, clock.now() + 7_200), (OTHER_TOKEN, clock.now() + 7_200)])
    assert await store.load_session(TOKEN) is None
    assert await store.load_session(OTHER_TOKEN) is None
    await store.put_session(OTHER_TOKEN, BOB, clock.now() + 10)
    clock.advance(10)
    await store.slide_sessions([(OTHER_TOKEN, clock.now() + 7_200)])
    assert await store.load_session(OTHER_TOKEN) is None


async def test_a_challenge_is_burned_once(store: IdentityStore, clock: ManualClock) -> None:
    """Of twenty that burn it at once, one succeeds."""
    until = clock.now() + 300
    answers = await asyncio.gather(*(store.burn_challenge(b"c" * 16, until) for _ in range(20)))
    assert sorted(answers) == [False] * 19 + [True]
    assert await store.burn_challenge(b"d" * 16, until)
    assert not await store.burn_challenge(b"c" * 16, until)


async def test_addresses_are_counted_by_minute(store: IdentityStore) -> None:
    """Decisions: requests a minute per client address, over all replicas together."""
    assert await store.count_address("198.51.100.1", 5, 1) == 1
    assert await store.count_address("198.51.100.1", 5, 3) == 4
    assert await store.count_address("2001:db8::/64", 5, 1) == 1
    assert await store.count_address("198.51.100.1", 6, 1) == 1


async def test_counts_of_one_moment_are_all_counted(store: IdentityStore) -> None:
    totals = await asyncio.gather(*(store.count_address("198.51.100.1", 5, 1) for _ in range(50)))
    assert sorted(totals) == list(range(1, 51))


async def test_redis_forgets_everything_by_itself(redis_client: Redis, clock: ManualClock) -> None:
    """Hostile input 4: memory is bounded, because each key has an expiry that fits its content."""
    store, now = RedisIdentityStore(redis_client, clock), clock.now()
    await store.take_nonces([(ALICE, "n", now + 130)])
    await store.put_session(TOKEN, ALICE, now + 3_600)
    await store.slide_sessions([(TOKEN, now + 3_700)])
    await store.burn_challenge(b"c" * 16, now + 300)
    await store.count_address("198.51.100.1", now // 60, 1)
    lives = {bytes(key).split(b":")[1]: await redis_client.ttl(key) for key in await redis_client.keys("*")}
    expected = {b"nonces": 130, b"session": 3_700, b"challenge": 300, b"address": 130}
    assert lives.keys() == expected.keys()
    for kind, seconds in expected.items():
        assert seconds - 5 <= lives[kind] <= seconds, kind


async def test_hostile_4_redis_evicts_old_nonces_of_a_busy_key(redis_client: Redis, clock: ManualClock) -> None:
    """A public key that never pauses does not grow: each turn removes what has expired."""
    store = RedisIdentityStore(redis_client, clock)
    for _ in range(10):
        await store.take_nonces([(ALICE, f"n-{clock.now()}-{i}", clock.now() + 130) for i in range(100)])
        clock.advance(65)
    (key,) = await redis_client.keys("*")
    assert await redis_client.zcard(key) == 200


async def test_an_expiry_of_nonces_is_never_shortened(redis_client: Redis, clock: ManualClock) -> None:
    """Nonces signed with clocks that differ arrive in any order of expiry; the later one decides how long all stay."""
    store = RedisIdentityStore(redis_client, clock)
    await store.take_nonces([(ALICE, "late", clock.now() + 130)])
    await store.take_nonces([(ALICE, "early", clock.now() + 10)])
    (key,) = await redis_client.keys("*")
    assert await redis_client.ttl(key) > 120


async def test_redis_holds_no_token_and_no_key(redis_client: Redis, clock: ManualClock) -> None:
    """Decisions: only hashes are stored. What a reader of the database sees opens nothing."""
    await RedisIdentityStore(redis_client, clock).put_session(TOKEN, ALICE, clock.now() + 60)
    assert await redis_client.keys("*") == [b"identity:session:" + TOKEN.hex().encode()]


async def test_a_client_that_decodes_text_will_do(redis_client: Redis, redis_url: str, clock: ManualClock) -> None:
    decoding = Redis.from_url(redis_url, decode_responses=True)
    store, until = RedisIdentityStore(decoding, clock), clock.now() + 60
    await store.put_session(TOKEN, ALICE, until)
    await store.take_nonces([(ALICE, "n", until)])
    assert await store.load_session(TOKEN) == (ALICE, until)
    assert await store.load_nonces(ALICE) == [("n", until)]
    await decoding.aclose()


CALLS: dict[str, Callable[[IdentityStore], Coroutine[Any, Any, object]]] = {
    "take_nonces": lambda store: store.take_nonces([(ALICE, "n", 1)]),
    "load_nonces": lambda store: store.load_nonces(ALICE),
    "put_session": lambda store: store.put_session(TOKEN, ALICE, 1),
    "load_session": lambda store: store.load_session(TOKEN),
    "slide_sessions": lambda store: store.slide_sessions([(TOKEN, 1)]),
    "drop_session": lambda store: store.drop_session(TOKEN),
    "burn_challenge": lambda store: store.burn_challenge(b"c", 1),
    "count_address": lambda store: store.count_address("198.51.100.1", 1, 1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_a_redis_that_is_gone_is_unavailable(
    call: Callable[[IdentityStore], Coroutine[Any, Any, object]], tmp_path: Path
) -> None:
    """Every failure of Redis is the one exception that callers turn into 503."""
    client = Redis(unix_socket_path=str(tmp_path / "nothing"), socket_timeout=1, retry=Retry(NoBackoff(), 0))
    with pytest.raises(IdentityStoreUnavailable):
        await call(RedisIdentityStore(client))
    await client.aclose()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_a_redis_that_refuses_is_unavailable(
    call: Callable[[IdentityStore], Coroutine[Any, Any, object]], redis_client: Redis, redis_url: str
) -> None:
    """An error reply, such as one of missing rights or memory, is a failure too."""
    await redis_client.acl_setuser("outsider", enabled=True, nopass=True, commands=["+auth", "+client"])
    client = Redis.from_url(redis_url, username="outsider", password="any", retry=Retry(NoBackoff(), 0))
    with pytest.raises(IdentityStoreUnavailable):
        await call(RedisIdentityStore(client))
    await client.aclose()
    await redis_client.acl_deluser("outsider")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
async def test_a_redis_that_is_silent_is_unavailable(
    call: Callable[[IdentityStore], Coroutine[Any, Any, object]], tmp_path: Path
) -> None:
    """The client's own timeout ends the wait."""
    silent = await asyncio.start_unix_server(lambda _reader, _writer: None, str(tmp_path / "silent"))
    client = Redis(unix_socket_path=str(tmp_path / "silent"), socket_timeout=0.05, retry=Retry(NoBackoff(), 0))
    with pytest.raises(IdentityStoreUnavailable):
        await call(RedisIdentityStore(client))
    await client.aclose()
    silent.close()
