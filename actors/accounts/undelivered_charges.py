"""Charges whose answers have not left yet, by the edge that is to deliver them.

Implements: decisions, money rule 2: no unanswered call is in the ledger, whatever is killed. A charge is durable
before its answer may leave, so an edge that dies in between leaves a charge that nobody was answered for. Edges
therefore report the answers that they have delivered. When an edge is gone for good, its other charges are voided,
which writes refunds. An answer that was delivered in the edge's last moments, and not reported any more, is refunded
too: in doubt the customer keeps the credits.

Pure. In the memory of one owner: when owner and edge die at the same moment, these charges stay.
"""

from actors.calls import EDGE_BYTES, SettleRequest

UNDELIVERED_MAX = 100_000  # Of one edge; more than it can have in flight. Beyond it the oldest are taken as delivered.


class UndeliveredCharges:
    def __init__(self) -> None:
        self._edges: dict[bytes, dict[bytes, SettleRequest]] = {}

    def posted(self, settle: SettleRequest) -> None:
        """Keep a charge that was decided for this edge. Repeating it changes nothing."""
        edge = self._edges.setdefault(settle.operation[:EDGE_BYTES], {})
        edge[settle.operation] = settle
        if len(edge) > UNDELIVERED_MAX:
            del edge[next(iter(edge))]

    def delivered(self, operations: tuple[bytes, ...]) -> None:
        """Drop the charges of answers that have left their edge. Unknown operations are ignored."""
        for operation in operations:
            edge = self._edges.get(operation[:EDGE_BYTES])
            if edge is not None:
                edge.pop(operation, None)

    def gone(self, edge: bytes) -> list[SettleRequest]:
        """Take out the undelivered charges of an edge that is gone for good."""
        return list(self._edges.pop(edge, {}).values())

    def __len__(self) -> int:
        return sum(map(len, self._edges.values()))
