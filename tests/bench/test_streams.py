"""The measurement of WebSockets, small: that it counts what it says."""

from rich.console import Console

from bench.streams import measure


async def test_a_small_run_delivers_everything() -> None:
    """Every notification reaches every client, over one subscription at the node."""
    table = await measure(clients=4, idle=3, rates=[80], seconds=1.0)
    console = Console(width=200)
    with console.capture() as shown:
        console.print(table)
    said = shown.get()
    assert "3 idle sockets" in said and "1 subscription(s) at the node" in said
    assert "wanted 80.00, delivered 80.00" in said
