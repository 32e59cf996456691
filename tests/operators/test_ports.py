"""The ports of operators' pages are what launch and the tests hand to them."""

from actors.config import UpstreamConfig
from actors.launch.assembly.operating import NodesOfSettings, WatchedTransfers
from actors.operators.ports import NodeDesk, Running, Transfers
from actors.status.live import CurrentHealth
from tests.operators.world import StillProduct, TwoNodes, WaitingTransfers


def test_doubles_of_the_tests_stand_for_the_parts_of_the_product() -> None:
    """What mypy checks here: both satisfy the same port."""
    config = UpstreamConfig(node_url="http://127.0.0.1:8899")
    desks: list[NodeDesk] = [TwoNodes(), NodesOfSettings(config, CurrentHealth(config))]
    transfers: list[Transfers] = [WaitingTransfers(), WatchedTransfers()]
    products: list[Running] = [StillProduct()]
    assert len(desks) == len(transfers) == 2 and len(products) == 1
