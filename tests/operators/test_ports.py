"""The ports of operators' pages are what launch and the tests hand to them."""

from actors.launch.assembly.operating import ChangingNodes, WatchedTransfers
from actors.operators.ports import NodeDesk, Running, Transfers
from tests.operators.world import StillProduct, TwoNodes, WaitingTransfers


def test_doubles_of_the_tests_stand_for_the_parts_of_the_product() -> None:
    """What mypy checks here: both satisfy the same port."""
    kinds: list[type[NodeDesk]] = [TwoNodes, ChangingNodes]
    transfers: list[Transfers] = [WaitingTransfers(), WatchedTransfers()]
    products: list[Running] = [StillProduct()]
    assert len(kinds) == len(transfers) == 2 and len(products) == 1
