"""POST /account/confirm-deposit through the real door, the real watcher's path and the real owner of accounts."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from actors.accounts.api import CreateReferral, DepositConfirmation
from actors.deposits.usdc.actor import DepositWatcher
from actors.deposits.usdc.chain import DepositChain
from actors.deposits.usdc.confirmation import Confirming
from actors.deposits.usdc.core import confirmation
from actors.deposits.usdc.crediting import Crediting
from actors.errors import Refusal
from tests.deposits.memory_stores import MemoryDepositStore
from tests.deposits.world import ACCOUNT, MINIMUM, FakeChain, Sent, text_of
from tests.gateway.pages.test_keys import Pages as KeyPagesOfWorld
from tests.gateway.pages.test_keys import made
from tests.gateway.pages.test_sessions import login
from tests.idempotency.memory_store import MemoryIdempotencyStore

from .world import Wallet, World, a_world, constant

PATH = "/account/confirm-deposit"


class Desk:
    """As the client of the watcher does it, without a process in between."""

    def __init__(self) -> None:
        self.chain = FakeChain()
        self.store = MemoryDepositStore()
        self.watcher: Any = None

    def over(self, world: World) -> None:
        chain, crediting = DepositChain(self.chain), Crediting(world.accounts)  # type: ignore[arg-type]
        self.watcher = DepositWatcher(ACCOUNT, chain, self.store, crediting, world.clock, minimum_base_units=MINIMUM)
        self.confirming = Confirming(ACCOUNT.address, self.watcher, chain, self.store, crediting, world.clock)

    async def confirm(self, signature: bytes, pubkey: bytes, balance: int | None) -> DepositConfirmation | Refusal:
        outcome, looked = await self.confirming.confirm(signature)
        return outcome if isinstance(outcome, Refusal) else confirmation(pubkey, balance, outcome, looked)


@asynccontextmanager
async def a_shop() -> AsyncIterator[tuple[World, Desk]]:
    desk = Desk()
    async with a_world(deposits=desk, identity={"address_requests_per_minute": 1_000}) as world:
        desk.over(world)
        yield world, desk


def paid(desk: Desk, wallet: Wallet, amount: int = 10_000, **how: Any) -> Sent:
    """A transfer of this wallet, final on the chain."""
    desk.chain.slot += 1
    sent = PaidBy(desk.chain.make(("x", amount), **how).signature, ((wallet.text, amount),), **how)
    desk.chain.final.append((desk.chain.slot, sent))
    return sent


class PaidBy(Sent):
    """Names are public keys already."""

    def told(self, slot: int) -> dict[str, Any]:
        answer = super().told(slot)
        keys = answer["transaction"]["message"]["accountKeys"]
        keys[1 : 1 + len(self.payments)] = [name for name, _ in self.payments]
        return answer


async def confirm(world: World, sent: Sent, wallet: Wallet | None, **headers: str) -> httpx.Response:
    body = json.dumps({"signature": text_of(sent.signature)}).encode()
    signed = {} if wallet is None else wallet.headers("POST", PATH, body)
    return await world.http.post(PATH, content=body, headers=headers or signed)


async def test_a_wallet_that_was_never_seen_confirms_and_calls() -> None:
    """Interface: record created automatically, balance at once."""
    async with a_shop() as (world, desk):
        wallet = await world.customer(account=False)
        answer = await confirm(world, paid(desk, wallet, 25_000), wallet)
        told = {"ok": True, "credits_added": 2_500, "new_balance": 2_500, "already_processed": False}
        assert (answer.status_code, answer.json()) == (200, told)
        assert answer.headers["x-credits-remaining"] == "2500"
        again = await world.http.get("/account/info", headers=wallet.headers("GET", "/account/info", b""))
        shown = again.json()
        assert (shown["balance"], shown["last_deposit"]["amount_usdc"]) == (2_500, "0.025")
        assert [batch["source"] for batch in shown["credit_batches"]] == ["deposit"]


@pytest.mark.threat(22)
async def test_fifty_at_once_and_the_watcher_credit_once() -> None:
    """One is told the credits, the rest already_processed: true and credits_added: 0."""
    async with a_shop() as (world, desk):
        wallet = await world.customer()
        sent = paid(desk, wallet)
        asked = [confirm(world, sent, None, **{"x-api-key": wallet.api_key}) for _ in range(50)]
        *answers, _ = await asyncio.gather(*asked, desk.watcher.round())
        told = [answer.json() for answer in answers]
        assert all(row["ok"] and row["new_balance"] == 1_000 for row in told)
        assert sum(row["credits_added"] for row in told) in (0, 1_000)  # 0: the watcher was first.
        assert sum(not row["already_processed"] for row in told) == (sum(row["credits_added"] for row in told) > 0)
        assert await world.balance(wallet) == 1_000
        last = (await confirm(world, sent, None, **{"x-api-key": wallet.api_key})).json()
        assert last == {"ok": True, "credits_added": 0, "new_balance": 1_000, "already_processed": True}


async def test_whoever_reports_it_the_sender_is_credited_and_nobody_else_is_shown() -> None:
    """A reporter hears whose it was, which the chain shows, and never what the other one has."""
    async with a_shop() as (world, desk):
        sender, reporter = await world.customer(7), await world.customer(3)
        sent = paid(desk, sender)
        told = (await confirm(world, sent, reporter)).json()
        assert told == {
            "ok": True,
            "credits_added": 0,
            "new_balance": 3,
            "already_processed": False,
            "credited_to": [sender.text],
        }
        assert (await world.balance(sender), await world.balance(reporter)) == (1_007, 3)
        mine = (await confirm(world, sent, sender)).json()
        assert mine == {"ok": True, "credits_added": 0, "new_balance": 1_007, "already_processed": True}


async def test_any_credential_will_do_and_none_is_402() -> None:
    async with a_shop() as (world, desk):
        wallet = await world.customer()
        for headers in ({"x-api-key": wallet.api_key}, await login(world, wallet)):
            answer = await confirm(world, paid(desk, wallet), None, **headers)
            assert answer.json()["credits_added"] == 1_000
        sent = paid(desk, wallet)
        assert (await confirm(world, sent, None)).status_code == 402
        assert (await confirm(world, sent, None, **{"x-api-key": "srpc_live_nonsense"})).status_code == 401


async def test_a_named_key_confirms_nothing_and_is_told_no_balance() -> None:
    """Decisions, "Named keys": it changes nothing of its account. It is told so before the chain is asked, whosever the
    deposit is, and takes none of the account's Idempotency-Keys."""
    desk, pages, one = Desk(), KeyPagesOfWorld(), {"idempotency-key": "one"}
    async with a_world(deposits=desk, pages=pages.pages(), idempotency=MemoryIdempotencyStore()) as world:
        desk.over(world)
        pages.open(world)
        wallet, other = await world.customer(4_321), await world.customer(7)
        _, key = await made(world, wallet, credits_total=5)
        asked = len(desk.chain.calls)
        mine, strangers = paid(desk, wallet), paid(desk, other)
        for sent in (mine, strangers):
            for more in ({}, one):
                refused = await confirm(world, sent, None, **key, **more)
                assert (refused.status_code, constant(refused)) == (403, "METHOD_NOT_ALLOWED")
                assert refused.headers["x-credits-remaining"] == "5" and "4321" not in refused.text
        assert len(desk.chain.calls) == asked and await world.balance(wallet) == 4_321
        own = await confirm(world, mine, None, **{"x-api-key": wallet.api_key} | one)
        assert (own.status_code, own.json()["credits_added"]) == (200, 1_000)


