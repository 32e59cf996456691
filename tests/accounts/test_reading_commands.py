"""What a named key may read of its account. What others read: test_commands.py."""

from typing import Any

import msgspec
import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.api import Command, Identify, ReadAccount, ReadLedger, ReadStanding, ReadUsage
from actors.accounts.key_requests import ChangeKey, CreateKey, RotateKey
from actors.accounts.listings import NO_FILTER
from actors.accounts.named_keys import KeyLimits
from actors.calls import KeyProof, ProvenProof
from actors.identity.credentials import parse_api_key
from tests.accounts.making import ALICE
from tests.accounts.shards import World


async def keyed(world: World, shard: AccountShard, limits: KeyLimits) -> KeyProof:
    await world.customer(shard, ALICE, 1_000)
    reply = await shard.ask(CreateKey(ALICE, "bot", limits))
    assert reply.value is not None
    proof = parse_api_key(reply.value.text)
    assert proof is not None
    return proof


def reads(proof: KeyProof) -> list[Command[Any]]:
    return [
        ReadAccount(proof),
        ReadLedger(proof, 0, 10, filter=NO_FILTER),
        ReadLedger(proof, 0, 10, debits_only=True),
        ReadUsage(proof, 0, 1, ("key",)),
    ]


@pytest.mark.parametrize(("methods", "may_read"), [((), True), (("ACCOUNT",), True), (("getSlot",), False)])
async def test_a_key_reads_its_account_where_its_methods_say_so(
    world: World, shard: AccountShard, methods: tuple[str, ...], may_read: bool
) -> None:
    proof = await keyed(world, shard, KeyLimits(methods=methods, credits_total=25))
    for command in reads(proof):
        reply = await shard.ask(command)
        assert reply.refusal == (None if may_read else "METHOD_NOT_ALLOWED")
        assert reply.figures is not None and reply.figures.credits_remaining == 25  # Its own, and no more.
    named = (await shard.ask(Identify(proof))).value
    assert named is not None and (named.key, named.may_read) == (1, may_read)


async def test_a_key_stands_as_its_budget_and_its_account_do(world: World, shard: AccountShard) -> None:
    proof = await keyed(world, shard, KeyLimits(credits_a_day=25))
    for asked in (proof, ProvenProof(ALICE, 1)):
        standing = (await shard.ask(ReadStanding(asked))).value
        assert standing is not None and (standing.balance, standing.available, standing.key) == (25, 25, 1)
    await shard.ask(ChangeKey(ALICE, 1, is_frozen=True))
    for asked in (proof, ProvenProof(ALICE, 1)):  # So open streams of the key end.
        assert (await shard.ask(ReadStanding(asked))).refusal == "AUTH_FAILED"
    own = (await shard.ask(ReadStanding(ProvenProof(ALICE)))).value
    assert own is not None and (own.balance, own.key) == (1_000, 0)


async def test_an_open_stream_is_asked_about_without_the_place_that_its_key_is_bound_to(
    world: World, shard: AccountShard
) -> None:
    """The place was judged when it opened. All else of its key ends it: its text's grace, its end, the budget, the
    wallet."""
    limits = KeyLimits(addresses=("203.0.113.0/24",), origins=("https://a.example",), expires_at=world.clock.now() + 90)
    proof = await keyed(world, shard, msgspec.structs.replace(limits, credits_total=25))

    async def told(asked: KeyProof = proof, open_under: int = 1) -> str | None:
        reply = await shard.ask(ReadStanding(asked, open_under=open_under))
        assert reply.value is None or (reply.value.key, reply.value.balance) == (1, 25)
        return reply.refusal

    assert await told() is None and await told(open_under=0) == "AUTH_FAILED"
    assert await told(KeyProof(proof.key_hash, proof.routing, "203.0.113.7", "https://a.example"), 0) is None
    assert await told(KeyProof(b"n" * 32, proof.routing)) == "AUTH_FAILED"
    rotated = await shard.ask(RotateKey(ALICE, 1, grace_seconds=30))
    assert rotated.value is not None
    fresh = parse_api_key(rotated.value.text)
    assert fresh is not None
    world.clock.advance(29)
    assert await told() is await told(fresh) is None
    world.clock.advance(1)
    assert (await told(), await told(fresh)) == ("AUTH_FAILED", None)
    await shard.ask(ChangeKey(ALICE, 1, is_frozen=True))
    assert await told(fresh) == "AUTH_FAILED"
    await shard.ask(ChangeKey(ALICE, 1, is_frozen=False))
    assert await told(fresh) is None
    world.clock.advance(60)
    assert await told(fresh) == "AUTH_FAILED"


async def test_a_key_is_good_from_its_addresses_alone(world: World, shard: AccountShard) -> None:
    proof = await keyed(world, shard, KeyLimits(addresses=("203.0.113.0/24",)))
    assert (await shard.ask(ReadAccount(proof))).refusal == "AUTH_FAILED"
    here = KeyProof(proof.key_hash, proof.routing, "203.0.113.7")
    assert (await shard.ask(ReadAccount(here))).refusal is None
