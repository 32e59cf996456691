"""Measures the latency that the gateway adds to large answers, cached and not cached.

Blocks of 1 MB and 10 MB are requested from an embedded chain directly and through the product, in turn, one call at a
time. First each call has other parameters for the same block, so that no answer comes from the cache. Then all calls
are equal and come from the cache. The same is measured with a node that has its answers ready in memory, so that only
the transport counts; there an answer of 1 kB tells what the charge alone takes. Last, many clients request one block at
once, counted by their X-Cache header. Another commit's product can be asked in the same turns.
"""

import base64
import http.client
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction

from bench import scenario, systems
from bench.chain import UNCHECKED, Chain, devnode
from bench.pair import worktree
from bench.product import ROOT
from bench.scenario import at_most
from bench.systems import System

SIZES = (1_000_000, 10_000_000)
RATIO_MAX = {1_000_000: 2.0, 10_000_000: 1.6}  # For a node that has its answers ready.
CHAIN, MEMORY = "chain", "memory"
_SMALL_BYTES = 1_000
_WARM_UP_CALLS = 3
_TIMEOUT_SECONDS = 60
_VERSIONS = 256
_BATCH = 50  # Sends in one JSON-RPC batch, so that a block is filled in seconds.
_BYTES_OF_ONE_MIN = 950  # Slightly below the size of one transfer in a block as JSON.
_LAMPORTS = 1_000_000

Ask = Callable[[int], list[Any]]  # Returns the parameters of a call by its number.


@dataclass(frozen=True, slots=True)
class Row:
    """Median durations of calls in milliseconds, from the request's first byte to the answer's last.

    other_ms: of another commit's product.
    """

    node: str
    size_bytes: int
    direct_ms: float
    gateway_ms: float
    cached_ms: float
    other_ms: float | None = None

    @property
    def ratio(self) -> float:
        return self.gateway_ms / self.direct_ms

    @property
    def other_ratio(self) -> float | None:
        return None if self.other_ms is None else self.other_ms / self.direct_ms


