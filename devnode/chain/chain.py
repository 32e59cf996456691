"""The chain: takes transactions and ends slots.

Implements: `submit`, through which every transaction enters (RPC, faucet and all other doors): size, canonical
form, signatures, blockhash or durable nonce, duplicates, execution, record, events; and `seal`, which ends a slot.
One thread owns the chain; synchronous; time is an argument. Not here: waiting for slots (pacemaker.py),
disk (journal/journal.py), JSON (rpc/).
"""

from collections import deque
from collections.abc import Callable, Iterable

from solders.account import Account
from solders.hash import Hash
from solders.pubkey import Pubkey

from devnode.chain.account_history import AccountHistory
from devnode.chain.bus import (
    AccountWritten,
    Bus,
    SignatureReceived,
    SlotConfirmed,
    SlotDead,
    SlotFinalized,
    SlotOpened,
    SlotsAbandoned,
    SlotSealed,
    SlotSkipped,
    TransactionLanded,
)
from devnode.chain.genesis import FIRST_SLOT, Birth
from devnode.chain.indexes import AccountIndexes
from devnode.chain.open_block import BlockSpace, ForkEnd, OpenBlock, SlotClock, SpaceLimits, with_reward
from devnode.chain.recent_blocks import FeeCache, PerformanceSampler, StatusCache
from devnode.chain.snapshots import Snapshots
from devnode.chain.submissions import Dropped, Gate, Source, SubmitResult, Unsound
from devnode.encoding.addresses import BUILT_IN, SYSVAR_CLOCK
from devnode.encoding.wire import Decoded, Malformed, decode
from devnode.execution.execution import (
    Execution,
    ReadAccount,
    Refused,
    Write,
    durable_nonce_account,
    run,
)
from devnode.execution.vm import Vm
from devnode.journal.journal import Restored, SealedSlot, TakenOver
from devnode.launchpad.imitation import LaunchImitation
from devnode.records.blockhashes import (
    BLOCKHASH_VALID_BLOCKS,
    BlockhashQueue,
    RecentBlockhash,
    durable_nonce,
    next_blockhash,
    stored_value,
)
from devnode.records.commitment import Commitment, Sealed, SlotLevels
from devnode.records.records import Reward, TransactionRecord

SLOT_HASHES_KEPT = 512
ROOT_DEPTH = 32
CLOSED_HERE_MAX = 1_000_000  # About 100 MB, in a chain that clones.
DEAD_BLOCK = "invalid block: made so by fault injection"


