import pytest
from solders.account import Account
from solders.hash import Hash
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from devnode.chain.bus import (
    AccountWritten,
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
from devnode.chain.open_block import ForkEnd
from devnode.chain.submissions import Dropped, Source, Unsound
from devnode.encoding.addresses import SYSVAR_CLOCK
from devnode.encoding.wire import Malformed
from devnode.execution.execution import Refused
from devnode.records.blockhashes import BLOCKHASH_VALID_BLOCKS, stored_value
from devnode.records.commitment import Commitment
from devnode.records.records import TransactionRecord
from tests.devnode.execution.test_execution import advance, nonce
from tests.devnode.local_node import ROOT_DEPTH, LocalNode, decoded, give

__all__ = ["nonce"]  # A fixture, used by name.


def lamports(local: LocalNode, pubkey: Pubkey, level: Commitment = Commitment.PROCESSED) -> int:
    account = local.chain.account(pubkey, level)
    return 0 if account is None else account.lamports


def test_a_transaction_lands_once(local: LocalNode) -> None:
    """The same signature is never executed twice, in the same slot or later."""
    payer, to = local.wallet(), Pubkey.new_unique()
    raw = bytes(local.transfer(payer, to, 2_000_000))
    assert isinstance(local.chain.submit(raw, Source.RPC), TransactionRecord)
    assert local.chain.submit(raw, Source.TPU) == Refused("AlreadyProcessed")
    local.beat(3)
    assert local.chain.submit(raw, Source.RPC) == Refused("AlreadyProcessed")
    assert lamports(local, to) == 2_000_000


def test_a_failed_transaction_cannot_be_submitted_again(local: LocalNode) -> None:
    payer = local.wallet()
    transaction = local.transfer(payer, Pubkey.new_unique(), 10**12)
    assert local.land(transaction).meta.err is not None
    assert local.chain.submit(bytes(transaction), Source.RPC) == Refused("AlreadyProcessed")
    assert lamports(local, payer.pubkey()) == 10**9 - 5_000


def test_bad_bytes_and_bad_signatures_change_nothing(local: LocalNode) -> None:
    payer = local.wallet()
    assert isinstance(local.chain.submit(b"junk", Source.RPC), Malformed)
    good = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    forged = VersionedTransaction.populate(good.message, [Signature.default()])
    assert local.chain.submit(bytes(forged), Source.RPC) == Refused("SignatureFailure")
    assert lamports(local, payer.pubkey()) == 10**9
    assert list(local.chain.open_transactions()) == []
    assert isinstance(local.chain.submit(bytes(good), Source.RPC), TransactionRecord)


def test_a_bad_signature_is_reported_before_an_old_blockhash(local: LocalNode) -> None:
    payer = local.wallet()
    stale = local.signed(payer, give(payer, payer.pubkey(), 1), blockhash=Hash.from_bytes(b"\x55" * 32))
    assert local.chain.submit(bytes(stale), Source.RPC) == Refused("BlockhashNotFound")
    forged = VersionedTransaction.populate(stale.message, [Signature.default()])
    assert local.chain.submit(bytes(forged), Source.RPC) == Refused("SignatureFailure")


def test_a_hash_works_to_its_last_valid_height_and_not_beyond(local: LocalNode) -> None:
    payer = local.wallet()
    entry = local.chain.blockhashes.latest()
    in_time = local.signed(payer, give(payer, Pubkey.new_unique(), 2_000_000), blockhash=entry.blockhash)
    late = local.signed(payer, give(payer, Pubkey.new_unique(), 2_000_001), blockhash=entry.blockhash)
    local.beat(BLOCKHASH_VALID_BLOCKS - (local.chain.levels.building.height - entry.height))
    assert local.chain.levels.building.height == entry.last_valid_height
    local.land(in_time)
    local.beat()
    assert local.chain.submit(bytes(late), Source.RPC) == Refused("BlockhashNotFound")


def test_reads_at_confirmed_and_finalized_see_older_accounts(local: LocalNode) -> None:
    """A write shows at processed at once, at confirmed one slot later, at finalized after the root depth."""
    payer, to = local.wallet(), Pubkey.new_unique()
    local.land(local.transfer(payer, to, 2_000_000))

    def seen() -> list[int]:
        return [lamports(local, to, level) for level in Commitment]

    assert seen() == [2_000_000, 0, 0]
    local.beat()
    assert seen() == [2_000_000, 2_000_000, 0]
    local.beat(ROOT_DEPTH - 2)
    assert seen() == [2_000_000, 2_000_000, 0]
    local.beat()
    assert seen() == [2_000_000, 2_000_000, 2_000_000]


def test_a_transaction_publishes_all_its_events_in_order(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    kinds = (SignatureReceived, AccountWritten, TransactionLanded, SlotSealed, SlotOpened, SlotConfirmed, SlotFinalized)
    heard = local.chain.bus.subscribe(*kinds)
    record = local.land(local.transfer(payer, to, 2_000_000))
    slot = record.slot
    local.beat()
    events = heard.drain()
    assert [type(event) for event in events] == [
        SignatureReceived,
        AccountWritten,
        AccountWritten,
        TransactionLanded,
        AccountWritten,  # The leader's wallet, with its part of the fee.
        SlotSealed,
        SlotOpened,
        AccountWritten,  # The clock.
        SlotConfirmed,
        SlotFinalized,
    ]
    writes = [event for event in events if isinstance(event, AccountWritten)]
    leader = local.keys.identity.pubkey()
    assert [write.pubkey for write in writes] == [payer.pubkey(), to, leader, SYSVAR_CLOCK]
    assert writes[2].transaction is None
    assert [write.write_version for write in writes] == sorted({write.write_version for write in writes})
    sealed = next(event for event in events if isinstance(event, SlotSealed))
    assert sealed.block.slot == slot and sealed.block.transactions == (record,)
    assert events[-2:] == [SlotConfirmed(slot), SlotFinalized(slot - ROOT_DEPTH + 1)]


def test_skipped_slots_have_no_block(local: LocalNode) -> None:
    heard = local.chain.bus.subscribe(SlotSkipped)
    before = local.chain.levels.building
    local.beat(skip=2)
    after = local.chain.levels.building
    assert (after.slot, after.height) == (before.slot + 3, before.height + 1)
    assert heard.drain() == [SlotSkipped(before.slot + 1), SlotSkipped(before.slot + 2)]


def test_a_gate_can_drop_transactions(local: LocalNode) -> None:
    payer = local.wallet()
    transaction = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    local.chain.gates.append(lambda decoded, source: source is not Source.TPU)
    assert local.chain.submit(bytes(transaction), Source.TPU) == Dropped()
    assert isinstance(local.chain.submit(bytes(transaction), Source.RPC), TransactionRecord)


def test_expired_hashes_are_unknown(local: LocalNode) -> None:
    payer = local.wallet()
    old = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    local.beat()
    local.chain.expire_blockhashes()
    assert local.chain.submit(bytes(old), Source.RPC) == Refused("BlockhashNotFound")
    local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))


