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
from actors.identity import store as store_module
from actors.identity.store import (
    ClaimedRecord,
    IdentityStore,
    IdentityStoreUnavailable,
    NotTheOwner,
    RedisIdentityStore,
    TakenNonce,
)
from actors.units import VirtualShard
from tests.identity.memory_store import MemoryIdentityStore

ALICE, BOB = b"a" * 32, b"b" * 32
TOKEN, OTHER_TOKEN = b"t" * 32, b"u" * 32
SEVEN, EIGHT, NINE = VirtualShard(7), VirtualShard(8), VirtualShard(9)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest, clock: ManualClock) -> IdentityStore:
    if request.param == "memory":
        return MemoryIdentityStore(clock)
    return RedisIdentityStore(request.getfixturevalue("redis_client"), clock)


def nonce(text: str, until: int, pubkey: bytes = ALICE, shard: VirtualShard = SEVEN) -> TakenNonce:
    return TakenNonce(shard, pubkey, text, until)


async def claimed(
    store: IdentityStore,
    epoch: int,
    *shards: VirtualShard,
    expected: int | None = None,
    over: int = 0,
    lost_until: int = 0,
) -> list[ClaimedRecord]:
    records = await store.claim_nonces(epoch, shards or (SEVEN,), expected=expected, over=over, lost_until=lost_until)
    return [record._replace(nonces=sorted(record.nonces)) for record in records]


async def test_a_claim_reads_all_that_earlier_owners_kept(store: IdentityStore) -> None:
    """Money rule 11: taken nonces are read back, so a restart forgets none."""
    assert await claimed(store, 5, SEVEN, EIGHT) == [ClaimedRecord(0, 0, 0, [])] * 2
    await store.take_nonces(5, [nonce("n-1", 90), nonce("n-1", 80, BOB), nonce("a:b.c,d_e|0f", 70)])
    await store.take_nonces(5, [nonce("n-1", 60, shard=EIGHT)])
    assert await claimed(store, 6, SEVEN, NINE, EIGHT) == [
        ClaimedRecord(5, 0, 0, [(ALICE, "a:b.c,d_e|0f", 70), (ALICE, "n-1", 90), (BOB, "n-1", 80)]),
        ClaimedRecord(0, 0, 0, []),
        ClaimedRecord(5, 0, 0, [(ALICE, "n-1", 60)]),
    ]


async def test_taking_nothing_or_the_same_again_changes_nothing(store: IdentityStore) -> None:
    """The client library may send a command twice."""
    await claimed(store, 5)
    await store.take_nonces(5, [])
    await store.take_nonces(5, [nonce("n", 90)])
    await store.take_nonces(5, [nonce("n", 90)])
    assert await claimed(store, 5, lost_until=99) == [ClaimedRecord(5, 0, 0, [(ALICE, "n", 90)])]


async def test_an_earlier_owner_can_write_no_more(store: IdentityStore) -> None:
    """Threats 40 and 55: its write was on its way while another owner read; it must not land behind that."""
    await claimed(store, 5, SEVEN, EIGHT)
    await claimed(store, 6, EIGHT)
    with pytest.raises(NotTheOwner):
        await store.take_nonces(5, [nonce("n", 90), nonce("n", 90, shard=EIGHT)])
    with pytest.raises(NotTheOwner):
        await store.forget_nonces(5, (SEVEN, EIGHT), 99)
    with pytest.raises(NotTheOwner):
        await store.take_nonces(6, [nonce("n", 90, shard=NINE)])
    assert [record.nonces for record in await claimed(store, 7, SEVEN, EIGHT)] == [[], []], "all or nothing"


async def test_an_earlier_epoch_claims_nothing_back(store: IdentityStore) -> None:
    """Unless it is told to: the epoch of an older database may be greater than any of this one."""
    await claimed(store, 5, SEVEN, EIGHT)
    await claimed(store, 9, EIGHT)
    with pytest.raises(NotTheOwner) as refused:
        await claimed(store, 6, SEVEN, EIGHT)
    assert refused.value.epoch == 9
    with pytest.raises(NotTheOwner):
        await claimed(store, 6, SEVEN, EIGHT, over=8)
    assert [record.epoch_before for record in await claimed(store, 6, SEVEN, EIGHT, over=9)] == [5, 9]


