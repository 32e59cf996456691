"""The calls of a day's mix: how often which method is asked, what is asked, and what the answer must be.

The shares are per 1,000 getAccountInfo. Those of getBlock are given; those of getMultipleAccounts, getTransaction,
getLatestBlockhash and sendTransaction are as in the counts that a public proxy printed of 200,000 of its own calls in
November 2024 (neonlabsorg/neon-evm, pull request 569, "Solana Requests Statistics"); the others are assumed.
"""

import base64
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction

from bench.blocks import Caller, until_slot
from bench.chain import UNCHECKED
from bench.mix_node import argument_of, result_of

SHARES: Final = {
    "getAccountInfo": 1_000,
    "getMultipleAccounts": 245,
    "getBlock": 175,
    "getTransaction": 161,
    "getLatestBlockhash": 162,
    "getTokenAccountsByOwner": 120,
    "getSignaturesForAddress": 110,
    "sendTransaction": 83,
    "simulateTransaction": 45,
}
TOKEN_PROGRAM: Final = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
OTHER_FORM, OTHER_CONTENT = "another id or layout", "another content"
WRONG: Final = (OTHER_FORM, OTHER_CONTENT)
_HEAD, _VALUE = b'{"jsonrpc":"2.0","result":', b'"value":'
_CONTEXT_WITHIN = 200
_OF_ONE_CALL = 10  # Accounts in one getMultipleAccounts.
_KINDS = 40  # Different questions of each kind to a chain.
_BASE64 = {"encoding": "base64"}
_UNSIGNED = {"encoding": "base64", "sigVerify": False, "replaceRecentBlockhash": True}
_DETAILS = (*["none"] * 2, *["signatures"] * 3, *["full"] * 5)  # Details of blocks; the last of them is the large one.


@dataclass(frozen=True, slots=True)
class Question:
    """digest: of the result, or of its value where the slot beside that moves. has: what the result must contain."""

    method: str
    params: bytes
    digest: bytes | None = None
    of_value: bool = False
    has: bytes = b""

    def fault(self, body: bytes, raw_id: bytes) -> str | None:
        """Return what is wrong with an answer to this question with this id, or None."""
        tail = b',"id":%b}' % raw_id
        if not body.startswith(_HEAD) or not body.endswith(tail):
            return "an error" if b'"error"' in body[:40] else OTHER_FORM
        view = memoryview(body)[len(_HEAD) : -len(tail)]
        if self.of_value:
            found = body.find(_VALUE, len(_HEAD), len(_HEAD) + _CONTEXT_WITHIN)
            if found < 0:
                return OTHER_FORM
            view = memoryview(body)[found : -len(tail)]
        if self.digest is not None and sha256(view).digest() != self.digest:
            return OTHER_CONTENT
        return None if not self.has or self.has in bytes(view) else OTHER_CONTENT


def mixed(of_method: Callable[[str, int], Question], count: int, seed: int = 1) -> list[Question]:
    """Return about `count` questions in the mix's shares, in an order that is the same each time. of_method: makes one,
    by its number."""
    total = sum(SHARES.values())
    found = [
        of_method(method, number)
        for method, share in SHARES.items()
        for number in range(max(1, round(count * share / total)))
    ]
    random.Random(seed).shuffle(found)
    return found


# --- of the node that has its answers ready


def ready(method: str, number: int) -> Question:
    params = _ready_params(method, number)
    return Question(method, orjson.dumps(params), sha256(result_of(method, argument_of(params))).digest())


def _ready_params(method: str, number: int) -> list[Any]:
    numbers = random.Random(f"{method} {number}")
    match method:
        case "getAccountInfo" | "getSignaturesForAddress":
            return [_pubkey(numbers), *([_BASE64] if method == "getAccountInfo" else [])]
        case "getMultipleAccounts":
            return [[_pubkey(numbers) for _ in range(_OF_ONE_CALL)], _BASE64]
        case "getTokenAccountsByOwner":
            return [_pubkey(numbers), {"programId": TOKEN_PROGRAM}, _BASE64]
        case "getTransaction":
            return [str(Signature.from_bytes(numbers.randbytes(64))), {"maxSupportedTransactionVersion": 0}]
        case "getBlock":
            return [250_000_000 + number, {"maxSupportedTransactionVersion": 0}]
        case "sendTransaction" | "simulateTransaction":
            payer = Keypair.from_seed(numbers.randbytes(32))
            signed = _signed(payer, Pubkey.from_bytes(numbers.randbytes(32)), 1, Hash(numbers.randbytes(32)))
            return [signed, UNCHECKED if method == "sendTransaction" else _UNSIGNED]
    return [{"commitment": "confirmed"}]


