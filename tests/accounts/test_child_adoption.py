"""Keys that were made offline, at an owner with stores in memory."""

import asyncio

import pytest

from actors.accounts import child_adoption, named_keys
from actors.accounts.actor import AccountShard
from actors.accounts.key_requests import ChangeKey, CreateKey, DeleteKey, KeyState, ListKeys, RotateKey
from actors.accounts.named_keys import KeyLimits
from actors.calls import HoldItem, HoldReply, HoldRequest, KeyProof, SettleRequest
from actors.identity.credentials import new_api_key, parse_api_key
from ledger_gateway.keys import narrow
from tests.accounts.making import ALICE, BOB, operation
from tests.accounts.shards import World, ask, run_ready
from tests.accounts.test_key_commands import made, refusal_of, value_of


def proof_of(text: str) -> KeyProof:
    proof = parse_api_key(text)
    assert proof is not None
    return proof


async def held(shard: AccountShard, number: int, text: str, *credits: int) -> HoldReply:
    items = tuple(HoldItem("getSlot", each) for each in credits or (1,))
    reply: HoldReply = await ask(shard.hold_now, HoldRequest(operation(number), proof_of(text), items))
    return reply


async def children(shard: AccountShard, parent: int = 1) -> list[KeyState]:
    return list(await value_of(shard, ListKeys(ALICE, parent=parent)))


@pytest.fixture
async def root(world: World, shard: AccountShard) -> str:
    await world.customer(shard, ALICE, 100_000)
    return (await made(shard, KeyLimits(credits_total=50))).text


async def test_a_child_spends_from_all_above_it(shard: AccountShard, root: str) -> None:
    child = narrow(root, "child", credits_total=30)
    grandchild = narrow(child, "grandchild", credits_total=20)
    first = await held(shard, 1, grandchild, 15, 6)
    assert (first.verdicts, first.key) == ((None, "KEY_BUDGET_EXCEEDED"), 3)
    assert first.figures is not None and first.figures.credits_remaining == 5
    assert (await held(shard, 3, child, 15, 1)).verdicts == (None, "KEY_BUDGET_EXCEEDED")
    assert (await held(shard, 5, root, 20, 1)).verdicts == (None, "KEY_BUDGET_EXCEEDED")
    (one,) = await children(shard)
    (two,) = await children(shard, one.number)
    assert [(each.name, each.held, each.parent) for each in (one, two)] == [("child", 30, 1), ("grandchild", 15, 2)]
    assert [each.name for each in await value_of(shard, ListKeys(ALICE))] == ["bot"]  # What the wallet has made.


async def test_a_child_is_itself_whoever_presents_it_first(world: World, shard: AccountShard, root: str) -> None:
    """Known by a grandchild first, by its own text later, and by a successor: one key with one budget."""
    child = narrow(root, "child", credits_total=10)
    grandchild = narrow(child, "grandchild")
    assert (await held(shard, 1, grandchild, 4)).verdicts == (None,)
    own = await held(shard, 2, child, 6, 1)
    assert (own.verdicts, own.key) == ((None, "KEY_BUDGET_EXCEEDED"), 2)
    settle = SettleRequest(operation(2), ALICE, own.epoch, "getSlot", 6, 6, 0, world.clock.now(), key=own.key)
    assert (await ask(shard.settle_now, settle)).ok
    successor = await world.shard()
    assert (await held(successor, 4, child, 5)).verdicts == ("KEY_BUDGET_EXCEEDED",)
    assert (await held(successor, 5, grandchild, 4)).verdicts == (None,)
    assert len(world.store.rows[ALICE].keys) == 3
    await successor.stop()


@pytest.mark.parametrize("end", ["frozen", "deleted", "rotated", "expired"])
async def test_a_child_ends_with_what_it_was_made_from(world: World, shard: AccountShard, root: str, end: str) -> None:
    child = narrow(root, "child")
    known, fresh = narrow(child, "known"), narrow(child, "fresh")
    assert (await held(shard, 1, known)).verdicts == (None,)
    if end == "frozen":
        await value_of(shard, ChangeKey(ALICE, 1, is_frozen=True))
    elif end == "deleted":
        await value_of(shard, DeleteKey(ALICE, 1))
    elif end == "rotated":
        await value_of(shard, RotateKey(ALICE, 1, 0))
    else:
        await value_of(shard, ChangeKey(ALICE, 1, limits={"expires_at": world.clock.now()}))
    for number, text in enumerate((known, fresh, child), 2):  # Also those that nobody has presented yet.
        assert (await held(shard, number, text)).refusal == "AUTH_FAILED"


async def test_children_of_a_rotated_key_have_its_grace(world: World, shard: AccountShard, root: str) -> None:
    known, fresh = narrow(root, "known"), narrow(root, "fresh")
    await held(shard, 1, known)
    new = await value_of(shard, RotateKey(ALICE, 1, 60))
    for number, text in enumerate((known, fresh, narrow(new.text, "new")), 2):
        assert (await held(shard, number, text)).verdicts == (None,)
    world.clock.advance(61)
    for number, text in enumerate((known, fresh), 6):
        assert (await held(shard, number, text)).refusal == "AUTH_FAILED"
    assert (await held(shard, 9, narrow(new.text, "another"))).verdicts == (None,)


async def test_a_child_is_not_rotated(world: World, shard: AccountShard, root: str) -> None:
    """A new text of the wallet's could not be narrowed."""
    child = narrow(root, "child")
    await held(shard, 1, child)
    before = dict(world.store.rows[ALICE].keys)
    assert await refusal_of(shard, RotateKey(ALICE, 2, 0)) == "INVALID_REQUEST"
    assert world.store.rows[ALICE].keys == before
    assert (await held(shard, 2, narrow(child, "grandchild"))).verdicts == (None,)


