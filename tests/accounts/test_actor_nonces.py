"""One nonce admits one request: each fault that once let two pass, by name. The simulation looks for others."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.api import (
    HOLD,
    LINK_KINDS,
    AdjustCredits,
    Identify,
    IssueKey,
    OpenSession,
    ReadAccount,
    ReadLedger,
    SetStatus,
)
from actors.accounts.host import serve_links
from actors.calls import HoldRequest, KeyProof, WalletProof
from actors.hotlink.replica import Link
from actors.units import routing_bytes
from tests.accounts.making import ALICE, BOB, hold, operation, settle
from tests.accounts.shards import World, answered, ask, run_ready

UNAVAILABLE, REUSED = "SERVICE_TEMPORARILY_UNAVAILABLE", "NONCE_REUSED"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def shard(world: World) -> AsyncIterator[AccountShard]:
    shard = await world.shard()
    await world.customer(shard, ALICE, 100)
    yield shard
    if world.identity.gate is not None:
        world.identity.gate.set()
    await shard.stop()


def on_its_way(shard: AccountShard, request: Any) -> "asyncio.Future[Any]":
    return asyncio.ensure_future(answered(shard.hold_now(request)))


async def test_a_broken_link_takes_no_nonce_back(world: World, shard: AccountShard) -> None:
    """Threat 55. The replica's new link is there before the owner sees the end of the old one: asked again, the
    request waits for its nonce as the first one did, and when that one's link ends nothing becomes free."""
    way = world.identity.gate = asyncio.Event()
    proof = world.wallet(ALICE)
    first = on_its_way(shard, hold(1, 5, proof=proof))
    await run_ready()
    again = on_its_way(shard, hold(1, 5, proof=proof))
    await run_ready()
    assert not again.done(), "admitted before its nonce was kept"
    first.cancel()
    await run_ready()
    replays = [on_its_way(shard, hold(number, 5, proof=proof)) for number in (2, 3)]
    await run_ready()
    way.set()
    assert (await again).verdicts == (None,)
    assert [(await replay).refusal for replay in replays] == [REUSED, REUSED]
    assert (await ask(shard.hold_now, hold(1, 5, proof=proof))).figures.credits_remaining == 95


