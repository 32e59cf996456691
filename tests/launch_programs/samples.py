"""Samples of the real chain: whole transactions, instructions, events and accounts, each with its source."""

import base64
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import base58
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

FOLDER = Path(__file__).parents[1] / "fixtures" / "launch"
PUMP = "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P"


@cache
def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def transaction_names() -> list[str]:
    """Names of the samples with whole transactions of the platform."""
    return sorted(path.stem for path in FOLDER.glob("*pump*.json") if "meta" in sample(path.stem)["payload"])


def calls(name: str) -> Iterator[tuple[list[str], bytes]]:
    """Accounts and data of every call to the platform's program in a transaction, outer and inner."""
    payload = sample(name)["payload"]
    keys, outer = _keys_and_instructions(payload)
    inner = [one for group in payload["meta"]["innerInstructions"] for one in group["instructions"]]
    for one in [*outer, *inner]:
        if "programId" in one:
            if one["programId"] == PUMP:
                yield one["accounts"], base58.b58decode(one["data"])
        elif keys[one["programIdIndex"]] == PUMP:
            yield [keys[index] for index in one["accounts"]], base58.b58decode(one["data"])


def _keys_and_instructions(payload: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    transaction, meta = payload["transaction"], payload["meta"]
    loaded = meta.get("loadedAddresses") or {}
    more = [*loaded.get("writable", []), *loaded.get("readonly", [])]
    if isinstance(transaction, list):
        message = VersionedTransaction.from_bytes(base64.b64decode(transaction[0])).message
        keys = [str(key) for key in message.account_keys]
        outer = [
            {
                "programIdIndex": one.program_id_index,
                "accounts": list(one.accounts),
                "data": base58.b58encode(bytes(one.data)).decode(),
            }
            for one in message.instructions
        ]
        return keys + more, outer
    message = transaction["message"]
    keys = [key if isinstance(key, str) else key["pubkey"] for key in message["accountKeys"]]
    return keys + more, message["instructions"]


def key(text: str) -> Pubkey:
    return Pubkey.from_string(text)
