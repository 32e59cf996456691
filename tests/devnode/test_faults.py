from solders.pubkey import Pubkey

from actors.devnode.chain import Dropped, Source
from actors.devnode.faults_plan import CallFate, FaultPlan, Late, Passes, Stream, read_plan
from actors.devnode.records import TransactionRecord

from .local_node import LocalNode


def test_a_dropped_send_leaves_no_trace(local: LocalNode) -> None:
    """The sender is answered as ever; the transaction never lands, and may be sent again."""
    payer, to = local.wallet(), Pubkey.new_unique()
    raw = bytes(local.transfer(payer, to, 2_000_000))
    local.node.faults.set(read_plan({"sends": {"tpu": {"drop_share": 1}}}))
    assert local.chain.submit(raw, Source.TPU) == Dropped()
    local.beat()
    assert local.chain.vm.account(to) is None
    assert isinstance(local.chain.submit(raw, Source.RPC), TransactionRecord)


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


def test_what_is_held_arrives_in_the_order_it_was_sent(local: LocalNode) -> None:
    """Whatever a door gives to be held; even when the plan has been taken back."""
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


def test_gifts_of_the_faucet_always_arrive(local: LocalNode) -> None:
    """Or no test could set itself up."""
    lossy = {"drop_share": 1}
    local.node.faults.set(read_plan({"sends": {"rpc": lossy, "tpu": lossy, "bundle": lossy}}))
    assert local.node.faults.send_fate(Source.FAUCET, "x") == Passes()
    local.faucet.airdrop(Pubkey.new_unique(), 10**9)


def test_calls_are_counted_from_the_setting_of_the_plan(local: LocalNode) -> None:
    """The same plan set again hits the same calls again."""
    faults, plan = local.node.faults, read_plan({"calls": {"getSlot": {"hang_share": 0.5}}})
    faults.set(plan)
    first = [faults.call_fate("getSlot") for _ in range(40)]
    faults.set(plan)
    assert [faults.call_fate("getSlot") for _ in range(40)] == first
    assert set(first) == {CallFate.HANGS, CallFate.ANSWERED}


def test_a_silent_stream_tells_nothing(local: LocalNode) -> None:
    faults = local.node.faults
    assert faults.tells(Stream.PUBSUB) and faults.tells(Stream.GRPC)
    faults.set(read_plan({"streams": {"pubsub": {"silent": True}}}))
    assert not faults.tells(Stream.PUBSUB) and faults.tells(Stream.GRPC)
