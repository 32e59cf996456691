from solders.pubkey import Pubkey

from devnode.chain.submissions import Dropped, Source
from devnode.faults import plan as faults_plan
from devnode.faults.plan import CallFate, FaultPlan, Late, LostSlots, Once, Passes, Stream, read_plan
from tests.devnode.local_node import LocalNode


def test_a_delayed_send_arrives_in_its_slot(local: LocalNode) -> None:
    payer, to = local.wallet(), Pubkey.new_unique()
    faults = local.node.faults
    faults.set(read_plan({"sends": {"rpc": {"delay_share": 1, "delay_slots": 2}}}))
    assert local.chain.submit(bytes(local.transfer(payer, to, 2_000_000)), Source.RPC) == Dropped()
    for wanted in (None, 2_000_000):
        local.beat()
        faults.deliver()
        account = local.chain.vm.account(to)
        assert (None if account is None else account.lamports) == wanted
    local.beat()
    faults.deliver()
    assert len(list(local.chain.open_transactions())) == 0


def test_the_number_of_counted_methods_is_bounded(local: LocalNode) -> None:
    """Clients may call any number of unknown methods; methods counted before keep their own counter."""
    faults = local.node.faults
    faults.set(read_plan({"calls": {"*": {"too_many_share": 0.5}}}))
    faults.call_fate("getSlot")
    for number in range(2_000):
        faults.call_fate(f"made up {number}")
    assert len(faults._calls) <= 257 and faults._calls["getSlot"] == 1


def test_delayed_sends_arrive_in_the_order_they_were_sent(local: LocalNode) -> None:
    """Delayed sends arrive even if the plan changes meanwhile."""
    faults, arrived = local.node.faults, []
    faults.set(read_plan({"sends": {"bundle": {"delay_share": 1, "delay_slots": 2}}}))
    assert faults.send_fate(Source.BUNDLE, "x") == Late(2)
    faults.hold(2, lambda: arrived.append("first"))
    faults.hold(1, lambda: arrived.append("soon"))
    faults.hold(2, lambda: arrived.append("second"))
    faults.set(FaultPlan())
    local.beat()
    faults.deliver()
    assert arrived == ["soon"]
    local.beat()
    faults.deliver()
    assert arrived == ["soon", "first", "second"]


def test_transactions_of_the_faucet_always_arrive(local: LocalNode) -> None:
    """A test with send faults must still be able to fund wallets."""
    lossy = {"drop_share": 1}
    local.node.faults.set(read_plan({"sends": {"rpc": lossy, "tpu": lossy, "bundle": lossy}}))
    assert local.node.faults.send_fate(Source.FAUCET, "x") == Passes()
    local.faucet.airdrop(Pubkey.new_unique(), 10**9)


def test_calls_are_counted_from_the_setting_of_the_plan(local: LocalNode) -> None:
    """A plan that is set a second time hits the same calls again."""
    faults, plan = local.node.faults, read_plan({"calls": {"getSlot": {"hang_share": 0.5}}})
    faults.set(plan)
    first = [faults.call_fate("getSlot") for _ in range(40)]
    faults.set(plan)
    assert [faults.call_fate("getSlot") for _ in range(40)] == first
    assert set(first) == {CallFate.HANGS, CallFate.ANSWERED}


def test_lost_slots_begin_now_and_end(local: LocalNode) -> None:
    """The stream loses that many slots, from the slot being built on."""
    faults = local.node.faults
    faults.do_once(Once(lost_slots=LostSlots(grpc=2)))
    delivered = []
    for _ in range(4):
        delivered.append((faults.delivers(Stream.PUBSUB), faults.delivers(Stream.GRPC)))
        local.beat()
    assert delivered == [(True, False), (True, False), (True, True), (True, True)]


def test_connections_are_cut_in_a_share_of_slots(local: LocalNode) -> None:
    """Once for each such slot, when it begins, and only those of the stream that the plan names."""

    class Connections:
        cuts = 0

        def cut(self) -> None:
            self.cuts += 1

        def counts(self) -> dict[str, int]:
            return {}

    faults, pubsub, grpc = local.node.faults, Connections(), Connections()
    faults.streams = {Stream.PUBSUB: pubsub, Stream.GRPC: grpc}
    faults.set(read_plan({"streams": {"pubsub": {"cut_share": 0.3}}}))
    expected = 0
    for _ in range(60):
        local.beat()
        faults.deliver()
        expected += faults_plan.cuts(faults.plan, Stream.PUBSUB, faults.slot)
    assert pubsub.cuts == expected > 0 == grpc.cuts
    assert expected < 60


def test_a_single_fault_happens_once(local: LocalNode) -> None:
    """A single fault happens with the next seal; the shares of the plan stay in force."""
    faults = local.node.faults
    faults.do_once(Once(skip_slots=3, fork_blocks=2, purge_before_slot=7))
    assert faults.next_seal() == Once(skip_slots=3, fork_blocks=2, purge_before_slot=7)
    assert faults.next_seal() == Once()
    faults.set(read_plan({"slots": {"dead_share": 1, "fork_share": 1, "fork_blocks": 3}}))
    assert faults.next_seal() == Once(fork_blocks=3, dead_block=True)


def test_a_node_reports_a_lag_above_128_slots(local: LocalNode) -> None:
    """As on a real node, a lag of up to 128 slots counts as healthy."""
    faults = local.node.faults
    faults.set(read_plan({"node": {"lag_slots": 128}}))
    assert faults.slots_behind is None and local.call("getHealth") == "ok"
    faults.set(read_plan({"node": {"lag_slots": 129}}))
    assert faults.slots_behind == 129
    assert local.error("getHealth") == (-32005, "Node is behind by 129 slots")


def test_a_lagging_node_answers_from_the_past(local: LocalNode) -> None:
    """Slots, balances, statuses, hashes and minContextSlot are old; transactions land in the newest slot."""
    payer, to = local.wallet(), Pubkey.new_unique()
    level = {"commitment": "processed"}
    then = local.call("getSlot", level)
    local.node.faults.set(read_plan({"node": {"lag_slots": 5}}))
    local.beat()
    signature = str(local.land(local.transfer(payer, to, 2_000_000)).signature)
    local.beat()
    assert local.call("getSlot", level) == then
    assert local.call("getBalance", str(to), level)["value"] == 0
    assert local.call("getSignatureStatuses", [signature])["value"] == [None]
    assert local.call("getTransaction", signature, {"commitment": "confirmed"}) is None
    assert local.error("getSlot", level | {"minContextSlot": then + 1})[0] == -32016
    hash_then = local.call("getLatestBlockhash", level)["value"]["blockhash"]
    assert hash_then != str(local.blockhash())
    local.node.faults.set(FaultPlan())
    assert local.call("getSlot", level) == then + 2
    assert local.call("getBalance", str(to), level)["value"] == 2_000_000
