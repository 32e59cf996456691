"""Keys that were made offline, at an owner with stores in memory."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from typing import Any

import msgspec
import pytest

from actors.accounts import activations, child_adoption, named_keys
from actors.accounts.account import Account, Moment
from actors.accounts.actor import AccountShard
from actors.accounts.api import ReadAccount, SetStatus
from actors.accounts.child_admission import Adoption, decide_adoption
from actors.accounts.child_keys import ChildBlock, ChildKey, root_public
from actors.accounts.key_requests import ChangeKey, CreateKey, DeleteKey, KeyState, ListKeys, RotateKey
from actors.accounts.named_keys import KeyLimits
from actors.calls import HoldItem, HoldReply, HoldRequest, KeyProof, ProvenProof, SettleRequest
from actors.identity.credentials import KEY_PREFIX, new_api_key, parse_api_key
from actors.units import ROUTING_BYTES, routing_bytes, virtual_shard
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


def rows(world: World) -> int:
    return len(world.store.rows[ALICE].keys)


def moved_to(pubkey: bytes, text: str) -> str:
    """The same child with the routing bytes of another account."""
    raw = urlsafe_b64decode(text.removeprefix(KEY_PREFIX) + "==")
    return KEY_PREFIX + urlsafe_b64encode(routing_bytes(pubkey) + raw[ROUTING_BYTES:]).decode().rstrip("=")


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
    before = rows(world)
    for number, text in enumerate((known, fresh, child), 2):  # Also those that nobody has presented yet.
        assert (await held(shard, number, text)).refusal == "AUTH_FAILED"
    assert rows(world) == before  # A thief's children would use up the room of the wallet's own.


async def test_children_of_a_rotated_key_have_its_grace(world: World, shard: AccountShard, root: str) -> None:
    known, fresh = narrow(root, "known"), narrow(root, "fresh")
    await held(shard, 1, known)
    new = await value_of(shard, RotateKey(ALICE, 1, 60))
    for number, text in enumerate((known, fresh, narrow(new.text, "new")), 2):
        assert (await held(shard, number, text)).verdicts == (None,)
    world.clock.advance(61)
    for number, text in enumerate((known, fresh), 6):
        assert (await held(shard, number, text)).refusal == "AUTH_FAILED"
    before = rows(world)
    for number in range(9, 12):
        assert (await held(shard, number, narrow(root, f"late {number}"))).refusal == "AUTH_FAILED"
    assert rows(world) == before
    assert (await held(shard, 12, narrow(new.text, "another"))).verdicts == (None,)


@pytest.mark.parametrize("end", ["frozen", "deleted", "expired"])
async def test_a_child_that_has_ended_has_no_more_children(
    world: World, shard: AccountShard, root: str, end: str
) -> None:
    child = narrow(root, "child")
    await held(shard, 1, child)
    if end == "deleted":
        await value_of(shard, DeleteKey(ALICE, 2))
    elif end == "frozen":
        await value_of(shard, ChangeKey(ALICE, 2, is_frozen=True))
    else:
        await value_of(shard, ChangeKey(ALICE, 2, limits={"expires_at": world.clock.now()}))
    before = rows(world)
    for number in range(2, 5):
        assert (await held(shard, number, narrow(child, f"more {number}"))).refusal == "AUTH_FAILED"
    assert rows(world) == before


@pytest.mark.parametrize(
    "limits", [{"expires_at": 1}, {"addresses": ["10.0.0.1"]}, {"origins": ["https://app.example"]}]
)
async def test_a_child_whose_own_limits_refuse_the_request_is_not_recorded(
    world: World, shard: AccountShard, root: str, limits: dict[str, Any]
) -> None:
    refused = narrow(root, "refused", **limits)
    for number, text in enumerate((refused, narrow(refused, "grandchild"), narrow(refused, "another")), 1):
        assert (await held(shard, number, text)).refusal == "AUTH_FAILED"
    assert rows(world) == 1


async def test_a_request_from_elsewhere_does_not_shut_the_right_place_out(
    world: World, shard: AccountShard, root: str
) -> None:
    """And a child that came while its named key was frozen is good as soon as that is not."""
    await value_of(shard, ChangeKey(ALICE, 1, limits={"addresses": ("10.0.0.1",)}))
    child = proof_of(narrow(root, "child"))
    frozen = proof_of(narrow(root, "other"))
    for number, address in ((1, "10.0.0.2"), (2, "10.0.0.1")):
        proof = msgspec.structs.replace(child, address=address)
        reply = await ask(shard.hold_now, HoldRequest(operation(number), proof, (HoldItem("getSlot", 1),)))
        assert (reply.refusal is None) == (address == "10.0.0.1"), reply
    for is_frozen in (True, False):
        await value_of(shard, ChangeKey(ALICE, 1, is_frozen=is_frozen))
        proof = msgspec.structs.replace(frozen, address="10.0.0.1")
        reply = await ask(shard.hold_now, HoldRequest(operation(3), proof, (HoldItem("getSlot", 1),)))
        assert (reply.refusal is None) != is_frozen, reply


@pytest.mark.parametrize("lack", ["METHOD_NOT_ALLOWED", "RATE_LIMITED", "KEY_BUDGET_EXCEEDED", "INSUFFICIENT_CREDITS"])
async def test_a_child_that_could_not_call_is_not_taken_up(
    world: World, shard: AccountShard, root: str, lack: str
) -> None:
    """A row for ever costs what a call costs at least. The refusal is a call's, and ends with its cause."""
    child, unit = narrow(root, "child"), HoldItem("getSlot", 0)
    if lack == "METHOD_NOT_ALLOWED":
        await value_of(shard, SetStatus(ALICE, "suspended", "late"))
    elif lack == "RATE_LIMITED":
        await value_of(shard, ChangeKey(ALICE, 1, limits={"requests_per_second": 2}))
        await ask(shard.hold_now, HoldRequest(operation(100), proof_of(root), (unit, unit)))
    elif lack == "KEY_BUDGET_EXCEEDED":
        await held(shard, 100, root, 50)
    else:
        await ask(shard.hold_now, HoldRequest(operation(100), ProvenProof(ALICE), (HoldItem("getSlot", 100_000),)))
    for number in range(1, 4):
        reply = await held(shard, number, narrow(child, f"made {number}"))
        assert (reply.refusal, reply.pubkey, reply.verdicts) == (lack, ALICE, ())
        assert reply.figures is not None
        if lack not in ("METHOD_NOT_ALLOWED", "RATE_LIMITED"):
            assert reply.figures.credits_remaining == 0
    read = await shard.ask(ReadAccount(proof_of(child)))
    assert read.refusal == lack and read.figures is not None
    assert read.detail == ("this account is suspended" if lack == "METHOD_NOT_ALLOWED" else "")
    assert rows(world) == 1
    world.clock.advance(61)  # Holds end, and another second begins.
    if lack == "METHOD_NOT_ALLOWED":
        await value_of(shard, SetStatus(ALICE, "active", "paid"))
    await shard.tick()
    assert (await held(shard, 9, child)).verdicts == (None,)


