"""The measurement of WebSockets on a small run: it counts what it shows."""

from bench.streams import measure


async def test_a_small_run_delivers_everything() -> None:
    """Every notification reaches every client, over one subscription at the node."""
    found = await measure(clients=4, idle=3, rates=[80], seconds=1.0)
    assert "MB with 3 idle sockets" in found
    assert found["subscriptions at the node for 4 clients"] == 1
    assert (found["80/s: wanted"], found["80/s: delivered"]) == (80, 80)