def _pubkey(numbers: random.Random) -> str:
    return str(Pubkey.from_bytes(numbers.randbytes(32)))


def _signed(payer: Keypair, to: Pubkey, lamports: int, blockhash: Hash) -> str:
    terms = TransferParams(from_pubkey=payer.pubkey(), to_pubkey=to, lamports=lamports)
    signed = Transaction([payer], Message([transfer(terms)], payer.pubkey()), blockhash)
    return base64.b64encode(bytes(signed)).decode()


# --- of an embedded chain


class OfChain:
    """Questions to a chain with filled blocks, whose answers are asked of it once, directly.

    slots: of these blocks, the smaller ones first. Sends are of a few transactions again and again, as senders do.
    """

    def __init__(self, caller: Caller, slots: list[int]) -> None:
        self._caller, self._slots, self._known = caller, slots, dict[tuple[str, bytes], Question]()
        signed = {"transactionDetails": "signatures", "maxSupportedTransactionVersion": 0, "rewards": False}
        self._signatures = caller.call("getBlock", slots[0], signed)["signatures"][:_KINDS]
        self._payer, self._owners = Keypair(), [str(Keypair().pubkey()) for _ in range(_KINDS)]
        for pubkey in (str(self._payer.pubkey()), *self._owners):
            caller.post("/admin/fund", {"pubkey": pubkey, "lamports": 10**9, "usdc_base_units": 10**6})
        slot = int(caller.call("getSlot", {"commitment": "processed"}))
        until_slot(caller, "finalized", slot)  # From now on the answers about these wallets stay the same.
        self._blockhash = Hash.from_string(caller.call("getLatestBlockhash")["value"]["blockhash"])

    def question(self, method: str, number: int) -> Question:
        kind = number % (len(_DETAILS) if method == "getBlock" else _KINDS)
        params = self._params(method, kind)
        known = self._known.get((method, orjson.dumps(params)))
        if known is None:
            known = self._known[method, orjson.dumps(params)] = self._asked(method, params)
        return known

    def _params(self, method: str, kind: int) -> list[Any]:
        owners = self._owners
        match method:
            case "getAccountInfo":
                return [owners[kind], _BASE64]
            case "getMultipleAccounts":
                return [[owners[(kind + more) % _KINDS] for more in range(_OF_ONE_CALL)], _BASE64]
            case "getTokenAccountsByOwner":
                return [owners[kind], {"programId": TOKEN_PROGRAM}, {"encoding": "jsonParsed"}]
            case "getSignaturesForAddress":
                return [owners[kind]]
            case "getTransaction":
                return [self._signatures[kind % len(self._signatures)], {"maxSupportedTransactionVersion": 0}]
            case "getBlock":
                return [
                    self._slots[kind == 9],
                    {"maxSupportedTransactionVersion": 0, "transactionDetails": _DETAILS[kind]},
                ]
            case "sendTransaction" | "simulateTransaction":
                signed = _signed(self._payer, self._payer.pubkey(), 1 + kind, self._blockhash)
                return [signed, UNCHECKED if method == "sendTransaction" else _UNSIGNED]
        return [{"commitment": "confirmed"}]

    def _asked(self, method: str, params: list[Any]) -> Question:
        raw = orjson.dumps(params)
        if method in ("getLatestBlockhash", "simulateTransaction"):
            return Question(method, raw, has=b'"blockhash"' if method == "getLatestBlockhash" else b'"err":null')
        body = self._caller.post("/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        of_value = body.startswith(_HEAD + b'{"context"')
        if not body.startswith(_HEAD) or not body.endswith(b',"id":1}'):
            raise ChildProcessError(f"{method}: {body[:200]!r}")
        start = body.index(_VALUE) if of_value else len(_HEAD)
        return Question(method, raw, sha256(memoryview(body)[start : -len(b',"id":1}')]).digest(), of_value)


def in_turn(questions: list[Question]) -> Iterator[Question]:
    """Repeat the questions without end."""
    while True:
        yield from questions
