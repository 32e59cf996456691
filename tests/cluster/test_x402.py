"""x402 at the doors of a real cluster: replicas race, the chain is real, hostile inputs come over HTTP."""

import asyncio
import base64
import json
import time
from typing import Any

import aiohttp
import httpx
import pytest
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.compute_budget import set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from actors.deposits.x402_svm import LIGHTHOUSE
from bench.product import Product
from tests.cluster.test_admission import replica_urls
from tests.customers import Wallet, request, rpc_body
from tests.deposits.x402_making import half_signed, memo, message_of, standard, transfer_checked


class Payer:
    """A fresh wallet with one USDC, who builds what a test wants on the chain's newest blockhash."""

    def __init__(self, product: Product, lamports: int = 0) -> None:
        self.product, self.keypair = product, Keypair()
        self.node_url = str(product.ready["node_url"])
        fund = {"pubkey": str(self.keypair.pubkey()), "lamports": lamports, "usdc_base_units": 1_000_000}
        assert httpx.post(f"{self.node_url}/admin/fund", json=fund).json()["ok"]
        terms = httpx.post(product.http_url, content=rpc_body("getSlot"))
        assert terms.status_code == 402
        self.accept = json.loads(base64.b64decode(terms.headers["payment-required"]))["accepts"][0]
        self.sponsor = Pubkey.from_string(self.accept["extra"]["feePayer"])
        mint = Pubkey.from_string(self.accept["asset"])
        deposit = get_associated_token_address(Pubkey.from_string(self.accept["payTo"]), mint)
        self.transfer = transfer_checked(100_000, self.keypair.pubkey(), deposit, mint)

    def standard(self, *more: Instruction, price: int = 1) -> list[Instruction]:
        return [*standard(price=price)[:2], self.transfer, memo(str(self.keypair.pubkey())), *more]

    def sponsored(self, *instructions: Instruction) -> bytes:
        return half_signed(message_of(list(instructions), self.sponsor, self.blockhash()), self.keypair)

    def blockhash(self) -> Hash:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "getLatestBlockhash", "params": [{"commitment": "confirmed"}]}
        return Hash.from_string(httpx.post(self.node_url, json=asked).json()["result"]["value"]["blockhash"])

    def header(self, raw: bytes) -> str:
        payload = {
            "x402Version": 2,
            "payload": {"transaction": base64.b64encode(raw).decode()},
            "accepted": self.accept,
        }
        return base64.b64encode(json.dumps(payload).encode()).decode()

    def pay(self, raw: bytes) -> httpx.Response:
        headers = {"PAYMENT-SIGNATURE": self.header(raw)}
        return httpx.post(self.product.http_url, content=rpc_body("getSlot"), headers=headers, timeout=10)

    def settle(self, raw: bytes) -> httpx.Response:
        body = {"transaction": base64.b64encode(raw).decode()}
        return httpx.post(f"{self.product.http_url}/x402/settle", json=body, timeout=10)

    def usdc(self) -> int:
        account = str(get_associated_token_address(self.keypair.pubkey(), Pubkey.from_string(self.accept["asset"])))
        asked = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "getTokenAccountBalance",
            "params": [account, {"commitment": "processed"}],
        }
        return int(httpx.post(self.node_url, json=asked).json()["result"]["value"]["amount"])


def receipt(response: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(response.headers["payment-response"]))
    return found


async def test_the_same_payment_twenty_times_is_settled_once(product: Product) -> None:
    """Hostile input 24: at both replicas at the same moment, before it confirms; one call is answered, one charged."""
    payer = Payer(product)
    headers = {"PAYMENT-SIGNATURE": payer.header(payer.sponsored(*payer.standard()))}
    urls = replica_urls(product) or [product.http_url]

    async def pay(session: aiohttp.ClientSession, url: str) -> tuple[int, dict[str, Any]]:
        async with session.post(url, data=rpc_body("getSlot"), headers=headers) as response:
            return response.status, receipt(response)

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
        found = await asyncio.gather(*(pay(session, urls[number % len(urls)]) for number in range(20)))
    assert sorted(status for status, _ in found) == [200, *[402] * 19]
    assert {told["errorReason"] for status, told in found if status == 402} == {"duplicate_settlement"}
    (paid,) = [told for status, told in found if status == 200]
    assert paid["extra"]["balance"] == 10_000
    assert payer.usdc() == 900_000


