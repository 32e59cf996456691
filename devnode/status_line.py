"""Shows the status of the node: a log line, and on a terminal a status line.

Implements: a log line with the addresses; on a terminal, a line with slot and transaction count that is rewritten in
place. Reads only. rich is only imported for a terminal, to keep the memory of other nodes small.
"""

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from devnode.faults.plan import FaultPlan
from devnode.ports import address_text

if TYPE_CHECKING:
    from devnode.app import Devnode

logger = logging.getLogger("devnode")
REFRESH_SECONDS = 0.5
_tasks: set[asyncio.Task[None]] = set()  # The loop itself keeps only weak references to its tasks.


def show_status(devnode: "Devnode") -> None:
    """Show the status. Call it when the node answers calls."""
    url = f"http://{devnode.node.http_address}"
    logger.info(
        "listening on %s, TPU %s, gRPC %s and with TLS %d, slot %d, faucet %s",
        url,
        devnode.node.tpu_quic_address,
        address_text(devnode.settings.host, devnode.geyser.port),
        devnode.geyser.tls_port,
        devnode.node.chain.levels.building.slot,
        devnode.node.faucet.pubkey,
    )
    if sys.stdout.isatty():
        task = asyncio.get_running_loop().create_task(_follow(devnode, url))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)


async def _follow(devnode: "Devnode", url: str) -> None:
    from rich.console import Console

    with Console().status("") as status:
        while True:
            chain = devnode.node.chain
            faults = "" if devnode.node.faults.plan == FaultPlan() else "[red]faults on[/red]  "
            status.update(
                f"[bold]devnode[/bold] {url}  gRPC {devnode.geyser.port}  slot {chain.levels.building.slot:,}  "
                f"transactions {chain.transaction_count:,}  {faults}(Ctrl-C stops)"
            )
            await asyncio.sleep(REFRESH_SECONDS)
