import asyncio

from msgspec import UNSET

from actors.accounts.actor import AccountShard
from actors.accounts.api import (
    AdjustCredits,
    CloseSession,
    Describe,
    IssueKey,
    OpenSession,
    ReadAccount,
    ReadLedger,
    SetLimits,
    SetStatus,
)
from actors.accounts.ledger import EntryType
from actors.accounts.operations import ChargeOperations
from actors.accounts.referrals import Referral
from actors.calls import SessionProof
from actors.events import ApiKeyRotated
from actors.identity.credentials import key_hash, key_prefix, parse_api_key, token_hash
from actors.units import routing_bytes
from tests.accounts.making import ALICE, BOB, hold, key_proof, settle
from tests.accounts.shards import World, ask, run_ready

UNAVAILABLE = "SERVICE_TEMPORARILY_UNAVAILABLE"


async def test_a_key_opens_an_account_and_replaces_the_one_before(world: World, shard: AccountShard) -> None:
    """Interface, "States and transitions": durable before the answer, the old key invalid with it."""
    await world.store.add_referral(Referral("FRIEND", 500, 0, None, ""))
    first = await shard.ask(IssueKey(world.wallet(ALICE), "FRIEND"))
    assert first.value is not None and first.figures is not None and first.figures.credits_remaining == 0
    row = world.store.rows[ALICE]
    assert (row.profile.key_hash, row.profile.ref_code) == (key_hash(first.value), "FRIEND")
    assert row.profile.key_prefix == key_prefix(first.value)
    assert world.events == []
    second = await shard.ask(IssueKey(world.wallet(ALICE), "LATER"))
    assert second.value is not None
    assert world.store.rows[ALICE].profile.ref_code == "FRIEND"
    (event,) = world.events
    assert isinstance(event, ApiKeyRotated) and event.key_prefix == key_prefix(second.value)
    old, new = parse_api_key(first.value), parse_api_key(second.value)
    assert old is not None and new is not None
    assert (await shard.ask(ReadAccount(old))).refusal == "AUTH_FAILED"
    info = await shard.ask(ReadAccount(new))
    assert info.value is not None and info.value.balance == 0


async def test_a_key_is_issued_to_a_fresh_signature_only(world: World, shard: AccountShard) -> None:
    proof = world.wallet(ALICE)
    assert (await shard.ask(IssueKey(proof))).refusal is None
    assert (await shard.ask(IssueKey(proof))).refusal == "NONCE_REUSED"
    assert (await shard.ask(IssueKey(key_proof()))).refusal == "AUTH_FAILED"
    world.identity.away = True
    assert (await shard.ask(IssueKey(world.wallet(BOB)))).refusal == UNAVAILABLE
    assert BOB not in world.store.rows


async def test_a_key_that_could_not_be_written_is_not_given(world: World, shard: AccountShard) -> None:
    """The old one stays good; asked again, with a fresh signature, it works."""
    old = await world.customer(shard, ALICE, 10)
    world.store.fail = ["before"]
    assert (await shard.ask(IssueKey(world.wallet(ALICE)))).refusal == UNAVAILABLE
    await run_ready()
    assert (await shard.ask(ReadAccount(old))).refusal is None
    assert (await shard.ask(IssueKey(world.wallet(ALICE)))).refusal is None
    assert (await shard.ask(ReadAccount(old))).refusal == "AUTH_FAILED"


async def test_two_first_keys_at_once_open_one_account(world: World, shard: AccountShard) -> None:
    answers = await asyncio.gather(*(shard.ask(IssueKey(world.wallet(ALICE))) for _ in range(2)))
    assert [answer.refusal for answer in answers] == [None, None]
    good = [parse_api_key(answer.value) for answer in answers if answer.value]
    infos = [await shard.ask(ReadAccount(proof)) for proof in good if proof]
    assert sorted(info.refusal or "" for info in infos) == ["", "AUTH_FAILED"]