class Chain:
    """Create it with `Chain.new` or `Chain.restored`; both open a slot for transactions."""

    def __init__(self, salt: bytes, root_depth: int, building: Sealed, parent: tuple[int, Hash]) -> None:
        self.salt, self.vm = salt, Vm()
        self.vm.imitation = LaunchImitation(self.vm)
        self.bus = Bus()
        self.levels = SlotLevels(root_depth, building)
        self.history = AccountHistory()
        self.indexes = AccountIndexes()
        self.statuses = StatusCache()
        self.blockhashes = BlockhashQueue()
        self.fees = FeeCache()
        self.performance = PerformanceSampler()
        self.transaction_count = 0
        self.gates: list[Gate] = []
        # Returns the leader, who gets the fees of the slot; None: they are burned.
        self.leader_of: Callable[[int], Pubkey] | None = None
        self.before_seal: list[Callable[[], None]] = []
        self.snapshots = Snapshots()
        self.closed_here: set[Pubkey] | None = None  # Kept by a chain that clones: accounts closed here stay closed.
        self._taken_over = TakenOver()
        self.limits = SpaceLimits()  # For the blocks opened from now on.
        self.space = BlockSpace(self.limits)
        self._block = OpenBlock(*parent, 0, self.space)
        self.next_nonce = durable_nonce(parent[1])
        self._slot_hashes: deque[tuple[int, Hash]] = deque(maxlen=SLOT_HASHES_KEPT)
        self._clock = SlotClock()
        self._write_version = 0
        for pubkey in BUILT_IN:  # So that queries by owner find them.
            self.indexes.update(pubkey, None, self.vm.account(pubkey))

    @classmethod
    def new(cls, birth: Birth, root_depth: int = ROOT_DEPTH) -> "Chain":
        origin = next_blockhash(birth.salt, Hash.default(), FIRST_SLOT - 1, ())
        chain = cls(birth.salt, root_depth, Sealed(FIRST_SLOT, 0), (FIRST_SLOT - 1, origin))
        # Register the hash that the first block builds on: otherwise no transaction could land before the first seal.
        chain._register_blockhash(origin, FIRST_SLOT - 1, -1)
        for pubkey, account in birth.accounts:
            chain.place(pubkey, account)
        chain._open_slot(birth.unix_time)
        return chain

    @classmethod
    def restored(cls, past: Restored, unix_time: int, root_depth: int = ROOT_DEPTH) -> "Chain":
        """Continue after the last durable block, with the same balances, blockhashes and known signatures."""
        last = past.last_block
        parent = (last.slot, Hash.from_string(last.blockhash))
        chain = cls(past.salt, root_depth, Sealed(last.slot + 1, last.height + 1), parent)
        chain.blockhashes = BlockhashQueue.restore(past.blockhashes)
        chain._slot_hashes.extend(past.slot_hashes[:SLOT_HASHES_KEPT])
        # Programs last: a program's code can be in a second account, which must exist first.
        for pubkey, account in sorted(past.accounts, key=lambda entry: entry[1].executable):
            chain.indexes.update(pubkey, None, account)
            chain.vm.put(pubkey, account)
        for slot, landed in past.statuses:
            for signature, err in landed:
                chain.statuses.add(signature, slot, err)
            chain.statuses.seal(slot)
        chain.transaction_count = past.transaction_count
        chain.levels.restore(past.sealed())
        chain._open_slot(max(unix_time, last.unix_time))
        return chain

    # Submitting.

    def submit(self, raw: bytes, source: Source) -> SubmitResult:
        decoded = decode(raw)
        if isinstance(decoded, Malformed):
            return decoded
        return self.submit_decoded(decoded, source)

    def submit_decoded(
        self,
        decoded: Decoded,
        source: Source,
        signatures_checked: bool = False,
        past_gates: bool = False,
        counted: int | None = None,
    ) -> SubmitResult:
        """Execute a decoded transaction and record it in the slot being built.

        signatures_checked: the signatures are already verified and are not verified again.
        past_gates: skip the gates, because the caller has already decided whether the transaction arrives.
        counted: the units that it takes in the block, if not those that it uses."""
        slot = self.levels.building.slot
        if self.bus.wants(SignatureReceived):
            self.bus.publish(SignatureReceived(slot, str(decoded.signature)))
        if not past_gates and not all(gate(decoded, source) for gate in self.gates):
            return Dropped()
        reason = self.refusal_now(decoded)
        if reason is not None:
            return Refused("SignatureFailure" if not signatures_checked and not _signed(decoded) else reason)
        result = run(self.vm, decoded, not signatures_checked, self.next_nonce)
        if isinstance(result, Refused):
            return result
        return self._record(decoded, result, counted)

    def submit_if_sound(
        self, decoded: Decoded, source: Source, signatures_checked: bool = False
    ) -> SubmitResult | Unsound:
        """Land a transaction only if it succeeds: preflight and landing in one run. A failed one changes nothing.
        Use it only where preflight would run on the slot being built (`simulation.sees_the_present`)."""
        reason = self.refusal_now(decoded)
        if reason is not None:
            return Refused(reason if signatures_checked or _signed(decoded) else "SignatureFailure")
        if not all(gate(decoded, source) for gate in self.gates):
            return Dropped()
        result = run(self.vm, decoded, not signatures_checked, self.next_nonce)
        if isinstance(result, Refused):
            return result
        if result.meta.err is not None:
            for write in result.writes:  # The fee and the nonce: the VM has already undone all other changes.
                self.vm.put(write.pubkey, write.before)
            return Unsound(result.meta)
        if self.bus.wants(SignatureReceived):
            self.bus.publish(SignatureReceived(self.levels.building.slot, str(decoded.signature)))
        return self._record(decoded, result)

    def refusal(self, decoded: Decoded, level: Commitment) -> str | None:
        """Why a bank at this level would refuse to run the transaction: an unknown blockhash, or it landed before."""
        if not self.is_fresh(decoded, level):
            return "BlockhashNotFound"
        landed = self.statuses.get(decoded.signature)
        # A node that lags does not know of landings above its bank; submitting refuses the duplicate later.
        if landed is not None and not (self.levels.is_lagging and landed.slot > self.levels.at(level).slot):
            return "AlreadyProcessed"
        return None

    def refusal_now(self, decoded: Decoded) -> str | None:
        """Like `refusal`, for the slot being built."""
        if not self._is_fresh(decoded, self.levels.building, self.vm.account):
            return "BlockhashNotFound"
        return "AlreadyProcessed" if decoded.signature in self.statuses else None

    def is_fresh(self, decoded: Decoded, level: Commitment) -> bool:
        return self._is_fresh(decoded, self.levels.at(level), lambda pubkey: self.account(pubkey, level))

    def _is_fresh(self, decoded: Decoded, bank: Sealed, read: ReadAccount) -> bool:
        if self.blockhashes.is_usable(decoded.blockhash, bank.slot, bank.height):
            return True
        account = durable_nonce_account(decoded)
        # A nonce that was advanced in this slot can be used from the next slot on.
        return account is not None and stored_value(read(account)) == decoded.blockhash != self.next_nonce

    def _record(self, decoded: Decoded, done: Execution, counted: int | None = None) -> TransactionRecord:
        slot = self.levels.building.slot
        keys = done.keys
        texts = tuple(map(str, keys.all))
        record = TransactionRecord(
            slot=slot,
            position=len(self._block.records),
            signature=str(decoded.signature),
            raw=decoded.raw,
            keys=texts,
            meta=done.meta,
            compute_unit_price=done.budget.price_micro_lamports if done.budget.compute_unit_limit else None,
            write_locked=tuple([texts[index] for index in keys.writable]),
        )
        self._block.add(record, decoded.message.header.num_required_signatures, counted)
        self._block.add_fees(done.budget.signature_fee_lamports, done.meta.fee_lamports)
        self.statuses.add(decoded.signature, slot, done.meta.err)
        self.transaction_count += 1
        self._write(done.writes, record)
        if self.bus.wants(TransactionLanded):
            self.bus.publish(TransactionLanded(record))
        return record

    def place(self, pubkey: Pubkey, account: Account | None) -> None:
        """Set an account without a transaction, at the operator's request; None removes it."""
        self._write((Write(pubkey, self.vm.account(pubkey), account),), None)
        self.vm.put(pubkey, account)

    def _write(self, writes: Iterable[Write], record: TransactionRecord | None) -> None:
        slot, wanted = self.levels.building.slot, self.bus.wants(AccountWritten)
        for write in writes:
            pubkey, before, after = write.pubkey, write.before, write.after
            self.history.note(slot, pubkey, before)
            if self.snapshots:
                self.snapshots.note(pubkey, before)
            self.indexes.update(pubkey, before, after)
            if after is None and self.closed_here is not None and len(self.closed_here) < CLOSED_HERE_MAX:
                self.closed_here.add(pubkey)
                self._taken_over.closed.append(pubkey)
            self._write_version += 1
            if wanted:
                self.bus.publish(AccountWritten(slot, pubkey, after, self._write_version, record))

    def adopt(self, pubkey: Pubkey, account: Account) -> None:
        """Take over an account as if it had always been here: at every level, without an event. It must be absent.

        Raises NotLoadable for an invalid program."""
        assert self.vm.account(pubkey) is None, pubkey
        self.vm.put(pubkey, account)
        self.indexes.update(pubkey, None, account)
        self._taken_over.accounts.append((pubkey, account))

    def taken_over(self) -> TakenOver:
        """What was adopted, and closed in a chain that clones, since the last call, for the journal."""
        taken, self._taken_over = self._taken_over, TakenOver()
        return taken

    # Reading.

    def account(self, pubkey: Pubkey, level: Commitment) -> Account | None:
        if level is not Commitment.PROCESSED or self.levels.is_lagging:
            slot = self.levels.at(level).slot
            if self.history.changed_after(pubkey, slot):
                return self.history.as_of(pubkey, slot)
        return self.vm.account(pubkey)

    def transaction_count_at(self, level: Commitment) -> int:
        bank = self.levels.at(level)
        return self.transaction_count if bank is self.levels.building else bank.transaction_count

    def overlay(self, level: Commitment) -> dict[Pubkey, Account | None]:
        """Accounts whose contents at this level differ from the VM's."""
        if level is Commitment.PROCESSED and not self.levels.is_lagging:
            return {}
        return self.history.overlay(self.levels.at(level).slot)

    def open_transactions(self) -> Iterable[TransactionRecord]:
        """Transactions of the slot being built."""
        return tuple(self._block.records)

    @property
    def opened_unix_time(self) -> int:
        return self._block.unix_time

    def seal(
        self,
        unix_time: int,
        now_seconds: float,
        skip: int = 0,
        fork_end: ForkEnd | None = None,
        tells_skipped: bool = True,
    ) -> SealedSlot:
        """End the slot being built and open the next one, `skip` slots later than usual.

        The caller makes the result durable and then calls `mark_durable`; until then the slot is only processed, and
        a fork can undo it. Blocks of a fork that will be lost must not be made durable.
        """
        for fill in self.before_seal:
            fill()
        building = self.levels.building
        block, blockhash = self._block.sealed(building, self.salt, self._pay_leader())
        written = (pubkey for pubkey in self.history.written_in(building.slot) if pubkey != SYSVAR_CLOCK)
        accounts = tuple((pubkey, self.vm.account(pubkey)) for pubkey in written)
        self._register_blockhash(blockhash, building.slot, building.height)
        self.statuses.seal(building.slot)
        self.fees.add_block(building.slot, ((one.compute_unit_price, one.write_locked) for one in block.transactions))
        self.performance.observe(building.slot, len(block.transactions), now_seconds)
        self.next_nonce = durable_nonce(blockhash)
        self.levels.seal(building.slot + 1 + skip, self.transaction_count)
        self.bus.publish(SlotDead(block.slot, DEAD_BLOCK) if fork_end and fork_end.is_dead else SlotSealed(block))
        if fork_end is not None:
            self._take_back(fork_end.first_slot)
        if tells_skipped and self.bus.wants(SlotSkipped):
            for slot in range(building.slot + 1, building.slot + 1 + skip):
                self.bus.publish(SlotSkipped(slot))
        self._open_slot(max(unix_time, block.unix_time))
        return SealedSlot(block, accounts, self.transaction_count)

    def _pay_leader(self) -> Reward | None:
        """Give the leader its part of the fees; without a wallet of the leader they are burned."""
        if self.leader_of is None or not self._block.leader_lamports:
            return None
        leader = self.leader_of(self.levels.building.slot)
        paid = with_reward(self.vm.account(leader), self._block.leader_lamports)
        if paid is None:
            return None
        self.place(leader, paid)
        return Reward(str(leader), self._block.leader_lamports, paid.lamports)

    def mark_durable(self, slot: int) -> None:
        """Confirm a slot that the journal has written, and finalize slots that are deep enough."""
        confirmed, finalized = self.levels.confirm(slot)
        for reached in confirmed:
            self.bus.publish(SlotConfirmed(reached))
        for reached in finalized:
            self.bus.publish(SlotFinalized(reached))
        if finalized:
            self.history.forget_up_to(self.levels.at(Commitment.FINALIZED).slot)

    def _take_back(self, first_slot: int) -> None:
        """Restore the chain as it was before the slot; only slot numbers and write versions stay used."""
        slots = tuple(sorted({slot for slot, _ in self._slot_hashes if slot >= first_slot}))
        restored = self.history.abandon(first_slot)
        # Programs last: the VM compiles a program when it is set, and reads other accounts for it.
        for pubkey, account in sorted(restored.items(), key=lambda entry: entry[1] is not None and entry[1].executable):
            present = self.vm.account(pubkey)
            if self.snapshots and pubkey != SYSVAR_CLOCK:
                self.snapshots.note(pubkey, present)
            self.indexes.update(pubkey, present, account)
            self.vm.put(pubkey, account)
        restored.pop(SYSVAR_CLOCK, None)  # The next slot sets it when it opens.
        self.transaction_count -= self.statuses.abandon(first_slot)
        self.fees.abandon(first_slot)
        self.levels.abandon(first_slot)
        self.blockhashes.abandon(first_slot)
        while self._slot_hashes[0][0] >= first_slot:
            self._slot_hashes.popleft()
        parent_slot, parent_hash = self._slot_hashes[0]
        if not self.blockhashes:  # The fork had expired all older hashes; without any hash no transaction could land.
            self.blockhashes.register(RecentBlockhash(parent_hash, parent_slot, self.levels.building.height - 1))
        self.next_nonce = durable_nonce(parent_hash)
        self.bus.publish(SlotsAbandoned(slots, parent_slot, tuple(restored.items())))

    def expire_blockhashes(self) -> None:
        """Expire every blockhash but the newest: the block height passes the last valid height of each at once."""
        self.levels.pass_heights(BLOCKHASH_VALID_BLOCKS - 1)
        self.blockhashes.expire_all()

    def _open_slot(self, unix_time: int) -> None:
        slot = self.levels.building.slot
        self.space = BlockSpace(self.limits)
        self._block = OpenBlock(*self._slot_hashes[0], unix_time, self.space)
        self.history.note(slot, SYSVAR_CLOCK, self.vm.account(SYSVAR_CLOCK))
        self.vm.set_time(self._clock.at(slot, unix_time), list(self._slot_hashes))
        self.bus.publish(SlotOpened(slot, self._block.parent_slot))
        if self.bus.wants(AccountWritten):
            self._write_version += 1
            account = self.vm.account(SYSVAR_CLOCK)
            self.bus.publish(AccountWritten(slot, SYSVAR_CLOCK, account, self._write_version, None))

    def _register_blockhash(self, blockhash: Hash, slot: int, height: int) -> None:
        self.blockhashes.register(RecentBlockhash(blockhash, slot, height))
        self._slot_hashes.appendleft((slot, blockhash))


def _signed(decoded: Decoded) -> bool:
    return all(decoded.transaction.verify_with_results())
