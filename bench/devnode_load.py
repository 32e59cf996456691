"""Loads an embedded chain from Python: `python -m bench.devnode_load KIND URL ...`, one line of JSON at the end.

reads: getAccountInfo of a wallet. sends: transfers by sendTransaction with preflight at processed, each a
different transaction, made and signed before the measured time; afterwards every signature is looked up. tpu: the same
over QUIC, one stream each. It is a process of its own, so that the client has its own interpreter.
"""

import asyncio
import base64
import itertools
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
import orjson
import typer
import uvloop
from aioquic.asyncio.client import connect
from aioquic.quic.configuration import QuicConfiguration
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from bench.figures import percentile
from bench.load import Client, Tally, request_bytes
from devnode.tpu.connection import node_certificate

_WALLETS = 8
_RECEIVERS = 16
_LAMPORTS = 10**13
_PROCESSED = {"encoding": "base64", "preflightCommitment": "processed"}
_STATUSES_MAX = 256
_LANDING_SECONDS_MAX = 30
_ALPN = "solana-tpu"


class Caller:
    """Makes single calls, outside the measured time."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30)

    def call(self, method: str, *params: Any) -> Any:
        reply = self._http.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).json()
        if "result" not in reply:
            raise SystemExit(f"{method}: {reply}")
        return reply["result"]

    def landed(self, signatures: list[str]) -> int:
        parts = [signatures[at : at + _STATUSES_MAX] for at in range(0, len(signatures), _STATUSES_MAX)]
        config = {"searchTransactionHistory": True}
        values = [self.call("getSignatureStatuses", part, config)["value"] for part in parts]
        return sum(status is not None and status["err"] is None for value in values for status in value)


class Payments:
    """Transfers that differ from each other, between wallets that exist."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._payers = [Keypair() for _ in range(_WALLETS)]
        self._receivers = [Keypair().pubkey() for _ in range(_RECEIVERS)]
        for pubkey in [*(payer.pubkey() for payer in self._payers), *self._receivers]:
            caller.call("requestAirdrop", str(pubkey), _LAMPORTS)
        self._numbers = itertools.count(1)

    @property
    def wallet(self) -> Pubkey:
        return self._payers[0].pubkey()

    def make(self, count: int) -> list[VersionedTransaction]:
        latest = self._caller.call("getLatestBlockhash", {"commitment": "processed"})["value"]["blockhash"]
        return [self._one(number, Hash.from_string(latest)) for number in itertools.islice(self._numbers, count)]

    def _one(self, number: int, blockhash: Hash) -> VersionedTransaction:
        payer, to = self._payers[number % _WALLETS], self._receivers[number % _RECEIVERS]
        give = transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=to, lamports=number))
        return VersionedTransaction(MessageV0.try_compile(payer.pubkey(), [give], [], blockhash), [payer])


@dataclass(slots=True)
class Pace:
    """Says when the next request may be sent; without a rate, at once."""

    per_second: float | None
    _next: float = 0.0

    def wait_seconds(self) -> float:
        if self.per_second is None:
            return 0.0
        now = time.perf_counter()
        self._next = max(self._next, now - 0.05) + 1 / self.per_second  # A longer delay is not made up.
        return max(0.0, self._next - now)


class Pacing(Client):
    """One connection, which takes its requests from a list that all connections share."""

    def __init__(self, tally: Tally, requests: Iterator[bytes], pace: Pace) -> None:
        super().__init__(tally, b"")
        self._requests, self._pace = requests, pace

    def _send(self) -> None:
        wait = self._pace.wait_seconds()
        if wait > 0.001:
            asyncio.get_running_loop().call_later(wait, self._send_now)
        else:
            self._send_now()

    def _send_now(self) -> None:
        request = next(self._requests, None)
        if request is None or not self._tally.take():
            self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)


def http_request(url: str, method: str, *params: Any) -> bytes:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return request_bytes(url, body=body.decode())


async def load(url: str, requests: Iterator[bytes], connections: int, tally: Tally, pace: Pace) -> float:
    """Send until the requests or the tally end; returns the seconds it took."""
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None, url
    host, port = parts.hostname, parts.port
    loop = asyncio.get_running_loop()
    began = time.perf_counter()

    async def one() -> None:
        _, client = await loop.create_connection(lambda: Pacing(tally, requests, pace), host, port)
        await client.ended

    await asyncio.gather(*(one() for _ in range(connections)))
    return time.perf_counter() - began