def test_a_durable_nonce_outlives_blockhashes_and_works_once(local: LocalNode, nonce: tuple[Keypair, Keypair]) -> None:
    owner, account = nonce
    value = stored_value(local.chain.vm.account(account.pubkey()))
    assert value is not None
    to = Pubkey.new_unique()
    spend = local.signed(owner, advance(owner, account), give(owner, to, 2_000_000), blockhash=value)
    again = local.signed(owner, advance(owner, account), give(owner, to, 3_000_000), blockhash=value)
    local.beat(BLOCKHASH_VALID_BLOCKS + 5)
    assert local.land(spend).meta.err is None
    assert local.chain.submit(bytes(again), Source.RPC) == Refused("BlockhashNotFound")
    fresh = stored_value(local.chain.vm.account(account.pubkey()))
    too_soon = local.signed(owner, advance(owner, account), give(owner, to, 4_000_000), blockhash=fresh)
    assert local.chain.submit(bytes(too_soon), Source.RPC) == Refused("BlockhashNotFound")
    local.beat()
    assert local.land(too_soon).meta.err is None


def test_the_number_of_past_states_is_bounded(local: LocalNode) -> None:
    payer = local.wallet(10**12)
    for _ in range(10):
        local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
        local.beat()
    assert len(local.chain.history._before) <= ROOT_DEPTH


