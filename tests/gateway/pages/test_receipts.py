"""The pages of receipts: who may see what, which parameters they take, and what they answer while nothing is signed."""

from typing import Any

import pytest

from actors.accounts.key_requests import CreateKey
from actors.accounts.ledger_clock import LedgerClock
from actors.accounts.named_keys import KeyLimits
from actors.accounts.sealing import Sealing
from actors.accounts.seals_store import SealsStore
from actors.gateway.pages.receipts import ReceiptPages
from actors.receipts.root_keys import KeySeal
from ledger_gateway.receipts import check, digest_of, public_keys, read_receipts
from tests.gateway.world import Wallet, World, a_world, call, constant


class Pages(ReceiptPages):
    """Pages whose waiting makes the statement that is waited for."""

    def __init__(self) -> None:
        self.world: World
        self.waited = 0
        self.is_sealing = True

    def open(self, world: World) -> None:
        super().__init__(world.accounts, self._wait)
        self.world = world
        store: SealsStore = world.store.seals
        self.sealing = Sealing(store, LedgerClock(world.clock), world.shard.held, KeySeal(b"secret"), None)

    async def _wait(self, seconds: float) -> None:
        assert 0 < seconds < 2
        self.waited += 1
        if self.is_sealing:
            await self.sealing.finish()


async def get(world: World, customer: Wallet, path: str) -> Any:
    return await world.http.get(path, headers={"x-api-key": customer.api_key})


async def test_a_charged_answer_is_proven_by_its_receipt() -> None:
    """By the operation of X-Receipt, from the moment in which it came; with the hash of what was asked and answered."""
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        customer = await world.customer(1_000)
        answer = await world.rpc(customer, call("getBalance", "11111111111111111111111111111111"))
        operation = answer.headers["x-receipt"]
        found = (await get(world, customer, f"/account/receipts/{operation}")).json()
        assert pages.waited == 1
        keys = (await world.http.get("/.well-known/ledger-keys.json")).json()
        (receipt,) = read_receipts(found)
        check(receipt, public_keys(keys))
        params = b'["11111111111111111111111111111111"]'
        assert receipt.entry.operation == operation and receipt.entry.amount == -1
        assert receipt.entry.request_id == answer.headers["x-request-id"]
        assert receipt.entry.digest == digest_of(params, answer.content)
        place = f"{receipt.entry.at_ms}-{receipt.entry.number}"
        assert (await get(world, customer, f"/account/receipts/{place}")).json() == found
        (line,) = (await get(world, customer, f"/account/ledger?operation={operation}")).json()["entries"]
        assert (line["request_id"], line["digest"]) == (receipt.entry.request_id, receipt.entry.digest)
        assert line["description"] == "getBalance"


async def test_a_batch_has_a_receipt_for_each_call() -> None:
    """And a page of receipts goes on by its cursor."""
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        customer = await world.customer(1_000)
        answer = await world.rpc(customer, [call(), call("getBlock", 5), call()])
        await pages.sealing.finish()
        seen, path = list[int](), "/account/receipts?limit=2"
        keys = public_keys((await world.http.get("/.well-known/ledger-keys.json")).json())
        while path:
            body = (await get(world, customer, path)).json()
            for receipt in read_receipts(body):
                check(receipt, keys)
                seen.append(receipt.entry.number)
            assert body["pending"] == 0
            path = body["next_cursor"] and f"/account/receipts?limit=2&cursor={body['next_cursor']}"
        assert seen == [7, 6, 5, 4, 3, 2, 1]  # The account, its key, its grant and batch, three calls.
        operations = answer.headers["x-receipt"].split(",")
        bodies = [(await get(world, customer, f"/account/receipts/{one}")).json() for one in operations]
        elements = [element.encode() for element in _elements(answer.text)]
        assert [read_receipts(body)[0].entry.digest for body in bodies] == [
            digest_of(params, element) for params, element in zip((b"[]", b"[5]", b"[]"), elements, strict=True)
        ]


def _elements(text: str) -> list[str]:
    """The elements of an array of objects, as they stand."""
    return [part if part.startswith("{") else "{" + part for part in text[1:-1].replace("},{", "}\0{").split("\0")]