def reads(url: str, connections: int, seconds: float) -> dict[str, Any]:
    request = http_request(url, "getAccountInfo", str(Payments(Caller(url)).wallet), {"encoding": "base64"})
    tally = Tally(None, time.perf_counter() + seconds)
    took = uvloop.run(load(url, itertools.repeat(request), connections, tally, Pace(None)))
    return figures(tally, took)


def sends(url: str, connections: int, count: int, chunk: int, rate: float | None, look_up: bool) -> dict[str, Any]:
    """Make and send this many transfers, a chunk at a time; only sending is timed."""
    caller = Caller(url)
    payments, took, landed = Payments(caller), 0.0, 0
    tally = Tally(count, 0.0)
    while (left := tally.calls_left) is not None and left > 0:
        transactions = payments.make(min(chunk, left))
        encoded = (base64.b64encode(bytes(transaction)).decode() for transaction in transactions)
        requests = [http_request(url, "sendTransaction", text, _PROCESSED) for text in encoded]
        if rate is not None:
            print("sending", flush=True)  # Tells the parent process to record the slots from now on.
        took += uvloop.run(load(url, iter(requests), connections, tally, Pace(rate)))
        if look_up:
            landed += caller.landed([str(transaction.signatures[0]) for transaction in transactions])
    return figures(tally, took) | ({"landed": landed} if look_up else {})


async def over_quic(address: str, transactions: list[VersionedTransaction], caller: Caller) -> int:
    """Send each on a stream of its own, over one connection, and wait until all have landed; returns how many did.

    aioquic itself delays streams for which the node has not given credit yet.
    """
    host, _, port = address.rpartition(":")
    configuration = QuicConfiguration(is_client=True, alpn_protocols=[_ALPN], verify_mode=ssl.CERT_NONE)
    configuration.certificate, configuration.private_key = node_certificate(Keypair())
    signatures = [str(transaction.signatures[0]) for transaction in transactions]
    deadline = time.perf_counter() + _LANDING_SECONDS_MAX
    async with connect(host, int(port), configuration=configuration) as client:
        quic = client._quic  # The only place where aioquic gives out stream ids.
        for transaction in transactions:
            stream = quic.get_next_available_stream_id(is_unidirectional=True)
            quic.send_stream_data(stream, bytes(transaction), end_stream=True)
        client.transmit()
        while (landed := await asyncio.to_thread(caller.landed, signatures)) < len(signatures):
            if time.perf_counter() > deadline:
                break
            await asyncio.sleep(0.05)
    return landed


def tpu(url: str, count: int) -> dict[str, Any]:
    """Measure the time from the first stream until all transactions have landed."""
    caller = Caller(url)
    address = caller.call("getClusterNodes")[0]["tpuQuic"]
    transactions = Payments(caller).make(count)
    began = time.perf_counter()
    landed = asyncio.run(over_quic(address, transactions, caller))
    return {"sent": count, "landed": landed, "seconds": time.perf_counter() - began}


def figures(tally: Tally, took: float) -> dict[str, Any]:
    return {
        "seconds": took,
        "answered": tally.answered,
        "errors": tally.refused + tally.lost,
        "latency_p50_ms": percentile(tally.latencies_us, 50) / 1e3,
        "latency_p99_ms": percentile(tally.latencies_us, 99) / 1e3,
    }


def main(
    kind: str,
    url: str,
    connections: Annotated[int, typer.Option(min=1)] = 64,
    seconds: Annotated[float, typer.Option(min=0)] = 4.0,
    count: Annotated[int, typer.Option(min=1)] = 10_000,
    chunk: Annotated[int, typer.Option(min=1)] = 10_000,
    rate: Annotated[float | None, typer.Option(help="Sends a second; without it, as many as possible.")] = None,
    look_up: Annotated[bool, typer.Option(help="Ask afterwards whether each has landed.")] = True,
) -> None:
    """Load an embedded chain and print the figures."""
    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "reads": lambda: reads(url, connections, seconds),
        "sends": lambda: sends(url, connections, count, chunk, rate, look_up),
        "tpu": lambda: tpu(url, count),
    }
    seen = kinds[kind]()
    sys.stdout.write(f"figures {orjson.dumps(seen).decode()}\n")


if __name__ == "__main__":
    typer.run(main)