async def test_a_message_is_not_confirmed_twice() -> None:
    """The nonce of a known account is taken."""
    async with a_shop() as (world, desk):
        wallet = await world.customer()
        body = json.dumps({"signature": text_of(paid(desk, wallet).signature)}).encode()
        headers = wallet.headers("POST", PATH, body)
        assert (await world.http.post(PATH, content=body, headers=headers)).status_code == 200
        assert (await world.http.post(PATH, content=body, headers=headers)).status_code == 403


@pytest.mark.parametrize(
    ("how", "status", "code", "words"),
    [
        ({"failed": True}, 400, "INVALID_REQUEST", "failed on chain"),
        ({"amount": 9_999}, 400, "INVALID_REQUEST", "below the minimum"),
        ({"signed": False}, 400, "INVALID_REQUEST", "no wallet"),
        ({"unexplained": -1}, 400, "INVALID_REQUEST", "grew by less"),
    ],
)
@pytest.mark.threat(23)
async def test_what_earns_nothing_says_why(how: dict[str, Any], status: int, code: str, words: str) -> None:
    """Threat 23: a refusal of the interface's shape, one sentence that helps, and no credit."""
    async with a_shop() as (world, desk):
        wallet = await world.customer()
        for _ in range(2):
            sent = paid(desk, wallet, **how)
            answer = await confirm(world, sent, wallet)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (status, code) and words in error["message"]
        await desk.watcher.round()
        assert await world.balance(wallet) == 0