async def test_over_real_links_that_break_a_nonce_admits_one_request(
    world: World, shard: AccountShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat 55. Two replicas send one signed request; the link of the one that was first breaks, twice, while its
    nonce is on its way, and it sends the request again by its own operation id."""
    came: asyncio.Queue[bytes] = asyncio.Queue()
    hold_now = shard.hold_now

    def seen(request: HoldRequest) -> Any:
        came.put_nowait(request.operation)
        return hold_now(request)

    monkeypatch.setattr(shard, "hold_now", seen)
    server = serve_links(shard, b"secret")
    port = await server.start("127.0.0.1")

    async def resolve() -> tuple[str, int]:
        return "127.0.0.1", port

    links = [Link(b"secret", LINK_KINDS, resolve, peer) for peer in (b"replica1", b"replica2")]
    way = world.identity.gate = asyncio.Event()
    proof, replies = world.wallet(ALICE), []
    async with asyncio.timeout(30):
        for number, link in enumerate(links):
            link.start()
            replies.append(link.call(HOLD, hold(number, 5, proof=proof), 20_000))
            assert await came.get() == operation(number)
        assert (await replies[1]).refusal == REUSED
        for _ in range(2):
            assert links[0]._connection is not None and not replies[0].done()
            links[0]._connection.abandon()
            assert await came.get() == operation(0)
        await run_ready()
        assert not replies[0].done(), "sent again, it waits as before"
        way.set()
        assert (await replies[0]).verdicts == (None,)
        for link in links:
            await link.stop()
        await server.stop()
    assert set(shard._accounts[ALICE].holds) == {operation(0)}


async def test_a_failed_commit_takes_no_nonce_back(world: World, shard: AccountShard) -> None:
    """Threat 55. The account is dropped while a nonce of it is on its way: it is loaded anew with that nonce
    taken, and the request gets its hold on the account as it is then."""
    await ask(shard.hold_now, hold(1, 5, proof=world.wallet(ALICE)))
    way = world.identity.gate = asyncio.Event()
    proof = world.wallet(ALICE)
    first = on_its_way(shard, hold(2, 5, proof=proof))
    await run_ready()
    world.store.fail = ["before"]
    shard.settle_now(settle(1, 5))
    async with asyncio.timeout(30):
        while ALICE in shard._accounts:  # noqa: ASYNC110 - nothing tells when the group, which waits for a call, is lost.
            await asyncio.sleep(0)
    await run_ready()
    replay = on_its_way(shard, hold(3, 5, proof=proof))
    await run_ready()
    way.set()
    assert (await first).verdicts == (None,)
    assert (await replay).refusal == REUSED
    assert set(shard._accounts[ALICE].holds) == {operation(2)}


async def test_a_read_shows_nothing_that_was_never_written(world: World, shard: AccountShard) -> None:
    """Threat 41: the commit fails while the nonce of a read is on its way."""
    await ask(shard.hold_now, hold(1, 5, proof=world.wallet(ALICE)))
    way = world.identity.gate = asyncio.Event()
    read = asyncio.ensure_future(shard.ask(ReadAccount(world.wallet(ALICE))))
    await run_ready()
    world.store.fail = ["before"]
    shard.settle_now(settle(1, 5))
    await run_ready()
    way.set()
    answer = await read
    assert answer.value is not None and answer.value.balance == 100


async def test_a_closed_ledger_lets_each_nonce_read_once(world: World, shard: AccountShard) -> None:
    """While the ledger does not commit every read has its own copy of the account, but not of its nonces."""
    await ask(shard.hold_now, hold(1, 5, proof=world.wallet(ALICE)))
    world.store.away = True
    shard.settle_now(settle(1, 5))
    await run_ready()
    assert not shard._commits.open
    world.store.away = False
    proof = world.wallet(ALICE)
    answers = await asyncio.gather(
        shard.ask(ReadAccount(proof)), shard.ask(ReadLedger(proof, 0, 10)), shard.ask(Identify(proof))
    )
    assert sorted(answer.refusal or "" for answer in answers) == ["", REUSED, REUSED]


async def test_a_write_of_unknown_end_keeps_the_nonce_and_frees_the_credits(world: World, shard: AccountShard) -> None:
    """money rule 11: it may be in Redis, and a successor may read it there. Nothing stays held for it."""
    await ask(shard.hold_now, hold(1, 5, proof=world.wallet(ALICE)))
    way = world.identity.gate = asyncio.Event()
    proof = world.wallet(ALICE)
    waiting = [on_its_way(shard, hold(2, 20, proof=proof)) for _ in range(2)]
    await run_ready()
    assert shard._accounts[ALICE].purse.held == 25
    world.identity.away = True
    way.set()
    assert [(await reply).refusal for reply in waiting] == [UNAVAILABLE, UNAVAILABLE]
    assert shard._accounts[ALICE].purse.held == 5
    world.identity.away = False
    world.clock.advance(1)
    assert (await ask(shard.hold_now, hold(3, 20, proof=proof))).refusal == REUSED
    assert (await ask(shard.hold_now, hold(2, 20, proof=proof))).verdicts == (None,)


async def test_a_door_whose_clock_is_set_back_lets_nothing_pass_twice(world: World, shard: AccountShard) -> None:
    """Threat 53: the door takes an old message for new; its owner has forgotten the nonce, and says no."""
    used, unused = world.wallet(ALICE), world.wallet(ALICE)
    assert (await ask(shard.hold_now, hold(1, 5, proof=used))).verdicts == (None,)
    for _ in range(20):
        world.clock.advance(20)
        assert (await ask(shard.hold_now, hold(2, 5, proof=world.wallet(ALICE)))).refusal is None
        await shard.tick()
    for proof in (used, unused):
        assert (await ask(shard.hold_now, hold(3, 5, proof=proof))).refusal == UNAVAILABLE
        assert (await shard.ask(ReadAccount(proof))).refusal == UNAVAILABLE


async def test_redis_emptied_and_the_owner_restarted_admit_nothing_twice(world: World, shard: AccountShard) -> None:
    """Inside the 130 seconds. Signed requests are refused for 90 seconds, with 503; API keys go on."""
    used = world.wallet(ALICE)
    assert (await ask(shard.hold_now, hold(1, 5, proof=used))).verdicts == (None,)
    session = await shard.ask(OpenSession(ALICE, b"challenge", world.clock.now()))
    assert session.refusal is None
    type(world.identity).__init__(world.identity, world.clock)
    successor = await world.shard()
    key_hash = world.store.rows[ALICE].profile.key_hash
    assert key_hash is not None
    key = KeyProof(key_hash, routing_bytes(ALICE))
    for number in range(5, 14):
        assert (await ask(successor.hold_now, hold(number, 1, proof=key))).verdicts == (None,)
        for proof in (used, world.wallet(ALICE)):
            assert (await ask(successor.hold_now, hold(2, 5, proof=proof))).refusal == UNAVAILABLE
        assert (await successor.ask(ReadAccount(used))).refusal == UNAVAILABLE
        repeated = await successor.ask(OpenSession(ALICE, b"challenge", world.clock.now() - 10 * (number - 5)))
        assert repeated.refusal == UNAVAILABLE
        world.clock.advance(10)
    assert (await ask(successor.hold_now, hold(20, 5, proof=used))).refusal == UNAVAILABLE
    world.clock.advance(1)
    assert (await ask(successor.hold_now, hold(21, 5, proof=world.wallet(ALICE)))).verdicts == (None,)
    await successor.stop()


async def test_a_challenge_opens_one_session_however_late(world: World, shard: AccountShard) -> None:
    """Interface, "Session challenge": a replica whose clock is 60 s behind still takes it after 300 s; the memory of
    its use lasts longer, and survives the owner."""
    issued_at = world.clock.now()
    assert (await shard.ask(OpenSession(BOB, b"challenge", issued_at))).refusal is None
    for _ in range(18):
        world.clock.advance(20)
        again = await shard.ask(OpenSession(BOB, b"challenge", issued_at))
        assert again.refusal in ("AUTH_FAILED", UNAVAILABLE), "a second session"
        await shard.tick()
    assert again.refusal == UNAVAILABLE
    successor = await world.shard()
    assert (await successor.ask(OpenSession(BOB, b"challenge", issued_at))).refusal == UNAVAILABLE
    await successor.stop()


async def test_a_wallet_without_an_account_uses_its_nonces_too(world: World, shard: AccountShard) -> None:
    """POST /account/confirm-deposit is for those who have none yet. A call of theirs is refused with 402, and burns
    nothing: the same message is good once there is an account."""
    asking, calling = world.wallet(BOB), world.wallet(BOB)
    answers = await asyncio.gather(shard.ask(Identify(asking)), shard.ask(Identify(asking)))
    assert sorted(answer.refusal or "" for answer in answers) == ["", REUSED]
    assert (await ask(shard.hold_now, hold(1, 5, proof=calling))).refusal == "PAYMENT_REQUIRED"
    assert (await shard.ask(AdjustCredits(BOB, 50, "grant", "grant"))).refusal is None
    assert (await ask(shard.hold_now, hold(2, 5, proof=calling))).verdicts == (None,)


async def test_a_replay_is_refused_before_the_status_is_told(world: World, shard: AccountShard) -> None:
    """And a suspended account's nonces are not burned by calls that it may not make."""
    used, unused = world.wallet(ALICE), world.wallet(ALICE)
    assert (await ask(shard.hold_now, hold(1, 1, proof=used))).refusal is None
    await shard.ask(SetStatus(ALICE, "suspended", "test"))
    assert (await ask(shard.hold_now, hold(2, 1, proof=used))).refusal == REUSED
    assert (await ask(shard.hold_now, hold(3, 1, proof=unused))).refusal == "METHOD_NOT_ALLOWED"
    await shard.ask(SetStatus(ALICE, "active", "test"))
    assert (await ask(shard.hold_now, hold(4, 1, proof=unused))).refusal is None


async def test_a_key_is_issued_to_one_of_two_that_bring_the_same_signature(world: World, shard: AccountShard) -> None:
    """A request that may be a replay opens no account either."""
    proof = WalletProof(BOB, "n", world.clock.now())
    answers = await asyncio.gather(shard.ask(IssueKey(proof)), shard.ask(IssueKey(proof)))
    assert sorted(answer.refusal or "" for answer in answers) == ["", REUSED]
    world.identity.away = True
    assert (await shard.ask(IssueKey(world.wallet(b"c" * 32)))).refusal == UNAVAILABLE
    assert b"c" * 32 not in shard._accounts
