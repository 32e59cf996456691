"""Measures the latency that the gateway adds to large answers, cached and not cached.

Blocks of 1 MB and 10 MB are requested from an embedded chain directly and through the product, one call at a time over
one connection. First each call has other parameters for the same block, so that no answer comes from the cache. Then
all calls are equal and come from the cache. The same is measured with a node that has its answers ready in memory, so
that only the transport counts. Last, many clients request one block at once, counted by their X-Cache header.
"""

import base64
import http.client
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
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
from bench.chain import UNCHECKED, devnode
from bench.systems import System

SIZES = (1_000_000, 10_000_000)
RATIO_MAX = 1.5
_WARM_UP_CALLS = 3
_TIMEOUT_SECONDS = 60
_VERSIONS = 256
_BATCH = 50  # Sends in one JSON-RPC batch, so that a block is filled in seconds.
_BYTES_OF_ONE_MIN = 950  # Slightly below the size of one transfer in a block as JSON.
_LAMPORTS = 1_000_000

Ask = Callable[[int], list[Any]]  # The parameters of a call, by its number.


@dataclass(frozen=True, slots=True)
class Row:
    """Median durations of calls in milliseconds, from the request's first byte to the answer's last."""

    node: str
    size_bytes: int
    direct_ms: float
    gateway_ms: float
    cached_ms: float

    @property
    def ratio(self) -> float:
        return self.gateway_ms / self.direct_ms


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
def filled(*sizes: int) -> Iterator[tuple[str, dict[int, int]]]:
    """Run a chain with a final block of each of these sizes or more; gives its URL, and the slots by size."""
    with devnode("--slot-ms", "100") as chain, closing(Caller(chain.url)) as caller:
        slots = {size: _fill(caller, size) for size in sizes}
        _until(caller, "finalized", max(slots.values()))
        yield chain.url, slots


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
    _until(chain, "processed", slot + 1)  # The next block begins in a slot of its own.
    return slot


def _send(payer: Keypair, blockhash: Hash, number: int) -> dict[str, Any]:
    to = Pubkey(number.to_bytes(32, "big")[::-1])
    terms = TransferParams(from_pubkey=payer.pubkey(), to_pubkey=to, lamports=_LAMPORTS + number % 1_000)
    transaction = Transaction([payer], Message([transfer(terms)], payer.pubkey()), blockhash)
    params = [base64.b64encode(bytes(transaction)).decode(), UNCHECKED]
    return {"jsonrpc": "2.0", "id": number, "method": "sendTransaction", "params": params}


def _until(chain: Caller, commitment: str, slot: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while int(chain.call("getSlot", {"commitment": commitment})) < slot:
        if time.monotonic() > deadline:
            raise ChildProcessError(f"slot {slot} did not become {commitment}")
        time.sleep(0.2)


def median_ms(url: str, api_key: str, calls: int, ask: Ask) -> tuple[float, int]:
    """Measure several calls, and return (median, bytes of one body)."""
    with closing(Caller(url, api_key)) as caller:
        seen = [caller.block(ask(number)) for number in range(calls + _WARM_UP_CALLS)][_WARM_UP_CALLS:]
    return statistics.median(took_ms for took_ms, _ in seen), seen[-1][1]


def measured(node: str, direct_url: str, gateway: System, calls: int, ask: Ask) -> Row:
    direct_ms, size_bytes = median_ms(direct_url, "", calls, ask)
    gateway_ms, _ = median_ms(gateway.url, gateway.api_key, calls, ask)
    cached_ms, _ = median_ms(gateway.url, gateway.api_key, calls, lambda _: ask(0))
    return Row(node, size_bytes, direct_ms, gateway_ms, cached_ms)


def of_chain(slot: int) -> Ask:
    """Request a block of the chain. Each version has other parameters and the same answer."""
    return lambda number: [slot, {"maxSupportedTransactionVersion": number % _VERSIONS}]


def of_memory(size: int) -> Ask:
    """Request a block of bench.constant, which has as many bytes as its slot's number says."""
    return lambda number: [size + number]


def at_once(gateway: System, callers: int, params: list[Any]) -> Counter[str]:
    """Let many clients request one block at once, and count them by X-Cache."""

    def ask(_number: int) -> str:
        with closing(Caller(gateway.url, gateway.api_key)) as caller:
            caller.block(params)
            return caller.last.get("x-cache", "")

    with ThreadPoolExecutor(callers) as pool:
        return Counter(pool.map(ask, range(callers)))


def main(
    calls: Annotated[int, typer.Option(min=3, max=_VERSIONS - _WARM_UP_CALLS, help="Timed calls of each kind.")] = 20,
    callers: Annotated[int, typer.Option(min=1, help="Callers of one block at once.")] = 64,
) -> dict[str, Any]:
    """Measure getBlock bodies of 1 MB and 10 MB through the gateway against the node asked directly."""
    with filled(*SIZES) as (url, slots), systems.gateway(url) as gateway:
        rows = [measured("chain", url, gateway, calls, of_chain(slots[size])) for size in SIZES]
        marks = at_once(gateway, callers, [slots[SIZES[0]], {"maxSupportedTransactionVersion": 255}])
    with systems.upstream() as constant, systems.gateway(constant.url) as gateway:
        rows += [measured("memory", constant.url, gateway, calls, of_memory(size)) for size in SIZES]
    headings = ("node", "body MB", "direct ms", "gateway ms", "cached ms", "ratio")
    table = [(one.node, one.size_bytes / 1e6, one.direct_ms, one.gateway_ms, one.cached_ms, one.ratio) for one in rows]
    scenario.show(f"getBlock; the target is a ratio of {RATIO_MAX}", headings, table)
    scenario.console.print(f"{callers} callers of one block at once: {dict(marks)} (miss: a request to the node)")
    return {"rows": rows, "at_once": dict(marks)}