async def test_sessions_open_once_a_challenge_and_close(world: World, shard: AccountShard) -> None:
    opened = await shard.ask(OpenSession(ALICE, b"challenge", world.clock.now()))
    assert opened.value is not None
    assert (await shard.ask(OpenSession(ALICE, b"challenge", world.clock.now()))).refusal == "AUTH_FAILED"
    proof = SessionProof(token_hash(opened.value), routing_bytes(ALICE))
    assert (await shard.ask(ReadAccount(proof))).refusal == "ACCOUNT_NOT_FOUND"
    await world.customer(shard, ALICE, 10)
    assert (await shard.ask(ReadAccount(proof))).refusal is None
    assert (await shard.ask(CloseSession(proof))).value is True
    assert (await shard.ask(CloseSession(proof))).refusal == "AUTH_FAILED"
    assert (await shard.ask(ReadAccount(proof))).refusal == "AUTH_FAILED"
    assert (await shard.ask(CloseSession(key_proof()))).refusal == "AUTH_FAILED"


async def test_reading_an_account(world: World, shard: AccountShard) -> None:
    """Interface, "Account endpoints": figures, pages newest first, and checked again behind the door."""
    proof = await world.customer(shard, ALICE, 100)
    for number in (1, 2, 3):
        shard.hold_now(hold(number, number, proof=proof))
        await ask(shard.settle_now, settle(number, number))
    info = await shard.ask(ReadAccount(proof))
    assert info.value is not None and info.value.balance == 94 and info.value.total_consumed == 6
    assert (info.figures.credits_remaining, info.figures.rate_limit, info.figures.rate_remaining) == (94, 100, 97)
    ledger = await shard.ask(ReadLedger(proof, 0, 50))
    assert ledger.value is not None
    assert [entry.amount for entry in ledger.value] == [-3, -2, -1, 100]
    history = await shard.ask(ReadLedger(proof, 1, 1, True))
    assert history.value is not None and [-entry.amount for entry in history.value] == [2]
    assert (await shard.ask(ReadLedger(proof, 0, 0))).value == ()
    assert (await shard.ask(ReadLedger(proof, 0, 501))).refusal == "INVALID_REQUEST"
    assert (await shard.ask(ReadLedger(proof, -1, 5, True))).refusal == "INVALID_REQUEST"
    assert (await shard.ask(ReadAccount(world.wallet(BOB)))).refusal == "ACCOUNT_NOT_FOUND"
    assert (await shard.ask(Describe(ALICE))).value == info.value
    assert (await shard.ask(Describe(BOB))).refusal == "ACCOUNT_NOT_FOUND"


async def test_a_reader_is_not_answered_from_what_is_not_written(world: World, shard: AccountShard) -> None:
    """Threat 41."""
    proof = await world.customer(shard, ALICE, 100)
    shard.hold_now(hold(1, 10, proof=proof))
    world.store.gate = asyncio.Event()
    world.store.fail = ["before"]
    shard.settle_now(settle(1, 10))
    reading = [
        asyncio.ensure_future(shard.ask(ReadAccount(proof))),
        asyncio.ensure_future(shard.ask(ReadLedger(proof, 0, 5))),
    ]
    await run_ready()
    assert not any(task.done() for task in reading)
    world.store.gate.set()
    assert [answer.refusal for answer in await asyncio.gather(*reading)] == [UNAVAILABLE, UNAVAILABLE]
    await run_ready()
    info = await shard.ask(ReadAccount(proof))
    assert info.value is not None and info.value.balance == 100


async def test_an_adjustment_is_made_once(world: World, shard: AccountShard) -> None:
    """Idempotent by operation: twice at once, after a lost answer, and much later."""
    both = await asyncio.gather(*(shard.ask(AdjustCredits(ALICE, 50, "gift", "gift-1")) for _ in range(2)))
    told = [(answer.value.already_applied, answer.value.opened) for answer in both if answer.value]
    assert sorted(told) == [(False, True), (True, False)]
    world.store.fail = ["after"]
    assert (await shard.ask(AdjustCredits(ALICE, 7, "gift", "gift-2"))).refusal == UNAVAILABLE
    await run_ready()
    again = await shard.ask(AdjustCredits(ALICE, 7, "gift", "gift-2"))
    assert again.value is not None and again.value.already_applied and again.value.balance == 57
    world.clock.advance(10_000)
    successor = await world.shard()
    later = await successor.ask(AdjustCredits(ALICE, 50, "gift", "gift-1"))
    assert later.value is not None and later.value.already_applied and later.value.amount == 50
    await successor.stop()


