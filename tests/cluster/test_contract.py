"""Lines of the contract as calls on the running product, through HAProxy."""

import base64
import json
import os

import httpx

from bench.product import Product
from tests.customers import Customer, request


def test_a_head_of_a_paid_page_answers_and_costs_as_its_get(product: Product) -> None:
    """Without a body; also through the front, which ends a response to HEAD by itself."""
    customer = Customer(product)
    customer.grant(100)
    with httpx.Client(base_url=product.http_url, headers={"x-api-key": customer.api_key}, timeout=30) as http:
        got, head, again = (http.request(verb, "/relay/getTipAccounts") for verb in ("GET", "HEAD", "GET"))
    assert [answer.status_code for answer in (got, head, again)] == [200] * 3
    assert head.content == b"" and head.headers["content-length"] == got.headers["content-length"]
    assert [answer.headers["x-credits-remaining"] for answer in (got, head, again)] == ["99", "98", "97"]


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
