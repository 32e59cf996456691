import pytest
from solders.account import Account
from solders.hash import Hash
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from actors.devnode.chain.blockhashes import BLOCKHASH_VALID_BLOCKS
from actors.devnode.chain.bus import (
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
from actors.devnode.chain.chain import Dropped, ForkEnd, Source, Unsound
from actors.devnode.chain.commitment import Commitment
from actors.devnode.chain.nonces import stored_value
from actors.devnode.chain.records import TransactionRecord
from actors.devnode.encoding.addresses import SYSVAR_CLOCK, TOKEN_PROGRAM, USDC_MINT
from actors.devnode.encoding.wire import Decoded, Malformed, decode
from actors.devnode.execution.execution import Refused
from tests.devnode.execution.test_execution import advance, nonce
from tests.devnode.local_node import ROOT_DEPTH, LocalNode, give

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


def test_a_failed_transaction_is_not_repeated_either(local: LocalNode) -> None:
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


def test_a_forged_transaction_is_called_forged_even_on_an_old_hash(local: LocalNode) -> None:
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


def test_reads_see_the_past_at_lower_levels(local: LocalNode) -> None:
    """Processed at once, confirmed one slot later, finalized at the root depth."""
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


def test_events_tell_the_whole_story_in_order(local: LocalNode) -> None:
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
        SlotSealed,
        SlotOpened,
        AccountWritten,  # The clock.
        SlotConfirmed,
        SlotFinalized,
    ]
    writes = [event for event in events if isinstance(event, AccountWritten)]
    assert [write.pubkey for write in writes] == [payer.pubkey(), to, SYSVAR_CLOCK]
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


def test_a_gate_can_swallow_transactions(local: LocalNode) -> None:
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


def test_a_durable_nonce_lives_longer_than_hashes_and_works_once(
    local: LocalNode, nonce: tuple[Keypair, Keypair]
) -> None:
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


def test_programs_and_mints_are_found_by_their_owner(local: LocalNode) -> None:
    assert USDC_MINT in local.chain.indexes.of_program(TOKEN_PROGRAM)


def test_memory_of_past_states_is_bounded(local: LocalNode) -> None:
    payer = local.wallet(10**12)
    for _ in range(10):
        local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))
        local.beat()
    assert len(local.chain.history._before) <= ROOT_DEPTH


@pytest.mark.parametrize("beats", [0, 3])
def test_a_restart_forgets_only_what_was_not_sealed(local: LocalNode, beats: int) -> None:
    """After a crash: sealed transactions stand and cannot be replayed, the unsealed one may be sent again."""
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


def lose(local: LocalNode, blocks: int = 1, is_dead: bool = False) -> int:
    """Seal so many blocks of a fork and give it up; returns its first slot."""
    first = local.chain.levels.building.slot
    for number in range(1, blocks + 1):
        end = ForkEnd(first, is_dead) if number == blocks else None
        local.chain.seal(local.clock.now(), local.clock.monotonic(), fork_end=end)
    return first


def test_a_lost_fork_takes_its_transactions_and_their_effects_along(local: LocalNode) -> None:
    """Balances, statuses, counts and the indexes are as before; the same transaction may land again."""
    payer, to = local.wallet(usdc_base_units=5), Pubkey.new_unique()
    transaction = local.transfer(payer, to, 2_000_000)
    before, count = lamports(local, payer.pubkey()), local.chain.transaction_count
    local.land(transaction)
    local.faucet.fund(to, 0, 7)
    first = lose(local)
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


def test_hashes_of_a_lost_fork_let_nothing_land(local: LocalNode) -> None:
    """Whoever took the newest hash at processed signed for a block that never was; older hashes go on."""
    payer, to = local.wallet(), Pubkey.new_unique()
    old, height = local.blockhash(), local.chain.levels.building.height
    first = local.chain.levels.building.slot
    local.chain.seal(local.clock.now(), local.clock.monotonic())
    doomed = local.blockhash()
    assert doomed != old
    stale = local.signed(payer, give(payer, to, 2_000_000), blockhash=doomed)
    sound = local.signed(payer, give(payer, to, 3_000_000), blockhash=old)
    local.land(stale)
    local.chain.seal(local.clock.now(), local.clock.monotonic(), fork_end=ForkEnd(first))
    assert local.chain.levels.building.height == height
    assert local.blockhash() == old
    assert local.chain.submit(bytes(stale), Source.RPC) == Refused("BlockhashNotFound")
    local.land(sound)
    assert lamports(local, to) == 3_000_000


def test_a_fork_that_expired_all_hashes_leaves_one_to_land_with(local: LocalNode) -> None:
    payer, first = local.wallet(), local.chain.levels.building.slot
    local.chain.seal(local.clock.now(), local.clock.monotonic())
    local.chain.expire_blockhashes()
    local.chain.seal(local.clock.now(), local.clock.monotonic(), fork_end=ForkEnd(first))
    local.land(local.transfer(payer, Pubkey.new_unique(), 2_000_000))


