"""Holds and settles of a replica that traces: steps of the request, which the owner is told of."""

from actors.accounts.traced_client import TracedAccounts
from actors.calls import HoldItem, HoldRequest, KeyProof, SettleRequest
from actors.config import Config, StorageConfig
from actors.telemetry.tracing import traceparent_of, working_on
from actors.units import VIRTUAL_SHARDS, routing_bytes
from tests.accounts.test_client import REPLICA, SECRET, WALLETS, Owner
from tests.telemetry.collector import SAMPLED, Spans


async def test_the_owner_hears_of_the_trace_with_the_hold_alone() -> None:
    """And of none where the request is not traced; a batch names some of its methods."""
    owner, spans = Owner(), Spans()
    owner.where, owner.table = ("127.0.0.1", await owner.server.start("127.0.0.1")), [0] * VIRTUAL_SHARDS
    config = Config(storage=StorageConfig.model_validate({"cluster_secret": SECRET}))
    accounts = TracedAccounts(config, REPLICA, spans.tracing, lambda _: owner)
    accounts.start()
    await accounts.connected()
    proof = KeyProof(b"h", routing_bytes(WALLETS[0]))
    hold = HoldRequest(bytes(16), proof, (HoldItem("getSlot", 1),) * 12, "a1-7")
    settle = SettleRequest(bytes(16), WALLETS[0], 1, "getSlot", 1, 1, 0, 0)
    span = spans.tracing.begin("call", SAMPLED, {})
    assert span is not None
    await accounts.hold(hold)
    await accounts.settle(settle)
    with working_on(span):
        await accounts.hold(hold)
        await accounts.settle(settle)
    await accounts.stop()
    await owner.server.stop()
    assert [one.traceparent for one in owner.seen if isinstance(one, HoldRequest)] == ["", traceparent_of(span)]
    held, settled, _ = await spans.ended()
    assert dict(held.attributes) == {"rpc.methods": ("getSlot",) * 10, "calls": 12, "refusal": ""}
    assert dict(settled.attributes) == {"rpc.method": "getSlot", "credits": 1, "settled": True}
