"""The real door over the real owner of accounts, in one process: memory stores, unless a test gives others, and a clock
that the test moves."""

import asyncio
import contextlib
import hashlib
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import base58
import httpx
from nacl.signing import SigningKey
from pydantic import SecretStr

from actors.accounts.actor import AccountShard
from actors.accounts.api import AdjustCredits, Command, OwnerReply, OwnerUnavailable, Value
from actors.accounts.price_list_commands import SetPriceList
from actors.calls import (
    ChargeReply,
    ChargeRequest,
    HoldReply,
    HoldRequest,
    SettleReply,
    SettleRequest,
    StreamTime,
    StreamTimeReply,
)
from actors.clock import ManualClock
from actors.config import (
    AccountsConfig,
    Config,
    GatewayConfig,
    IdentityConfig,
    LookupsConfig,
    PaymentsConfig,
    PricingConfig,
    StorageConfig,
)
from actors.gateway.doors.http import HttpDoor
from actors.gateway.doors.parts import Dependencies
from actors.hotlink.replica import LinkTimeout
from actors.identity.store import IdentityStore
from actors.operator_config import OperatorConfig
from actors.receipts.root_keys import KeySeal
from actors.telemetry.metrics import Metrics
from actors.units import VIRTUAL_SHARDS, VirtualShard
from actors.upstream.replies import Node
from actors.x402_types import PaymentSettler
from tests.accounts.memory_store import MemoryAccountStore
from tests.identity.memory_store import MemoryIdentityStore

from .doubles import ScriptedNode

DEPOSIT_WALLET = "So11111111111111111111111111111111111111112"
SPONSOR = "SysvarC1ock11111111111111111111111111111111"


class InProcessAccounts:
    """api.AccountsClient over a shard in this process, as hosting has it over links. `down`: nobody answers."""

    def __init__(self, shard: AccountShard) -> None:
        self._shard = shard
        self.down = False
        self.in_touch = True
        self.gives_up = False  # Whether the owner has refunded by now what it was not told to be delivered.
        self.confirms = 0
        self.holds: list[HoldRequest] = []
        self.settles: list[SettleRequest] = []
        self.charges: list[ChargeRequest] = []
        self.delivered_operations: list[bytes] = []
        self._background: set[asyncio.Task[Any]] = set()

    async def hold(self, request: HoldRequest) -> HoldReply:
        self._check()
        self.holds.append(request)
        reply = self._shard.hold_now(request)
        return reply if isinstance(reply, HoldReply) else await reply

    async def settle(self, request: SettleRequest) -> SettleReply:
        self._check()
        self.settles.append(request)
        return await self._settled(self._shard.settle_now(request))

    async def charge(self, request: ChargeRequest) -> ChargeReply:
        self._check()
        self.charges.append(request)
        return await self._settled(self._shard.charge_now(request))

    def may_leave(self, charge: SettleRequest) -> bool:
        """The owner is in this process: nobody is ever out of touch, unless the test says so."""
        return self.in_touch

    async def confirm(self, charge: SettleRequest) -> bool:
        self.confirms += 1
        if self.gives_up:
            await self._settled(self._shard.void_now(charge))
        self.in_touch = (await self.settle(charge)).ok
        return self.in_touch

    def delivered(self, pubkey: bytes, operation: bytes) -> None:
        """Nothing dies here, so it is only noted."""
        self.delivered_operations.append(operation)

    def void(self, request: SettleRequest) -> None:
        task = asyncio.ensure_future(self._settled(self._shard.void_now(request)))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _settled(self, settled: Any) -> Any:
        try:
            if not isinstance(settled, tuple):
                settled = (await settled, None)
            if settled[1] is not None:
                await asyncio.shield(settled[1])
        except OwnerUnavailable:
            raise
        except Exception as error:
            raise OwnerUnavailable from error
        reply: SettleReply = settled[0]
        return reply

    def _check(self) -> None:
        if self.down:
            raise OwnerUnavailable from LinkTimeout()

    async def stream_time(self, request: StreamTime) -> StreamTimeReply:
        return self._shard.stream_time(request)

    async def ask(self, command: Command[Value]) -> OwnerReply[Value]:
        self._check()
        return await self._shard.ask(command)

    async def ask_many(self, commands: Sequence[Command[Value]]) -> list[OwnerReply[Value]]:
        self._check()
        return await self._shard.ask_many(commands)


class Pages:
    """Public pages that show nothing but that they were asked."""

    def health(self) -> tuple[int, dict[str, Any]]:
        return 503, {"status": "starting"}

    def pricing(self, price_list: str = "") -> dict[str, Any]:
        return {"ok": True, "credits_per_usdc": 100_000} | ({"list": price_list} if price_list else {})

    def capabilities(self) -> dict[str, Any]:
        return {"ok": True}

    def landing(self) -> dict[str, Any] | None:
        return {"races": 0}


class Wallet:
    """A customer: signs as the interface has it."""

    def __init__(self, number: int, clock: ManualClock) -> None:
        self.key = SigningKey(number.to_bytes(32, "big"))
        self.pubkey = bytes(self.key.verify_key)
        self.text = base58.b58encode(self.pubkey).decode()
        self.api_key = ""
        self._clock = clock
        self._nonces = itertools.count()

    def sign(self, text: str) -> str:
        return base58.b58encode(self.key.sign(text.encode()).signature).decode()

    def headers(self, method: str, path: str, body: bytes, nonce: str | None = None, at: int | None = None) -> dict:
        nonce = nonce or f"n{next(self._nonces)}"
        at = self._clock.now() if at is None else at
        digest = "" if method == "GET" else hashlib.sha256(body).hexdigest()
        signature = self.sign(f"ledger-svc:v2:{method}:{path}:{at}:{nonce}:{digest}")
        return {"x-pubkey": self.text, "x-signature": signature, "x-timestamp": str(at), "x-nonce": nonce}


