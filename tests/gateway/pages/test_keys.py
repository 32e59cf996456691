"""Named keys through the real doors, in this process."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from actors.accounts import named_keys
from actors.calls import KeyProof
from actors.gateway.pages import keys as keys_page
from actors.gateway.pages.keys import KeyPages
from actors.pages import Page, PageAnswer, PageRequest, json_answer
from ledger_gateway.keys import narrow
from tests.gateway.pages.test_receipts import get
from tests.gateway.world import Wallet, World, a_world, call, constant


class Pages(KeyPages):
    def __init__(self) -> None:
        self.ready = False

    def open(self, world: World) -> None:
        super().__init__(world.accounts)


async def tell(request: PageRequest) -> PageAnswer:
    return json_answer({"payer": request.payer.key})


OTHERS = (Page("GET", "/things", tell), Page("POST", "/things", tell), Page("GET", "/stream", tell, for_keys=True))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    pages = Pages()
    async with a_world(pages=[*pages.pages(), *OTHERS]) as world:
        pages.open(world)
        yield world


async def ask(world: World, wallet: Wallet, method: str, path: str, body: Any = None) -> httpx.Response:
    """Signed by the wallet."""
    raw = b"" if body is None else json.dumps(body).encode()
    headers = wallet.headers(method, path, raw)
    return await world.http.request(method, path, content=raw, headers=headers)


async def made(world: World, wallet: Wallet, **limits: Any) -> tuple[int, dict[str, str]]:
    """The id of a new key, and headers with it."""
    answer = await ask(world, wallet, "POST", "/account/keys", {"name": "bot", **limits})
    assert answer.status_code == 201 and answer.headers["cache-control"] == "no-store", answer.text
    return answer.json()["id"], {"x-api-key": answer.json()["api_key"]}


async def called(world: World, headers: dict[str, str], *calls: dict[str, Any], **more: str) -> httpx.Response:
    body = json.dumps(calls[0] if len(calls) == 1 else calls).encode()
    return await world.http.post("/", content=body, headers={**headers, **more})


async def test_a_key_pays_from_its_budget_and_is_told_so(world: World) -> None:
    wallet = await world.customer(1_000)
    number, key = await made(world, wallet, credits_total=30)
    first = await called(world, key, call("getBlock", 5))
    assert (first.status_code, first.headers["x-credits-remaining"], first.headers["x-credits-cost"]) == (
        200,
        "5",
        "25",
    )
    refused = await called(world, key, call("getBlock", 5))
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], constant(refused)) == (403, -32012, "KEY_BUDGET_EXCEEDED")
    assert "00:00 UTC" in error["data"]["hint"] and "accepts" not in refused.text  # No payment would help.
    assert refused.headers["x-credits-cost"] == "0"
    assert (await called(world, key, call())).status_code == 200
    assert (await world.rpc(wallet, call("getBlock", 5))).status_code == 200  # The account's own key.
    (shown,) = (await get(world, wallet, "/account/keys")).json()["keys"]
    assert (shown["id"], shown["spent_total"], shown["spent_today"], shown["held"]) == (number, 26, 26, 0)
    assert await world.balance(wallet) == 1_000 - 51


async def test_a_batch_is_answered_as_far_as_the_budget_goes(world: World) -> None:
    _, key = await made(world, await world.customer(1_000), credits_a_day=2)
    answers = (await called(world, key, call(id=1), call(id=2), call(id=3), call("getVersionX", id=4))).json()
    assert ["result" in one for one in answers] == [True, True, False, False]
    assert answers[2]["error"]["data"]["constant"] == "KEY_BUDGET_EXCEEDED"


async def test_a_key_of_some_methods_calls_no_other(world: World) -> None:
    _, key = await made(world, await world.customer(1_000), methods=["READ_CHEAP"])
    assert (await called(world, key, call())).status_code == 200
    refused = await called(world, key, call("getBlock", 5))
    assert (refused.status_code, constant(refused)) == (403, "METHOD_NOT_ALLOWED") and "API key" in refused.text
    page = await world.http.get("/account/info", headers=key)
    assert page.status_code == 403 and "ACCOUNT" in page.text


async def test_a_key_is_bound_to_its_origins_and_addresses(world: World) -> None:
    wallet = await world.customer(1_000)
    number, key = await made(world, wallet, origins=["https://a.example"])
    assert (await called(world, key, call(), origin="https://a.example")).status_code == 200
    for other in ({"origin": "https://b.example"}, {}):
        assert (await called(world, key, call(), **other)).status_code == 401
    bound = {"origins": None, "addresses": ["198.51.100.0/24"]}
    assert (await ask(world, wallet, "PATCH", f"/account/keys/{number}", bound)).status_code == 200
    assert (await called(world, key, call())).status_code == 401


async def test_the_accounts_own_key_costs_no_look_at_addresses_and_a_named_key_is_never_judged_without(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only named keys are bound to a place, so a key that its owner called the account's own goes without one. What a
    named key is known by makes no difference to its binding, and a child's text goes to its owner once."""
    looks = list[Any]()
    authenticator = world.door.authenticator
    address_of = authenticator._address_of
    monkeypatch.setattr(authenticator, "_address_of", lambda client: (looks.append(1), address_of(client))[1])
    wallet = await world.customer(1_000)
    for place in ("https://a.example", "https://b.example"):
        assert (await called(world, {"x-api-key": wallet.api_key}, call(), origin=place)).status_code == 200
    seen = [request.proof for request in world.accounts.holds] + [one.hold.proof for one in world.accounts.charges]
    assert len(looks) == 1 and {
        (proof.address == "", proof.origin) for proof in seen if isinstance(proof, KeyProof)
    } == {
        (False, "https://a.example"),
        (True, ""),
    }
    _, key = await made(world, wallet, origins=["https://a.example"])
    child = {"x-api-key": narrow(key["x-api-key"], "child")}
    for headers in (key, child):
        for origin, status in (("https://a.example", 200), ("https://b.example", 401), ("https://a.example", 200)):
            world.accounts.holds.clear()
            world.clock.advance(60)  # Nothing is asked ahead.
            assert (await called(world, headers, call(), origin=origin)).status_code == status
            (request,) = world.accounts.holds
            assert isinstance(request.proof, KeyProof) and (request.proof.origin, request.proof.address != "") == (
                origin,
                True,
            )
    world.accounts.holds.clear()
    world.clock.advance(60)
    assert (await called(world, child, call(), origin="https://a.example")).status_code == 200
    assert [request.proof.child for request in world.accounts.holds if isinstance(request.proof, KeyProof)] == [""]


