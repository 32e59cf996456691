"""The block being built.

Implements: its transactions in their order, the room that they leave, and the sealed block that they become.
Pure: time is an argument. Not here: executing them (chain.py).
"""

from dataclasses import dataclass, field

from solders.hash import Hash

from devnode.chain.block_space import BlockSpace, counted_units
from devnode.records.blockhashes import next_blockhash
from devnode.records.commitment import Sealed
from devnode.records.records import Block, TransactionRecord


@dataclass(slots=True)
class OpenBlock:
    parent_slot: int
    parent_hash: Hash
    unix_time: int
    space: BlockSpace
    records: list[TransactionRecord] = field(default_factory=list)

    def add(self, record: TransactionRecord, signatures: int, counted: int | None = None) -> None:
        """Add a transaction that has run. counted: the units that it takes, if not those that it has used."""
        self.records.append(record)
        if counted is None:
            counted = counted_units(record.meta.compute_units, signatures, len(record.write_locked))
        self.space.take(counted, record.write_locked)

    def sealed(self, place: Sealed, salt: bytes) -> tuple[Block, Hash]:
        """The complete block at this slot and height, and its blockhash."""
        slot = place.slot
        blockhash = next_blockhash(salt, self.parent_hash, slot, (record.signature.encode() for record in self.records))
        block = Block(
            slot=slot,
            parent_slot=self.parent_slot,
            height=place.height,
            blockhash=str(blockhash),
            previous_blockhash=str(self.parent_hash),
            unix_time=self.unix_time,
            transactions=tuple(self.records),
        )
        return block, blockhash