async def test_one_child_alone_can_be_ended(shard: AccountShard, root: str) -> None:
    one, two = narrow(root, "one"), narrow(root, "two")
    for number, text in ((1, one), (2, two), (3, narrow(one, "of one"))):
        await held(shard, number, text)
    await value_of(shard, DeleteKey(ALICE, 2))
    assert (await held(shard, 4, one)).refusal == (await held(shard, 5, narrow(one, "more"))).refusal == "AUTH_FAILED"
    assert (await held(shard, 6, two)).verdicts == (None,)


async def test_limits_of_a_child_are_its_own_word_and_its_parents(shard: AccountShard, root: str) -> None:
    await value_of(shard, ChangeKey(ALICE, 1, limits={"methods": ("getSlot", "getBlock")}))
    child = narrow(root, "child", methods=["getSlot", "READ_HEAVY", "STREAMS"])
    calls = tuple(HoldItem(name, 1) for name in ("getSlot", "getBlock", "logsSubscribe", "getVersion"))
    reply = await ask(shard.hold_now, HoldRequest(operation(1), proof_of(child), calls))
    assert reply.verdicts == (None, None, "METHOD_NOT_ALLOWED", "METHOD_NOT_ALLOWED")
    assert (await held(shard, 9, narrow(root, "over", expires_at=1))).refusal == "AUTH_FAILED"


async def test_what_nobody_made_is_refused(world: World, shard: AccountShard, root: str) -> None:
    await world.customer(shard, BOB, 100)
    forged = new_api_key(ALICE, b"x" * 24)  # A key of her form that she never had.
    texts = [narrow(forged, "child"), narrow(root, "child", budget=1), narrow(root, "child")[:-40]]
    for number, text in enumerate(texts):
        proof = proof_of(text)
        for _ in range(2):
            reply = await ask(shard.hold_now, HoldRequest(operation(number), proof, (HoldItem("getSlot", 1),)))
            assert reply.refusal == "AUTH_FAILED"
    stolen = proof_of(narrow(root, "child"))
    other = KeyProof(stolen.key_hash, proof_of(new_api_key(BOB, b"y" * 24)).routing, child=stolen.child)
    reply = await ask(shard.hold_now, HoldRequest(operation(9), other, (HoldItem("getSlot", 1),)))
    assert reply.refusal == "AUTH_FAILED"
    assert len(world.store.rows[ALICE].keys) == 1


async def test_a_child_begins_nothing_before_it_is_durable(world: World, shard: AccountShard, root: str) -> None:
    """Two requests with it at once, too: a successor must know the number that a replica was told."""
    child = narrow(root, "child", credits_total=10)
    world.store.gate = asyncio.Event()
    asking = [asyncio.ensure_future(held(shard, number, child, 6)) for number in (1, 2)]
    await run_ready()
    assert not any(each.done() for each in asking)
    world.store.gate.set()
    replies = await asyncio.gather(*asking)
    assert sorted(str(reply.verdicts[0]) for reply in replies) == ["KEY_BUDGET_EXCEEDED", "None"]
    assert {reply.key for reply in replies} == {2}


async def test_a_child_that_could_not_be_written_is_taken_up_again(
    world: World, shard: AccountShard, root: str
) -> None:
    child = narrow(root, "child")
    world.store.fail = ["before"]
    assert (await held(shard, 1, child)).refusal == "SERVICE_TEMPORARILY_UNAVAILABLE"
    for _ in range(5):
        await run_ready()
        await world.pauses.end()
    assert (await held(shard, 2, child)).verdicts == (None,)
    assert len(world.store.rows[ALICE].keys) == 2


async def test_a_number_that_never_became_durable_is_charged_to_nobody(
    shard: AccountShard, root: str, world: World
) -> None:
    late = SettleRequest(operation(1), ALICE, 1, "getSlot", 5, 5, 0, world.clock.now(), key=7)
    assert not (await ask(shard.settle_now, late)).ok


async def test_an_account_has_only_so_many_keys(
    shard: AccountShard, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one key's children, in bad hands, leave room for those of others, and for the wallet's keys."""
    monkeypatch.setattr(named_keys, "CHILDREN_MAX", 3)
    monkeypatch.setattr(named_keys, "CHILDREN_OF_ONE_MAX", 2)
    one = narrow(root, "one")
    known = narrow(one, "two")
    assert (await held(shard, 1, known)).verdicts == (None,)
    assert (await held(shard, 2, narrow(root, "three"))).refusal == "AUTH_FAILED"
    assert (await held(shard, 3, one)).verdicts == (None,)  # It is there already.
    other = (await made(shard, name="other")).text
    assert (await held(shard, 4, narrow(other, "four"))).verdicts == (None,)
    fifth = narrow(other, "five")
    assert (await held(shard, 5, fifth)).refusal == "AUTH_FAILED"
    with monkeypatch.context() as counting:  # A refused text is not checked again and again.
        counting.setattr(child_adoption, "read_child", lambda text: pytest.fail("it was read again"))
        assert (await held(shard, 6, fifth)).refusal == "AUTH_FAILED"
    monkeypatch.setattr(named_keys, "KEYS_EVER_MAX", 2)
    assert (await shard.ask(CreateKey(ALICE, "more", KeyLimits()))).refusal == "INVALID_REQUEST"
