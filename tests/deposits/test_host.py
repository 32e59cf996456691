"""The watcher's actor class over real PostgreSQL and a made-up chain, without Ray."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from actors.config import Config, PaymentsConfig, StorageConfig
from actors.deposits import host
from actors.deposits.host import DepositWatcherActor
from actors.errors import Err
from actors.telemetry import logs
from tests.databases import as_role
from tests.deposits.conftest import TABLES
from tests.deposits.world import ACCOUNT, FakeAccounts, FakeChain, key_of, text_of

ALICE, BOB = key_of("alice"), key_of("bob")


@pytest.fixture
async def actor(postgres_url: str, owner_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    monkeypatch.setattr(host.hosting, "tune_gc", lambda: None)
    chain, accounts = FakeChain(), FakeAccounts()

    async def open_accounts(_: Config) -> Any:
        return accounts

    async def open_node(_: Config) -> Any:
        return chain

    payments = PaymentsConfig(network="devnet", deposit_wallet=ACCOUNT.wallet)
    config = Config(storage=StorageConfig(postgres_url=SecretStr(postgres_url)), payments=payments)
    made: Any = DepositWatcherActor(config, "fingerprint", open_accounts, open_node)
    made.chain, made.accounts = chain, accounts
    yield made
    await made._watcher.stop()
    await made._store._pool.close()  # First: a statement that the stop cut off holds its locks until then.
    await as_role(owner_url, f"TRUNCATE {TABLES}")


async def test_its_first_question_starts_it(actor: Any) -> None:
    """Ray restarts the process and calls no start method, so any first call must start it."""
    sent = actor.chain.pay(("alice", 10_000))
    assert await actor.confirm(sent.signature) == (None, "", [(ALICE, 1_000, 1_000)], True)
    assert (await actor.health())["subscribed"] is False
    assert await actor.fingerprint() == "fingerprint"


async def test_refusals_are_names(actor: Any) -> None:
    """Refusals are values, because exceptions do not cross processes unchanged."""
    refusal, detail, parts, _ = await actor.confirm(b"s" * 64)
    assert (refusal, parts) == (Err.DEPOSIT_NOT_FOUND.name, []) and detail


async def test_an_operator_lists_explains_and_assigns(actor: Any) -> None:
    """A listed transfer is assigned once, and can be explained afterwards."""
    sent = actor.chain.pay(("vault", 50_000), signed=False)
    text = text_of(sent.signature)
    explained = await actor.explain(text)
    assert "no wallet" in explained["verdict"] and explained["transfers"][0]["status"] == "listed"
    (listed,) = await actor.listing("listed", 50, 0)
    assert (listed["signature"], listed["usdc"], listed["authority"]) == (text, "0.05", text_of(key_of("vault")))
    row = await actor.assign(text, None, text_of(BOB), "the customer proved it")
    assert (row["status"], row["account"], row["credits"]) == ("assigned", text_of(BOB), 5_000)
    assert "0 transfers of it are listed" in await actor.assign(text, None, text_of(BOB), "again")
    assert (await actor.explain(text))["transfers"][0]["why"] == "the customer proved it"
    totals = await actor.totals()
    assert (totals["assigned"], totals["listed"], totals["slots_never_seen"]) == (1, 0, [])


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("listing", ("lost", 5, 0), "no such status"),
        ("explain", ("nonsense",), "not the base58 text"),
        ("assign", ("nonsense", None, text_of(BOB), "why"), "not the base58 text"),
        ("assign", (text_of(b"s" * 64), None, "0OIl", "why"), "not a base58 public key"),
        ("assign", (text_of(b"s" * 64), None, text_of(BOB), ""), "reason"),
        ("assign", (text_of(b"s" * 64), None, text_of(BOB), "why"), "0 transfers"),
    ],
)
async def test_mistakes_are_told_in_a_sentence(actor: Any, method: str, arguments: tuple[Any, ...], words: str) -> None:
    assert words in await getattr(actor, method)(*arguments)


async def test_of_several_listed_one_must_be_named(actor: Any) -> None:
    sent = actor.chain.pay(("vault", 50_000), ("vault", 60_000), signed=False)
    text = text_of(sent.signature)
    first, second = (await actor.explain(text))["transfers"]
    assert "2 transfers" in await actor.assign(text, None, text_of(BOB), "why")
    assert (await actor.assign(text, second["transfer"], text_of(BOB), "why"))["credits"] == 6_000
    assert (await actor.assign(text, None, text_of(ALICE), "why"))["transfer"] == first["transfer"]