async def test_another_account_sees_nothing_of_it() -> None:
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        customer, stranger = await world.customer(1_000), await world.customer(1_000)
        answer = await world.rpc(customer, call())
        await pages.sealing.finish()
        path = f"/account/receipts/{answer.headers['x-receipt']}"
        assert (await get(world, customer, path)).status_code == 200
        assert (await get(world, stranger, path)).status_code == 404
        own = read_receipts((await get(world, stranger, "/account/receipts")).json())
        assert {one.account for one in own} == {stranger.text} and all(not one.entry.request_id for one in own)
        assert (await world.http.get(path)).status_code == 402


async def test_a_named_key_sees_no_facts_of_its_account() -> None:
    """Not when it asks for them, not among others, and not in a chain, whose every entry would have to be shown."""
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        customer = await world.customer(1_000)
        named = (await world.shard.ask(CreateKey(customer.pubkey, "bot", KeyLimits()))).value
        assert named is not None
        await world.rpc(customer, call())
        await pages.sealing.finish()
        own = read_receipts((await get(world, customer, "/account/receipts?type=fact")).json())
        newest = f"{own[-1].entry.at_ms}-{own[-1].entry.number}"
        customer.api_key = named.text
        for path in ("/account/receipts?type=fact", f"/account/consistency?from={newest}"):
            refused = await get(world, customer, path)
            assert (refused.status_code, constant(refused)) == (403, "METHOD_NOT_ALLOWED")
        assert (await get(world, customer, f"/account/receipts/{newest}")).status_code == 404
        seen = read_receipts((await get(world, customer, "/account/receipts")).json())
        assert own and seen and {one.entry.number for one in own}.isdisjoint(one.entry.number for one in seen)


async def test_what_is_in_no_statement_is_told_as_such() -> None:
    """A list leaves it out; one receipt is to be asked for again."""
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        pages.is_sealing = False
        customer = await world.customer(1_000)
        answer = await world.rpc(customer, call())
        late = await get(world, customer, f"/account/receipts/{answer.headers['x-receipt']}")
        assert (late.status_code, late.headers["retry-after"], pages.waited) == (503, "1", 3)
        assert (await get(world, customer, "/account/receipts")).json() == {
            "receipts": [],
            "pending": 5,
            "next_cursor": None,
        }


async def test_entries_between_two_places_are_given() -> None:
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        customer = await world.customer(1_000)
        for _ in range(4):
            await world.rpc(customer, call())
        await pages.sealing.finish()
        newest, *_, oldest = read_receipts((await get(world, customer, "/account/receipts")).json())
        first, last = (f"{one.entry.at_ms}-{one.entry.number}" for one in (oldest, newest))
        whole = (await get(world, customer, f"/account/consistency?from={first}&to={last}")).json()
        assert [entry["number"] for entry in whole["entries"]] == [2, 3, 4, 5, 6, 7, 8] and whole["after"] == 1
        part = (await get(world, customer, f"/account/consistency?from={first}&limit=1")).json()
        assert [entry["number"] for entry in part["entries"]] == [2]
        assert (await get(world, customer, f"/account/consistency?from={last}&to={first}")).status_code == 400
        same = (await get(world, customer, f"/account/consistency?from={last}&to={last}")).json()
        assert same["entries"] == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/account/receipts/x", 400),
        ("/account/receipts/" + "0" * 31, 400),
        ("/account/receipts/" + "0" * 32, 404),
        ("/account/receipts/1700000000000-9", 404),
        ("/account/receipts/9999999999999999-9", 400),
        ("/account/receipts?limit=0", 400),
        ("/account/receipts?limit=101", 400),
        ("/account/receipts?offset=1", 400),
        ("/account/receipts?cursor=x", 400),
        ("/account/receipts?type=gift", 400),
        ("/account/consistency", 400),
        ("/account/consistency?from=x", 400),
        ("/account/consistency?from=1-1&limit=1001", 400),
        ("/account/consistency?from=1-1&by=2", 400),
    ],
)
async def test_what_cannot_be_is_refused_for_its_reason(path: str, status: int) -> None:
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        answer = await get(world, await world.customer(1_000), path)
        assert answer.status_code == status, answer.text
        assert pages.waited == 0