class Caller:
    """A client with one keep-alive connection. last: the headers of its latest answer."""

    def __init__(self, url: str, api_key: str = "") -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_SECONDS)
        self._headers = {"content-type": "application/json", "x-api-key": api_key}
        self.last = http.client.HTTPMessage()

    def post(self, path: str, body: Any) -> bytes:
        self._connection.request("POST", path, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        self.last = answer.headers
        return answer.read()

    def call(self, method: str, *params: Any) -> Any:
        """Return the result of a call. Raises ChildProcessError for an error."""
        answer = json.loads(self.post("/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        if "error" in answer:
            raise ChildProcessError(f"{method}: {answer['error']}")
        return answer["result"]

    def block(self, params: list[Any]) -> tuple[float, int]:
        """Request a block, and return (milliseconds, bytes of the body). Raises ChildProcessError for an error."""
        began = time.perf_counter()
        received = self.post("/", {"jsonrpc": "2.0", "id": 1, "method": "getBlock", "params": params})
        took_ms = (time.perf_counter() - began) * 1000
        if b'"blockhash"' not in received:
            raise ChildProcessError(f"getBlock: {received[:200]!r}")
        return took_ms, len(received)

    def close(self) -> None:
        self._connection.close()


@contextmanager
def filled(*sizes: int) -> Iterator[tuple[Chain, dict[int, int]]]:
    """Run a chain with a final block of each of these sizes or more; gives it, and the slots by size."""
    with devnode("--slot-ms", "100") as chain, closing(Caller(chain.url)) as caller:
        slots = {size: _fill(caller, size) for size in sizes}
        until_slot(caller, "finalized", max(slots.values()))
        yield chain, slots


def _fill(chain: Caller, size: int) -> int:
    """Fill one slot with transfers; it is held open until all are in it."""
    payer, count = Keypair(), -(-size // _BYTES_OF_ONE_MIN)
    chain.post("/admin/fund", {"pubkey": str(payer.pubkey()), "lamports": count * (_LAMPORTS + 100_000)})
    blockhash = Hash.from_string(chain.call("getLatestBlockhash")["value"]["blockhash"])
    chain.post("/admin/faults", {"slots": {"frozen": True}})
    slot = int(chain.call("getSlot", {"commitment": "processed"}))
    for start in range(0, count, _BATCH):
        sends = [_send(payer, blockhash, number) for number in range(start, min(start + _BATCH, count))]
        for answer in json.loads(chain.post("/", sends)):
            if "error" in answer:
                raise ChildProcessError(f"sendTransaction: {answer['error']}")
    chain.post("/admin/faults", {"slots": {"frozen": False}})
    until_slot(chain, "processed", slot + 1)  # The next block begins in a separate slot.
    return slot


def _send(payer: Keypair, blockhash: Hash, number: int) -> dict[str, Any]:
    to = Pubkey(number.to_bytes(32, "big")[::-1])
    terms = TransferParams(from_pubkey=payer.pubkey(), to_pubkey=to, lamports=_LAMPORTS + number % 1_000)
    transaction = Transaction([payer], Message([transfer(terms)], payer.pubkey()), blockhash)
    params = [base64.b64encode(bytes(transaction)).decode(), UNCHECKED]
    return {"jsonrpc": "2.0", "id": number, "method": "sendTransaction", "params": params}


def until_slot(chain: Caller, commitment: str, slot: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while int(chain.call("getSlot", {"commitment": commitment})) < slot:
        if time.monotonic() > deadline:
            raise ChildProcessError(f"slot {slot} did not become {commitment}")
        time.sleep(0.2)


def medians_ms(systems_of: Sequence[tuple[str, str]], calls: int, ask: Ask) -> tuple[list[float], int]:
    """Call several addresses (with their keys) in turn, and return their medians, and the bytes of one body."""
    with ExitStack() as stack:
        callers = [stack.enter_context(closing(Caller(*each))) for each in systems_of]
        turns = [[caller.block(ask(number)) for caller in callers] for number in range(calls + _WARM_UP_CALLS)]
    timed = turns[_WARM_UP_CALLS:]
    return [statistics.median(took_ms for took_ms, _ in column) for column in zip(*timed, strict=True)], timed[-1][0][1]


def measured(node: str, direct_url: str, gateways: Sequence[System], calls: int, ask: Ask) -> Row:
    """Measure the first of these gateways beside the node, and beside the second where there is one."""
    each = [(direct_url, ""), *((one.url, one.api_key) for one in gateways)]
    (direct_ms, gateway_ms, *others_ms), size_bytes = medians_ms(each, calls, ask)
    (cached_ms,), _ = medians_ms(each[1:2], calls, lambda _: ask(0))
    return Row(node, size_bytes, direct_ms, gateway_ms, cached_ms, *others_ms)


def of_chain(slot: int) -> Ask:
    """Request a block of the chain. Each version has other parameters and the same answer."""
    return lambda number: [slot, {"maxSupportedTransactionVersion": number % _VERSIONS}]


def of_memory(size: int) -> Ask:
    """Request a block of bench.constant, which has as many bytes as its slot's number says."""
    return lambda number: [size + number]


def at_once(gateway: System, callers: int, params: list[Any]) -> Counter[str]:
    """Let many clients request one block at once; count the answers by X-Cache."""

    def ask(_number: int) -> str:
        with closing(Caller(gateway.url, gateway.api_key)) as caller:
            caller.block(params)
            return caller.last.get("x-cache", "")

    with ThreadPoolExecutor(callers) as pool:
        return Counter(pool.map(ask, range(callers)))


def main(
    calls: Annotated[int, typer.Option(min=3, max=_VERSIONS - _WARM_UP_CALLS, help="Timed calls of each kind.")] = 20,
    callers: Annotated[int, typer.Option(min=1, help="Callers of one block at once.")] = 64,
    only: Annotated[str, typer.Option(help=f"Some of {CHAIN}, {MEMORY}.")] = f"{CHAIN},{MEMORY}",
    with_: Annotated[str | None, typer.Option("--with", help="A commit whose product is asked in turn.")] = None,
) -> dict[str, Any]:
    """Measure getBlock bodies of 1 MB and 10 MB through the gateway against the node asked directly."""
    wanted, marks, rows = scenario.chosen(only, (CHAIN, MEMORY)), Counter[str](), list[Row]()
    with ExitStack() as stack:
        roots = [ROOT] if with_ is None else [ROOT, stack.enter_context(worktree(with_))]
        if CHAIN in wanted:
            with filled(*SIZES) as (chain, slots), _gateways(chain.url, roots) as gateways:
                rows += [measured(CHAIN, chain.url, gateways, calls, of_chain(slots[size])) for size in SIZES]
                marks = at_once(gateways[0], callers, [slots[SIZES[0]], {"maxSupportedTransactionVersion": 255}])
        if MEMORY in wanted:
            with systems.upstream() as constant, _gateways(constant.url, roots) as gateways:
                sizes = (_SMALL_BYTES, *SIZES)
                rows += [measured(MEMORY, constant.url, gateways, calls, of_memory(size)) for size in sizes]
    headings = ("node", "body MB", "direct ms", "gateway ms", "cached ms", "ratio", "other commit ms", "its ratio")
    table = []
    for one in rows:
        times = (one.direct_ms, one.gateway_ms, one.cached_ms, one.ratio, one.other_ms, one.other_ratio)
        table.append((one.node, f"{one.size_bytes / 1e6:.3f}", *times))
    scenario.show("getBlock", headings, table)
    ready = {round(one.size_bytes, -3): one.ratio for one in rows if one.node == MEMORY}
    scenario.show_targets(
        at_most(f"ratio, {size / 1e6:.0f} MB ready in memory", most, ready.get(size), "{:.2f}")
        for size, most in RATIO_MAX.items()
    )
    if marks:
        scenario.console.print(f"{callers} callers of one block at once: {dict(marks)} (miss: a request to the node)")
    return {"rows": rows, "at_once": dict(marks)}


@contextmanager
def _gateways(node_url: str, roots: Sequence[Path]) -> Iterator[list[System]]:
    """Run the products of these source trees before one node."""
    with ExitStack() as stack:
        yield [stack.enter_context(systems.gateway(node_url, root=root)) for root in roots]
