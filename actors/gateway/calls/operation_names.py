"""Names the operations of one replica: unique without coordination, and those of calls that outlive the replica apart.

Implements: money rule 1 (each charge has an operation of its own). Pure.
"""

from actors.calls import REPLICA_ID_BYTES, lasting_prefix


class OperationNames:
    """Makes operation ids. replica_id: random bytes of this process."""

    def __init__(self, replica_id: bytes) -> None:
        assert len(replica_id) == REPLICA_ID_BYTES, len(replica_id)
        self._replica_id = replica_id
        self._lasting_prefix = lasting_prefix(replica_id)  # For holds that another process ends.
        self._count = 0

    def take(self, count: int, lasting: bool = False) -> bytes:
        """Take this many operations, and return the first one."""
        first = self._count
        self._count += count
        return (self._lasting_prefix if lasting else self._replica_id) + first.to_bytes(8, "big")

    def start_over(self, replica_id: bytes) -> None:
        """Use this replica id from now on: an owner has given up the former one."""
        self._replica_id = replica_id
