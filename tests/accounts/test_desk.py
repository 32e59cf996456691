import asyncio
from collections.abc import AsyncIterator

import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.ledger import EntryType
from actors.accounts.referrals import Referral
from actors.calls import SessionProof
from actors.events import ApiKeyRotated
from actors.identity.keys import key_hash, key_prefix, parse_api_key, token_hash
from actors.units import routing_bytes
from tests.accounts.making import ALICE, BOB, hold, key_proof, settle
from tests.accounts.shards import World, ask, settle_down

UNAVAILABLE = "SERVICE_TEMPORARILY_UNAVAILABLE"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def shard(world: World) -> AsyncIterator[AccountShard]:
    shard = await world.shard()
    yield shard
    await shard.stop()


async def test_a_key_opens_an_account_and_replaces_the_one_before(world: World, shard: AccountShard) -> None:
    """Interface, "States and transitions": durable before the answer, the old key invalid with it."""
    await world.store.add_referral(Referral("FRIEND", 500, 0, None, ""))
    first = await shard.issue_key(world.wallet(ALICE), "FRIEND")
    assert first.body is not None and first.body["ok"] and first.credits_remaining == 0
    row = world.store.rows[ALICE]
    assert (row.profile.key_hash, row.profile.ref_code) == (key_hash(first.body["api_key"]), "FRIEND")
    assert row.profile.key_prefix == key_prefix(first.body["api_key"])
    assert world.sink.events == []
    second = await shard.issue_key(world.wallet(ALICE), "LATER")
    assert second.body is not None
    assert world.store.rows[ALICE].profile.ref_code == "FRIEND"
    (event,) = world.sink.events
    assert isinstance(event, ApiKeyRotated) and event.key_prefix == key_prefix(second.body["api_key"])
    old, new = parse_api_key(first.body["api_key"]), parse_api_key(second.body["api_key"])
    assert old is not None and new is not None
    assert (await shard.info(old)).refusal == "AUTH_FAILED"
    info = await shard.info(new)
    assert info.body is not None and info.body["balance"] == 0


async def test_a_key_is_issued_to_a_fresh_signature_only(world: World, shard: AccountShard) -> None:
    proof = world.wallet(ALICE)
    assert (await shard.issue_key(proof, None)).refusal is None
    assert (await shard.issue_key(proof, None)).refusal == "NONCE_REUSED"
    assert (await shard.issue_key(key_proof(), None)).refusal == "AUTH_FAILED"
    world.identity.away = True
    assert (await shard.issue_key(world.wallet(BOB), None)).refusal == UNAVAILABLE
    assert BOB not in world.store.rows


async def test_a_key_that_could_not_be_written_is_not_given(world: World, shard: AccountShard) -> None:
    """The old one stays good; asked again, with a fresh signature, it works."""
    old = await world.customer(shard, ALICE, 10)
    world.store.fail = ["before"]
    assert (await shard.issue_key(world.wallet(ALICE), None)).refusal == UNAVAILABLE
    await settle_down()
    assert (await shard.info(old)).refusal is None
    assert (await shard.issue_key(world.wallet(ALICE), None)).refusal is None
    assert (await shard.info(old)).refusal == "AUTH_FAILED"


async def test_two_first_keys_at_once_open_one_account(world: World, shard: AccountShard) -> None:
    answers = await asyncio.gather(*(shard.issue_key(world.wallet(ALICE), None) for _ in range(2)))
    assert [answer.refusal for answer in answers] == [None, None]
    good = [parse_api_key(answer.body["api_key"]) for answer in answers if answer.body]
    infos = [await shard.info(proof) for proof in good if proof]
    assert sorted(info.refusal or "" for info in infos) == ["", "AUTH_FAILED"]


async def test_sessions_open_once_a_challenge_and_close(world: World, shard: AccountShard) -> None:
    opened = await shard.open_session(ALICE, b"challenge", world.clock.now())
    assert opened.body is not None and opened.body["expires_in"] == 3_600
    assert (await shard.open_session(ALICE, b"challenge", world.clock.now())).refusal == "AUTH_FAILED"
    proof = SessionProof(token_hash(opened.body["token"]), routing_bytes(ALICE))
    assert (await shard.info(proof)).refusal == "ACCOUNT_NOT_FOUND"
    await world.customer(shard, ALICE, 10)
    assert (await shard.info(proof)).refusal is None
    assert (await shard.close_session(proof)).body == {"status": "ok"}
    assert (await shard.close_session(proof)).refusal == "AUTH_FAILED"
    assert (await shard.info(proof)).refusal == "AUTH_FAILED"
    assert (await shard.close_session(key_proof())).refusal == "AUTH_FAILED"