async def test_a_record_that_was_lost_says_so_for_good(store: IdentityStore) -> None:
    """lost_until is given to what is not there, and to what has another epoch than it must have; it is kept."""
    await claimed(store, 5)
    assert (await claimed(store, 6, lost_until=50))[0].lost_until == 0
    assert (await claimed(store, 6, NINE, lost_until=50))[0].lost_until == 50
    assert (await claimed(store, 6, lost_until=60, expected=6))[0].lost_until == 0
    assert (await claimed(store, 7, lost_until=60, expected=5))[0].lost_until == 60
    assert (await claimed(store, 8, lost_until=40, expected=5))[0].lost_until == 60
    assert (await claimed(store, 9))[0].lost_until == 60


@pytest.mark.threat(4)
async def test_old_nonces_are_forgotten_with_a_mark(store: IdentityStore) -> None:
    """What was good until then is gone, and the record says so to whoever claims it; the others stay."""
    await claimed(store, 5, SEVEN, EIGHT)
    await store.take_nonces(5, [nonce("old", 50), nonce("older", 40), nonce("new", 51)])
    await store.forget_nonces(5, (SEVEN, EIGHT), 50)
    await store.forget_nonces(5, (SEVEN,), 30)
    assert await claimed(store, 6, SEVEN, EIGHT, lost_until=99) == [
        ClaimedRecord(5, 50, 0, [(ALICE, "new", 51)]),
        ClaimedRecord(5, 0, 0, []),
    ]


@pytest.mark.threat(4)
async def test_many_nonces_in_one_turn(store: IdentityStore) -> None:
    """What gathered goes in one round trip, whatever its size; a restart inside the window still knows them all."""
    await claimed(store, 5, SEVEN, EIGHT)
    entries = [nonce(f"n-{number}", 90, shard=SEVEN if number % 2 else EIGHT) for number in range(10_000)]
    await store.take_nonces(5, entries)
    assert [len(record.nonces) for record in await claimed(store, 6, SEVEN, EIGHT)] == [5_000, 5_000]


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


async def test_addresses_are_counted_by_minute(store: IdentityStore) -> None:
    """Decisions: requests a minute per client address, over all replicas together."""
    assert await store.count_address("198.51.100.1", 5, 1) == 1
    assert await store.count_address("198.51.100.1", 5, 3) == 4
    assert await store.count_address("2001:db8::/64", 5, 1) == 1
    assert await store.count_address("198.51.100.1", 6, 1) == 1


