"""A node that has the answers of a day's mix of calls ready: from 100 bytes to 10 MB, each another one.

Run: `python -m bench.mix_node --port N`. How long an answer is follows from the call's method and first parameter, and
what is in it too: it is filled with their hash, so an answer to another call is never taken for the right one. It is
made at the first call and kept. Methods outside of the mix are answered as by constant.py.
"""

import functools
import itertools
from hashlib import sha256
from typing import Annotated, Any

import orjson
import typer
import uvloop

from bench import constant

# Percent of a method's calls, and bytes of their results. Of blocks: none of the transactions, their signatures, all.
SIZES: dict[str, tuple[tuple[int, int], ...]] = {
    "getAccountInfo": ((60, 400), (30, 1_500), (9, 14_000), (1, 1_000_000)),
    "getMultipleAccounts": ((50, 8_000), (40, 40_000), (10, 400_000)),
    "getTokenAccountsByOwner": ((40, 500), (45, 6_000), (13, 60_000), (2, 1_000_000)),
    "getSignaturesForAddress": ((50, 2_500), (30, 25_000), (20, 250_000)),
    "getTransaction": ((50, 3_000), (40, 8_000), (10, 30_000)),
    "getLatestBlockhash": ((100, 150),),
    "sendTransaction": ((100, 66),),
    "simulateTransaction": ((80, 1_500), (20, 10_000)),
    "getBlock": ((20, 400), (30, 120_000), (25, 1_000_000), (15, 3_000_000), (10, 10_000_000)),
}
_KEPT_MAX = 8_192


@functools.lru_cache(_KEPT_MAX)
def result_of(method: str, argument: bytes) -> bytes:
    """Make a result. argument: the first parameter as JSON, compact."""
    tag = sha256(b"%b %b" % (method.encode(), argument)).hexdigest().encode()
    place = int(tag[:8], 16) % 100
    shares = itertools.accumulate(percent for percent, _ in SIZES[method])
    size = next(size for share, (_, size) in zip(shares, SIZES[method], strict=True) if place < share)
    if method == "sendTransaction":
        return b'"%b"' % tag
    head, tail = b'{"context":{"slot":%d},"value":"' % constant.SLOT, b'"}'
    filler = size - len(head) - len(tail)
    return b"".join((head, (tag * (filler // len(tag) + 1))[:filler], tail))


def argument_of(params: list[Any]) -> bytes:
    """Return the first parameter. A configuration is ignored, because a gateway may add to it."""
    return b"" if not params or isinstance(params[0], dict) else orjson.dumps(params[0])


class Connection(constant.Connection):
    def on_message_complete(self) -> None:
        try:
            call = orjson.loads(self._body)
            result = result_of(call["method"], argument_of(call["params"]))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            super().on_message_complete()
            return
        head, tail = b'{"jsonrpc":"2.0","result":', b',"id":%b}' % orjson.dumps(call["id"])
        length = len(head) + len(result) + len(tail)
        start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (length, head)
        self._transport.writelines((start, result, tail))


def main(port: Annotated[int, typer.Option(help="Loopback port to listen on.")]) -> None:
    """Answer until stopped."""
    try:
        uvloop.run(constant.serve(port, Connection))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    typer.run(main)
