"""A chain of three leaders inside the test process, whose slots pass as under the pacemaker."""

from pathlib import Path
from typing import Any

import orjson
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.admin import admin_routes
from devnode.chain.genesis import chain_keys, leader_accounts
from devnode.chain.submissions import Source, SubmitResult
from devnode.encoding.wire import decode
from devnode.faults.plan import read_plan
from devnode.rpc.dispatch import Dispatcher
from devnode.rpc.node import Node
from devnode.rpc.table import METHODS
from tests.devnode.local_node import SALT, LocalNode

LEADERS = 3


class LedNode(LocalNode):
    """Its slots pass with `beat`, which also delivers what waits for a slot."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        keys = chain_keys(0, SALT, LEADERS)
        for pubkey, account in leader_accounts(keys):
            if self.chain.vm.account(pubkey) is None:
                self.chain.place(pubkey, account)
        self.chain.gates.clear()
        self.node = Node(self.chain, self.archive, keys, self.faucet, self.clock, 400, "127.0.0.1:8899")
        self.dispatcher = Dispatcher(self.node, METHODS)
        self.routes = admin_routes(self.node)

    def beat(self, slots: int = 1, skip: int = 0) -> None:
        for _ in range(slots):
            super().beat(1, skip)
            self.node.faults.deliver()

    @property
    def slot(self) -> int:
        return self.chain.levels.building.slot

    @property
    def leader(self) -> int:
        """The number of the leader of the slot being built."""
        return self.node.leaders.leader_at(self.slot)

    def faults(self, **settings: Any) -> None:
        self.node.faults.set(read_plan(settings))

    def take(
        self, transaction: VersionedTransaction, source: Source = Source.RPC, port: int | None = None
    ) -> SubmitResult:
        """One broadcast, as its door hands it over."""
        decoded = decode(bytes(transaction))
        return self.node.intake.submit(decoded, source, port=port)  # type: ignore[arg-type]

    def admin(self, verb: str, path: str, query: str = "") -> dict[str, Any]:
        scope = {
            "method": verb,
            "path": path,
            "headers": [],
            "client": ("127.0.0.1", 1),
            "query_string": query.encode(),
        }
        answer: dict[str, Any] = orjson.loads(self.routes[verb, path](scope, b"").body)
        return answer

    def arrivals(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.admin("GET", "/admin/arrivals")["arrivals"]
        return listed

    def payment(self) -> VersionedTransaction:
        """A payment of a new wallet to a new address."""
        return self.transfer(self.wallet(), Pubkey.new_unique(), 2_000_000)

    def has_landed(self, transaction: VersionedTransaction) -> bool:
        return transaction.signatures[0] in self.chain.statuses