async def test_counts_of_one_moment_are_all_counted(store: IdentityStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty connections to Redis at once may take a busy machine longer than a replica waits for a count."""
    monkeypatch.setattr("actors.identity.store._COUNT_SECONDS_MAX", 60.0)
    totals = await asyncio.gather(*(store.count_address("198.51.100.1", 5, 1) for _ in range(50)))
    assert sorted(totals) == list(range(1, 51))


async def test_redis_forgets_sessions_and_counts_by_itself(redis_client: Redis, clock: ManualClock) -> None:
    """Threat 4: memory is bounded, because each key has an expiry that fits its content."""
    store, now = RedisIdentityStore(redis_client, clock), clock.now()
    await store.put_session(TOKEN, ALICE, now + 3_600)
    await store.slide_sessions([(TOKEN, now + 3_700)])
    await store.count_address("198.51.100.1", now // 60, 1)
    lives = {bytes(key).split(b":")[1]: await redis_client.ttl(key) for key in await redis_client.keys("*")}
    expected = {b"session": 3_700, b"address": 130}
    assert lives.keys() == expected.keys()
    for kind, seconds in expected.items():
        assert seconds - 5 <= lives[kind] <= seconds, kind


async def test_redis_forgets_no_nonce_by_its_own_clock(redis_client: Redis) -> None:
    """Threat 53: a Redis whose clock is set ahead would forget all of them. They are bounded by their owner."""
    store = RedisIdentityStore(redis_client)
    await claimed(store, 5)
    await store.take_nonces(5, [nonce("n", 90)])
    keys = await redis_client.keys("*")
    assert sorted(keys) == [b"identity:nonces:7", b"identity:nonces:7:owner"]
    assert [await redis_client.ttl(key) for key in keys] == [-1, -1]
    await store.forget_nonces(5, (SEVEN,), 90)
    assert await redis_client.keys("*") == [b"identity:nonces:7:owner"]


@pytest.mark.parametrize("lost", ["all", "the nonces", "one nonce", "the owner"])
async def test_a_redis_that_has_lost_nonces_is_noticed(redis_client: Redis, lost: str) -> None:
    """Emptied, or bit by bit by eviction: the record's own epoch and count tell."""
    store = RedisIdentityStore(redis_client)
    await claimed(store, 5)
    await store.take_nonces(5, [nonce("n", 90), nonce("m", 90)])
    if lost == "all":
        await redis_client.flushall()
    elif lost == "the nonces":
        await redis_client.delete("identity:nonces:7")
    elif lost == "one nonce":
        await redis_client.zremrangebyrank("identity:nonces:7", 0, 0)
    else:
        await redis_client.delete("identity:nonces:7:owner")
    if lost in ("all", "the owner"):
        with pytest.raises(NotTheOwner):
            await store.take_nonces(5, [nonce("k", 90)])
    assert (await claimed(store, 6, lost_until=70))[0].lost_until == 70
    assert (await claimed(store, 7, lost_until=99))[0].lost_until == 70, "the record is whole again"


async def test_redis_holds_no_token_and_no_key(redis_client: Redis, clock: ManualClock) -> None:
    """Decisions: only hashes are stored. What a reader of the database sees opens nothing."""
    await RedisIdentityStore(redis_client, clock).put_session(TOKEN, ALICE, clock.now() + 60)
    assert await redis_client.keys("*") == [b"identity:session:" + TOKEN.hex().encode()]


async def test_a_client_that_decodes_text_will_do(redis_client: Redis, redis_url: str, clock: ManualClock) -> None:
    decoding = Redis.from_url(redis_url, decode_responses=True)
    store, until = RedisIdentityStore(decoding, clock), clock.now() + 60
    await store.put_session(TOKEN, ALICE, until)
    await claimed(store, 5)
    await store.take_nonces(5, [nonce("n", until)])
    assert await store.load_session(TOKEN) == (ALICE, until)
    assert (await claimed(store, 6))[0].nonces == [(ALICE, "n", until)]
    await decoding.aclose()


CALLS: dict[str, Callable[[IdentityStore], Coroutine[Any, Any, object]]] = {
    "claim_nonces": lambda store: store.claim_nonces(1, (SEVEN,), expected=None, over=0, lost_until=0),
    "take_nonces": lambda store: store.take_nonces(1, [TakenNonce(SEVEN, ALICE, "n", 1)]),
    "forget_nonces": lambda store: store.forget_nonces(1, (SEVEN,), 1),
    "put_session": lambda store: store.put_session(TOKEN, ALICE, 1),
    "load_session": lambda store: store.load_session(TOKEN),
    "slide_sessions": lambda store: store.slide_sessions([(TOKEN, 1)]),
    "drop_session": lambda store: store.drop_session(TOKEN),
    "count_address": lambda store: store.count_address("198.51.100.1", 1, 1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize(
    ("there", "client_seconds", "retries", "store_seconds"),
    [(False, 1, 0, 60), (True, 0.05, 0, 60), (True, None, 100, 0.05)],
    ids=["gone", "silent", "stalled"],
)
async def test_a_redis_that_does_not_answer_is_unavailable(
    call: Callable[[IdentityStore], Coroutine[Any, Any, object]],
    there: bool,
    client_seconds: float | None,
    retries: int,
    store_seconds: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Callers turn the one exception into 503. The client's time-out ends the wait, and where a client waits for
    minutes, as its retries add up, the store's own limit for the whole command does."""
    monkeypatch.setattr(store_module, "_COMMAND_SECONDS_MAX", store_seconds)
    monkeypatch.setattr(store_module, "_COUNT_SECONDS_MAX", store_seconds)
    socket = str(tmp_path / "redis")
    silent = await asyncio.start_unix_server(lambda _reader, _writer: None, socket) if there else None
    client = Redis(unix_socket_path=socket, socket_timeout=client_seconds, retry=Retry(NoBackoff(), retries))
    async with asyncio.timeout(30):
        with pytest.raises(IdentityStoreUnavailable):
            await call(RedisIdentityStore(client))
    await client.aclose()
    if silent is not None:
        silent.close()


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
