"""Nodes that show one real chain with different lags, which can be changed while they answer.

Run: `python -m bench.lagging_views CHAIN_URL --ports 1,2,3 --lags 0,5,40 --watched KEY,KEY`. The balances of the
watched accounts at confirmed are read from the chain in every slot and kept, so that each port answers from the slot
that it has reached: the newest one less its lag. Signatures that landed later are unknown to it, and `minContextSlot`
is heeded. Other methods go to the chain unchanged. `bench.lags` with a list of numbers sets the lags of all ports, and
answers with the number of calls of each.
"""

import asyncio
import bisect
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import aiohttp
import httptools
import orjson
import typer
import uvloop

from bench import constant
from bench.chain import rpc

_LEVELS = ("processed", "confirmed", "finalized")
_POLL_SECONDS = 0.05
_KEPT_SLOTS = 2_000
_BEHIND = {"code": -32016, "message": "Minimum context slot has not been reached"}
_PROBES = {"getHealth": "ok", "getVersion": {"solana-core": "3.0.0", "feature-set": 1}}


class ChainHistory:
    """newest: the slot of the chain by commitment. slots, balances: of the watched accounts at confirmed."""

    def __init__(self, watched: list[str]) -> None:
        self.watched = watched
        self.newest = dict.fromkeys(_LEVELS, 0)
        self.slots: list[int] = []
        self.balances: list[dict[str, int]] = []

    async def follow(self, session: aiohttp.ClientSession, url: str) -> None:
        """Read the chain once."""
        accounts, *slots = await asyncio.gather(
            rpc(session, url, "getMultipleAccounts", self.watched, {"commitment": "confirmed", "encoding": "base64"}),
            *(rpc(session, url, "getSlot", {"commitment": level}) for level in _LEVELS),
        )
        slot = accounts["context"]["slot"]
        if not self.slots or slot > self.slots[-1]:
            self.slots.append(slot)
            self.balances.append({})
            if len(self.slots) > _KEPT_SLOTS:
                del self.slots[0], self.balances[0]
        held = [0 if one is None else one["lamports"] for one in accounts["value"]]
        self.balances[-1] = dict(zip(self.watched, held, strict=True))
        # What is shown at a commitment is never newer than the balances that are kept.
        for level, told in zip(_LEVELS, slots, strict=True):
            self.newest[level] = max(self.newest[level], min(told, self.slots[-1]))

    def balance(self, address: str, slot: int) -> int:
        """Return the balance at the last kept slot up to this one."""
        place = max(0, bisect.bisect_right(self.slots, slot) - 1)
        return self.balances[place].get(address, 0)


class LaggingView:
    """One port. `answer` returns None when the chain must be asked."""

    def __init__(self, history: ChainHistory, lag: int) -> None:
        self._history, self.lag, self.calls = history, lag, 0

    def slot(self, level: str) -> int:
        return max(0, self._history.newest[level] - self.lag)

    def answer(self, method: str, params: list[Any]) -> dict[str, Any] | None:
        self.calls += 1
        config = params[-1] if params and type(params[-1]) is dict else {}
        slot = self.slot(config.get("commitment") or "finalized")
        if (config.get("minContextSlot") or 0) > slot:
            return {"error": {**_BEHIND, "data": {"contextSlot": slot}}}
        if method in _PROBES:
            return {"result": _PROBES[method]}
        if method in ("getSlot", "getBlockHeight"):
            return {"result": slot}
        if method == "getBalance" and params[0] in self._history.watched:
            value = self._history.balance(params[0], slot)
            return {"result": {"context": {"apiVersion": "3.0.0", "slot": slot}, "value": value}}
        return None

    def late(self, method: str, answer: dict[str, Any]) -> dict[str, Any]:
        """An answer of the chain as this view has it: what landed after its slot is not known yet."""
        if method == "getSignatureStatuses" and "result" in answer:
            slot, found = self.slot("processed"), answer["result"]
            found["context"]["slot"] = slot
            found["value"] = [one if one is not None and one["slot"] <= slot else None for one in found["value"]]
        return answer


class Connection(asyncio.Protocol):
    """Answers in the order of the requests, as constant.Connection; some need the chain first."""

    def __init__(self, ask: Callable[[bytes], Any]) -> None:
        self._ask = ask
        self._turn: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._parser, self._body = httptools.HttpRequestParser(self), b""

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        answer = self._ask(self._body)
        if isinstance(answer, bytes) and self._turn is None:
            self._write(answer)
        else:
            self._turn = asyncio.get_running_loop().create_task(self._later(self._turn, answer))

    async def _later(self, before: "asyncio.Task[None] | None", answer: Any) -> None:
        if before is not None:
            await before
        self._write(answer if isinstance(answer, bytes) else await answer)
        if self._turn is asyncio.current_task():
            self._turn = None

    def _write(self, answer: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer)
        self._transport.write(head + answer)


class Server:
    def __init__(self, session: aiohttp.ClientSession, url: str, views: list[LaggingView]) -> None:
        self._session, self._url, self._views = session, url, views

    def ask(self, view: LaggingView, body: bytes) -> Any:
        """Return the answer as bytes, or an awaitable of it."""
        try:
            call = orjson.loads(body)
            method, params = call["method"], call.get("params") or []
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return constant.answer_to(b"")
        if method == "bench.lags":
            for one, lag in zip(self._views, params, strict=True):
                one.lag = lag
            answer: dict[str, Any] | None = {"result": [one.calls for one in self._views]}
        else:
            answer = view.answer(method, params)
        if answer is None:
            return self._forward(view, method, body)
        return orjson.dumps({"jsonrpc": "2.0", **answer, "id": call["id"]})

    async def _forward(self, view: LaggingView, method: str, body: bytes) -> bytes:
        try:
            headers = {"Content-Type": "application/json"}
            async with self._session.post(self._url, data=body, headers=headers) as response:
                return orjson.dumps(view.late(method, orjson.loads(await response.read())))
        except (aiohttp.ClientError, orjson.JSONDecodeError):
            return constant.answer_to(b"")


async def serve(url: str, ports: list[int], lags: list[int], watched: list[str]) -> None:
    history, loop = ChainHistory(watched), asyncio.get_running_loop()
    views = [LaggingView(history, lag) for lag in lags]
    async with aiohttp.ClientSession() as session:
        await history.follow(session, url)
        server = Server(session, url, views)
        # The first port last: whoever waits for it finds all of them.
        for port, view in reversed([*zip(ports, views, strict=True)]):
            await loop.create_server(partial(Connection, partial(server.ask, view)), "127.0.0.1", port)
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            await history.follow(session, url)


def main(
    url: str,
    ports: Annotated[str, typer.Option(help="Loopback ports to listen on.")],
    lags: Annotated[str, typer.Option(help="Slots that each port is behind the chain.")],
    watched: Annotated[str, typer.Option(help="Public keys of the accounts whose balances are kept.")],
) -> None:
    """Show a chain with lags, until stopped."""
    try:
        uvloop.run(serve(url, [*map(int, ports.split(","))], [*map(int, lags.split(","))], watched.split(",")))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    typer.run(main)
