"""Commands on named keys, at an owner with stores in memory."""

import asyncio
from typing import Any

import pytest

from actors.accounts import named_keys
from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, Command, OwnerReply
from actors.accounts.key_requests import ChangeKey, CreateKey, DeleteKey, KeyState, ListKeys, NewKey, RotateKey
from actors.accounts.named_keys import KeyLimits
from actors.calls import HoldItem, HoldReply, HoldRequest, KeyProof, ProvenProof, SettleRequest
from actors.identity.credentials import parse_api_key
from tests.accounts.making import ALICE, BOB, operation
from tests.accounts.shards import World, ask, run_ready


def proof_of(new: NewKey) -> KeyProof:
    proof = parse_api_key(new.text)
    assert proof is not None
    return proof


async def value_of(shard: AccountShard, command: Command[Any]) -> Any:
    reply = await shard.ask(command)
    assert reply.refusal is None, reply
    return reply.value


async def refusal_of(shard: AccountShard, command: Command[Any]) -> str:
    reply: OwnerReply[Any] = await shard.ask(command)
    assert reply.value is None and reply.detail, reply
    return str(reply.refusal)


async def held(shard: AccountShard, number: int, proof: KeyProof | ProvenProof, credits: int = 1) -> HoldReply:
    reply: HoldReply = await ask(shard.hold_now, HoldRequest(operation(number), proof, (HoldItem("getSlot", credits),)))
    return reply


async def made(shard: AccountShard, limits: KeyLimits = KeyLimits(), name: str = "bot") -> NewKey:  # noqa: B008
    new: NewKey = await value_of(shard, CreateKey(ALICE, name, limits))
    return new


@pytest.fixture
async def opened(world: World, shard: AccountShard) -> AccountShard:
    await world.customer(shard, ALICE, 1_000)
    return shard


async def test_a_new_key_calls_within_its_budget_and_beside_the_accounts_own(opened: AccountShard) -> None:
    new = await made(opened, KeyLimits(credits_total=10))
    assert new.text.startswith("srpc_live_") and new.state.prefix and new.text.startswith(new.state.prefix)
    reply = await held(opened, 1, proof_of(new), 10)
    assert (reply.verdicts, reply.key, reply.payer) == ((None,), 1, ProvenProof(ALICE, 1))
    assert reply.figures is not None and reply.figures.credits_remaining == 0
    refused = await held(opened, 2, proof_of(new))
    assert refused.verdicts == ("KEY_BUDGET_EXCEEDED",) and refused.refusal is None
    assert (await held(opened, 3, ProvenProof(ALICE), 900)).verdicts == (None,)


async def test_a_key_and_what_it_has_spent_outlive_their_owner(world: World, opened: AccountShard) -> None:
    new = await made(opened, KeyLimits(credits_total=10))
    reply = await held(opened, 1, proof_of(new), 6)
    settle = SettleRequest(operation(1), ALICE, reply.epoch, "getSlot", 6, 6, 0, world.clock.now(), key=reply.key)
    assert (await ask(opened.settle_now, settle)).ok
    successor = await world.shard()
    assert (await held(successor, 2, proof_of(new), 5)).verdicts == ("KEY_BUDGET_EXCEEDED",)
    assert (await held(successor, 3, proof_of(new), 4)).verdicts == (None,)
    (state,) = await value_of(successor, ListKeys(ALICE))
    assert (state.spent_total, state.spent_today, state.held) == (6, 6, 4)
    await successor.stop()


