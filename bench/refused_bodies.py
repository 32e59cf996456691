"""Measures how long the worst request bodies hold a replica's event loop: reading them, and checking their calls.

Shows for each body its size, the time to read it, and the time to admit or refuse all its calls. No server is started,
and the figures are of one quiet core. Threat 61.
"""

import base64
import time
from collections.abc import Callable
from typing import Any

import base58
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from actors.gateway.calls import jsonrpc
from actors.gateway.calls.admission import PLANS, admit
from actors.gateway.doors.mcp import messages as mcp_messages
from bench import scenario

_KEY = b'"So11111111111111111111111111111111111111112"'
_ROUNDS = 5


def call(params: bytes, method: bytes = b"getBalance", raw_id: bytes = b"1") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (raw_id, method, params)


def batch(one: bytes, count: int = 100) -> bytes:
    return b"[" + b",".join([one] * count) + b"]"


def listed(piece: bytes, count: int) -> bytes:
    return b"[" + b",".join([piece] * count) + b"]"


def transaction(signers: int, data_bytes: int) -> bytes:
    """Make a signed transaction whose last signature is bad: all others are verified before it is refused."""
    keys = [Keypair() for _ in range(signers)]
    metas = [AccountMeta(key.pubkey(), True, True) for key in keys]
    instruction = Instruction(Pubkey.new_unique(), bytes(range(256)) * (data_bytes // 256), metas)
    raw = bytearray(bytes(Transaction(keys, Message([instruction], keys[0].pubkey()), Hash.default())))
    raw[64 * signers] ^= 1  # The last byte of the signatures.
    return bytes(raw)


def bodies() -> dict[str, bytes]:
    plain, signed = transaction(1, 768), transaction(11, 0)
    in_58 = b'["%b"]' % base58.b58encode(plain)
    in_64 = b'["%b",{"encoding":"base64"}]' % base64.b64encode(signed)
    names = b'["a:b",{"a":{' + b",".join(b'"%d":1' % number for number in range(8_000)) + b"}}]"
    tool = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rpc","arguments":{"method":"getBalance",'
    return {
        "100 calls of 850 empty arrays": batch(call(listed(b"[]", 850))),
        "87,000 brackets": call(listed(b"[]", 87_000)),
        "4,000 brackets, a colon in a text": call(b'["a:b",' + listed(b'[{"a":1}]', 2_000) + b"]"),
        "8,000 names, a colon in a text": call(names),
        "8,000 texts": call(listed(b'"aaaaaaaaaaaa"', 8_000)),
        "nesting of 1,000": call(b"[" * 1_000 + b"]" * 1_000),
        "a number of 250,000 digits": call(b"[" + b"9" * 250_000 + b"]"),
        "numbers of 760 digits": call(listed(b"0." + b"3" * 760, 330)),
        "a text of escapes": call(b'["' + b"\\u00e9" * 40_000 + b'"]'),
        "an id of 256 kB": call(b"[]", raw_id=b'"' + b"x" * 260_000 + b'"'),
        "100 ids of 2,500 bytes": batch(call(b"[]", raw_id=b'"' + b"x" * 2_500 + b'"')),
        "100 base58 transactions": batch(call(in_58, b"sendTransaction")),
        "100 transactions of 11 signatures": batch(call(in_64, b"sendTransaction")),
        "30 bundles of 5 such": batch(call(listed(in_64[1 : in_64.index(b",")], 5), b"sendBundle"), 30),
        "simulateBundle of 20": batch(
            call(b"[" + listed(in_64[1 : in_64.index(b",")], 20) + b"]", b"simulateBundle"), 7
        ),
        "55 lists of 100 keys": batch(call(b"[" + listed(_KEY, 100) + b"]", b"getMultipleAccounts"), 55),
        "100 MCP calls": batch(tool + b'"params":["' + b"x" * 2_400 + b'"]}}}'),
        "100 MCP calls of 850 empty arrays": batch(tool + b'"params":' + listed(b"[]", 850) + b"}}}"),
    }


def _milliseconds(work: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best * 1_000


def read(body: bytes) -> Any:
    if b'"tools/call"' in body:
        return mcp_messages.parse(body, {}, frozenset(PLANS))
    return jsonrpc.parse(body)


def main() -> dict[str, Any]:
    """Read and check each body, and show how long that holds the event loop."""
    found: dict[str, Any] = {}
    for name, body in bodies().items():
        parsed = read(body)
        calls = [one for one in (parsed if isinstance(parsed, list) else [parsed]) if isinstance(one, jsonrpc.Call)]
        admitted = _milliseconds(lambda calls=calls: [admit(one) for one in calls])  # type: ignore[misc]
        found[name] = (len(body), _milliseconds(lambda body=body: read(body)), admitted)  # type: ignore[misc]
    headings = ("body", "bytes", "read ms", "admit ms")
    scenario.show("the worst bodies", headings, ((name, *figures) for name, figures in found.items()))
    return found
