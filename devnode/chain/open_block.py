"""The block being built.

Implements: its transactions in their order, the sealed block that they become, the Clock sysvar of its slot (an epoch
begins, for this process, with its first slot that the process opens), and its room: a block takes so many compute
units, and so many for each account that its transactions write. A transaction counts 720 units for each signature, 300
for each write lock, and its compute units: the limit it asks for until it has run, then what it has used. Its fees:
the leader gets half of the base fees and all priority fees, when the block is sealed.
Pure: time is an argument. Not here: executing them (chain.py), which transaction gets the room (filling.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from solders.account import Account
from solders.clock import Clock
from solders.hash import Hash

from devnode.encoding.addresses import SYSTEM_PROGRAM
from devnode.records.blockhashes import next_blockhash
from devnode.records.commitment import Sealed
from devnode.records.leaders import epoch_of
from devnode.records.records import Block, Reward, TransactionRecord

BLOCK_UNITS_MAX = 60_000_000
ACCOUNT_UNITS_MAX = 12_000_000
UNITS_PER_SIGNATURE = 720
UNITS_PER_WRITE_LOCK = 300
# More than any transaction can count: 1,400,000 units, 12 signatures and 128 locks.
TRANSACTION_UNITS_MAX = 1_450_000


@dataclass(slots=True)
class SlotClock:
    _epoch: int = -1
    _epoch_unix_time: int = 0

    def at(self, slot: int, unix_time: int) -> Clock:
        """The Clock of a slot that opens at this time."""
        epoch = epoch_of(slot).epoch
        if epoch != self._epoch:
            self._epoch, self._epoch_unix_time = epoch, unix_time
        return Clock(
            slot=slot,
            epoch_start_timestamp=self._epoch_unix_time,
            epoch=epoch,
            leader_schedule_epoch=epoch + 1,
            unix_timestamp=unix_time,
        )


@dataclass(frozen=True, slots=True)
class SpaceLimits:
    units: int = BLOCK_UNITS_MAX
    account_units: int = ACCOUNT_UNITS_MAX


def counted_units(compute_units: int, signatures: int, write_locks: int) -> int:
    return compute_units + signatures * UNITS_PER_SIGNATURE + write_locks * UNITS_PER_WRITE_LOCK


@dataclass(slots=True)
class BlockSpace:
    limits: SpaceLimits
    used: int = 0
    fits_any: bool = field(init=False)  # Whether there is room for any transaction, whatever it asks for.
    _by_account: dict[str, int] = field(default_factory=dict)
    _most: int = 0  # Most units of any account.

    def __post_init__(self) -> None:
        self._note_room()

    def fits(self, units: int, write_locked: Iterable[str]) -> bool:
        if self.used + units > self.limits.units:
            return False
        if self._most + units <= self.limits.account_units:
            return True
        most = self.limits.account_units - units
        return all(self._by_account.get(account, 0) <= most for account in write_locked)

    def take(self, units: int, write_locked: Iterable[str]) -> None:
        self.used += units
        by_account = self._by_account
        for account in write_locked:
            used = by_account[account] = by_account.get(account, 0) + units
            if used > self._most:
                self._most = used
        self._note_room()

    def _note_room(self) -> None:
        """Every send asks whether any transaction fits, so the answer is kept."""
        limits = self.limits
        self.fits_any = (
            self.used + TRANSACTION_UNITS_MAX <= limits.units
            and self._most + TRANSACTION_UNITS_MAX <= limits.account_units
        )


@dataclass(frozen=True, slots=True)
class ForkEnd:
    """Abandons a fork after the seal: all blocks from `first_slot` on are undone. None of them may be confirmed."""

    first_slot: int
    is_dead: bool = False  # The block being sealed is itself invalid; otherwise it is a valid block on a lost fork.


@dataclass(slots=True)
class OpenBlock:
    parent_slot: int
    parent_hash: Hash
    unix_time: int
    space: BlockSpace
    records: list[TransactionRecord] = field(default_factory=list)
    base_fee_lamports: int = 0  # Fees of all transactions for their signatures.
    priority_fee_lamports: int = 0

    def add_fees(self, base_lamports: int, fee_lamports: int) -> None:
        """Count the fee of one transaction. fee_lamports: all of it."""
        base_lamports = min(base_lamports, fee_lamports)
        self.base_fee_lamports += base_lamports
        self.priority_fee_lamports += fee_lamports - base_lamports

    @property
    def leader_lamports(self) -> int:
        """Return the leader's share: the priority fees, and half of the base fees; the other half is burned."""
        return self.priority_fee_lamports + self.base_fee_lamports - self.base_fee_lamports // 2

    def add(self, record: TransactionRecord, signatures: int, counted: int | None = None) -> None:
        """Add a transaction that has run. counted: the units that it takes, if not those that it has used."""
        self.records.append(record)
        if counted is None:
            counted = counted_units(record.meta.compute_units, signatures, len(record.write_locked))
        self.space.take(counted, record.write_locked)

    def sealed(self, place: Sealed, salt: bytes, reward: Reward | None = None) -> tuple[Block, Hash]:
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
            reward=reward,
        )
        return block, blockhash


def with_reward(wallet: Account | None, lamports: int) -> Account | None:
    """The leader's wallet with its part of the fees. None where it has no wallet: then, as in Agave's runtime, the fees
    are burned."""
    if wallet is None or wallet.owner != SYSTEM_PROGRAM or wallet.lamports + lamports >= 2**64:
        return None
    return Account(wallet.lamports + lamports, wallet.data, wallet.owner, wallet.executable, wallet.rent_epoch)
