"""Charges whose answers have not left yet, by the edge that is to deliver them.

Implements: decisions, money rule 2: no unanswered call is in the ledger, whatever is killed. A charge is durable
before its answer may leave, so an edge that dies in between leaves a charge that nobody was answered for. Edges
therefore say what they have delivered; when an edge is gone for good, what it never delivered is voided, which writes
a refund. What was delivered in its last moments, and could not be said any more, is refunded too: doubt is settled in
the customer's favour.

Pure. Of one owner, in memory: an owner that dies at the same moment as an edge forgets this, and those charges stay.
"""

from actors.calls import EDGE_BYTES, SettleRequest

UNDELIVERED_MAX = 100_000  # Of one edge; more than it can have in flight. Beyond it the oldest are taken as delivered.


class UndeliveredCharges:
    def __init__(self) -> None:
        self._edges: dict[bytes, dict[bytes, SettleRequest]] = {}

    def posted(self, settle: SettleRequest) -> None:
        """A charge was decided for this edge. Told again, nothing changes."""
        edge = self._edges.setdefault(settle.operation[:EDGE_BYTES], {})
        edge[settle.operation] = settle
        if len(edge) > UNDELIVERED_MAX:
            del edge[next(iter(edge))]

    def delivered(self, operations: tuple[bytes, ...]) -> None:
        """The answers of these have left their edge. Unknown ones are passed over."""
        for operation in operations:
            edge = self._edges.get(operation[:EDGE_BYTES])
            if edge is not None:
                edge.pop(operation, None)

    def gone(self, edge: bytes) -> list[SettleRequest]:
        """The edge is gone for good: what it never delivered, once."""
        return list(self._edges.pop(edge, {}).values())

    def __len__(self) -> int:
        return sum(map(len, self._edges.values()))