@pytest.mark.parametrize("beats", [0, 3])
def test_a_restart_forgets_only_the_unsealed_slot(local: LocalNode, beats: int) -> None:
    """After a crash, sealed transactions are kept and cannot be replayed; the unsealed one may be sent again."""
    payer, kept, lost = local.wallet(), Pubkey.new_unique(), Pubkey.new_unique()
    sealed = local.transfer(payer, kept, 2_000_000)
    local.land(sealed)
    local.beat(1 + beats)
    unsealed = local.transfer(payer, lost, 3_000_000)
    local.land(unsealed)
    slot, hash_before = local.chain.levels.building.slot, local.blockhash()
    after = local.restarted()
    try:
        assert after.chain.levels.building.slot == slot and after.blockhash() == hash_before
        assert (lamports(after, kept), lamports(after, lost)) == (2_000_000, 0)
        assert lamports(after, payer.pubkey()) == 10**9 - 2_005_000
        assert after.chain.submit(bytes(sealed), Source.RPC) == Refused("AlreadyProcessed")
        assert after.land(unsealed).meta.err is None
        assert after.chain.transaction_count == local.chain.transaction_count
        assert after.keys.faucet == local.keys.faucet
    finally:
        after.close()


# Forks.


def test_a_lost_fork_undoes_its_transactions(local: LocalNode) -> None:
    """Balances, statuses, counts and indexes are as before the fork; the same transaction may land again."""
    payer, to = local.wallet(usdc_base_units=5), Pubkey.new_unique()
    transaction = local.transfer(payer, to, 2_000_000)
    before, count = lamports(local, payer.pubkey()), local.chain.transaction_count
    local.land(transaction)
    local.faucet.fund(to, 0, 7)
    first = local.lose()
    assert (lamports(local, payer.pubkey()), lamports(local, to)) == (before, 0)
    assert transaction.signatures[0] not in local.chain.statuses
    assert local.chain.transaction_count == count
    assert not local.chain.indexes.token_accounts_of(to)
    assert local.chain.levels.building.slot == first + 1
    local.land(transaction)
    local.finalize()
    assert lamports(local, to, Commitment.FINALIZED) == 2_000_000
    assert local.archive.block(first) is None
    block = local.archive.block(first + 1)
    assert block is not None and block.parent_slot == first - 1


def test_hashes_of_a_lost_fork_are_refused(local: LocalNode) -> None:
    """A transaction on a processed hash of a lost fork is refused; older hashes stay usable."""
    payer, to = local.wallet(), Pubkey.new_unique()
    old, height = local.blockhash(), local.chain.levels.building.height
    first = local.chain.levels.building.slot
    local.seal()
    doomed = local.blockhash()
    assert doomed != old
    stale = local.signed(payer, give(payer, to, 2_000_000), blockhash=doomed)
    sound = local.signed(payer, give(payer, to, 3_000_000), blockhash=old)
    local.land(stale)
    local.seal(ForkEnd(first))
    assert local.chain.levels.building.height == height
    assert local.blockhash() == old
    assert local.chain.submit(bytes(stale), Source.RPC) == Refused("BlockhashNotFound")
    local.land(sound)
    assert lamports(local, to) == 3_000_000


def test_one_hash_stays_usable_after_a_lost_fork_that_expired_all(local: LocalNode) -> None:
    payer, first = local.wallet(), local.chain.levels.building.slot
    local.seal()
    local.chain.expire_blockhashes()
    local.seal(ForkEnd(first))
    local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))


def test_a_lost_fork_publishes_the_events_of_a_real_node(local: LocalNode) -> None:
    """Blocks of a fork are processed and never confirmed; the parent of the next block is below them. A dead block
    is not sealed either."""
    to = Pubkey.new_unique()
    slots = local.chain.bus.subscribe(SlotOpened, SlotSealed, SlotDead, SlotsAbandoned, SlotConfirmed)
    local.faucet.airdrop(to, 10**9)
    first = local.lose(blocks=2)
    sealed, opened, again, abandoned, after = slots.drain()
    assert isinstance(sealed, SlotSealed) and len(sealed.block.transactions) == 1
    assert opened == SlotOpened(first + 1, first)
    assert isinstance(again, SlotSealed) and again.block.parent_slot == first
    assert isinstance(abandoned, SlotsAbandoned)
    assert (abandoned.slots, abandoned.parent_slot) == ((first, first + 1), first - 1)
    assert (to, None) in abandoned.restored
    assert after == SlotOpened(first + 2, first - 1)
    dead = local.lose(is_dead=True)
    told = [type(event) for event in slots.drain()]
    assert told == [SlotDead, SlotsAbandoned, SlotOpened] and dead == first + 2
    local.beat()
    assert SlotConfirmed(first + 3) in slots.drain()


