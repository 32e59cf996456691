import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from solders.account import Account
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from devnode.chain.bus import AccountWritten
from devnode.chain.operations import return_to
from devnode.chain.snapshots import SNAPSHOTS_MAX, SnapshotError, Snapshots
from devnode.chain.submissions import Source
from devnode.encoding.addresses import SYSTEM_PROGRAM
from devnode.execution.execution import Refused
from devnode.records.blockhashes import stored_value
from devnode.records.commitment import Commitment
from tests.devnode.local_node import LocalNode, nonce_instructions

KEYS = [Pubkey.from_bytes(bytes([number]) * 32) for number in range(1, 5)]
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")


def holding(lamports: int, data: bytes = b"") -> Account | None:
    return Account(lamports, data, SYSTEM_PROGRAM, False, 0) if lamports else None


def took(local: LocalNode, name: str | None = None) -> int:
    chain = local.chain
    return chain.snapshots.take(chain.levels.building.slot, chain.opened_unix_time, name).number


def test_accounts_are_as_they_were_and_the_chain_goes_on(local: LocalNode) -> None:
    """Balances return, a new account is gone, a removed one is back; slots, statuses and history stay."""
    payer, receiver = local.wallet(10**9), Pubkey.new_unique()
    before = local.chain.account(payer.pubkey(), Commitment.PROCESSED)
    number = took(local)
    paid = local.transfer(payer, receiver, 10**8)
    record = local.land(paid)
    local.finalize()
    slot = local.chain.levels.building.slot
    assert return_to(local.chain, number) == 3, "payer, receiver, and the leader with its part of the fee"
    assert local.chain.account(payer.pubkey(), Commitment.PROCESSED) == before
    assert local.chain.account(receiver, Commitment.PROCESSED) is None
    assert local.chain.account(receiver, Commitment.FINALIZED) is not None, "the past stays as it was"
    assert local.chain.levels.building.slot == slot
    again = local.chain.submit(bytes(paid), Source.RPC)
    assert isinstance(again, Refused) and again.err == "AlreadyProcessed"
    local.finalize()
    assert local.chain.account(receiver, Commitment.FINALIZED) is None
    assert local.call("getTransaction", record.signature, {"maxSupportedTransactionVersion": 0})["slot"] == record.slot


def test_what_returns_is_written_to_disk(tmp_path_factory: pytest.TempPathFactory) -> None:
    local = LocalNode(tmp_path_factory.mktemp("chain"))
    receiver = Pubkey.new_unique()
    number = took(local)
    local.faucet.airdrop(receiver, 10**9)
    local.beat()
    return_to(local.chain, number)
    local.beat()
    local = local.restarted()
    assert local.chain.vm.account(receiver) is None
    assert not local.chain.snapshots, "snapshots are in memory only"
    local.close()


def test_subscribers_see_the_accounts_as_writes_without_a_transaction(local: LocalNode) -> None:
    receiver = Pubkey.new_unique()
    number = took(local)
    local.faucet.airdrop(receiver, 10**9)
    heard = local.chain.bus.subscribe(AccountWritten)
    return_to(local.chain, number)
    events = [event for event in heard.drain() if isinstance(event, AccountWritten)]
    assert {event.pubkey for event in events} == {receiver, local.faucet.pubkey}
    assert all(event.transaction is None and event.slot == local.chain.levels.building.slot for event in events)
    assert next(event.account for event in events if event.pubkey == receiver) is None


def test_a_snapshot_serves_many_times_and_later_ones_stay(local: LocalNode) -> None:
    receiver = Pubkey.new_unique()
    first = took(local)
    local.faucet.airdrop(receiver, 10**9)
    second = took(local)
    for _ in range(3):
        return_to(local.chain, first)
        assert local.chain.vm.account(receiver) is None
        return_to(local.chain, second)
        held = local.chain.vm.account(receiver)
        assert held is not None and held.lamports == 10**9
        local.beat()


def test_a_lost_fork_does_not_change_a_snapshot(local: LocalNode) -> None:
    """The fork's accounts are in a snapshot that was taken on it, and not in one taken before it."""
    receiver = Pubkey.new_unique()
    before = took(local)
    local.faucet.airdrop(receiver, 10**9)
    on_the_fork = took(local)
    local.lose()
    assert local.chain.vm.account(receiver) is None
    return_to(local.chain, on_the_fork)
    assert local.chain.vm.account(receiver) == holding(10**9)
    return_to(local.chain, before)
    assert local.chain.vm.account(receiver) is None


