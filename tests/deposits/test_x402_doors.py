"""Payments at the real door over a real chain: brought by a third party, or made to fail by the payer."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from pydantic import SecretStr
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from actors.accounts.api import AdjustCredits, Describe
from actors.config import Config, PaymentsConfig, StorageConfig
from actors.deposits.x402.rules import LIGHTHOUSE
from actors.gateway.doors.http import HttpDoor
from actors.gateway.doors.parts import Dependencies
from actors.x402_types import mint_of
from tests.gateway.doubles import ScriptedNode
from tests.gateway.world import InProcessAccounts, Pages
from tests.identity.memory_store import MemoryIdentityStore

from .x402_world import USDC, PaymentWorld, with_limits

PAID = 10_000  # Base units of the least deposit: 1,000 credits.


class Doors:
    """Two replicas' doors over one payment world. Each client comes from an address of its own."""

    def __init__(self, world: PaymentWorld) -> None:
        self.world, self.node = world, ScriptedNode()
        self.payments = PaymentsConfig(
            network="devnet", deposit_wallet=str(world.deposit.pubkey()), sponsor_pubkey=str(world.sponsor.pubkey)
        )
        self.identity_store = MemoryIdentityStore(world.clock)
        self.doors = [self._door(settler) for settler in (world.settler, world.new_settler())]
        self._failing: dict[Signature, Keypair] = {}
        self._clients = 0
        self._send = world.network.send
        world.network.send = self._drained  # type: ignore[method-assign]

    def _door(self, settler: Any) -> HttpDoor:
        config = Config(storage=StorageConfig(cluster_secret=SecretStr("s" * 32)), payments=self.payments)
        accounts: Any = InProcessAccounts(self.world.shard)
        return HttpDoor(
            Dependencies(
                config, accounts, self.node, self.identity_store, Pages(), self.world.clock, payment_settler=settler
            )
        )

    def client(self, replica: int = 0, address: str | None = None) -> httpx.AsyncClient:
        self._clients += 1
        address = address or f"9.0.{self._clients // 250}.{self._clients % 250 + 1}"
        transport = httpx.ASGITransport(self.doors[replica], client=(address, 5_000))
        return httpx.AsyncClient(transport=transport, base_url="http://gateway.test")

    def header(self, raw: bytes) -> dict[str, str]:
        accepted = {
            "scheme": "exact",
            "network": "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
            "amount": str(PAID),
            "asset": mint_of(self.payments),
            "payTo": self.payments.deposit_wallet,
            "extra": {"feePayer": self.payments.sponsor_pubkey},
        }
        payload = {"transaction": base64.b64encode(raw).decode()}
        offer = {"x402Version": 2, "payload": payload, "accepted": accepted}
        return {"PAYMENT-SIGNATURE": base64.b64encode(orjson.dumps(offer)).decode()}

    async def call(self, raw: bytes, body: Any = None, replica: int = 0, address: str | None = None) -> httpx.Response:
        """Send one call, or `body`, with this payment."""
        async with self.client(replica, address) as client:
            return await client.post("/", content=orjson.dumps(body or rpc("getSlot")), headers=self.header(raw))

    def poor(self) -> Keypair:
        return self.world.chain.wallet(lamports=10**9, usdc_base_units=USDC)

    def failing(self, payer: Keypair, text: str = "memo") -> bytes:
        """A payment that passes the simulation; its payer moves the money away before it is sent."""
        raw = self.world.standard(USDC, payer, text)
        self._failing[VersionedTransaction.from_bytes(raw).signatures[1]] = payer
        return raw

    async def _drained(self, transaction: bytes) -> Any:
        payer = self._failing.get(VersionedTransaction.from_bytes(transaction).signatures[1])
        if payer is not None:
            chain = self.world.chain
            chain.land(chain.signed(payer, self.world.transfer(USDC, payer)))
        return await self._send(transaction)

    def refill(self, payer: Keypair) -> None:
        """Give the payer the same money again, as if another of its wallets had sent it back."""
        self.world.chain.faucet.fund(payer.pubkey(), 0, USDC)

    @property
    def signed(self) -> int:
        return len(self.world.sponsor.signed)


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Doors]:
    world = PaymentWorld(tmp_path)
    await world.shard.start()
    yield Doors(world)
    await world.close()


