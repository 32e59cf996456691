"""What the notebooks share: a gateway or an embedded chain of their own, its labelled market, and its signals."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.signals.classify import PROGRAMS, classify
from actors.signals.events import SignalEvent
from actors.signals.geyser_source import GeyserSource
from actors.signals.sources import SlotSeen, SlotState, TransactionSeen

START_SECONDS_MAX = 60.0
NAMES = {
    "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P": "bonding curve",
    "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA": "platform's AMM",
    "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C": "CPMM",
}


class Lab:
    """A devnode. url: of JSON-RPC; grpc_url: of its stream."""

    def __init__(self, facts: dict[str, Any], slot_ms: int) -> None:
        self.url, self.grpc_url, self.slot_ms = facts["url"], facts["grpc_url"], slot_ms

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"{self.url}{path}", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def rpc(self, method: str, *params: Any) -> Any:
        answer = self.post("/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def slot(self, commitment: str = "processed") -> int:
        return int(self.rpc("getSlot", {"commitment": commitment}))

    def market(self, seed: int, actions: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.post("/admin/market", {"seed": seed, "actions": actions})["transactions"]
        return found

    async def signals(self, from_slot: int, to_slot: int, large_swap_lamports: int = 10**9) -> list[SignalEvent]:
        """Return the signals of these slots, once the last one is final; those of lost forks are left out."""
        found: dict[tuple[str, str, str], SignalEvent] = {}
        source = GeyserSource(self.grpc_url, PROGRAMS)
        async with contextlib.aclosing(source.updates(from_slot)) as batches:
            async for update in (update async for updates in batches for update in updates):
                if isinstance(update, TransactionSeen) and update.transaction.slot <= to_slot:
                    for event in classify(update.transaction, large_swap_lamports=large_swap_lamports):
                        found[event.identity] = event
                if isinstance(update, SlotSeen) and update.state is SlotState.FINALIZED and update.slot >= to_slot:
                    return list(found.values())
        raise RuntimeError("the stream ended")


@contextlib.contextmanager
def chain(slot_ms: int = 20, seed: int = 1) -> Iterator[Lab]:
    """Start a devnode in a temporary folder, and stop it."""
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "devnode", "--http-port", "0", "--data-dir", f"{folder}/chain"]
        flags = ["--slot-ms", str(slot_ms), "--seed", str(seed), "--ready-file", str(ready)]
        flags += ["--grpc-replay-slots", "5000"]  # Everything that a notebook made, on a slow machine too.
        process = subprocess.Popen([*command, *flags], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("devnode did not start")
                time.sleep(0.05)
            yield Lab(json.loads(ready.read_text()), slot_ms)
        finally:
            process.terminate()
            process.wait()


def run(work: Any) -> Any:
    """Run a coroutine from a notebook, whose own event loop is busy."""
    import threading

    box: list[Any] = []
    thread = threading.Thread(target=lambda: box.append(asyncio.run(work)))
    thread.start()
    thread.join()
    if not box:
        raise RuntimeError("it failed; the output above says why")
    return box[0]


@dataclass(frozen=True, slots=True)
class Place:
    """A gateway, and the key of one account of it. node_url: of its embedded chain; None: it has another node."""

    url: str
    api_key: str = field(repr=False)
    node_url: str | None = None

    def chain(self) -> Lab | None:
        """Return the embedded chain, whose market and faucet a notebook may use."""
        return None if self.node_url is None else Lab({"url": self.node_url, "grpc_url": ""}, 0)


async def signals_of_market(place: Place, rounds: int, seed: int, since: str = "0-0") -> int:
    """Have an embedded chain's market act, wait until the service tells its signals, and return its transactions."""
    from ledger_gateway import Gateway

    lab = place.chain()
    assert lab is not None, "this gateway's chain is not an embedded one: it has signals of its own"
    lab.post("/admin/launch", {"trades": 0})
    labels = [each for number in range(rounds) for each in lab.market(seed + number % 3, 4)]
    wanted = {
        each["signature"]
        for each in labels
        if not each["failed"] and {"newPair", "graduation"} & {expected["kind"] for expected in each["expected"]}
    }
    async with Gateway(place.url) as public:
        deadline = time.monotonic() + START_SECONDS_MAX
        while wanted:
            page = await public.recent_signals(500, since)
            wanted -= {signal.signature for signal in page.events}
            if page.next_cursor == since:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{len(wanted)} signals of the market did not come")
                await asyncio.sleep(0.2)
            since = page.next_cursor or since
    return len(labels)


@contextlib.contextmanager
def gateway() -> Iterator[Place]:
    """The gateway of GATEWAY_URL and API_KEY, with the embedded chain of NODE_URL where it has one; without them a
    gateway is started in a temporary folder, and stopped."""
    if "GATEWAY_URL" in os.environ:
        yield Place(os.environ["GATEWAY_URL"], os.environ["API_KEY"], os.environ.get("NODE_URL"))
        return
    from bench.product import Product, free_ports

    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        Path(folder).chmod(0o711)  # Below root, the stores run as another user, who must be able to enter.
        # Swaps of 1 SOL are large here: a small market has few of 10.
        product = Product(Path(folder) / "data", {"LEDGER_SIGNALS__LARGE_SWAP_LAMPORTS": str(10**9)}, free_ports())
        try:
            product.start()
            yield Place(product.http_url, product.api_key, product.ready["node_url"])
        finally:
            product.stop()