def test_a_nonce_that_was_used_cannot_be_used_again(local: LocalNode) -> None:
    owner, nonce = local.wallet(), Keypair()
    message = MessageV0.try_compile(owner.pubkey(), nonce_instructions(owner, nonce), [], local.blockhash())
    local.land(VersionedTransaction(message, [owner, nonce]))
    local.beat()
    number = took(local)
    value = stored_value(local.chain.vm.account(nonce.pubkey()))
    local.chain.place(nonce.pubkey(), local.chain.vm.account(owner.pubkey()))
    return_to(local.chain, number)
    renewed = stored_value(local.chain.vm.account(nonce.pubkey()))
    assert renewed is not None and renewed != value and renewed != Hash.default()


def test_a_program_that_goes_and_comes_back(local: LocalNode) -> None:
    """A call of the program is refused while it is gone; LiteSVM itself would panic."""
    payer, program = local.wallet(), Pubkey.new_unique()
    without = took(local)
    local.chain.place(program, local.chain.vm.account(MEMO))
    with_it = took(local)
    call = Instruction(program, b"hello", [])
    return_to(local.chain, without)
    result = local.chain.submit(bytes(local.signed(payer, call)), Source.RPC)
    assert isinstance(result, Refused) and result.err == "InvalidProgramForExecution"
    return_to(local.chain, with_it)
    assert local.land(local.signed(payer, call, blockhash=local.blockhash())).meta.err is None


def test_ten_thousand_snapshots_are_refused_above_the_most() -> None:
    snapshots = Snapshots()
    refused = 0
    for number in range(10_000):
        try:
            snapshots.take(number, 0)
        except SnapshotError as error:
            refused += 1
            assert "delete one first" in str(error)
    assert (refused, len(snapshots.listed())) == (10_000 - SNAPSHOTS_MAX, SNAPSHOTS_MAX)


def test_above_its_bytes_the_oldest_snapshot_is_dropped() -> None:
    snapshots = Snapshots(kept_bytes_max=3_000)
    first, second = snapshots.take(1, 0), snapshots.take(2, 0)
    for key in KEYS:
        snapshots.note(key, holding(1, bytes(100)))
    assert snapshots.listed() == [first, second] and snapshots.kept_bytes == 2_400
    snapshots.note(Pubkey.new_unique(), holding(1, bytes(1_000)))
    assert snapshots.listed() == [] and snapshots.kept_bytes == 0 and not snapshots
    with pytest.raises(SnapshotError, match="snapshot 1 was dropped: the accounts written since took more than"):
        snapshots.get(first.number)
    with pytest.raises(SnapshotError, match="no snapshot 9"):
        snapshots.get(9)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(KEYS), st.integers(0, 3)),
        st.tuples(st.just("take"), st.just(None), st.just(0)),
        st.tuples(st.just("delete"), st.just(None), st.integers(0, 5)),
        st.tuples(st.just("return"), st.just(None), st.integers(0, 5)),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(steps=steps)
def test_any_order_of_steps(steps: list[tuple[str, Pubkey | None, int]]) -> None:
    """A whole copy of the accounts at each snapshot is what returning to it gives, whatever happened since."""
    snapshots, now, copies = Snapshots(), dict[Pubkey, Account | None](), dict[int, dict[Pubkey, Account | None]]()

    def write(key: Pubkey, account: Account | None) -> None:
        if snapshots:
            snapshots.note(key, now.get(key))
        now[key] = account

    for step, key, number in steps:
        if step == "write" and key is not None:
            write(key, holding(number))
        elif step == "take":
            copies[snapshots.take(0, 0).number] = dict(now)
        elif copies:
            chosen = sorted(copies)[number % len(copies)]
            if step == "delete":
                snapshots.delete(chosen)
                del copies[chosen]
            else:
                for found, account in snapshots.differing(chosen, now.get):
                    write(found, account)
                assert {k: v for k, v in now.items() if v} == {k: v for k, v in copies[chosen].items() if v}
