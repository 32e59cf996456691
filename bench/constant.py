"""A node with constant answers: the upstream of measurements, so that the work of a real node is not measured.

Run: `python -m bench.constant --port N`. It answers any JSON-RPC call at once, with the call's id. Methods that a
gateway uses to probe a node get answers of the right shape; every other method gets a slot number. A block has as many
bytes as its slot's number says, so that a measurement chooses its size.
"""

import asyncio
import functools
import itertools
import random
from typing import Annotated, Any, cast

import httptools
import orjson
import typer
import uvloop

SLOT = 300_000_000
BLOCK_BYTES_MAX = 64 << 20
_RESULTS: dict[str, Any] = {
    "getHealth": "ok",
    "getVersion": {"solana-core": "3.0.0", "feature-set": 1},
    "getGenesisHash": "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
}


def answer_to(body: bytes) -> bytes:
    """Return the JSON-RPC answer to one request body."""
    try:
        call = orjson.loads(body)
        if call["method"] == "getBlock":
            return _block(min(int(call["params"][0]), BLOCK_BYTES_MAX), orjson.dumps(call["id"]))
        result = _RESULTS.get(call["method"], SLOT)
        return orjson.dumps({"jsonrpc": "2.0", "result": result, "id": call["id"]})
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, ValueError):
        return b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid request"},"id":null}'


def _block(size: int, raw_id: bytes) -> bytes:
    """Make a block whose answer has this size, or the smallest possible one."""
    head, tail = b'{"jsonrpc":"2.0","result":{"transactions":[null', b'],"blockhash":"%b"},"id":%b}'
    transactions, left = [head], size - len(head) - len(tail % (b"", raw_id))
    for transaction in itertools.cycle(_transactions()):
        if len(transaction) > left:
            break
        transactions.append(transaction)
        left -= len(transaction)
    return b"".join((*transactions, tail % (b"x" * left, raw_id)))


@functools.cache
def _transactions() -> list[bytes]:
    """Transactions with a comma before each, 4 MB of them, which compress about as well as real ones."""
    chance = random.Random(1)
    keys = [_base58(chance, 44) for _ in range(400)]
    return [b"," + orjson.dumps(_transaction(chance, keys)) for _ in range(2_800)]


def _transaction(chance: random.Random, keys: list[str]) -> dict[str, Any]:
    accounts = [*chance.sample(keys, 6), _base58(chance, 44)]
    before, after = ([chance.randrange(10**10) for _ in accounts] for _ in range(2))
    program, units = accounts[0], chance.randrange(200_000)
    logs = [f"Program {program} invoke [1]", "Program log: Instruction: Transfer"]
    logs += [f"Program {program} consumed {units} of 200000 compute units", f"Program {program} success"]
    meta: dict[str, Any] = {
        "err": None,
        "fee": 5000,
        "logMessages": logs,
        "computeUnitsConsumed": units,
        "innerInstructions": [],
    }
    meta |= {"preBalances": before, "postBalances": after, "preTokenBalances": [], "postTokenBalances": []}
    instruction = {"accounts": [0, 1, 2], "data": _base58(chance, 40), "programIdIndex": 5, "stackHeight": None}
    header = {"numReadonlySignedAccounts": 0, "numReadonlyUnsignedAccounts": 1, "numRequiredSignatures": 1}
    message = {"accountKeys": accounts, "header": header, "instructions": [instruction]}
    message |= {"recentBlockhash": chance.choice(keys)}
    transaction = {"message": message, "signatures": [_base58(chance, 88)]}
    return {"meta": meta, "transaction": transaction, "version": "legacy"}


def _base58(chance: random.Random, size: int) -> str:
    return "".join(chance.choices("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", k=size))


class Connection(asyncio.Protocol):
    """One keep-alive connection; it answers requests in their order."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has another base class.
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, part: bytes) -> None:
        self._body += part

    def answer(self, body: bytes) -> bytes:
        return answer_to(body)

    def on_message_complete(self) -> None:
        answer = self.answer(self._body)
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer)
        )


async def serve(port: int, connection: type[Connection] = Connection) -> None:
    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def main(port: Annotated[int, typer.Option(help="Loopback port to listen on.")]) -> None:
    """Answer every JSON-RPC call at once with a constant, until stopped."""
    try:
        uvloop.run(serve(port))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    typer.run(main)
