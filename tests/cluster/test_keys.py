"""Named keys of a running product: through kills, many at once, and while they are frozen under open streams.

Rule: decisions, "Named keys". The ledger, which names the key of each entry, has the last word.
"""

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
import websockets

from bench.product import Product
from ledger_gateway.keys import narrow
from tests.cluster.load import Seen, hammer, one_call
from tests.cluster.test_faults import VICTIMS, eventually, load_while
from tests.customers import Customer, request, rpc_body

BUDGETS = (0, 1, 7, 60, 250, 1_000, None)  # Credits for ever; None: no limit.
AT_ONCE = 500
CHILDREN, LEVELS = 1_000, 5
_BACK_SECONDS = 60.0


def managed(customer: Customer, method: str, path: str, body: Any = None) -> Any:
    """Signed by the wallet."""
    raw = b"" if body is None else json.dumps(body).encode()
    headers = customer.wallet.headers(method, path, raw)
    answer = request(customer.product.http_url + path, headers, raw or None, method=method)
    assert answer.status in (200, 201), answer
    return answer.body


def made(customer: Customer, name: str, **limits: Any) -> tuple[int, dict[str, str]]:
    new = managed(customer, "POST", "/account/keys", {"name": name, **limits})
    return new["id"], {"X-Api-Key": new["api_key"], "Content-Type": "application/json"}


def spent_by_key(customer: Customer) -> Counter[int]:
    """Credits of each key by the ledger: debits, less what was refunded."""
    spent, cursor = Counter[int](), ""
    while True:
        url = f"{customer.product.http_url}/account/ledger?details=true&limit=500{cursor}"
        body = request(url, customer.key_headers).body
        for entry in body["entries"]:
            if entry["type"] in ("debit", "refund"):
                spent[entry["key"] or 0] -= entry["amount"]
        if body.get("next_cursor") is None:
            return spent
        cursor = f"&cursor={body['next_cursor']}"


def told(customer: Customer) -> dict[int, int]:
    found = request(f"{customer.product.http_url}/account/keys", customer.key_headers).body["keys"]
    return {key["id"]: key["spent_total"] for key in found}


def is_as_in_the_ledger(customer: Customer) -> bool:
    spent = spent_by_key(customer)
    return all(spent[number] == credits for number, credits in told(customer).items())


async def in_bursts(customer: Customer, keys: list[dict[str, str]], stop: asyncio.Event) -> Seen:
    """AT_ONCE calls at a time, over all keys."""
    seen = Seen()
    timeout, connector = aiohttp.ClientTimeout(total=90), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        while not stop.is_set():
            url = f"{customer.product.http_url}/"
            calls = (one_call(session, url, keys[number % len(keys)], seen) for number in range(AT_ONCE))
            await asyncio.gather(*calls)
            await asyncio.sleep(0.2)
    return seen