def test_streams_hear_of_a_lost_fork_as_nodes_tell_it(local: LocalNode) -> None:
    """Its blocks are processed, never confirmed; the next block has a parent below them. A dead one is not even
    complete."""
    to = Pubkey.new_unique()
    slots = local.chain.bus.subscribe(SlotOpened, SlotSealed, SlotDead, SlotsAbandoned, SlotConfirmed)
    local.faucet.airdrop(to, 10**9)
    first = lose(local, blocks=2)
    sealed, opened, again, abandoned, after = slots.drain()
    assert isinstance(sealed, SlotSealed) and len(sealed.block.transactions) == 1
    assert opened == SlotOpened(first + 1, first)
    assert isinstance(again, SlotSealed) and again.block.parent_slot == first
    assert isinstance(abandoned, SlotsAbandoned)
    assert (abandoned.slots, abandoned.parent_slot) == ((first, first + 1), first - 1)
    assert (to, None) in abandoned.restored
    assert after == SlotOpened(first + 2, first - 1)
    dead = lose(local, is_dead=True)
    told = [type(event) for event in slots.drain()]
    assert told == [SlotDead, SlotsAbandoned, SlotOpened] and dead == first + 2
    local.beat()
    assert SlotConfirmed(first + 3) in slots.drain()


# A node that lags.


def test_a_node_that_lags_shows_the_past_and_builds_the_present(local: LocalNode) -> None:
    """Reads at every level are of then; what is sent meanwhile lands in the newest slot all the same."""
    payer, to = local.wallet(), Pubkey.new_unique()
    local.chain.levels.lag(3)
    local.beat()
    local.land(local.transfer(payer, to, 2_000_000))
    local.beat(2)
    assert lamports(local, to) == 0 and lamports(local, to, Commitment.FINALIZED) == 0
    newest = local.transfer(payer, to, 1_000_000)
    assert local.chain.refusal(decode_valid(newest), Commitment.PROCESSED) == "BlockhashNotFound"
    local.land(newest)
    local.beat()
    assert lamports(local, to) == 2_000_000
    local.beat(3)
    assert lamports(local, to) == 3_000_000
    assert lamports(local, to, Commitment.FINALIZED) == 0
    local.chain.levels.lag(0)
    assert lamports(local, to, Commitment.CONFIRMED) == 3_000_000


def decode_valid(transaction: VersionedTransaction) -> Decoded:
    decoded = decode(bytes(transaction))
    assert isinstance(decoded, Decoded)
    return decoded


# Preflight and landing in one run.


def test_what_a_program_refuses_leaves_no_trace(local: LocalNode) -> None:
    """No fee, no record, no notice; a transaction that is sound lands and is told of."""
    payer, to = local.wallet(), Pubkey.new_unique()
    heard = local.chain.bus.subscribe(SignatureReceived, TransactionLanded, AccountWritten)
    unsound = decode_valid(local.transfer(payer, to, 10**12))
    refused = local.chain.submit_if_sound(unsound, Source.RPC)
    assert isinstance(refused, Unsound) and refused.meta.err == {"InstructionError": [0, {"Custom": 1}]}
    assert lamports(local, payer.pubkey()) == 10**9
    assert heard.drain() == [] and list(local.chain.open_transactions()) == []
    assert unsound.signature not in local.chain.statuses
    sound = decode_valid(local.transfer(payer, to, 2_000_000))
    assert isinstance(local.chain.submit_if_sound(sound, Source.RPC), TransactionRecord)
    assert [type(event) for event in heard.drain()][:1] == [SignatureReceived]
    assert local.chain.submit_if_sound(sound, Source.RPC) == Refused("AlreadyProcessed")


def test_a_nonce_is_not_used_up_by_what_never_landed(local: LocalNode, nonce: tuple[Keypair, Keypair]) -> None:
    """A failed transaction on a nonce moves it on; one that was only sent if sound does not."""
    payer, account = nonce
    before = stored_value(local.chain.vm.account(account.pubkey()))
    assert before is not None
    steps = [advance(payer, account), give(payer, Pubkey.new_unique(), 10**13)]
    unsound = decode_valid(local.signed(payer, *steps, blockhash=before))
    assert isinstance(local.chain.submit_if_sound(unsound, Source.RPC), Unsound)
    assert stored_value(local.chain.vm.account(account.pubkey())) == before
    assert isinstance(local.chain.submit_decoded(unsound, Source.RPC), TransactionRecord)
    assert stored_value(local.chain.vm.account(account.pubkey())) != before


def test_a_forged_transaction_is_refused_before_it_runs(local: LocalNode) -> None:
    payer = local.wallet()
    good = local.transfer(payer, Pubkey.new_unique(), 2_000_000)
    forged = VersionedTransaction.populate(good.message, [Signature.default()])
    assert local.chain.submit_if_sound(decode_valid(forged), Source.RPC) == Refused("SignatureFailure")
    assert lamports(local, payer.pubkey()) == 10**9


def test_what_the_operator_places_is_part_of_the_chain(local: LocalNode) -> None:
    """Told to streams, found by owner, seen at its level only, and there after a restart."""
    pubkey, owner = Pubkey.new_unique(), Pubkey.new_unique()
    local.beat()
    local.chain.place(pubkey, Account(10**9, b"by hand", owner, False, 0))
    assert local.chain.account(pubkey, Commitment.PROCESSED) is not None
    assert local.chain.account(pubkey, Commitment.FINALIZED) is None
    local.finalize()
    again = local.restarted()
    account = again.chain.account(pubkey, Commitment.FINALIZED)
    assert account is not None and account.data == b"by hand"
    again.close()
