"""Guards that a process takes changes over, tells how it is, and goes on while the store is away."""

from actors.upstream.following import NodesFollower
from actors.upstream.node_changes import NodeChange
from actors.upstream.node_reports import ProcessReport

from .changing import NETWORK, Chain, MemoryNodeChanges, config_of, nodes_over, stages


async def test_changes_are_taken_over_and_told():
    one, two, new = Chain(), Chain(), Chain()
    store = MemoryNodeChanges()
    async with nodes_over(one, two, further=(new,)) as (nodes, config):
        follower = NodesFollower(config.named_nodes, nodes, store, "gateway-1", ("a limit",))
        await follower.begin()
        await nodes.probe()
        await nodes.call("getBalance", b'["x"]', 5_000)
        await follower.look()
        report = store.told["gateway-1"]
        assert (report.version, report.limits, sum(each.calls for each in report.nodes)) == (0, ("a limit",), 1)
        assert store.kept.network == NETWORK  # For a time in which no node tells it.
        await store.change(lambda _: NodeChange(id="n1", is_drained=True))
        await store.change(lambda _: NodeChange(id="new", added=config_of("new", new), network=NETWORK))
        await follower.look()
        assert stages(nodes) == {"n0": "in_use", "n1": "drained", "new": "joining"}
        assert store.told["gateway-1"].version == 2


async def test_a_process_that_has_nothing_new_to_tell_writes_less_often():
    """Each report is a write. A call, and a change, are told with the next look; also that the calls have ended."""
    one, two = Chain(), Chain()
    store = MemoryNodeChanges()
    told: list[ProcessReport] = []
    tell = store.tell

    async def counted(report: ProcessReport) -> None:
        told.append(report)
        await tell(report)

    store.tell = counted
    async with nodes_over(one, two) as (nodes, config):
        follower = NodesFollower(config.named_nodes, nodes, store, "gateway-1")
        await follower.begin()
        await nodes.probe()
        for _ in range(8):
            await follower.look()
        assert len(told) == 2
        for _ in range(12):
            await nodes.call("getBalance", b'["x"]', 5_000)
        await follower.look()
        assert len(told) == 3
        await nodes.call("getBalance", b'["x"]', 5_000)
        await follower.look()
        assert len(told) == 3  # Hardly more calls: what an actor asks while it waits.
        for _ in range(30):
            await nodes.call("getBalance", b'["x"]', 5_000)
        await follower.look()
        assert len(told) == 4
        await store.change(lambda _: NodeChange(id="n1", is_drained=True))
        await follower.look()
        assert (len(told), told[-1].version) == (5, 1)
        for _ in range(12):
            await follower.look()
        assert sum(each.calls for each in told[-1].nodes) == 0


async def test_a_store_that_is_away_changes_nothing():
    one, two = Chain(), Chain()
    store = MemoryNodeChanges()
    async with nodes_over(one, two) as (nodes, config):
        follower = NodesFollower(config.named_nodes, nodes, store, "gateway-1")
        store.is_away = True
        await follower.begin()
        await follower.look()
        assert stages(nodes) == {"n0": "in_use", "n1": "in_use"} and not store.told
        store.is_away = False
        await store.change(lambda _: NodeChange(id="n1", is_drained=True))
        await follower.look()
        store.is_away = True
        await follower.look()
        assert stages(nodes) == {"n0": "in_use", "n1": "drained"}


async def test_changes_that_leave_no_node_are_told_and_not_carried_out(caplog):
    one = Chain()
    store = MemoryNodeChanges()
    async with nodes_over(one) as (nodes, config):
        await store.change(lambda _: NodeChange(id="n0", is_drained=True))
        await NodesFollower(config.named_nodes, nodes, store, "gateway-1").begin()
        assert stages(nodes) == {"n0": "in_use"} and "leave none for read" in caplog.text
