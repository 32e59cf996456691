"""Lines of the contract as calls on the running product, through HAProxy."""

import asyncio
import base64
import json
import os
import signal
from asyncio.subprocess import PIPE

import aiohttp
import httpx

from bench.product import Product
from tests.customers import Customer, request


def test_a_head_of_a_paid_page_costs_nothing(product: Product) -> None:
    """Without a body; also through the front, which ends a response to HEAD by itself."""
    customer = Customer(product)
    customer.grant(100)
    with httpx.Client(base_url=product.http_url, headers={"x-api-key": customer.api_key}, timeout=30) as http:
        got, head, again = (http.request(verb, "/relay/getTipAccounts") for verb in ("GET", "HEAD", "GET"))
    assert [answer.status_code for answer in (got, head, again)] == [200] * 3
    assert head.content == b"" and head.headers["content-type"] == got.headers["content-type"]
    assert [answer.headers["x-credits-remaining"] for answer in (got, head, again)] == ["99", "99", "98"]


_MINT = "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"
_CURL = ("curl", "-sS", "--compressed", "-o", "-", "-w", "%{stderr}%{header_json}")
_FETCH = """
const [url, method, key, body] = process.argv.slice(1);
const answer = await fetch(url, {method, body, headers: {"x-api-key": key, "content-type": "application/json"}});
console.error(answer.headers.get("content-encoding"));
process.stdout.write(Buffer.from(await answer.arrayBuffer()));
"""


async def test_clients_read_what_is_compressed_for_them(product: Product) -> None:
    """aiohttp, curl and node's fetch decompress by themselves; the front passes the bytes through. What is relayed of a
    node is the same, byte for byte, whatever the coding."""
    customer = Customer(product)
    customer.grant(1_000)
    batch = json.dumps([{"jsonrpc": "2.0", "id": number, "method": "getGenesisHash"} for number in range(15)])
    for method, path, body in (("GET", "/openapi.json", None), ("POST", "/", batch)):
        url, named = product.http_url + path, {"x-api-key": customer.api_key, "content-type": "application/json"}
        async with httpx.AsyncClient(timeout=30) as http:
            plain = await http.request(method, url, content=body, headers=named | {"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers and len(plain.content) > 1_024
        assert "accept-encoding" in plain.headers["vary"]
        coded = named | {"accept-encoding": "gzip"}
        async with aiohttp.request(method, url, data=body, headers=coded) as answer:
            assert (answer.headers["content-encoding"], await answer.read()) == ("gzip", plain.content)
        sent = [part for name, value in named.items() for part in ("-H", f"{name}: {value}")]
        given = ["-X", method, *(("--data", body) if body else ())]
        curl = [*_CURL, *sent, *given, url]
        fetch = ["node", "--input-type=module", "-e", _FETCH, url, method, customer.api_key, *((body,) if body else ())]
        for command in (curl, fetch):
            done = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
            out, told = await done.communicate()
            assert out == plain.content and (b"gzip" in told or b"zstd" in told), told[:500]


async def test_clients_read_large_answers_that_another_process_compresses(product: Product) -> None:
    """In chunks through the front; when the process is killed, the next answers come as they are until there is
    another."""
    customer = Customer(product)
    customer.grant(100_000)
    customer.limits(10_000, 1_000)
    call = {"jsonrpc": "2.0", "method": "getMultipleAccounts", "params": [[_MINT] * 100, {"encoding": "jsonParsed"}]}
    body = json.dumps([call | {"id": number} for number in range(50)], separators=(",", ":"))
    named = {"x-api-key": customer.api_key, "content-type": "application/json"}
    async with aiohttp.ClientSession(headers=named) as http:

        async def asked(accepts: str) -> tuple[str | None, bytes]:
            async with http.post(product.http_url, data=body, headers={"accept-encoding": accepts}) as answer:
                headers = answer.headers
                assert answer.status == 200, await answer.text()
                assert ("content-length" in headers) is ("content-encoding" not in headers)
                return headers.get("content-encoding"), await answer.read()

        async def until_coded() -> bytes:
            async with asyncio.timeout(30):
                while True:
                    coding, whole = await asked("gzip")
                    assert _values(whole) == wanted
                    if coding == "gzip":
                        return whole
                    await asyncio.sleep(0.05)  # Until the process has started.

        coding, plain = await asked("identity")
        wanted = _values(plain)
        assert coding is None and len(plain) > 1 << 20 and len(wanted) == 50
        await until_coded()
        sent = [part for name, value in named.items() for part in ("-H", f"{name}: {value}")]
        curl = [*_CURL, *sent, "-X", "POST", "--data", "@-", product.http_url]
        done = await asyncio.create_subprocess_exec(*curl, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        out, told = await done.communicate(body.encode())
        assert _values(out) == wanted and (b"gzip" in told or b"zstd" in told), told[:500]
        killed = product.running("compressing_worker")
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        await until_coded()
        assert killed and not set(killed) & set(product.running("compressing_worker"))


def _values(whole: bytes) -> list[object]:
    return [answer["result"]["value"] for answer in json.loads(whole)]


def test_a_block_that_the_node_does_not_have_is_free(product: Product) -> None:
    customer = Customer(product)
    customer.grant(100)
    answer = customer.call("getBlock", 2**40)
    assert answer.body["error"]["code"] == -32004 and answer.headers["x-credits-remaining"] == "100"


def test_plain_errors_name_source_and_constant_whoever_makes_them(product: Product) -> None:
    """Of the door, and of a page; each beside the code."""
    customer = Customer(product)
    for path, name in (("/nowhere", "NOT_FOUND"), ("/account/ledger?limit=0", "INVALID_REQUEST")):
        error = request(f"{product.http_url}{path}", customer.key_headers).body["error"]
        assert (error["code"], error["source"], error["constant"]) == (name, "gateway", name), error


def test_a_bulk_answer_names_its_commitment(product: Product) -> None:
    customer = Customer(product)
    customer.grant(100)
    for commitment in ("confirmed", "finalized"):
        body = json.dumps({"owners": [customer.pubkey], "commitment": commitment}).encode()
        answer = request(f"{product.http_url}/bulk/getTokenBalances", customer.key_headers, body)
        assert answer.status == 200 and answer.body["commitment"] == commitment, answer


def test_a_network_has_one_spelling(product: Product) -> None:
    """Account, terms of a 402 and settlement: the id of x402's version 2."""
    customer = Customer(product)
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "getSlot"}).encode()
    data = request(f"{product.http_url}/", {"Content-Type": "application/json"}, call).body["error"]["data"]
    junk = json.dumps({"transaction": base64.b64encode(os.urandom(40)).decode()}).encode()
    settled = request(f"{product.http_url}/x402/settle", {"Content-Type": "application/json"}, junk)
    assert settled.status == 400 and settled.body["constant"] == "INVALID_REQUEST"
    found = {customer.info()["funding"]["network"], data["network"], settled.body["network"]}
    found |= {each["network"] for each in data["x402"]["accepts"]}
    assert len(found) == 1 and found.pop().startswith("solana:")
