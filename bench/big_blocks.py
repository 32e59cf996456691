"""Fills blocks of an embedded chain to a given size with real transfers, in slots that are held open for them.

`filled()` is a context manager. It gives the chain's address and, for each wanted size, the slot of a block that has at
least that many bytes as JSON.
"""

import base64
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction

from bench.systems import free_port

_BATCH = 50  # Sends in one JSON-RPC batch, so that a block is filled in seconds.
_BYTES_OF_ONE_MIN = 950  # Slightly below the size of one transfer in a block as JSON.
_LAMPORTS = 1_000_000
_START_SECONDS = 60
_FINAL_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Filled:
    url: str
    slots: dict[int, int]  # Wanted size to the slot of its block.


class _Chain:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)

    def post(self, path: str, body: Any) -> Any:
        self._connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return json.loads(self._connection.getresponse().read())

    def ask(self, method: str, *params: Any) -> Any:
        answer = self.post("/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        if "error" in answer:
            raise ChildProcessError(f"{method}: {answer['error']}")
        return answer["result"]

    def hold(self, frozen: bool) -> None:
        self.post("/admin/faults", {"slots": {"frozen": frozen}})

    def close(self) -> None:
        self._connection.close()


@contextmanager
def filled(*sizes: int) -> Iterator[Filled]:
    port = free_port()
    command = [sys.executable, "-m", "devnode", "--http-port", str(port), "--ws-port", str(free_port())]
    with tempfile.TemporaryDirectory(prefix="big-blocks-") as folder:
        process = subprocess.Popen(
            [*command, "--grpc-port", "0", "--slot-ms", "100", "--data-dir", folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(port, process)
            chain = _Chain(port)
            slots = {size: _fill(chain, size) for size in sizes}
            _until(chain, "finalized", max(slots.values()))
            chain.close()
            yield Filled(f"http://127.0.0.1:{port}/", slots)
        finally:
            process.terminate()
            process.wait(_START_SECONDS)


def _fill(chain: _Chain, size: int) -> int:
    """Hold one slot open until all transfers are in it."""
    payer = Keypair()
    count = -(-size // _BYTES_OF_ONE_MIN)
    chain.post("/admin/fund", {"pubkey": str(payer.pubkey()), "lamports": count * (_LAMPORTS + 100_000)})
    blockhash = Hash.from_string(chain.ask("getLatestBlockhash")["value"]["blockhash"])
    chain.hold(True)
    try:
        slot = int(chain.ask("getSlot", {"commitment": "processed"}))
        for start in range(0, count, _BATCH):
            sends = [_send(payer, blockhash, number) for number in range(start, min(start + _BATCH, count))]
            for answer in chain.post("/", sends):
                if "error" in answer:
                    raise ChildProcessError(f"sendTransaction: {answer['error']}")
    finally:
        chain.hold(False)
    _until(chain, "processed", slot + 1)  # The next block begins in a slot of its own.
    return slot


def _send(payer: Keypair, blockhash: Hash, number: int) -> dict[str, Any]:
    to = Pubkey(number.to_bytes(32, "big")[::-1])
    terms = TransferParams(from_pubkey=payer.pubkey(), to_pubkey=to, lamports=_LAMPORTS + number % 1_000)
    transaction = Transaction([payer], Message([transfer(terms)], payer.pubkey()), blockhash)
    params = [base64.b64encode(bytes(transaction)).decode(), {"encoding": "base64", "skipPreflight": True}]
    return {"jsonrpc": "2.0", "id": number, "method": "sendTransaction", "params": params}


def _until(chain: _Chain, commitment: str, slot: int) -> None:
    deadline = time.monotonic() + _FINAL_SECONDS
    while int(chain.ask("getSlot", {"commitment": commitment})) < slot:
        if time.monotonic() > deadline:
            raise ChildProcessError(f"slot {slot} did not become {commitment}")
        time.sleep(0.2)


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        chain = _Chain(port)
        try:
            chain.ask("getSlot")
        except (OSError, ValueError):
            time.sleep(0.2)
        else:
            return
        finally:
            chain.close()
    raise ChildProcessError("the embedded chain did not start")
