"""Facts of other contexts in the ledger of an account. Rule: decisions, "One chain of facts"."""

import pytest

from actors.accounts.actor import AccountShard
from actors.accounts.fact_commands import BODIES_MAX, BODY_BYTES_MAX, TellFacts
from actors.accounts.facts import FactKind
from actors.accounts.ledger import EntryType, chain, genesis
from actors.errors import Err
from tests.accounts.making import ALICE, BOB
from tests.accounts.shards import World

BODY = {"id": "wh_1", "url_hash": "ab", "min_lamports": (1 << 64) - 1}


async def test_told_facts_are_entries_in_their_order(world: World, shard: AccountShard) -> None:
    """Durable when the reply arrives; they move nothing, and the chain has them."""
    await world.customer(shard, ALICE, 100)
    before = len(world.store.rows[ALICE].entries)
    reply = await shard.ask(TellFacts(ALICE, "webhook", (BODY, {"id": "wh_1", "deleted": True})))
    assert (reply.value, reply.refusal) == (2, None)
    entries = [entry for entry, _ in world.store.rows[ALICE].entries]
    assert [(entry.type, entry.method, entry.amount, entry.description) for entry in entries[before:]] == [
        (EntryType.FACT, "webhook", 0, '{"id":"wh_1","url_hash":"ab","min_lamports":18446744073709551615}'),
        (EntryType.FACT, "webhook", 0, '{"id":"wh_1","deleted":true}'),
    ]
    head = genesis(ALICE)
    for entry in entries:
        head = chain(head, entry)
    assert world.store.rows[ALICE].entries[-1][1] == head and entries[-1].balance == 100


@pytest.mark.parametrize(
    "command",
    [
        *(TellFacts(ALICE, kind, (BODY,)) for kind in ("", "other", *sorted(set(FactKind) - {FactKind.WEBHOOK}))),
        TellFacts(ALICE, "webhook", ()),
        TellFacts(ALICE, "webhook", (BODY,) * (BODIES_MAX + 1)),
        TellFacts(ALICE, "webhook", (BODY, {"id": "w" * BODY_BYTES_MAX})),
        TellFacts(ALICE, "webhook", ({"id": "\0"},)),
    ],
    ids=lambda command: f"{command.kind}-{len(command.bodies)}",
)
async def test_what_is_no_fact_is_refused_whole(world: World, shard: AccountShard, command: TellFacts) -> None:
    """The kinds that the owner tells by itself are nobody else's to tell."""
    await world.customer(shard, ALICE, 100)
    before = len(world.store.rows[ALICE].entries)
    assert (await shard.ask(command)).refusal == Err.INVALID_REQUEST.name
    assert len(world.store.rows[ALICE].entries) == before


async def test_an_account_that_is_not_there_has_no_facts(world: World, shard: AccountShard) -> None:
    assert (await shard.ask(TellFacts(BOB, "webhook", (BODY,)))).refusal == Err.ACCOUNT_NOT_FOUND.name
    assert BOB not in world.store.rows


async def test_a_fact_that_was_not_written_is_not_told(world: World, shard: AccountShard) -> None:
    """Nothing written: refused, to be told again."""
    await world.customer(shard, ALICE, 100)
    world.store.fail = ["before"]
    assert (await shard.ask(TellFacts(ALICE, "webhook", (BODY,)))).refusal == Err.SERVICE_TEMPORARILY_UNAVAILABLE.name