def rpc(method: str, *params: Any, id: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": list(params)}


def receipt(response: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(base64.b64decode(response.headers["payment-response"]))
    return found


async def enriched(doors: Doors, credits: int = 100_000) -> None:
    """The payer's account has credits from before."""
    answer = await doors.world.shard.ask(
        AdjustCredits(bytes(doors.world.payer.pubkey()), credits, "earlier", "earlier")
    )
    assert answer.refusal is None


async def spent(doors: Doors) -> int:
    answer = await doors.world.shard.ask(Describe(bytes(doors.world.payer.pubkey())))
    assert answer.value is not None
    return answer.value.total_consumed


# --- a payment in a stranger's hands (threat 51)


async def test_a_payment_opens_no_session(doors):
    """Threat 51: the client that brings it gets one answer, and nothing that is valid for another call."""
    await enriched(doors)
    response = await doors.call(doors.world.standard(PAID))
    assert response.status_code == 200
    told = receipt(response)
    assert set(told["extra"]) == {"account", "credits_added", "balance"}
    assert not any("token" in name for name in (*told, *told["extra"]))
    assert doors.identity_store._sessions == {}, "no session was made, told or not"
    assert await doors.world.accounts.balance(doors.world.payer.pubkey()) == 100_000 + 1_000 - 1


async def test_a_stranger_spends_at_most_what_the_payment_brought(doors):
    """Threat 51: the account holds a hundred times more, and a batch asks for more than twice the payment."""
    await enriched(doors)
    raw = doors.world.standard(PAID)
    response = await doors.call(raw, [rpc("getBlock", number, id=number) for number in range(100)])
    codes = [item.get("error", {}).get("code") for item in response.json()]
    assert codes == [None] * 40 + [-32010] * 60
    assert await spent(doors) == 1_000
    assert await doors.world.accounts.balance(doors.world.payer.pubkey()) == 100_000


async def test_two_strangers_with_one_payment_get_one_answer(doors):
    """Threats 24 and 51: at both replicas at the same moment; one call, one charge, and one simulation."""
    await enriched(doors)
    raw = doors.world.standard(PAID)
    found = await asyncio.gather(*(doors.call(raw, replica=number % 2) for number in range(10)))
    assert sorted(response.status_code for response in found) == [200, *[402] * 9]
    assert len(doors.node.calls) == 1 and await spent(doors) == 1
    assert doors.world.node.count("simulateTransaction") == 1, "claimed before a node sees it"
    assert doors.signed == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/account/info", b""),
        ("GET", "/account/ledger", b""),
        ("GET", "/account/history", b""),
        ("POST", "/account/api-key", b"{}"),
        ("POST", "/account/confirm-deposit", orjson.dumps({"signature": "1" * 64})),
        ("POST", "/auth/logout", b"{}"),
    ],
)
async def test_a_payment_opens_no_page_of_its_payers_account(doors, method, path, body):
    """Threat 51: nothing is read, no key is made, and the payment is not taken for it either."""
    await enriched(doors)
    async with doors.client() as client:
        response = await client.request(method, path, content=body, headers=doors.header(doors.world.standard(PAID)))
    assert response.status_code == 402 and "payment-response" not in response.headers
    assert str(doors.world.payer.pubkey()) not in response.text
    assert "payment-required" not in response.headers, "no offer, as the next payment would not be taken either"
    assert doors.signed == 0 and doors.world.received() == 0


async def test_the_account_pages_still_offer_to_sign_in(doors):
    """The way to the account: a wallet's signature that is bound to this service."""
    async with doors.client() as client:
        response = await client.get("/account/ledger")
    offered = orjson.loads(base64.b64decode(response.headers["payment-required"]))
    assert "sign-in-with-x" in offered["extensions"]


# --- payments that simulate well and fail on the chain (threat 52)