async def test_a_successor_charges_the_key_of_a_hold_that_it_does_not_know(world: World, opened: AccountShard) -> None:
    new = await made(opened, KeyLimits(credits_total=10))
    first, second = await held(opened, 1, proof_of(new), 8), await held(opened, 9, ProvenProof(ALICE), 8)
    successor = await world.shard()
    late = SettleRequest(operation(1), ALICE, first.epoch, "getSlot", 8, 8, 0, world.clock.now(), key=first.key)
    assert (await ask(successor.settle_now, late)).ok
    own = SettleRequest(operation(9), ALICE, second.epoch, "getSlot", 8, 8, 0, world.clock.now(), key=second.key)
    assert (await ask(successor.settle_now, own)).ok
    other = SettleRequest(operation(5), ALICE, first.epoch, "getSlot", 8, 8, 0, world.clock.now(), key=1)
    assert not (await ask(successor.settle_now, other)).ok  # Only 2 credits of the budget are left.
    (state,) = await value_of(successor, ListKeys(ALICE))
    assert state.spent_total == 8
    await successor.stop()


async def test_a_frozen_key_begins_nothing_and_ends_what_it_began(world: World, opened: AccountShard) -> None:
    new = await made(opened)
    reply = await held(opened, 1, proof_of(new), 5)
    state = await value_of(opened, ChangeKey(ALICE, 1, is_frozen=True))
    assert state.status == "frozen"
    for proof in (proof_of(new), ProvenProof(ALICE, 1)):
        assert (await held(opened, 2, proof)).refusal == "AUTH_FAILED"
    settle = SettleRequest(operation(1), ALICE, reply.epoch, "getSlot", 5, 5, 0, world.clock.now(), key=1)
    assert (await ask(opened.settle_now, settle)).ok
    await value_of(opened, ChangeKey(ALICE, 1, is_frozen=False))
    assert (await held(opened, 3, proof_of(new))).verdicts == (None,)


async def test_a_deleted_key_is_gone_for_good_and_its_number_and_name_tell_nothing(
    world: World, opened: AccountShard
) -> None:
    new = await made(opened)
    assert (await value_of(opened, DeleteKey(ALICE, 1))).status == "deleted"
    assert (await held(opened, 1, proof_of(new))).refusal == "AUTH_FAILED"
    assert await value_of(opened, ListKeys(ALICE)) == ()
    for command in (DeleteKey(ALICE, 1), ChangeKey(ALICE, 1, is_frozen=False), RotateKey(ALICE, 1, 0)):
        assert await refusal_of(opened, command) == "NOT_FOUND"
    again = await made(opened)  # Of the same name: another key.
    assert again.state.number == 2
    successor = await world.shard()
    assert (await held(successor, 2, proof_of(new))).refusal == "AUTH_FAILED"
    assert (await held(successor, 3, proof_of(again))).verdicts == (None,)
    await successor.stop()


async def test_a_rotated_key_keeps_its_budget_and_the_former_text_its_grace(world: World, opened: AccountShard) -> None:
    old = await made(opened, KeyLimits(credits_total=10))
    await held(opened, 1, proof_of(old), 4)
    new = await value_of(opened, RotateKey(ALICE, 1, 60))
    assert new.text != old.text and new.state.old_until == world.clock.now() + 60
    assert (await held(opened, 2, proof_of(old), 3)).verdicts == (None,)
    assert (await held(opened, 3, proof_of(new), 4)).verdicts == ("KEY_BUDGET_EXCEEDED",)
    world.clock.advance(61)
    assert (await held(opened, 4, proof_of(old))).refusal == "AUTH_FAILED"
    assert (await held(opened, 5, proof_of(new))).verdicts == (None,)
    await value_of(opened, RotateKey(ALICE, 1, 0))
    for number, text in ((6, old), (7, new)):
        assert (await held(opened, number, proof_of(text))).refusal == "AUTH_FAILED"


