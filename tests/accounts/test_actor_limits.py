"""What keeps an owner small and safe: caps, nonces, sessions, suspended accounts, other owners' accounts."""

import asyncio

import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, OpenSession, OwnerUnavailable, ReadAccount, SetStatus
from actors.accounts.ledger import EntryType
from actors.calls import HoldReply, KeyProof
from actors.config import AccountsConfig
from actors.events import LowBalance
from actors.units import routing_bytes, shard_of
from tests.accounts.making import ALICE, BOB, hold, key_proof, pubkey_of, settle
from tests.accounts.shards import World, answered, ask, run_ready

UNAVAILABLE = "SERVICE_TEMPORARILY_UNAVAILABLE"


def balance(world: World, pubkey: bytes = ALICE) -> int:
    return world.store.rows[pubkey].head.balance


async def test_unknown_accounts_and_keys_are_refused_cheaply(world: World, shard: AccountShard) -> None:
    """Threat 39: "no such account" is remembered briefly, and costs the database nothing meanwhile."""
    for _ in range(5):
        reply = await ask(shard.hold_now, hold(1, 5, proof=world.wallet(BOB)))
        assert (reply.refusal, reply.pubkey, reply.figures) == ("PAYMENT_REQUIRED", BOB, None)
    assert world.store.loads == 1
    reply = await ask(shard.hold_now, hold(1, 5, proof=key_proof(BOB)))
    assert (reply.refusal, reply.pubkey) == ("AUTH_FAILED", b"")
    assert world.store.loads == 1
    await world.customer(shard, BOB, 10)  # Opened by its owner: known at once.
    assert (await ask(shard.hold_now, hold(2, 5, proof=world.wallet(BOB)))).verdicts == (None,)


async def test_loads_in_flight_are_capped(world: World, shard: AccountShard) -> None:
    """Threat 39: 10,000 fresh key pairs; what is too much is told so at once."""
    world.config = AccountsConfig(activations_in_flight_max=2)
    small = await world.shard()
    requests = [hold(number, 5, proof=world.wallet(pubkey_of(f"fresh {number}"))) for number in range(200)]
    replies = await asyncio.gather(*(ask(small.hold_now, request) for request in requests))
    refusals = [reply.refusal for reply in replies]
    assert refusals.count("PAYMENT_REQUIRED") == 32
    assert refusals.count(UNAVAILABLE) == 168
    await small.stop()


async def test_accounts_in_memory_are_capped(world: World) -> None:
    """The least recently used leave; what is held stays."""
    world.config = AccountsConfig(activations_max=10)
    shard = await world.shard()
    proofs = [await world.customer(shard, pubkey_of(str(number)), 10) for number in range(9)]
    shard.hold_now(hold(1, 5, proof=proofs[0]))
    for number in range(20):
        await world.customer(shard, pubkey_of(f"more {number}"), 10)
        world.clock.advance(1)
    health = await shard.health()
    assert health["accounts"] <= 10
    reply = shard.hold_now(hold(2, 5, proof=proofs[0]))
    assert isinstance(reply, HoldReply) and reply.figures is not None and reply.figures.credits_remaining == 0
    await shard.stop()


async def test_idle_accounts_leave_memory(world: World, shard: AccountShard) -> None:
    proof = await world.customer(shard, ALICE, 10)
    other = await world.customer(shard, BOB, 10)
    world.clock.advance(880)
    shard.hold_now(hold(1, 5, proof=other))
    world.clock.advance(21)
    await shard.tick()
    assert (await shard.health())["accounts"] == 1
    assert (await ask(shard.hold_now, hold(2, 5, proof=proof))).verdicts == (None,)


async def test_a_nonce_is_usable_once_and_kept_before_the_call_is_admitted(world: World, shard: AccountShard) -> None:
    """Threats 2 and 4, money rule 11: one of two is admitted; a restart forgets none; asking again is known."""
    await world.customer(shard, ALICE, 100)
    proof = world.wallet(ALICE)
    one, two = await asyncio.gather(
        ask(shard.hold_now, hold(1, 5, proof=proof)), ask(shard.hold_now, hold(2, 5, proof=proof))
    )
    assert one.verdicts == (None,)
    assert two.refusal == "NONCE_REUSED"
    successor = await world.shard()
    replay = await ask(successor.hold_now, hold(3, 5, proof=proof))
    assert replay.refusal == "NONCE_REUSED"
    # The replica sends the admitted request again, because its owner went away: the same call, not a replay.
    again = await ask(successor.hold_now, hold(1, 5, proof=proof))
    assert again.verdicts == (None,)
    await successor.stop()


async def test_nonces_that_wait_go_in_one_pipeline(world: World, shard: AccountShard) -> None:
    await world.customer(shard, ALICE, 100)
    await ask(shard.hold_now, hold(1, 1, proof=world.wallet(ALICE)))
    world.identity.pipelines = 0
    await asyncio.gather(*(ask(shard.hold_now, hold(number, 1, proof=world.wallet(ALICE))) for number in range(2, 60)))
    assert world.identity.pipelines <= 2


