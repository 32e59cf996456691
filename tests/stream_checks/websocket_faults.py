"""Compares WebSocket updates through the gateway with those of the node itself, while connections are cut.

One client subscribes through the gateway, one at the node; transfers are made, and the node's connections are cut, by a
seeded plan. Afterwards every update that only the node sent must lie in a gap that the gateway declared, and every
update that only the gateway sent must lie in a time in which the other client was cut off. A cut ends that client's
connection too; it connects again at once. `python -m bench stream-faults` is the long run.
"""

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import base58
import httpx
import orjson
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from bench.product import Product

_WALLETS = 5
_TRANSFER_SECONDS, _CUT_SECONDS = 0.15, 4.0  # Mean times between two of them.
_BEFORE_SECONDS, _AFTER_SECONDS = 3.0, 20.0  # The last slots must reach finality.

Update = tuple[str, int, str]  # Topic, slot, and contents.


class UpdatesDiffer(Exception):
    """The text names the updates that only one of the two clients got."""


@dataclass
class Watch:
    """One client, which connects and subscribes again by itself. gaps: declared to it, or noticed by itself."""

    url: str
    topics: dict[str, tuple[str, list[Any]]]
    updates: set[Update] = field(default_factory=set)
    gaps: list[tuple[str, int, int]] = field(default_factory=list)
    twice: list[Update] = field(default_factory=list)
    cuts: int = 0
    slot: int = 0
    root: int = 0
    _is_behind: bool = False

    async def run(self) -> None:
        while True:
            with contextlib.suppress(OSError, ConnectionClosed):
                async with connect(self.url, compression=None) as socket:
                    for name, (method, params) in self.topics.items():
                        call = {"jsonrpc": "2.0", "id": name, "method": method, "params": params}
                        await socket.send(orjson.dumps(call).decode())
                    names: dict[int, str] = {}
                    async for text in socket:
                        self._take(orjson.loads(text), names)
            self._is_behind, self.cuts = True, self.cuts + 1
            await asyncio.sleep(0.05)

    def _take(self, said: dict[str, Any], names: dict[int, str]) -> None:
        if "id" in said:
            names[said["result"]] = said["id"]
            return
        name, result = names[said["params"]["subscription"]], said["params"]["result"]
        if said["method"] == "gapNotification":
            self.gaps.append((name, result["from_slot"], result["to_slot"]))
            return
        if name == "slot":
            if self._is_behind:
                self.gaps += [(topic, self.root, result["slot"] + 1) for topic in self.topics]
                self._is_behind = False
            self.slot, self.root = max(self.slot, result["slot"]), max(self.root, result["root"])
        update = _update(name, result)
        if update in self.updates:
            self.twice.append(update)
        self.updates.add(update)

    def covers(self, update: Update) -> bool:
        return any(name == update[0] and first <= update[1] <= last for name, first, last in self.gaps)


def _update(name: str, result: Any) -> Update:
    if isinstance(result, int):
        return (name, result, "")
    if "context" not in result:
        return (name, result["slot"], orjson.dumps(result).decode())
    return (name, result["context"]["slot"], orjson.dumps(result["value"], option=orjson.OPT_SORT_KEYS).decode())


def _topics(wallets: list[str]) -> dict[str, tuple[str, list[Any]]]:
    topics: dict[str, tuple[str, list[Any]]] = {
        "slot": ("slotSubscribe", []),
        "root": ("rootSubscribe", []),
        "logs": ("logsSubscribe", ["all", {"commitment": "confirmed"}]),
        "final logs": ("logsSubscribe", ["all"]),
    }
    for level in ("processed", "confirmed", "finalized"):
        for number, wallet in enumerate(wallets):
            config = {"commitment": level, "encoding": "base64"}
            topics[f"account {number} {level}"] = ("accountSubscribe", [wallet, config])
    return topics


async def same_updates(product: Product, seconds: float, seed: int) -> dict[str, int]:
    """Run the plan, and compare. Raises UpdatesDiffer."""
    drawn = random.Random(seed)
    node_url, node_ws = str(product.ready["node_url"]), str(product.ready["node_ws_url"])
    wallets = [base58.b58encode(drawn.randbytes(32)).decode() for _ in range(_WALLETS)]
    direct = Watch(node_ws, _topics(wallets))
    ours = Watch(f"{product.ready['ws_url']}?api-key={product.api_key}", _topics(wallets))
    watches = [asyncio.create_task(watch.run()) for watch in (direct, ours)]
    await asyncio.sleep(_BEFORE_SECONDS)
    first = max(direct.slot, ours.slot)
    ends, cuts = asyncio.get_running_loop().time() + seconds, 0
    async with httpx.AsyncClient(timeout=30) as http:
        while asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(drawn.expovariate(1 / _TRANSFER_SECONDS))
            funded = {"pubkey": drawn.choice(wallets), "lamports": drawn.randrange(1_000_000, 2_000_000)}
            await http.post(f"{node_url}/admin/fund", json=funded)
            if drawn.random() < _TRANSFER_SECONDS / _CUT_SECONDS:
                cuts += 1
                cut = {"cut_connections": {"pubsub": True}}
                (await http.post(f"{node_url}/admin/faults/once", json=cut)).raise_for_status()
    last = min(direct.slot, ours.slot)
    await asyncio.sleep(_AFTER_SECONDS)
    for task in watches:
        task.cancel()
    return _compared(direct, ours, first, last) | {"cuts": cuts}


def _compared(direct: Watch, ours: Watch, first: int, last: int) -> dict[str, int]:
    def within(updates: set[Update]) -> set[Update]:
        return {update for update in updates if first < update[1] <= last}

    missing = {update for update in within(direct.updates - ours.updates) if not ours.covers(update)}
    # After a loss the gateway sends an account as it is then, at the slot in which it asked the node.
    extra = {
        update
        for update in within(ours.updates - direct.updates)
        if not direct.covers(update) and not (update[0].startswith("account") and ours.covers(update))
    }
    twice = Counter(update for update in ours.twice if first < update[1] <= last)
    again = Counter(update for update in direct.twice if first < update[1] <= last)
    repeated = {update for update in twice if update not in again and not ours.covers(update)}
    if missing or extra or repeated or ours.cuts:
        shown = [f"missing {one}" for one in sorted(missing)[:5]] + [f"extra {one}" for one in sorted(extra)[:5]]
        shown += [f"repeated {one}" for one in sorted(repeated)[:5]]
        counts = f"{len(missing)} missing, {len(extra)} extra, {len(repeated)} repeated, {ours.cuts} connections lost"
        raise UpdatesDiffer("\n".join([counts, *shown, f"slots {first} to {last}, gaps {ours.gaps[-6:]}"]))
    both = within(direct.updates & ours.updates)
    filled = within(direct.updates - ours.updates)
    return {"the same": len(both), "in declared gaps": len(filled), "gaps": len(ours.gaps), "slots": last - first}
