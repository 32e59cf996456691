"""A client of a running devnode that sets its faults over the admin door, as an operator would."""

from typing import TYPE_CHECKING, Any

import httpx
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from .local_node import give, text

if TYPE_CHECKING:
    from .conftest import Process

PROCESSED = {"commitment": "processed"}


class Faulty:
    def __init__(self, process: "Process") -> None:
        self.process, self.url = process, process.url
        self._http = httpx.Client(base_url=process.url, timeout=10)

    def set(self, **settings: Any) -> None:
        reply = self._http.post("/admin/faults", json=settings)
        assert reply.status_code == 200, reply.text

    def once(self, **acts: Any) -> int:
        """Cause faults a single time; returns the slot being built."""
        reply = self._http.post("/admin/faults/once", json=acts)
        assert reply.status_code == 200, reply.text
        slot: int = reply.json()["slot"]
        return slot

    def clear(self) -> None:
        assert self._http.delete("/admin/faults").status_code == 200

    def post(self, method: str, *params: Any, timeout: float = 10) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}
        return self._http.post("/", json=body, timeout=timeout)

    def call(self, method: str, *params: Any) -> Any:
        reply = self.post(method, *params).json()
        assert "result" in reply, reply
        return reply["result"]

    def error(self, method: str, *params: Any) -> int:
        code: int = self.post(method, *params).json()["error"]["code"]
        return code

    def wallet(self) -> Keypair:
        keypair = Keypair()
        body = {"pubkey": str(keypair.pubkey()), "lamports": 10**12}
        assert self._http.post("/admin/fund", json=body).json()["ok"]
        return keypair

    def payment(self, payer: Keypair, to: Pubkey, lamports: int) -> VersionedTransaction:
        latest = self.call("getLatestBlockhash", {"commitment": "confirmed"})["value"]["blockhash"]
        message = MessageV0.try_compile(payer.pubkey(), [give(payer, to, lamports)], [], Hash.from_string(latest))
        return VersionedTransaction(message, [payer])

    def send(self, transaction: VersionedTransaction) -> str:
        config = {"encoding": "base64", "preflightCommitment": "processed"}
        signature: str = self.call("sendTransaction", text(transaction), config)
        return signature

    def slot(self, level: str = "processed") -> int:
        slot: int = self.call("getSlot", {"commitment": level})
        return slot

    def wait_for_slot(self, slot: int, level: str = "processed") -> None:
        """Slots of 20 ms: this ends soon, or the request's own timeout ends the test."""
        while self.slot(level) < slot:
            pass

    def balance(self, pubkey: Pubkey) -> int:
        lamports: int = self.call("getBalance", str(pubkey), PROCESSED)["value"]
        return lamports

    def status(self, signature: str) -> dict[str, Any] | None:
        status: dict[str, Any] | None = self.call("getSignatureStatuses", [signature])["value"][0]
        return status