async def test_a_child_without_a_budget_of_its_own_is_not_taken_up(
    world: World, shard: AccountShard, root: str
) -> None:
    for number, text in enumerate((narrow(root, credits_total=0), narrow(root, credits_a_day=0)), 1):
        assert (await held(shard, number, text)).refusal == "KEY_BUDGET_EXCEEDED"
    assert rows(world) == 1


async def test_taking_a_child_up_costs_a_unit_of_every_rate_above_it(
    world: World, shard: AccountShard, root: str
) -> None:
    child = narrow(root, "child")
    first = await held(shard, 1, narrow(child, "grandchild"))
    assert first.figures is not None and first.figures.rate_remaining == 98  # It, and its call.
    again = await held(shard, 2, narrow(child, "grandchild"))
    assert again.figures is not None and again.figures.rate_remaining == 96
    limited = (await made(shard, KeyLimits(requests_per_second=2), name="limited")).text
    before = rows(world)
    replies = [await held(shard, number, narrow(limited, f"made {number}")) for number in range(3, 9)]
    assert [reply.refusal for reply in replies] == [None, *["RATE_LIMITED"] * 5]
    assert rows(world) == before + 1
    world.clock.advance(1)
    at_once = await asyncio.gather(*(held(shard, number, narrow(limited, f"made {number}")) for number in range(9, 20)))
    assert sum(reply.refusal is None for reply in at_once) == 2  # Decided and recorded in one turn.
    assert rows(world) == before + 3