async def test_reading_an_account(world: World, shard: AccountShard) -> None:
    """Interface, "Account endpoints": figures, pages newest first, and checked again behind the door."""
    proof = await world.customer(shard, ALICE, 100)
    for number in (1, 2, 3):
        shard.hold_now(hold(number, number, proof=proof))
        await ask(shard.settle_now, settle(number, number))
    info = await shard.info(proof)
    assert info.body is not None and info.body["balance"] == 94 and info.body["total_consumed_credits"] == 6
    assert (info.credits_remaining, info.rate_limit, info.rate_remaining) == (94, 100, 97)
    ledger = await shard.ledger(proof, 0, 50)
    assert ledger.body is not None
    assert [entry["amount"] for entry in ledger.body["entries"]] == [-3, -2, -1, 100]
    history = await shard.history(proof, 1, 1)
    assert history.body is not None and [entry["credits"] for entry in history.body["entries"]] == [2]
    assert (await shard.ledger(proof, 0, 0)).body == {"entries": []}
    assert (await shard.ledger(proof, 0, 501)).refusal == "INVALID_REQUEST"
    assert (await shard.history(proof, -1, 5)).refusal == "INVALID_REQUEST"
    assert (await shard.info(world.wallet(BOB))).refusal == "ACCOUNT_NOT_FOUND"
    assert (await shard.describe(ALICE)).body == info.body
    assert (await shard.describe(BOB)).refusal == "ACCOUNT_NOT_FOUND"


async def test_a_reader_is_not_answered_from_what_is_not_written(world: World, shard: AccountShard) -> None:
    """Hostile input 41."""
    proof = await world.customer(shard, ALICE, 100)
    shard.hold_now(hold(1, 10, proof=proof))
    world.store.gate = asyncio.Event()
    world.store.fail = ["before"]
    shard.settle_now(settle(1, 10))
    reading = [asyncio.ensure_future(shard.info(proof)), asyncio.ensure_future(shard.ledger(proof, 0, 5))]
    await settle_down()
    assert not any(task.done() for task in reading)
    world.store.gate.set()
    assert [answer.refusal for answer in await asyncio.gather(*reading)] == [UNAVAILABLE, UNAVAILABLE]
    await settle_down()
    info = await shard.info(proof)
    assert info.body is not None and info.body["balance"] == 100


async def test_an_adjustment_is_made_once(world: World, shard: AccountShard) -> None:
    """Idempotent by operation: twice at once, after a lost answer, and much later."""
    both = await asyncio.gather(*(shard.adjust(ALICE, 50, "gift", "gift-1") for _ in range(2)))
    assert sorted(answer.body["already_applied"] for answer in both if answer.body) == [False, True]
    world.store.fail = ["after"]
    assert (await shard.adjust(ALICE, 7, "gift", "gift-2")).refusal == UNAVAILABLE
    await settle_down()
    again = await shard.adjust(ALICE, 7, "gift", "gift-2")
    assert again.body is not None and again.body["already_applied"] and again.body["balance"] == 57
    world.clock.advance(10_000)
    successor = await world.shard()
    later = await successor.adjust(ALICE, 50, "gift", "gift-1")
    assert later.body is not None and later.body["already_applied"] and later.body["amount"] == 50
    await successor.stop()


async def test_an_adjustment_removes_what_is_there(world: World, shard: AccountShard) -> None:
    assert (await shard.adjust(BOB, -5, "", "none")).refusal == "ACCOUNT_NOT_FOUND"
    proof = await world.customer(shard, ALICE, 50)
    shard.hold_now(hold(1, 30, proof=proof))
    removed = await shard.adjust(ALICE, -500, "chargeback", "back")
    assert removed.body is not None and (removed.body["amount"], removed.body["balance"]) == (-20, 30)
    assert (await shard.adjust(ALICE, -1, "", "more")).refusal == "INSUFFICIENT_CREDITS"
    assert (await shard.adjust(ALICE, 0, "", "zero")).refusal == "INVALID_REQUEST"
    assert world.store.rows[ALICE].entries[-1][0].type == EntryType.ADJUSTMENT


async def test_limits_and_status_last(world: World, shard: AccountShard) -> None:
    proof = await world.customer(shard, ALICE, 50)
    assert (await shard.set_limits(ALICE, 3, None)).body is not None
    assert (await shard.set_status(ALICE, "suspended", "")).body is not None
    successor = await world.shard()
    info = await successor.info(proof)
    assert info.body is not None and (info.body["status"], info.rate_limit) == ("suspended", 3)
    assert (await successor.set_limits(ALICE, 0, None)).refusal == "INVALID_REQUEST"
    assert (await successor.set_status(ALICE, "closed", "")).refusal == "INVALID_REQUEST"
    assert (await successor.set_limits(BOB, 1, 1)).refusal == "ACCOUNT_NOT_FOUND"
    assert (await successor.set_status(BOB, "active", "")).refusal == "ACCOUNT_NOT_FOUND"
    await successor.stop()
