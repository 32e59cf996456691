"""A chain inside the test process as the sends see it: a node, a block engine over HTTP, and a TPU over QUIC."""

import base64
import socket
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.methods.signed_transactions import SignedTransaction, signed_transaction
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from devnode.block_engine.endpoints import block_engine_routes
from devnode.block_engine.engine import BlockEngine
from devnode.faults.plan import FaultPlan, changed
from devnode.tpu.admission import Limits
from devnode.tpu.door import TpuDoor
from tests.devnode.local_node import LocalNode

ROOMY = Limits(connections_per_address_and_minute=1_000)


class Here:
    """The chain inside the test as a node. silent: it answers nothing, and does not get the calls."""

    def __init__(self, local: LocalNode) -> None:
        self.local = local
        self.silent = False
        self.calls: list[str] = []

    def follow(self, _: Any) -> None:
        """It never changes."""

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        del timeout_ms
        if self.silent:
            return replies.TIMED_OUT
        self.calls.append(method)
        reply = self.local.reply(method, *orjson.loads(params))
        return replies.judge(orjson.dumps(reply | {"id": 1}))

    def faults(self, **fields: object) -> None:
        self.local.node.faults.set(changed(FaultPlan(), fields))

    def payment(self, tip: bool = False) -> SignedTransaction:
        """A transfer that can land; its payer is funded here."""
        to = Pubkey.from_string("96gYZGLnJYVFmbjzopPSU6QiEV5fGqZNyN9nmNhvrZU5") if tip else Pubkey.new_unique()
        return signed(self.local.transfer(self.local.wallet(), to, 5_000_000))

    def landed(self, transaction: SignedTransaction) -> bool:
        """Whether it is on the chain by the end of the present slot."""
        self.local.beat()
        return VersionedTransaction.from_bytes(transaction.raw).signatures[0] in self.local.chain.statuses


class EngineServer:
    """devnode's block engine on a port of its own. requests: paths in order."""

    def __init__(self, local: LocalNode) -> None:
        self.engine = BlockEngine(local.node, local.clock)
        self.routes = block_engine_routes(self.engine)
        self.requests: list[str] = []
        self.status: int | None = None  # Set: an outage; every request gets it.
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self.server = TestServer(application)

    @property
    def url(self) -> str:
        return str(self.server.make_url(""))

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append(request.path)
        if self.status is not None:
            return web.Response(status=self.status, text="overloaded")
        scope = {
            "method": request.method,
            "path": request.path,
            "query_string": request.query_string.encode(),
            "headers": [],
        }
        reply = self.routes[request.method, request.path](scope, await request.read())
        headers = {name.decode(): value.decode() for name, value in reply.headers}
        return web.Response(status=reply.status, body=reply.body, headers=headers, content_type="application/json")


def signed(transaction: VersionedTransaction) -> SignedTransaction:
    return signed_transaction(bytes(transaction))


def text(transaction: SignedTransaction) -> str:
    return base64.b64encode(transaction.raw).decode()


@pytest.fixture
def here(local: LocalNode) -> Here:
    return Here(local)


@pytest.fixture
async def engine_server(local: LocalNode) -> AsyncIterator[EngineServer]:
    server = EngineServer(local)
    await server.server.start_server()
    yield server
    await server.server.close()


@pytest.fixture
async def tpu(local: LocalNode) -> AsyncIterator[TpuDoor]:
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    listening.setblocking(False)
    door = TpuDoor(local.node, local.clock, ROOMY)
    await door.open(listening)
    yield door
    door.close()


@pytest.fixture
def payer(local: LocalNode) -> Keypair:
    return local.wallet()
