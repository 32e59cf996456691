from devnode.rpc.node import in_context
from tests.devnode.local_node import LocalNode


def test_a_call_may_require_a_minimum_slot(local: LocalNode) -> None:
    """The minimum applies to the slot of the call's commitment: finalized is below processed."""
    slot = local.chain.levels.building.slot
    assert local.call("getSlot", {"commitment": "processed", "minContextSlot": slot}) == slot
    reply = local.reply("getSlot", {"minContextSlot": slot})
    assert reply["error"]["code"] == -32016
    assert reply["error"]["data"]["contextSlot"] < slot


def test_context_names_version_and_slot() -> None:
    assert in_context(5, None) == {"context": {"apiVersion": "4.1.2", "slot": 5}, "value": None}