async def test_a_child_is_not_rotated(world: World, shard: AccountShard, root: str) -> None:
    """A new text of the wallet's could not be narrowed."""
    child = narrow(root, "child")
    await held(shard, 1, child)
    before = dict(world.store.rows[ALICE].keys)
    assert await refusal_of(shard, RotateKey(ALICE, 2, 0)) == "INVALID_REQUEST"
    assert world.store.rows[ALICE].keys == before
    assert (await held(shard, 2, narrow(child, "grandchild"))).verdicts == (None,)


async def test_a_dropped_account_leaves_nothing_in_memory(world: World, shard: AccountShard, root: str) -> None:
    """Also where it was loaded while a child of it was known by its block alone."""
    child = narrow(root, "child")
    grandchild = narrow(child, "grandchild")
    for texts in ((grandchild,), (grandchild, child)):
        for number, text in enumerate(texts):
            assert (await held(shard, number + 10 * len(texts), text)).verdicts == (None,)
        world.clock.advance(2_000)
        await shard.tick()  # The holds end.
        await run_ready()
        world.clock.advance(2_000)
        await shard.tick()
        assert ALICE not in shard._activations.accounts
    assert shard._activations.by_key == {}


async def test_no_owner_names_the_account_of_a_child_with_other_routing_bytes(world: World, root: str) -> None:
    """A replica would remember the account for every made-up text, and ask its owner."""
    shards = (virtual_shard(routing_bytes(BOB)),)
    assert virtual_shard(routing_bytes(ALICE)) not in shards
    other = await world.shard(shards=shards, index=1)
    reply = await held(other, 1, moved_to(BOB, narrow(root, "child")))
    assert (reply.refusal, reply.pubkey) == ("AUTH_FAILED", b"")
    await other.stop()


async def test_requests_that_wait_share_one_check(
    world: World, shard: AccountShard, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the refusal is remembered (a forged text) or not (a child that is not good yet)."""
    raw = urlsafe_b64decode(narrow(root, "child").removeprefix(KEY_PREFIX) + "==")
    forged = KEY_PREFIX + urlsafe_b64encode(raw[:-100] + bytes([raw[-100] ^ 1]) + raw[-99:]).decode().rstrip("=")
    late = narrow(root, "late", expires_at=1)
    checked = Counter[bytes]()

    def counted(account: Account, child: ChildKey, proof: KeyProof, moment: Moment) -> Adoption:
        checked[proof.key_hash] += 1
        return decide_adoption(account, child, proof, moment)

    monkeypatch.setattr(child_adoption, "decide_adoption", counted)
    for start, text in ((0, forged), (20, late)):
        replies = await asyncio.gather(*(held(shard, start + number, text) for number in range(20)))
        assert {reply.refusal for reply in replies} == {"AUTH_FAILED"}
        assert checked[proof_of(text).key_hash] == 1
    elsewhere = [msgspec.structs.replace(proof_of(forged), address=f"10.0.0.{number}") for number in range(20)]
    world.clock.advance(10)  # What was remembered is forgotten.
    asked = (HoldRequest(operation(50 + n), proof, (HoldItem("getSlot", 1),)) for n, proof in enumerate(elsewhere))
    await asyncio.gather(*(ask(shard.hold_now, request) for request in asked))
    assert checked[proof_of(forged).key_hash] == 2


async def test_a_named_key_is_looked_for_once(
    world: World, shard: AccountShard, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    find_root = world.store.find_root

    async def counted(public: bytes) -> bytes | None:
        asked.append(public)
        return await find_root(public)

    monkeypatch.setattr(world.store, "find_root", counted)
    monkeypatch.setattr(activations, "ROOTS_MAX", 1)
    other = (await made(shard, name="other")).text
    for number, text in enumerate((root, root, other, other, root)):
        assert (await held(shard, number, narrow(text, "child"))).verdicts == (None,)
    assert asked == [root_public(root), root_public(other), root_public(root)]


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
    assert (await held(shard, 9, moved_to(BOB, narrow(root, "child")))).refusal == "AUTH_FAILED"
    assert rows(world) == 1


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
    with monkeypatch.context() as unsigned:  # All blocks that are new count, before a signature is checked.
        unsigned.setattr(named_keys, "CHILDREN_OF_ONE_MAX", 3)
        unsigned.setattr(ChildBlock, "proven_limits", lambda block: pytest.fail("a signature was checked"))
        assert (await held(shard, 7, narrow(narrow(root, "three"), "four"))).refusal == "AUTH_FAILED"
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
