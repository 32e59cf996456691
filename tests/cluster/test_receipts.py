"""Receipts of a running product: of each kind of charge, through kills, for their own account alone.

Rules: decisions, "Signed roots"; money rules 2 and 6.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from typing import Any

import httpx
import pytest
import websockets

from bench.product import Product
from ledger_gateway.receipts import (
    Chain,
    PublishedKey,
    Receipt,
    check,
    check_continued,
    digest_of,
    public_keys,
    read_receipts,
)
from tests.cluster.load import steady
from tests.cluster.proofs import assert_the_script_proves, read_by_key
from tests.cluster.test_faults import VICTIMS, eventually, load_while
from tests.customers import Customer, request, rpc_body
from tests.product import StaffedProduct, processes_of

_PER_SECOND = 100
_SEALED_SECONDS = 60.0


def page(customer: Customer, path: str) -> Any:
    answer = request(f"{customer.product.http_url}{path}", customer.key_headers)
    assert answer.status == 200, answer
    return answer.body


def keys_of(product: Product) -> dict[str, PublishedKey]:
    return public_keys(request(f"{product.http_url}/.well-known/ledger-keys.json", {}).body)


def every_receipt(customer: Customer) -> list[Receipt]:
    """Of the whole ledger, newest first; fails while an entry is in no statement."""
    found: list[Receipt] = []
    path = "/account/receipts?limit=100"
    while path:
        body = page(customer, path)
        assert body["pending"] == 0
        found += read_receipts(body)
        path = body["next_cursor"] and f"/account/receipts?limit=100&cursor={body['next_cursor']}"
    return found


def assert_all_is_proven(customer: Customer) -> list[Receipt]:
    assert eventually(lambda: bool(every_receipt(customer)), _SEALED_SECONDS), page(customer, "/account/receipts")
    found, keys = every_receipt(customer), keys_of(customer.product)
    hashes = {receipt.entry.number: check(receipt, keys) for receipt in found}
    assert [receipt.entry.number for receipt in found] == list(range(len(found), 0, -1))
    for receipt in found[:-1]:
        assert bytes.fromhex(receipt.before) == hashes[receipt.entry.number - 1]
    return found


@pytest.mark.kills
async def test_every_entry_is_proven_when_an_owner_was_killed(product: Product) -> None:
    """In the middle of two customers' calls. And what one had before is continued by what it has now."""
    customers = [Customer(product) for _ in range(2)]
    for customer in customers:
        customer.grant(100_000)
        customer.limits(10_000, 1_000)
        customer.call("getSlot")
    earlier = [assert_all_is_proven(customer)[0] for customer in customers]
    (pid,) = product.running(VICTIMS["shard"])
    seen = await load_while(
        lambda: os.kill(pid, signal.SIGKILL), *(partial(steady, customer, _PER_SECOND) for customer in customers)
    )
    for customer, first, answers in zip(customers, earlier, seen, strict=True):
        assert answers.answered > _PER_SECOND
        later = await asyncio.to_thread(assert_all_is_proven, customer)
        ends = [f"{one.entry.at_ms}-{one.entry.number}" for one in (first, later[0])]
        between = page(customer, f"/account/consistency?from={ends[0]}&to={ends[1]}")
        chain = Chain(
            between["account"], between["after"], [one.entry for one in reversed(later[: -first.entry.number])]
        )
        assert len(between["entries"]) == min(1_000, len(chain.entries))
        check_continued(first, later[0], chain)
    audit = await asyncio.to_thread(product.audit, with_roots=True)
    assert audit.returncode == 0 and "signed statements" in audit.stdout, audit.stdout + audit.stderr
    await asyncio.to_thread(assert_memos_are_on_the_chain, product)


def assert_memos_are_on_the_chain(product: StaffedProduct) -> None:
    """The chain has one memo of the hour, with a statement of the files, and no second one after a kill of the
    sender."""
    told = json.loads(product.command("memos", "show", "--json"))
    command = [sys.executable, "-m", "actors.memos.audit", "--payer", told["payer"], "--json", "--roots"]
    command += [str(product.data_dir / "roots"), "--node-url", str(product.ready["node_url"])]

    def audited() -> Any:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    assert eventually(lambda: audited()["memos"] > 0, _SEALED_SECONDS)
    hour, before = time.time() // 3600, audited()
    (pid,) = processes_of(product, "ray::MemoSender")
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: bool(set(processes_of(product, "ray::MemoSender")) - {pid}), _SEALED_SECONDS)
    assert eventually(lambda: json.loads(product.command("memos", "show", "--json"))["lamports"] > 0, _SEALED_SECONDS)
    after = audited()
    assert after["series"] == before["series"] == 1 and (after == before or time.time() // 3600 > hour)
    assert after["lamports"] == 5_600 * after["memos"]


async def test_each_kind_of_charge_has_its_receipt(product: Product) -> None:
    """Call, batch item, bulk items, send, subscription and its updates: each entry is proven, with what was asked and
    answered where there is one answer, to the client and to README's script. That script checks trades, sends, gRPC
    minutes, deliveries and payments by x402 where they are tested."""
    customer, stranger = Customer(product), Customer(product)
    customer.grant(10_000)
    stranger.grant(10_000)
    url, headers = product.http_url, customer.key_headers
    asked = rpc_body("getBalance", customer.pubkey)
    call = await asyncio.to_thread(httpx.post, url, headers=headers, content=asked)
    batch = b"[" + rpc_body("getSlot") + b"," + rpc_body("getBlockHeight") + b"]"
    batched = request(url, headers, batch)
    bulk = request(f"{url}/bulk/getBalances", headers, json.dumps({"addresses": [customer.pubkey] * 3}).encode())
    assert (call.status_code, batched.status, bulk.status) == (200, 200, 200)
    socket_url = f"{url.replace('http', 'ws', 1)}/ws"
    async with websockets.connect(socket_url, additional_headers=customer.key_headers) as socket:
        await socket.send(rpc_body("slotSubscribe").decode())
        for _ in range(3):
            await socket.recv()
    assert eventually(lambda: "slotSubscribe" in methods_of(customer), _SEALED_SECONDS)
    found = await asyncio.to_thread(assert_all_is_proven, customer)
    charged = {receipt.entry.method for receipt in found if receipt.entry.type == 2}
    assert {"getBalance", "getSlot", "getBlockHeight", "slotSubscribe"} <= charged
    await asyncio.to_thread(
        assert_the_script_proves, product, read_by_key(customer), "getBalance", "bulk", "getSlot", "slotSubscribe"
    )
    (balance,) = [receipt for receipt in found if receipt.entry.method == "getBalance"]
    assert balance.entry.digest == digest_of(json.dumps([customer.pubkey]).encode(), call.content)
    assert balance.entry.request_id == call.headers["x-request-id"]
    path = f"{url}/account/receipts/{balance.entry.operation}"
    assert request(path, stranger.key_headers).status == 404 and request(path, {}).status == 402


def methods_of(customer: Customer) -> set[str]:
    return {entry["description"].split(":")[0] for entry in customer.entries()}
