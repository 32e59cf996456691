"""The operators' pages over the real door and the real owner of accounts, in this process."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import SecretStr

from actors.accounts.api import OwnersClient
from actors.console.endpoints import OperatorPage
from actors.errors import Err, Refusal
from actors.gateway.doors.http import HttpDoor
from actors.launch.assembly.operating import account_document
from actors.operator_config import OperatorConfig
from actors.operators.endpoints import operator_pages
from actors.operators.ports import NodesAnswer, OperatorParts, ProductLook
from actors.pricing_config import PricingConfig
from tests.gateway import world as gateway_world
from tests.gateway.world import World

TOKEN = "operator_" + "7" * 64
REASON = "asked for by mail"


class Accounts:
    """Asks the owner of the world that is made after the pages."""

    def __init__(self) -> None:
        self.world: World | None = None

    async def ask(self, command: Any) -> Any:
        assert self.world is not None
        return await self.world.accounts.ask(command)

    async def ask_many(self, commands: Sequence[Any]) -> Any:
        raise AssertionError(commands)


@dataclass
class WaitingTransfers:
    """One transfer that waits, and what is asked about it."""

    rows: list[dict[str, Any]] = field(
        default_factory=lambda: [{"signature": "5" * 87, "transfer": 0, "usdc": "1.000000", "status": "listed"}]
    )
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def totals(self) -> Mapping[str, Any] | Refusal:
        return {"account": "x", "waiting": 0, "listed": sum(row["status"] == "listed" for row in self.rows)}

    async def listing(self, status: str, limit: int, offset: int) -> Sequence[Mapping[str, Any]] | Refusal:
        self.asked.append((status, limit, offset))
        return [row for row in self.rows if status in ("all", row["status"])][offset : offset + limit]

    async def explain(self, signature: str) -> Mapping[str, Any] | Refusal:
        return {"verdict": "credited", "transfers": [row for row in self.rows if row["signature"] == signature]}

    async def assign(self, signature: str, index: int | None, pubkey: str, reason: str) -> Mapping[str, Any] | Refusal:
        self.asked.append((signature, index, pubkey, reason))
        for row in self.rows:
            if row["signature"] == signature and row["status"] == "listed":
                row |= {"status": "assigned", "account": pubkey, "credits": 100_000}
                return row
        return Refusal(Err.INVALID_REQUEST, "0 transfers of it are listed")


@dataclass
class TwoNodes:
    """A desk that keeps what it is asked."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def listing(self) -> NodesAnswer:
        return NodesAnswer(200, {"nodes": [{"id": "node-1", "weight": 1}]})

    async def add(self, *wanted: Any) -> NodesAnswer:
        self.asked.append(("add", *wanted))
        return await self.listing()

    async def change(self, *wanted: Any) -> NodesAnswer:
        self.asked.append(("change", *wanted))
        if wanted[0] != "node-1":
            return NodesAnswer(404, {"reason": "unknown_node", "message": "there is no such node"})
        return await self.listing()

    async def remove(self, node_id: str) -> NodesAnswer:
        self.asked.append(("remove", node_id))
        return await self.listing()


@dataclass
class StillProduct:
    now: ProductLook | Refusal = field(
        default_factory=lambda: ProductLook(
            1_700_000_000, {"account-shard-0": {"machine": "10.0.0.1", "epoch": 7}, "x": {}}, []
        )
    )

    async def look(self) -> ProductLook | Refusal:
        return self.now


@dataclass
class Operated:
    """token: what requests carry unless told otherwise."""

    world: World
    transfers: WaitingTransfers
    nodes: TwoNodes
    running: StillProduct
    token: str = TOKEN

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"x-operator-token": self.token} | {name.replace("_", "-"): value for name, value in headers.items()}
        content = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
        return await self.world.http.request(method, f"/operator/{path}", headers=sent, **content)


@contextlib.asynccontextmanager
async def operated(config: OperatorConfig | None = None, **settings: Any) -> AsyncIterator[Operated]:
    accounts, transfers, nodes, running = Accounts(), WaitingTransfers(), TwoNodes(), StillProduct()
    owners: OwnersClient = accounts
    clock = settings.setdefault("clock", gateway_world.ManualClock())
    pricing = PricingConfig(**settings.get("pricing", {}))
    parts = OperatorParts(owners, nodes, running, clock, transfers, account_document, pricing)
    settings["operator"] = config or OperatorConfig(token=SecretStr(TOKEN))
    pages = [*OperatorPage().pages(), *operator_pages(parts)]
    async with gateway_world.a_world(pages=pages, **settings) as world:
        assert isinstance(world.door, HttpDoor)
        accounts.world = world
        yield Operated(world, transfers, nodes, running)