async def test_four_poor_wallets_stop_x402_for_nobody_else(tmp_path):
    """Threat 52: as many failing payments as the budget of all has, and more, from four wallets; each loses its
    own right after the first, and a wallet that was never seen pays as before."""
    world = PaymentWorld(tmp_path, with_limits(failures_per_hour=8))
    await world.shard.start()
    doors = Doors(world)
    wallets = [doors.poor() for _ in range(4)]
    answers = []
    for attempt in range(4):
        for wallet in wallets:
            if attempt:
                doors.refill(wallet)
            answers.append(await doors.call(doors.failing(wallet, f"{attempt}")))
        await world.rounds()
        world.clock.advance(61)
    assert doors.signed == 4, "one lost fee for each wallet"
    assert {receipt(one)["errorReason"] for one in answers[:4]} == {"settlement_failed"}
    assert {receipt(one)["errorReason"] for one in answers[4:]} == {"sponsorship_refused"}
    assert (await doors.call(world.standard(PAID, doors.poor()))).status_code == 200
    assert (await doors.call(world.standard(PAID))).status_code == 200
    await world.close()


async def test_two_adversaries_at_once_lose_one_fee_each(doors):
    """Threat 52: ten payments of each at the same moment, at both replicas; one of each is co-signed."""
    wallets = [doors.poor(), doors.poor()]
    raws = [doors.failing(wallet, str(number)) for number in range(10) for wallet in wallets]
    honest = doors.world.standard(PAID, doors.poor())
    *failed, paid = await asyncio.gather(
        *(doors.call(raw, replica=number % 2) for number, raw in enumerate(raws)), doors.call(honest)
    )
    assert doors.signed == 3 and paid.status_code == 200
    assert {response.status_code for response in failed} == {402, 429}


async def test_failures_stay_with_the_token_account_too(doors):
    """Threat 52: the same money, moved by a delegate that was never seen, is not sponsored again."""
    owner, delegate = doors.poor(), Keypair()
    await doors.call(doors.failing(owner))
    await doors.world.rounds()
    doors.refill(owner)
    world = doors.world
    source = world.transfer(USDC, owner).accounts[0].pubkey
    accounts = [AccountMeta(source, False, True), AccountMeta(delegate.pubkey(), False, False)]
    accounts.append(AccountMeta(owner.pubkey(), True, False))
    approve = Instruction(world.transfer(1, owner).program_id, b"\x04" + USDC.to_bytes(8, "little"), accounts)
    world.chain.land(world.chain.signed(owner, approve))
    moved = world.transfer(PAID, delegate)
    moved = Instruction(moved.program_id, moved.data, [AccountMeta(source, False, True), *moved.accounts[1:]])
    refused = await doors.call(world.framed(moved, delegate))
    assert refused.status_code == 402 and receipt(refused)["errorReason"] == "sponsorship_refused"
    assert doors.signed == 1


async def test_an_address_loses_its_newcomers_and_no_other(doors):
    """Threat 52: a new wallet for each failing payment helps nobody who stays where he is."""
    for _ in range(7):
        await doors.call(doors.failing(doors.poor()), address="9.9.9.9")
    await doors.world.rounds()
    assert doors.signed == 5
    assert (await doors.call(doors.world.standard(PAID, doors.poor()), address="9.9.9.9")).status_code == 429
    assert (await doors.call(doors.world.standard(PAID, doors.poor()), address="9.9.9.8")).status_code == 200


@pytest.mark.parametrize("kind", ["clock", "mint", "deposit account", "a stranger's account"])
async def test_conditions_that_fail_for_free_are_refused(doors, kind):
    """Threat 52: a guard that reads what its payer does not pay to change is refused before any node sees it."""
    world = doors.world
    read = {
        "clock": [],
        "mint": [Pubkey.from_string(mint_of(doors.payments))],
        "deposit account": [world.rules.deposit_account],
        "a stranger's account": [Keypair().pubkey()],
    }[kind]
    data = b"\x0f\x00" if kind == "clock" else b"\x05\x00"
    guard = Instruction(LIGHTHOUSE, data, [AccountMeta(key, False, False) for key in read])
    response = await doors.call(world.standard(PAID, more=(guard,)))
    assert response.status_code == 402
    assert receipt(response)["errorReason"] == "invalid_exact_svm_payload_transaction_instructions_guard"
    assert world.node.asked == [] and doors.signed == 0