@pytest.mark.parametrize("what", ["price", "extra", "fee payer as account", "lookup table"])
def test_hostile_payments_are_refused_at_the_doors(product: Product, what: str) -> None:
    """Hostile input 24: 400 from the relay, 402 with the reason from the calls; nothing moves on the chain."""
    payer = Payer(product)
    if what == "price":
        raw = payer.sponsored(*payer.standard(price=10**9))
        bare = payer.sponsored(set_compute_unit_price(10**9), payer.transfer)
    elif what == "extra":
        raw = payer.sponsored(*payer.standard(payer.transfer))
        bare = payer.sponsored(payer.transfer, payer.transfer)
    elif what == "fee payer as account":
        raw = payer.sponsored(*payer.standard(Instruction(LIGHTHOUSE, b"", [AccountMeta(payer.sponsor, False, True)])))
        accounts = [AccountMeta(payer.sponsor, False, True), *payer.transfer.accounts[1:]]
        bare = payer.sponsored(Instruction(payer.transfer.program_id, payer.transfer.data, accounts))
    else:
        table = AddressLookupTableAccount(Pubkey.new_unique(), [payer.transfer.accounts[2].pubkey])
        messages = [
            MessageV0.try_compile(payer.sponsor, instructions, [table], payer.blockhash())
            for instructions in (payer.standard(), [payer.transfer])
        ]
        raw, bare = (half_signed(message, payer.keypair) for message in messages)
    refused = payer.pay(raw)
    assert refused.status_code == 402 and "payment-required" in refused.headers
    assert receipt(refused)["errorReason"].startswith("invalid_exact_svm_payload_")
    relayed = payer.settle(bare)
    assert relayed.status_code == 400 and relayed.json()["error"]
    assert payer.usdc() == 1_000_000


def test_a_stock_payment_is_not_for_the_relay(product: Product) -> None:
    """Interface: sponsored means a single transferChecked and no compute budget."""
    payer = Payer(product)
    relayed = payer.settle(payer.sponsored(*payer.standard()))
    assert relayed.status_code == 400 and "compute budget" in relayed.json()["error"]


def test_the_relay_settles(product: Product) -> None:
    """Interface, "Payment settlement": sponsored; the same transfer made anew is another payment."""
    payer = Payer(product)
    settled = payer.settle(payer.sponsored(payer.transfer))
    told = settled.json()
    assert settled.status_code == 200, told
    assert told["success"] is True and told["network"] == payer.accept["network"]
    assert payer.usdc() == 900_000
    again = payer.settle(payer.sponsored(payer.transfer))  # Another blockhash, so another payment.
    assert again.status_code == 200 and again.json()["transaction"] != told["transaction"]


def test_a_relayed_payment_is_credited_when_its_payer_confirms_it(product: Product) -> None:
    """Interface: credits are not assigned by the relay; POST /account/confirm-deposit credits the authority."""
    payer = Payer(product)
    signature = payer.settle(payer.sponsored(payer.transfer)).json()["transaction"]
    wallet, path = Wallet(str(payer.keypair)), "/account/confirm-deposit"
    body = json.dumps({"signature": signature}).encode()
    for _ in range(120):
        answer = request(product.http_url + path, wallet.headers("POST", path, body), body)
        if answer.status == 200:
            break
        time.sleep(0.5)  # Until it is final.
    assert answer.status == 200, answer
    assert answer.body["new_balance"] == 10_000
    assert answer.body["credits_added"] == (0 if answer.body["already_processed"] else 10_000)


def test_health_says_how_the_sponsor_is(product: Product) -> None:
    """Decisions 3.6: a flag beside the status."""
    health = httpx.get(f"{product.http_url}/health").json()
    assert health["sponsor_balance_low"] is False


def test_a_paid_call_is_answered_in_time(product: Product) -> None:
    """Decisions 3.6: inside 4 s on confirmed commitment."""
    payer = Payer(product)
    raw = payer.sponsored(*payer.standard())
    began = time.monotonic()
    response = payer.pay(raw)
    assert response.status_code == 200, response.text
    assert time.monotonic() - began < 4
