"""An embedded chain of a measurement, calls to it, and payments of a funded wallet."""

import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from actors.addresses import TIP_ACCOUNTS
from bench import systems

UNCHECKED = {"encoding": "base64", "skipPreflight": True}  # Options of sendTransaction.
_STATUSES_AT_ONCE = 250
_LAMPORTS = 10**15
_TIP = 1_000
_UNITS_FIRST = 1_000  # Units of a transfer with a tip; each payment asks for more, so that all differ.


@dataclass(frozen=True, slots=True)
class Chain:
    url: str
    ws_url: str
    pid: int
    data_dir: Path


@contextmanager
def devnode(*flags: str) -> Iterator[Chain]:
    """Run an embedded chain on a temporary folder for as long as the block runs."""
    port = systems.free_port()
    with systems.temporary_folder() as folder:
        ports = ("--http-port", str(port), "--ws-port", str(port), "--grpc-port", "0")
        command = [sys.executable, "-m", "devnode", "--data-dir", str(folder), *ports, *flags]
        with systems.running(command, {}, port) as process:
            yield Chain(f"http://127.0.0.1:{port}", f"ws://127.0.0.1:{port}", process.pid, folder)


async def rpc(session: aiohttp.ClientSession, url: str, method: str, *params: Any) -> Any:
    """Return the result of a call. Raises RuntimeError for an error."""
    async with session.post(url, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) as response:
        answer = await response.json(content_type=None)
    if "error" in answer:
        raise RuntimeError(f"{method}: {answer['error']}")
    return answer["result"]


async def admin(session: aiohttp.ClientSession, url: str, action: str, **body: Any) -> Any:
    """Ask the chain for an event that no client can cause, such as "fund", "launch" or "faults"."""
    async with session.post(f"{url}/admin/{action}", json=body) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json(content_type=None)


async def latest_blockhash(session: aiohttp.ClientSession, url: str) -> str:
    return str((await rpc(session, url, "getLatestBlockhash"))["value"]["blockhash"])


async def statuses(session: aiohttp.ClientSession, url: str, signatures: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the status of each of these transactions that is on the chain, by its signature."""
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(signatures), _STATUSES_AT_ONCE):
        part = signatures[start : start + _STATUSES_AT_ONCE]
        rows = (await rpc(session, url, "getSignatureStatuses", part, {"searchTransactionHistory": True}))["value"]
        found |= {one: row for one, row in zip(part, rows, strict=True) if row is not None}
    return found


async def lose(session: aiohttp.ClientSession, url: str, seed: int, drop_share: float, run_slots: int = 1) -> None:
    """Let each way to send lose this share of the transactions, in runs of slots. 0.0: lose nothing."""
    drops = {"drop_share": drop_share, "run_slots": run_slots}
    await admin(session, url, "faults", seed=seed, sends={"rpc": drops, "tpu": drops, "bundle": drops})


class Payer:
    """A wallet, and its payments: each a transaction of its own, with a tip for the block engine."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        keypair: Keypair | None = None,
        to: Pubkey | None = None,
    ) -> None:
        self._session, self._url = session, url
        self.keypair, self.to = keypair or Keypair(), to or Pubkey.new_unique()
        self._numbers = itertools.count(1)

    async def fund(self) -> None:
        """Return when a transaction of this wallet can succeed at confirmed commitment."""
        for pubkey, lamports in ((self.keypair.pubkey(), _LAMPORTS), (self.to, 10**9)):
            await admin(self._session, self._url, "fund", pubkey=str(pubkey), lamports=lamports)
        confirmed = {"commitment": "confirmed"}
        while not (await rpc(self._session, self._url, "getBalance", str(self.to), confirmed))["value"]:
            pass

    def signed(self, blockhash: str, unit_price: int = 0, *, tips: bool = True) -> bytes:
        """Sign a payment that differs from all before it. unit_price: micro-lamports a compute unit. tips: the block
        engine, which takes no others."""
        number, owner = next(self._numbers), self.keypair.pubkey()
        instructions = [
            set_compute_unit_limit(_UNITS_FIRST + number),
            transfer(TransferParams(from_pubkey=owner, to_pubkey=self.to, lamports=1)),
        ]
        if tips:
            to = Pubkey.from_string(TIP_ACCOUNTS[0])
            instructions.append(transfer(TransferParams(from_pubkey=owner, to_pubkey=to, lamports=_TIP)))
        if unit_price:
            instructions.insert(0, set_compute_unit_price(unit_price))
        message = MessageV0.try_compile(owner, instructions, [], Hash.from_string(blockhash))
        return bytes(VersionedTransaction(message, [self.keypair]))
