"""A chain inside the test process with its block engine, and bundles for it."""

from typing import Any

import orjson
import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.block_engine.bundles import Bundle, bundle_of
from devnode.block_engine.endpoints import block_engine_routes
from devnode.block_engine.engine import BlockEngine
from devnode.encoding.addresses import TIP_ACCOUNTS
from devnode.rpc.asgi import Reply
from tests.devnode.local_node import LocalNode, decoded, give, text

BASE64 = {"encoding": "base64"}


def bundle(*transactions: VersionedTransaction) -> Bundle:
    found = bundle_of([decoded(one) for one in transactions])
    assert isinstance(found, Bundle), found
    return found


class Engine:
    """Calls a block engine over its routes, as a client does."""

    def __init__(self, local: LocalNode) -> None:
        self.local = local
        self.engine = BlockEngine(local.node, local.clock)
        self.routes = block_engine_routes(self.engine)

    def tip(self, payer: Keypair, lamports: int = 10_000, account: int = 0) -> VersionedTransaction:
        return self.local.signed(payer, give(payer, TIP_ACCOUNTS[account], lamports))

    def pay(self, payer: Keypair, lamports: int = 5_000_000, to: Pubkey | None = None) -> VersionedTransaction:
        return self.local.transfer(payer, to or Pubkey.new_unique(), lamports)

    def post(self, path: str, method: str, *params: Any, query: bytes = b"") -> tuple[Reply, dict[str, Any]]:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        scope = {"method": "POST", "path": path, "query_string": query, "headers": []}
        reply = self.routes["POST", path](scope, orjson.dumps(request))
        return reply, orjson.loads(reply.body)

    def call(self, method: str, *params: Any) -> Any:
        reply, body = self.post("/api/v1/bundles", method, *params)
        assert reply.status == 200, body
        return body["result"]

    def error(self, method: str, *params: Any) -> tuple[int, int, str]:
        reply, body = self.post("/api/v1/bundles", method, *params)
        return reply.status, body["error"]["code"], body["error"]["message"]

    def send(self, *transactions: VersionedTransaction) -> str:
        identifier: str = self.call("sendBundle", list(map(text, transactions)), BASE64)
        return identifier

    def inflight(self, identifier: str) -> tuple[str, int | None]:
        (one,) = self.call("getInflightBundleStatuses", [identifier])["value"]
        assert one["bundle_id"] == identifier
        return one["status"], one["landed_slot"]

    def landed(self, transaction: VersionedTransaction) -> bool:
        return transaction.signatures[0] in self.local.chain.statuses


@pytest.fixture
def engine(local: LocalNode) -> Engine:
    return Engine(local)