async def test_an_adjustment_removes_what_is_there(world: World, shard: AccountShard) -> None:
    assert (await shard.ask(AdjustCredits(BOB, -5, "", "none"))).refusal == "ACCOUNT_NOT_FOUND"
    proof = await world.customer(shard, ALICE, 50)
    shard.hold_now(hold(1, 30, proof=proof))
    removed = await shard.ask(AdjustCredits(ALICE, -500, "chargeback", "back"))
    assert removed.value is not None and (removed.value.amount, removed.value.balance) == (-20, 30)
    assert (await shard.ask(AdjustCredits(ALICE, -1, "", "more"))).refusal == "INSUFFICIENT_CREDITS"
    assert (await shard.ask(AdjustCredits(ALICE, 0, "", "zero"))).refusal == "INVALID_REQUEST"
    assert world.store.rows[ALICE].entries[-1][0].type == EntryType.ADJUSTMENT


async def test_limits_and_status_last(world: World, shard: AccountShard) -> None:
    proof = await world.customer(shard, ALICE, 50)
    assert (await shard.ask(SetLimits(ALICE, 9, 7))).value is not None
    kept = (await shard.ask(SetLimits(ALICE, 3, UNSET))).value
    assert kept is not None and (kept.requests_per_second, kept.concurrency) == (3, 7)
    back = (await shard.ask(SetLimits(ALICE, UNSET, None))).value
    assert back is not None and (back.requests_per_second, back.concurrency) == (3, 64)
    assert (await shard.ask(SetStatus(ALICE, "suspended", ""))).value is not None
    successor = await world.shard()
    info = await successor.ask(ReadAccount(proof))
    assert info.value is not None and (info.value.status, info.figures.rate_limit) == ("suspended", 3)
    assert (await successor.ask(SetLimits(ALICE, 0, None))).refusal == "INVALID_REQUEST"
    assert (await successor.ask(SetStatus(ALICE, "closed", ""))).refusal == "INVALID_REQUEST"
    assert (await successor.ask(SetLimits(BOB, 1, 1))).refusal == "ACCOUNT_NOT_FOUND"
    assert (await successor.ask(SetStatus(BOB, "active", ""))).refusal == "ACCOUNT_NOT_FOUND"
    await successor.stop()


async def test_work_that_is_done_is_charged_once_for_each_operation(world: World, shard: AccountShard) -> None:
    """money rules 1 and 3: asked again, or of a successor, it costs nothing more; what the credits do not
    cover is said, and charged once they do."""
    await world.customer(shard, ALICE, 3)
    names = tuple(bytes([number]) * 16 for number in range(5))

    async def charge(by: AccountShard, *operations: bytes) -> tuple[bool, ...] | str | None:
        reply = await by.ask(ChargeOperations(ALICE, operations, "webhook", 1))
        return reply.refusal or reply.value

    assert await charge(shard, *names[:2]) == (True, True)
    assert await charge(shard, *names) == (True, True, True, False, False)
    successor = await world.shard()
    assert await charge(successor, *names) == (True, True, True, False, False)
    await successor.ask(AdjustCredits(ALICE, 1, "more", "more"))
    assert await charge(successor, names[4], names[3]) == (True, False)
    entries = await world.store.entries(ALICE, 0, 10, True)
    assert [(entry.method, entry.amount) for entry in entries] == [("webhook", -1)] * 4
    assert await charge(successor, b"short") == "INVALID_REQUEST"
    await successor.ask(SetStatus(ALICE, "suspended", "abuse"))
    assert await charge(successor, names[0]) == "METHOD_NOT_ALLOWED"
    assert (await successor.ask(ChargeOperations(BOB, names, "webhook", 1))).refusal == "ACCOUNT_NOT_FOUND"
    await successor.stop()