async def test_without_redis_signed_calls_are_refused_and_keys_go_on(world: World, shard: AccountShard) -> None:
    """Design, "What must survive what": a replay could not be refused. Nothing stays held. The nonce of the first
    request, which may have reached Redis, stays taken; those that are refused at once stay good."""
    proof = await world.customer(shard, ALICE, 100)
    await ask(shard.hold_now, hold(1, 5, proof=world.wallet(ALICE)))
    session = await shard.ask(OpenSession(ALICE, b"challenge", world.clock.now()))
    assert session.value is not None
    world.identity.away = True
    signed = world.wallet(ALICE)
    reply = await ask(shard.hold_now, hold(2, 5, proof=signed))
    assert (reply.refusal, reply.figures.credits_remaining) == (UNAVAILABLE, 95)
    assert (await ask(shard.hold_now, hold(3, 5, proof=proof))).figures.credits_remaining == 90
    unused = world.wallet(ALICE)
    assert (await shard.ask(ReadAccount(unused))).refusal == UNAVAILABLE
    assert (await shard.ask(ReadAccount(proof))).refusal is None
    world.identity.away = False
    world.clock.advance(1)
    assert (await ask(shard.hold_now, hold(4, 5, proof=signed))).refusal == "NONCE_REUSED"
    assert (await ask(shard.hold_now, hold(5, 5, proof=unused))).verdicts == (None,)


async def test_a_fresh_shard_serves_keys_without_redis(world: World, shard: AccountShard) -> None:
    """Loading an account for a key needs no nonces."""
    proof = await world.customer(shard, ALICE, 100)
    successor = await world.shard()
    world.identity.away = True
    assert (await ask(successor.hold_now, hold(1, 5, proof=proof))).verdicts == (None,)
    assert (await ask(successor.hold_now, hold(2, 5, proof=world.wallet(ALICE)))).refusal == UNAVAILABLE
    await successor.stop()


async def test_the_low_balance_is_told_with_the_charge_that_caused_it(world: World, shard: AccountShard) -> None:
    """Interface, "Lifecycle events": falling from at least 1,000 to below, not every charge below."""
    proof = await world.customer(shard, ALICE, 1_002)
    for number, charged in enumerate((2, 1, 5)):
        shard.hold_now(hold(number, charged, proof=proof))
        result = shard.settle_now(settle(number, charged))
        await answered(result)
    assert [event.balance for event in world.events if isinstance(event, LowBalance)] == [999]


async def test_refunds_around_the_mark_tell_no_second_low_balance(world: World, shard: AccountShard) -> None:
    """Interface, "Lifecycle events", with hysteresis: told again only after credits were added."""
    proof = await world.customer(shard, ALICE, 1_002)

    async def charge(number: int, charged: int) -> None:
        shard.hold_now(hold(number, charged, proof=proof))
        await answered(shard.settle_now(settle(number, charged)))

    for number in range(3):
        await charge(number, 5)
        await answered(shard.void_now(settle(number, 5)))
    told = [event.balance for event in world.events if isinstance(event, LowBalance)]
    assert told == [997]
    await shard.ask(AdjustCredits(ALICE, 10, "more", "more"))
    await charge(3, 20)
    told = [event.balance for event in world.events if isinstance(event, LowBalance)]
    assert told == [997, 992]


async def test_a_suspended_account_refuses_calls_and_can_be_read(world: World, shard: AccountShard) -> None:
    """Decisions, "account status"."""
    proof = await world.customer(shard, ALICE, 10)
    assert (await shard.ask(SetStatus(ALICE, "suspended", "abuse"))).refusal is None
    reply = await ask(shard.hold_now, hold(1, 5, proof=proof))
    assert reply.refusal == "METHOD_NOT_ALLOWED"
    info = await shard.ask(ReadAccount(proof))
    assert info.value is not None and info.value.status == "suspended"
    await shard.ask(SetStatus(ALICE, "active", ""))
    assert (await ask(shard.hold_now, hold(2, 5, proof=proof))).verdicts == (None,)


async def test_a_request_for_another_owners_account_is_to_be_asked_again(world: World) -> None:
    """A replica that routes by an old table must not make this one act."""
    shard = await world.shard()
    shard.held.drop([shard_of(ALICE)])
    with pytest.raises(OwnerUnavailable):
        await ask(shard.hold_now, hold(1, 5, proof=KeyProof(b"h" * 32, routing_bytes(ALICE))))
    await shard.stop()


async def test_expired_credits_go_by_themselves(world: World, shard: AccountShard) -> None:
    proof = await world.customer(shard, ALICE, 10)
    shard.hold_now(hold(1, 4, proof=proof))
    world.clock.advance(365 * 86_400)
    await shard.tick()
    await run_ready()
    assert balance(world) == 0
    assert [entry.type for entry, _ in world.store.rows[ALICE].entries][-1] == EntryType.EXPIRY