async def test_only_a_wallet_changes_keys_and_a_key_changes_nothing(world: World) -> None:
    wallet = await world.customer(1_000)
    number, key = await made(world, wallet)
    changes = [
        ("POST", "/account/keys", {"name": "more"}),
        ("PATCH", f"/account/keys/{number}", {"frozen": False}),
        ("POST", f"/account/keys/{number}/rotate", {}),
        ("DELETE", f"/account/keys/{number}", {}),
    ]
    for headers in (key, {"x-api-key": wallet.api_key}):
        for method, path, body in changes:
            answer = await world.http.request(method, path, content=json.dumps(body).encode(), headers=headers)
            assert answer.status_code == 401 and "wallet" in answer.text
    assert (await world.http.post("/things", headers=key)).status_code == 403
    assert (await world.http.get("/things", headers=key)).json() == {"payer": number}
    assert (await world.http.post("/account/api-key", content=b"{}", headers=key)).status_code == 401
    assert (await world.http.post("/things", headers={"x-api-key": wallet.api_key})).json() == {"payer": 0}


async def test_a_key_that_may_not_read_still_opens_streams_and_sees_itself(world: World) -> None:
    wallet = await world.customer(1_000)
    number, key = await made(world, wallet, methods=["STREAMS"])
    assert (await world.http.get("/things", headers=key)).status_code == 403
    assert (await world.http.get("/stream", headers=key)).json() == {"payer": number}
    await ask(world, wallet, "POST", "/account/keys", {"name": "other"})
    (own,) = (await world.http.get("/account/keys", headers=key)).json()["keys"]
    assert (own["name"], own["methods"]) == ("bot", ["STREAMS"])


async def test_a_key_is_frozen_changed_rotated_and_deleted(world: World) -> None:
    wallet = await world.customer(1_000)
    number, key = await made(world, wallet, expires_at="2099-01-01T00:00:00Z")
    path = f"/account/keys/{number}"
    frozen = (await ask(world, wallet, "PATCH", path, {"frozen": True})).json()["key"]
    assert (frozen["status"], frozen["expires_at"]) == ("frozen", "2099-01-01T00:00:00Z")
    assert (await called(world, key, call())).status_code == 401
    changed = (await ask(world, wallet, "PATCH", path, {"frozen": False, "name": "new", "expires_at": None})).json()
    assert (changed["key"]["name"], changed["key"]["expires_at"]) == ("new", None)
    assert (await called(world, key, call())).status_code == 200
    rotated = await ask(world, wallet, "POST", f"{path}/rotate", {"grace_seconds": 60})
    assert rotated.status_code == 200 and rotated.json()["key"]["former_key_good_until"]
    fresh = {"x-api-key": rotated.json()["api_key"]}
    assert [(await called(world, each, call())).status_code for each in (key, fresh)] == [200, 200]
    world.clock.advance(61)
    assert [(await called(world, each, call())).status_code for each in (key, fresh)] == [401, 200]
    assert (await ask(world, wallet, "DELETE", path)).json()["key"]["status"] == "deleted"
    assert (await called(world, fresh, call())).status_code == 401
    assert (await ask(world, wallet, "DELETE", path)).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"name":"bot","budget":5}',
        b'{"name":"bot","credits_a_day":"5"}',
        b'{"name":"bot","credits_a_day":1.5}',
        b'{"name":"bot","credits_a_day":-1}',
        b'{"name":"bot","methods":["everything"]}',
        b'{"name":"bot","addresses":["here"]}',
        b'{"name":"bot","expires_at":"tomorrow"}',
        b'{"name":"\xff"}',
        b'{"name":""}',
        b'{"name":"bot","methods":{}}',
    ],
)
async def test_a_body_that_says_nothing_clear_is_refused_by_its_fault(world: World, body: bytes) -> None:
    wallet = await world.customer(1_000)
    headers = wallet.headers("POST", "/account/keys", body)
    answer = await world.http.post("/account/keys", content=body, headers=headers)
    assert (answer.status_code, constant(answer)) == (400, "INVALID_REQUEST")
    assert (await get(world, wallet, "/account/keys")).json() == {"keys": [], "next_after": None}


