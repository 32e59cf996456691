"""A node for measurements of racers: it takes every transaction at once, and tells it as landed when it is told to.

Run: `python -m bench.sends_node --port N`. An embedded chain that executes would be slower than the racers that are
measured. Its slots go on by the clock, its blocks do not, so nothing expires. `bench.land` lets all that it gets land,
and what it has never got expire; `bench.sent` tells the number of its transactions. Everything else it answers as
constant.py.
"""

import base64
import time
from typing import Annotated, Any

import base58
import orjson
import typer
import uvloop

from bench import constant

_SLOT_SECONDS = 0.4
_HEIGHT = 1_000
_EXPIRY_BLOCKS = 1_000  # More blocks than any blockhash is valid for.


class SendsNode:
    """began: of its slots. landed: slot in which everything landed; None: nothing has."""

    def __init__(self, now: float) -> None:
        self._began, self._sent = now, set[str]()
        self._landed: int | None = None

    def answer_to(self, body: bytes, now: float) -> bytes:
        """Return the JSON-RPC answer to one request body."""
        try:
            call = orjson.loads(body)
            result = self._result(call["method"], call.get("params") or [], now)
        except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, ValueError):
            return constant.answer_to(b"")
        if result is NotImplemented:
            return constant.answer_to(body)
        return orjson.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result})

    def _result(self, method: str, params: list[Any], now: float) -> Any:
        slot = constant.SLOT + int((now - self._began) / _SLOT_SECONDS)
        match method:
            case "getSlot":
                return slot
            case "getBlockHeight":
                return _HEIGHT if self._landed is None else _HEIGHT + _EXPIRY_BLOCKS
            case "getFirstAvailableBlock":
                return 0
            case "getEpochInfo":
                return {"absoluteSlot": slot, "blockHeight": _HEIGHT}
            case "isBlockhashValid":
                return {"context": {"slot": slot}, "value": True}
            case "sendTransaction":
                signature = str(base58.b58encode(base64.b64decode(params[0])[1:65]), "ascii")
                self._sent.add(signature)
                return signature
            case "getSignatureStatuses":
                return {"context": {"slot": slot}, "value": [self._status(one) for one in params[0]]}
            case "bench.land":
                self._landed = slot
                return len(self._sent)
            case "bench.sent":
                return len(self._sent)
        return NotImplemented

    def _status(self, signature: str) -> dict[str, Any] | None:
        if self._landed is None or signature not in self._sent:
            return None
        return {
            "slot": self._landed,
            "confirmations": 2,
            "err": None,
            "status": {"Ok": None},
            "confirmationStatus": "confirmed",
        }


def main(port: Annotated[int, typer.Option(help="Loopback port to listen on.")]) -> None:
    """Answer until stopped."""
    node = SendsNode(time.monotonic())

    class Connection(constant.Connection):
        def answer(self, body: bytes) -> bytes:
            return node.answer_to(body, time.monotonic())

    try:
        uvloop.run(constant.serve(port, Connection))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    typer.run(main)