def family(root: str, budgets: dict[str, tuple[int | None, str]]) -> dict[str, str]:
    """CHILDREN keys of one named key, five levels deep, with budgets of all sizes: texts by name. budgets: filled with
    the credits that each may spend, and the name of its parent."""
    chance, levels, texts = random.Random(7), [["root"]], {"root": root}
    for level in range(LEVELS):
        levels.append([])
        for number in range(CHILDREN // LEVELS):
            parent, name = chance.choice(levels[level]), f"level {level + 1} child {number}"
            most = chance.choice((None, 0, 1, 3, 20, 200))
            budgets[name] = most, parent
            texts[name] = narrow(texts[parent], name, **({} if most is None else {"credits_total": most}))
            levels[-1].append(name)
    return texts


def all_below(customer: Customer, number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        url = f"{customer.product.http_url}/account/keys?parent={number}&after={after}"
        body = request(url, customer.key_headers).body
        found, after = found + body["keys"], body["next_after"]
    return found + [each for key in found if key["spent_total"] for each in all_below(customer, key["id"])]


@pytest.mark.kills
async def test_a_thousand_children_never_spend_more_than_any_above_them(product: Product) -> None:
    """500 calls at once, through a kill of the owner and one of a replica; each first call of a child takes it up."""
    customer, budgets = Customer(product), dict[str, tuple[int | None, str]]()
    customer.grant(200_000)
    customer.limits(20_000, 2_000)
    made_key = managed(customer, "POST", "/account/keys", {"name": "root", "credits_total": 3_000})
    budgets["root"] = 3_000, ""
    texts = family(made_key["api_key"], budgets)
    keys = [{"X-Api-Key": text, "Content-Type": "application/json"} for text in texts.values()]
    random.Random(8).shuffle(keys)

    def kill_both() -> None:
        for name in ("shard", "replica"):
            os.kill(product.running(VICTIMS[name])[0], signal.SIGKILL)
            time.sleep(2)  # The replica must die while the owner's accounts are being taken over.

    (seen,) = await load_while(kill_both, lambda stop: in_bursts(customer, keys, stop))
    assert seen.answered > 200, seen
    assert await asyncio.to_thread(eventually, lambda: customer.call("getSlot").status == 200, _BACK_SECONDS)
    await asyncio.sleep(12)  # Of a killed replica, what may not have arrived is refunded first.
    spent, shown = await asyncio.to_thread(spent_by_key, customer), await asyncio.to_thread(all_below, customer, 1)
    names = {1: "root"} | {key["id"]: key["name"] for key in shown}
    total = Counter[str]()
    for number, credits in spent.items():
        name = names.get(number, "")
        while name:
            total[name] += credits
            name = budgets[name][1]
    assert len([name for name in total if total[name]]) > 100 and total["root"] <= 3_000, total["root"]
    over = {name: (spent, budgets[name]) for name, spent in total.items() if spent > (budgets[name][0] or 1 << 60)}
    assert not over and not any(total[name] for name, (most, _) in budgets.items() if most == 0), over
    assert all(total[key["name"]] == key["spent_total"] for key in shown)
    audit = await asyncio.to_thread(product.audit)
    assert audit.returncode == 0, audit.stdout + audit.stderr


@pytest.mark.kills
@pytest.mark.parametrize("victim", ["shard", "replica"])
async def test_no_key_spends_one_credit_too_many_through_a_kill(product: Product, victim: str) -> None:
    """500 calls at once by keys of all budgets, beside a victim with a key of its own, which is not hurt by them."""
    customer, other = Customer(product), Customer(product)
    for each in (customer, other):
        each.grant(200_000)
        each.limits(20_000, 2_000)
    keys = [made(customer, f"key {number}", credits_total=most) for number, most in enumerate(BUDGETS)]
    (pid, *_) = product.running(VICTIMS[victim])
    everyone: list[Callable[[asyncio.Event], Any]] = [
        lambda stop: in_bursts(customer, [headers for _, headers in keys], stop),
        lambda stop: hammer(other, 4, stop),
    ]
    seen, beside = await load_while(lambda: os.kill(pid, signal.SIGKILL), *everyone)
    assert seen.answered > 100 and beside.answered > 20, (seen, beside)
    assert eventually(lambda: customer.call("getSlot").status == 200, _BACK_SECONDS)
    # Of a killed replica, what may not have arrived is refunded first.
    # A refund between the two looks makes them differ for that moment.
    assert eventually(lambda: is_as_in_the_ledger(customer), _BACK_SECONDS), (told(customer), spent_by_key(customer))
    spent = spent_by_key(customer)
    for (number, _), most in zip(keys, BUDGETS, strict=True):
        assert most is None or spent[number] <= most, (number, spent[number], most)
    audit = await asyncio.to_thread(product.audit)
    assert audit.returncode == 0, audit.stdout + audit.stderr


async def test_a_budget_is_spent_to_the_last_credit_and_never_further(product: Product) -> None:
    """500 calls at once for a budget of 123: exactly so many are answered."""
    customer = Customer(product)
    customer.grant(10_000)
    customer.limits(20_000, 2_000)
    number, headers = made(customer, "exact", credits_total=123)
    seen = Seen()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        url = f"{product.http_url}/"
        await asyncio.gather(*(one_call(session, url, headers, seen) for _ in range(AT_ONCE)))
    assert (seen.answered, seen.kinds["200"]) == (123, 123), seen.kinds
    assert await asyncio.to_thread(eventually, lambda: told(customer)[number] == 123, _BACK_SECONDS)
    assert spent_by_key(customer)[number] == 123
    by_key = request(f"{product.http_url}/account/usage?by=key", customer.key_headers).body
    assert {row["key"]: row["credits"] for row in by_key["rows"]} == {str(number): 123}


@pytest.mark.kills
async def test_an_hour_costs_at_most_what_the_wallet_allows(product: Product) -> None:
    """By two keys at once, for a limit of 300: exactly so many are answered, and none by the next owner.

    Rule: decisions, "Hourly limit".
    """
    customer, seen = Customer(product), Seen()
    customer.grant(10_000)
    customer.limits(20_000, 2_000)
    _, named = made(customer, "bot")
    if (left := 3_600 - time.time() % 3_600) < 90:
        await asyncio.sleep(left + 1)  # The hour must not turn while the calls are made.
    assert managed(customer, "PATCH", "/account/hourly-limit", {"credits_an_hour": 300})["credits_an_hour"] == 300
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        url, own = f"{product.http_url}/", customer.key_headers | {"Content-Type": "application/json"}
        while seen.kinds["403"] < AT_ONCE and seen.kinds.total() < 10 * AT_ONCE:
            await asyncio.gather(*(one_call(session, url, own if number % 2 else named, seen) for number in range(100)))
    assert seen.answered == 300 and seen.kinds["403"] >= AT_ONCE, seen.kinds
    assert await asyncio.to_thread(eventually, lambda: sum(spent_by_key(customer).values()) == 300, _BACK_SECONDS)
    os.kill(product.running(VICTIMS["shard"])[0], signal.SIGKILL)

    def is_stopped_again() -> bool:
        shown = request(f"{product.http_url}/account/hourly-limit", customer.key_headers)
        return shown.status == 200 and shown.body["stage"] == "stopped"

    assert await asyncio.to_thread(eventually, is_stopped_again, _BACK_SECONDS)
    refused = customer.call("getSlot")
    assert (refused.status, refused.body["error"]["data"]["constant"]) == (403, "HOURLY_LIMIT_EXCEEDED")
    assert sum(spent_by_key(customer).values()) == 300
    assert managed(customer, "PATCH", "/account/hourly-limit", {"lift_seconds": 60})["stage"] == "lifted"
    assert customer.call("getSlot").status == 200


@pytest.mark.parametrize("end", ["frozen", "deleted", "spent"])
async def test_an_open_stream_ends_with_its_key(product: Product, end: str) -> None:
    """Within a second, and the socket of the account's own key stays."""
    customer = Customer(product)
    customer.grant(10_000)
    limits = {"credits_total": 17} if end == "spent" else {}
    number, headers = made(customer, "stream", **limits)
    url = f"{product.http_url.replace('http', 'ws', 1)}/ws"
    own = websockets.connect(url, additional_headers=customer.key_headers)
    keyed = websockets.connect(url, additional_headers=headers)
    async with own as staying, keyed as socket:
        for each in (staying, socket):
            await each.send(rpc_body("slotSubscribe").decode())
            assert "result" in json.loads(await asyncio.wait_for(each.recv(), 20))
        began = time.monotonic()
        if end == "frozen":
            await asyncio.to_thread(managed, customer, "PATCH", f"/account/keys/{number}", {"frozen": True})
        elif end == "deleted":
            await asyncio.to_thread(managed, customer, "DELETE", f"/account/keys/{number}")
        else:
            await asyncio.to_thread(request, f"{product.http_url}/", headers, rpc_body("getBalance", customer.pubkey))
            for _ in range(3):
                await asyncio.to_thread(request, f"{product.http_url}/", headers, rpc_body("getSlot"))
        with pytest.raises(websockets.ConnectionClosed) as closed:
            while True:
                await asyncio.wait_for(socket.recv(), 30)
        seconds = time.monotonic() - began
        assert closed.value.rcvd is not None and closed.value.rcvd.reason.startswith(
            "key_budget_exceeded" if end == "spent" else "auth_failed"
        ), closed.value
        assert end == "spent" or seconds < 3.0, seconds
        await asyncio.wait_for(staying.recv(), 20)
    assert await asyncio.to_thread(eventually, lambda: told(customer).get(number, 0) <= 17, _BACK_SECONDS)
    assert spent_by_key(customer)[number] <= 17 or end != "spent"