# A node that lags.


def test_a_node_that_lags_shows_the_past_and_builds_the_present(local: LocalNode) -> None:
    """Reads at every level are some slots old; transactions still land in the newest slot."""
    payer, to = local.wallet(), Pubkey.new_unique()
    local.chain.levels.lag(3)
    local.beat()
    local.land(local.transfer(payer, to, 2_000_000))
    local.beat(2)
    assert lamports(local, to) == 0 and lamports(local, to, Commitment.FINALIZED) == 0
    newest = local.transfer(payer, to, 1_000_000)
    assert local.chain.refusal(decoded(newest), Commitment.PROCESSED) == "BlockhashNotFound"
    local.land(newest)
    local.beat()
    assert lamports(local, to) == 2_000_000
    local.beat(3)
    assert lamports(local, to) == 3_000_000
    assert lamports(local, to, Commitment.FINALIZED) == 0
    local.chain.levels.lag(0)
    assert lamports(local, to, Commitment.CONFIRMED) == 3_000_000


# Preflight and landing in one run.


def test_submit_if_sound_changes_nothing_when_a_program_fails(local: LocalNode) -> None:
    """A failing transaction costs no fee and makes no record and no event; a succeeding one lands as usual."""
    payer, to = local.wallet(), Pubkey.new_unique()
    heard = local.chain.bus.subscribe(SignatureReceived, TransactionLanded, AccountWritten)
    unsound = decoded(local.transfer(payer, to, 10**12))
    refused = local.chain.submit_if_sound(unsound, Source.RPC)
    assert isinstance(refused, Unsound) and refused.meta.err == {"InstructionError": [0, {"Custom": 1}]}
    assert lamports(local, payer.pubkey()) == 10**9
    assert heard.drain() == [] and list(local.chain.open_transactions()) == []
    assert unsound.signature not in local.chain.statuses
    sound = decoded(local.transfer(payer, to, 2_000_000))
    assert isinstance(local.chain.submit_if_sound(sound, Source.RPC), TransactionRecord)
    assert [type(event) for event in heard.drain()][:1] == [SignatureReceived]
    assert local.chain.submit_if_sound(sound, Source.RPC) == Refused("AlreadyProcessed")


def test_submit_if_sound_does_not_advance_a_nonce_on_failure(local: LocalNode, nonce: tuple[Keypair, Keypair]) -> None:
    """A failed transaction advances its nonce only where it lands."""
    payer, account = nonce
    before = stored_value(local.chain.vm.account(account.pubkey()))
    assert before is not None
    steps = [advance(payer, account), give(payer, Pubkey.new_unique(), 10**13)]
    unsound = decoded(local.signed(payer, *steps, blockhash=before))
    assert isinstance(local.chain.submit_if_sound(unsound, Source.RPC), Unsound)
    assert stored_value(local.chain.vm.account(account.pubkey())) == before
    assert isinstance(local.chain.submit_decoded(unsound, Source.RPC), TransactionRecord)
    assert stored_value(local.chain.vm.account(account.pubkey())) != before


def test_a_forged_transaction_is_refused_before_it_runs(local: LocalNode) -> None:
    payer = local.wallet()
    good = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    forged = VersionedTransaction.populate(good.message, [Signature.default()])
    assert local.chain.submit_if_sound(decoded(forged), Source.RPC) == Refused("SignatureFailure")
    assert lamports(local, payer.pubkey()) == 10**9


def test_a_placed_account_is_part_of_the_chain(local: LocalNode) -> None:
    """An account the operator places is published, found by owner, shown from its slot on, and kept by a restart."""
    pubkey, owner = Pubkey.new_unique(), Pubkey.new_unique()
    local.beat()
    written = local.chain.bus.subscribe(AccountWritten)
    local.chain.place(pubkey, Account(10**9, b"by hand", owner, False, 0))
    assert [event.pubkey for event in written.drain() if isinstance(event, AccountWritten)] == [pubkey]
    assert local.chain.indexes.of_program(owner) == {pubkey}
    assert local.chain.account(pubkey, Commitment.PROCESSED) is not None
    assert local.chain.account(pubkey, Commitment.FINALIZED) is None
    local.finalize()
    again = local.restarted()
    account = again.chain.account(pubkey, Commitment.FINALIZED)
    assert account is not None and account.data == b"by hand"
    again.close()