@pytest.mark.threat(23)
async def test_what_is_not_there_or_not_final_is_404_and_may_be_asked_again() -> None:
    async with a_shop() as (world, desk):
        wallet = await world.customer()
        sent = PaidBy(desk.chain.make(("x", 10_000)).signature, ((wallet.text, 10_000),))
        missing = await confirm(world, sent, wallet)
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "DEPOSIT_NOT_FOUND")
        assert missing.headers["retry-after"] == "5"
        assert missing.headers["x-credits-remaining"] == "0"  # Interface, "Limits": errors carry the figures too.
        desk.chain.pending.append((1_001, sent))
        pending = await confirm(world, sent, wallet)
        assert (pending.status_code, pending.json()["error"]["code"]) == (404, "DEPOSIT_NOT_FINAL")
        assert await world.balance(wallet) == 0
        desk.chain.pending.clear()  # Forked out, and landed again later.
        desk.chain.slot += 40
        desk.chain.final.append((desk.chain.slot, sent))
        assert (await confirm(world, sent, wallet)).json()["credits_added"] == 1_000


@pytest.mark.threat(23)
async def test_a_transaction_of_others_is_not_to_us() -> None:
    async with a_shop() as (world, desk):
        wallet = await world.customer()
        sent = paid(desk, wallet, amount=0)
        answer = await confirm(world, sent, wallet)
        assert answer.status_code == 400 and "brings nothing" in answer.json()["error"]["message"]
        assert desk.store.findings == {}  # Strangers' transactions do not fill the table.


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b'"x"', b"{", b'{"signature": 5}', b'{"signature": ""}', b'{"signature": "%s"}' % (b"1" * 100)],
)
async def test_what_is_no_signature_is_400(body: bytes) -> None:
    async with a_shop() as (world, desk):
        wallet = await world.customer()
        answer = await world.http.post(PATH, content=body, headers={"x-api-key": wallet.api_key})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
        assert desk.chain.calls == []


async def test_without_a_deposit_wallet_it_is_503() -> None:
    async with a_world() as world:
        wallet = await world.customer()
        sent = FakeChain().make(("x", 1))
        assert (await confirm(world, sent, wallet)).status_code == 503


async def test_a_referral_code_earns_a_bonus_on_every_later_deposit() -> None:
    """Interface: captured once at account creation; later codes change nothing."""
    async with a_shop() as (world, desk):
        for code, percent in (("FRIEND", 1_000), ("RICH", 10_000)):
            assert (await world.shard.ask(CreateReferral(code, percent, None, ""))).refusal is None
        wallet = await world.customer(account=False)
        for code in ("FRIEND", "RICH"):
            body = json.dumps({"ref_code": code}).encode()
            signed = wallet.headers("POST", "/account/api-key", body)
            opened = await world.http.post("/account/api-key", content=body, headers=signed)
            assert opened.status_code == 200
            wallet.api_key = opened.json()["api_key"]
        for balance in (1_100, 2_200):
            told = (await confirm(world, paid(desk, wallet), wallet)).json()
            assert (told["credits_added"], told["new_balance"]) == (1_100, balance)
        entries = (await world.http.get("/account/ledger", headers={"x-api-key": wallet.api_key})).json()["entries"]
        assert [(row["type"], row["amount"]) for row in entries] == [("bonus", 100), ("deposit", 1_000)] * 2
        shown = (await world.http.get("/account/info", headers={"x-api-key": wallet.api_key})).json()
        assert [batch["source"] for batch in shown["credit_batches"]] == ["deposit", "referral_bonus"] * 2
