"""Account contents as RPC shows them.

Implements: encodings base58 (at most 128 bytes), base64, base64+zstd and jsonParsed, with dataSlice; amounts as
UiTokenAmount. Pure. Not here: the parsers behind jsonParsed (parsing/accounts.py).
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import base58
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.addresses import RENT_EPOCH_EXEMPT

BASE58_BYTES_MAX = 128
ENCODINGS = ("binary", "base58", "base64", "jsonParsed", "base64+zstd")
ParseAccount = Callable[[Pubkey, Account, bytes], dict[str, Any] | None]


class TooLargeForBase58(Exception):
    """Base58 is quadratic; a node refuses it for more than 128 bytes."""


@dataclass(frozen=True, slots=True)
class DataSlice:
    offset: int
    length: int

    def of(self, data: bytes) -> bytes:
        return data[self.offset : self.offset + self.length]


def ui_account(
    pubkey: Pubkey, account: Account, encoding: str, data_slice: DataSlice | None, parse: ParseAccount
) -> dict[str, Any]:
    """The JSON of an account. Like a node, shows data as base64 where jsonParsed cannot parse it.

    Raises TooLargeForBase58."""
    data = account.data
    return {
        "data": _encoded(pubkey, account, data, encoding, data_slice, parse),
        "executable": account.executable,
        "lamports": account.lamports,
        "owner": str(account.owner),
        "rentEpoch": RENT_EPOCH_EXEMPT,  # The VM has 0; on the real chain every account is rent-exempt.
        "space": len(data),
    }


def _encoded(
    pubkey: Pubkey, account: Account, data: bytes, encoding: str, data_slice: DataSlice | None, parse: ParseAccount
) -> Any:
    shown = data if data_slice is None else data_slice.of(data)
    if encoding == "base64":
        return [base64.b64encode(shown).decode(), "base64"]
    if encoding == "jsonParsed":
        parsed = parse(pubkey, account, data)
        return parsed if parsed is not None else [base64.b64encode(shown).decode(), "base64"]
    if encoding == "base64+zstd":
        return [base64.b64encode(compressed(shown)).decode(), "base64+zstd"]
    if len(shown) > BASE58_BYTES_MAX:
        raise TooLargeForBase58
    text = base58.b58encode(shown).decode()
    return text if encoding == "binary" else [text, "base58"]


def compressed(data: bytes) -> bytes:
    """Compress into one zstd frame. The import waits for the first use: few clients need it and it costs memory."""
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


def ui_token_amount(amount: int, decimals: int) -> dict[str, Any]:
    """A UiTokenAmount. uiAmount is a rounded float; `amount` is exact."""
    return {
        "amount": str(amount),
        "decimals": decimals,
        "uiAmount": amount / 10**decimals,
        "uiAmountString": decimal_text(amount, decimals),
    }


def decimal_text(amount: int, decimals: int) -> str:
    if decimals == 0:
        return str(amount)
    digits = str(amount).rjust(decimals + 1, "0")
    return f"{digits[:-decimals]}.{digits[-decimals:]}".rstrip("0").rstrip(".")