@pytest.mark.parametrize("name", ["0", "99", "x", "1x", "9" * 30])
async def test_an_id_that_names_no_key_is_told(world: World, name: str) -> None:
    answer = await ask(world, await world.customer(1), "DELETE", f"/account/keys/{name}")
    assert answer.status_code in (400, 404) and constant(answer) in ("INVALID_REQUEST", "NOT_FOUND")


async def test_a_spent_key_leaves_the_others_of_its_account_their_refusals(world: World) -> None:
    """One of an account's keys, in bad hands, is told to wait; the account's own is not."""
    wallet = await world.customer(1_000)
    _, key = await made(world, wallet, credits_total=0)
    statuses = [(await called(world, key, *[call()] * 50)).status_code for _ in range(30)]
    assert statuses[0] == 200 and 429 in statuses
    assert (await world.rpc(wallet, call())).status_code == 200


async def test_a_key_that_was_made_offline_calls_at_once_and_within_all_limits_above_it(world: World) -> None:
    """The gateway is told of it by its first call; its maker sees it, and no other key does."""
    wallet = await world.customer(1_000)
    number, key = await made(world, wallet, credits_total=30, methods=["READ_CHEAP", "READ_HEAVY"])
    child = narrow(key["x-api-key"], "task", credits_total=26)
    grandchild = {"x-api-key": narrow(child, "step", methods=["READ_CHEAP", "SEND"])}
    assert (await called(world, grandchild, call())).headers["x-credits-remaining"] == "25"
    for method, constant_of in (("getBlock", "METHOD_NOT_ALLOWED"), ("sendTransaction", "INVALID_PARAMS")):
        assert constant_of in (await called(world, grandchild, call(method, 5))).text
    assert (await called(world, {"x-api-key": child}, call("getBlock", 5))).status_code == 200
    for each in (grandchild, {"x-api-key": child}):
        assert constant(await called(world, each, call())) == "KEY_BUDGET_EXCEEDED"
    (shown,) = (await world.http.get(f"/account/keys?parent={number}", headers=key)).json()["keys"]
    assert (shown["name"], shown["spent_total"], shown["parent"]) == ("task", 26, number)
    assert (await world.http.get("/account/keys", headers=grandchild)).json()["keys"][0]["name"] == "step"
    other, _ = await made(world, await world.customer(1))
    assert (await world.http.get(f"/account/keys?parent={other + 1}", headers=grandchild)).status_code == 404
    assert (await ask(world, wallet, "DELETE", f"/account/keys/{number}")).status_code == 200
    assert (await called(world, grandchild, call())).status_code == 401


async def test_a_long_list_comes_in_parts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (named_keys, keys_page):
        monkeypatch.setattr(module, "LISTED_MAX", 2)
    wallet = await world.customer(1_000)
    number, key = await made(world, wallet)
    for name in ("a", "b", "c"):
        await called(world, {"x-api-key": narrow(key["x-api-key"], name)}, call())
    path = f"/account/keys?parent={number}"
    first = (await get(world, wallet, path)).json()
    rest = (await get(world, wallet, f"{path}&after={first['next_after']}")).json()
    assert [key["name"] for key in first["keys"] + rest["keys"]] == ["a", "b", "c"] and rest["next_after"] is None


@pytest.mark.parametrize("query", ["parent=x", "parent=", "after=-1", "parent=1&more=2", "parent=-1"])
async def test_a_list_of_something_else_is_refused(world: World, query: str) -> None:
    answer = await get(world, await world.customer(1), f"/account/keys?{query}")
    assert (answer.status_code, constant(answer)) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("ending", ["", "A", "A" * 4_000, "=", "AAAA" * 30])
async def test_a_text_that_is_no_key_is_refused_for_free(world: World, ending: str) -> None:
    _, key = await made(world, await world.customer(1_000))
    text = narrow(key["x-api-key"])[:-1] + ending
    answer = await called(world, {"x-api-key": text}, call())
    assert (answer.status_code, constant(answer)) == (401, "AUTH_FAILED")
