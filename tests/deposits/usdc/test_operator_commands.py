"""The operator's commands on transfers, over both stores and a made-up chain."""

import pytest

from actors.deposits.api import AssignTransfer, CountTransfers, ExplainTransaction, ListTransfers, WatcherCommand
from actors.deposits.usdc.operator_commands import OperatorCommands
from actors.deposits.usdc.store import DepositStore
from tests.deposits.world import ACCOUNT, World, key_of, text_of

ALICE, BOB = key_of("alice"), key_of("bob")


@pytest.fixture
def world(deposit_store: DepositStore) -> World:
    return World(deposit_store)


@pytest.fixture
def commands(world: World) -> OperatorCommands:
    watcher = world.watcher()
    return OperatorCommands(ACCOUNT.address, watcher, world.confirming(watcher), world.store)


async def test_an_operator_lists_explains_and_assigns(world: World, commands: OperatorCommands) -> None:
    """A listed transfer is assigned once, and can be explained afterwards."""
    sent = world.chain.pay(("vault", 50_000), signed=False)
    text = text_of(sent.signature)
    explained = await commands.ask(ExplainTransaction(text))
    assert "no wallet" in explained["verdict"] and explained["transfers"][0]["status"] == "listed"
    (listed,) = await commands.ask(ListTransfers("listed", 50, 0))
    assert (listed["signature"], listed["usdc"], listed["authority"]) == (text, "0.05", text_of(key_of("vault")))
    row = await commands.ask(AssignTransfer(text, None, text_of(BOB), "the customer proved it"))
    assert (row["status"], row["account"], row["credits"]) == ("assigned", text_of(BOB), 5_000)
    assert "0 transfers of it are listed" in await commands.ask(AssignTransfer(text, None, text_of(BOB), "again"))
    assert (await commands.ask(ExplainTransaction(text)))["transfers"][0]["why"] == "the customer proved it"
    totals = await commands.ask(CountTransfers())
    assert (totals["assigned"], totals["listed"], totals["slots_never_seen"]) == (1, 0, [])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (ListTransfers("lost", 5, 0), "no such status"),
        (ExplainTransaction("nonsense"), "not the base58 text"),
        (AssignTransfer("nonsense", None, text_of(BOB), "why"), "not the base58 text"),
        (AssignTransfer(text_of(b"s" * 64), None, "0OIl", "why"), "not a base58 public key"),
        (AssignTransfer(text_of(b"s" * 64), None, text_of(BOB), ""), "reason"),
        (AssignTransfer(text_of(b"s" * 64), None, text_of(BOB), "why"), "0 transfers"),
    ],
)
async def test_mistakes_are_told_in_a_sentence(commands: OperatorCommands, command: WatcherCommand, words: str) -> None:
    assert words in await commands.ask(command)


async def test_a_transaction_that_brings_nothing_is_refused(world: World, commands: OperatorCommands) -> None:
    """Rule: nothing was found, so the command fails, and names the account that it looked for."""
    stranger = world.chain.pay(("alice", 0))
    told = await commands.ask(ExplainTransaction(text_of(stranger.signature)))
    assert isinstance(told, str) and "brings nothing" in told and ACCOUNT.address in told
    assert "invalid request" not in told
    told = await commands.ask(ExplainTransaction(text_of(b"s" * 64)))
    assert isinstance(told, str) and "no such transaction on the chain yet" in told


async def test_a_transfer_whose_amount_nobody_knows_is_not_assigned(world: World, commands: OperatorCommands) -> None:
    """The node had it no more when it was read: there is nothing from which credits could be counted."""
    sent = world.chain.pay(("alice", 10_000))
    watcher = world.watcher()
    await watcher.list_new()
    world.chain.first_slot = world.chain.slot + 1
    await watcher.round()
    told = await commands.ask(AssignTransfer(text_of(sent.signature), None, text_of(ALICE), "why"))
    assert "its amount is not known" in told and world.accounts.balances == {}


async def test_an_assignment_without_an_answer_may_be_repeated(world: World, commands: OperatorCommands) -> None:
    """It may or may not have been made, and its operator is told so; the second one gives no more."""
    sent = world.chain.pay(("vault", 50_000), signed=False)
    text = text_of(sent.signature)
    await commands.ask(ExplainTransaction(text))
    world.accounts.away = True
    told = await commands.ask(AssignTransfer(text, None, text_of(BOB), "why"))
    assert "may or may not be assigned now; repeat the command" in told and world.accounts.balances == {}
    world.accounts.away = False
    for _ in range(2):
        await commands.ask(AssignTransfer(text, None, text_of(BOB), "why"))
    assert world.accounts.balances == {BOB: 5_000}


async def test_of_several_listed_one_must_be_named(world: World, commands: OperatorCommands) -> None:
    sent = world.chain.pay(("vault", 50_000), ("vault", 60_000), signed=False)
    text = text_of(sent.signature)
    first, second = (await commands.ask(ExplainTransaction(text)))["transfers"]
    assert "2 transfers" in await commands.ask(AssignTransfer(text, None, text_of(BOB), "why"))
    assert (await commands.ask(AssignTransfer(text, second["transfer"], text_of(BOB), "why")))["credits"] == 6_000
    assert (await commands.ask(AssignTransfer(text, None, text_of(ALICE), "why")))["transfer"] == first["transfer"]