async def test_limits_change_one_by_one_and_what_was_spent_stays(opened: AccountShard) -> None:
    new = await made(opened, KeyLimits(credits_total=10, methods=("getSlot",)))
    await held(opened, 1, proof_of(new), 10)
    state = await value_of(opened, ChangeKey(ALICE, 1, name="larger", limits={"credits_total": 12}))
    assert (state.name, state.limits.credits_total, state.limits.methods) == ("larger", 12, ("getSlot",))
    assert (await held(opened, 2, proof_of(new), 3)).verdicts == ("KEY_BUDGET_EXCEEDED",)
    assert (await held(opened, 3, proof_of(new), 2)).verdicts == (None,)
    await value_of(opened, ChangeKey(ALICE, 1, limits={"credits_total": 3}))  # Less than it has: nothing more.
    assert (await held(opened, 4, proof_of(new))).verdicts == ("KEY_BUDGET_EXCEEDED",)
    await value_of(opened, ChangeKey(ALICE, 1, limits={"credits_total": None}))
    assert (await held(opened, 5, proof_of(new), 50)).verdicts == (None,)


@pytest.mark.parametrize(
    "command",
    [
        CreateKey(ALICE, "", KeyLimits()),
        CreateKey(ALICE, "bot", KeyLimits()),  # There is one of this name.
        CreateKey(ALICE, "other", KeyLimits(methods=("nothing",))),
        ChangeKey(ALICE, 1, name="x" * 65),
        ChangeKey(ALICE, 1, limits={"credits_a_day": -1}),
        ChangeKey(ALICE, 2, name="bot"),  # The name of the first.
        RotateKey(ALICE, 1, -1),
        RotateKey(ALICE, 1, 86_401),
    ],
)
async def test_what_cannot_be_is_refused_and_changes_nothing(opened: AccountShard, command: Command[Any]) -> None:
    await made(opened)
    await made(opened, name="second")
    before = await value_of(opened, ListKeys(ALICE))
    assert await refusal_of(opened, command) == "INVALID_REQUEST"
    assert await value_of(opened, ListKeys(ALICE)) == before


async def test_an_account_has_room_for_so_many_keys(opened: AccountShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_keys, "KEYS_MAX", 2)
    await made(opened, name="one")
    await made(opened, name="two")
    assert await refusal_of(opened, CreateKey(ALICE, "three", KeyLimits())) == "INVALID_REQUEST"
    await value_of(opened, DeleteKey(ALICE, 1))
    await made(opened, name="three")


async def test_two_that_are_made_at_once_have_numbers_of_their_own(opened: AccountShard) -> None:
    both = await asyncio.gather(*(opened.ask(CreateKey(ALICE, name, KeyLimits())) for name in ("a", "b", "a")))
    assert [reply.value.state.number for reply in both if isinstance(reply.value, NewKey)] == [1, 2]
    assert both[2].refusal == "INVALID_REQUEST"


async def test_a_named_key_is_told_of_itself_alone(opened: AccountShard) -> None:
    await made(opened, name="one")
    await made(opened, name="two")
    states: tuple[KeyState, ...] = await value_of(opened, ListKeys(ALICE, 2))
    assert [state.name for state in states] == ["two"]


async def test_there_are_no_keys_without_an_account(opened: AccountShard) -> None:
    reply = await opened.ask(CreateKey(BOB, "bot", KeyLimits()))
    assert reply.refusal == "ACCOUNT_NOT_FOUND"


async def test_a_key_is_told_when_it_is_durable(world: World, opened: AccountShard) -> None:
    world.store.gate = asyncio.Event()
    making = asyncio.ensure_future(opened.ask(CreateKey(ALICE, "bot", KeyLimits())))
    await run_ready()
    assert not making.done()
    world.store.gate.set()
    assert (await making).value is not None


async def test_a_key_that_could_not_be_written_is_no_key(world: World, opened: AccountShard) -> None:
    world.store.fail = ["before"]
    reply = await opened.ask(CreateKey(ALICE, "bot", KeyLimits()))
    assert reply.refusal == "SERVICE_TEMPORARILY_UNAVAILABLE"
    await run_ready()
    assert (await value_of(opened, AdjustCredits(ALICE, 1, "", "after"))).amount == 1
    assert await value_of(opened, ListKeys(ALICE)) == ()