class World:
    def __init__(
        self,
        node: Node | None = None,
        identity_store: IdentityStore | None = None,
        desk: PaymentSettler | None = None,
        **settings: Any,
    ) -> None:
        self.clock: ManualClock = settings.get("clock") or ManualClock()
        self.config = Config(
            storage=StorageConfig(cluster_secret=SecretStr("s" * 32)),
            payments=PaymentsConfig(
                network="devnet", deposit_wallet=DEPOSIT_WALLET, sponsor_pubkey=SPONSOR, **settings.get("payments", {})
            ),
            accounts=AccountsConfig(**settings.get("accounts", {})),
            identity=IdentityConfig(**settings.get("identity", {})),
            gateway=GatewayConfig(**settings.get("gateway", {})),
            pricing=PricingConfig(**settings.get("pricing", {})),
            lookups=LookupsConfig(**settings.get("lookups", {})),
            operator=settings.get("operator") or OperatorConfig(),
        )
        self.node: Any = node or ScriptedNode()
        self.store = settings.get("account_store") or MemoryAccountStore(self.clock)
        self.identity_store = identity_store or MemoryIdentityStore(self.clock)
        self.shard = AccountShard(
            self.config.accounts,
            self.config.identity,
            self.config.payments,
            self.store,
            self.identity_store,
            self.clock,
            "test",
            [VirtualShard(number) for number in range(VIRTUAL_SHARDS)],
            sleep=_for_ever,
            seal=KeySeal(b"secret"),
        )
        self.accounts, self.metrics = InProcessAccounts(self.shard), Metrics()
        self.door: HttpDoor = HttpDoor(
            Dependencies(
                self.config,
                self.accounts,
                self.node,
                self.identity_store,
                settings.get("status") or Pages(),
                self.clock,
                payment_settler=desk,
                deposits=settings.get("deposits"),
                peers_are_clients=settings.get("peers_are_clients", True),
                metrics=self.metrics,
                callers=settings.get("callers", {}),
                quotes=settings.get("quotes", {}),
                pages=settings.get("pages", ()),
                relay=settings.get("relay", False),
                idempotency=settings.get("idempotency"),
                recent=settings.get("recent"),
            )
        )
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(self.door), base_url="http://gateway.test")
        self._wallets = itertools.count(1)
        self._grants = itertools.count()

    async def customer(self, credits: int = 0, account: bool = True) -> Wallet:
        """A wallet; with an account and a key of its own unless told otherwise."""
        wallet = Wallet(next(self._wallets), self.clock)
        if account:
            response = await self.http.post(
                "/account/api-key", content=b"{}", headers=wallet.headers("POST", "/account/api-key", b"{}")
            )
            assert response.status_code == 200, response.text
            wallet.api_key = response.json()["api_key"]
            if credits:
                await self.grant(wallet, credits)
        return wallet

    async def grant(self, wallet: Wallet, credits: int) -> None:
        answer = await self.shard.ask(AdjustCredits(wallet.pubkey, credits, "test", f"grant-{next(self._grants)}"))
        assert answer.refusal is None, answer

    async def give_list(self, wallet: Wallet, name: str) -> None:
        answer = await self.shard.ask(SetPriceList(wallet.pubkey, name))
        assert answer.refusal is None, answer

    async def balance(self, wallet: Wallet) -> int:
        return int((await self._read(wallet, "info"))["balance"])

    async def debits(self, wallet: Wallet) -> list[tuple[str, int]]:
        """(method, credits) of every charged call, oldest first: read from the ledger, not from headers."""
        entries = (await self._read(wallet, "history?limit=500"))["entries"]
        return [(entry["method"], entry["credits"]) for entry in reversed(entries)]

    async def _read(self, wallet: Wallet, page: str) -> dict[str, Any]:
        self.clock.advance(60)  # Reading for an assertion must not run into the limit of the address.
        response = await self.http.get(f"/account/{page}", headers={"x-api-key": wallet.api_key})
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    async def rpc(self, wallet: Wallet | None, body: Any, path: str = "/", **headers: str) -> httpx.Response:
        """POST with the wallet's API key. body: bytes as they are, anything else as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {} if wallet is None else {"x-api-key": wallet.api_key}
        return await self.http.post(path, content=content, headers=sent | headers)


def call(method: str = "getSlot", *params: Any, id: Any = 1) -> dict[str, Any]:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    return body | ({"params": list(params)} if params else {})


def constant(response: httpx.Response) -> str:
    """The error table's name, from either kind of body."""
    error = response.json()["error"]
    name: str = error["data"]["constant"] if "constant" in error.get("data", {}) else error["code"]
    return name


@contextlib.asynccontextmanager
async def a_world(
    node: Node | None = None,
    identity_store: IdentityStore | None = None,
    desk: PaymentSettler | None = None,
    **settings: Any,
) -> AsyncIterator[World]:
    """settings: by branch, as `accounts={"concurrency": 3}`."""
    world = World(node, identity_store, desk, **settings)
    await world.shard.start()
    try:
        yield world
    finally:
        await world.door.close()
        await world.http.aclose()
        await world.shard.stop()


async def _for_ever(seconds: float) -> None:
    await asyncio.Event().wait()
