"""Reads a token's mint account and metadata account: supply, authorities, name, symbol, URI, creators.

Implements: the byte layouts of mints of both token programs, of Token-2022's extensions, and of accounts of Metaplex's
token metadata program. Pure.

The owner of a token writes all of this, so it is not trusted. Reading never raises: a field that is malformed, or cut
off by the requested slice, is None, and so are all fields after it. Texts are shown unchanged, with invalid UTF-8
replaced; texts of absurd length are not shown. URIs are never fetched.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from solders.pubkey import Pubkey

from actors.addresses import TOKEN_METADATA_PROGRAM, TOKEN_PROGRAMS

# Of each mint and metadata account. Metadata accounts have at most 679 bytes; a Token-2022 mint with all extensions of
# fixed length and an honest name has some 1,500. A thousand mints are then 5 MB of base64 at worst.
SLICE = {"offset": 0, "length": 2_048}
NAME_BYTES_MAX, SYMBOL_BYTES_MAX, URI_BYTES_MAX = 200, 64, 512  # Metaplex allows 32, 10 and 200.
CREATORS_MAX = 5  # Limit of the metadata program.
PAIRS_MAX = 16
STANDARDS = (
    "NonFungible",
    "FungibleAsset",
    "Fungible",
    "NonFungibleEdition",
    "ProgrammableNonFungible",
    "ProgrammableNonFungibleEdition",
)
_METADATA_KEY = 4  # The first byte of a metadata account.
_MINT_BYTES, _EXTENDED_FROM, _MINT_KIND = 82, 165, 1
_METADATA_POINTER, _TOKEN_METADATA, _INTEREST_BEARING, _SCALED_AMOUNT = 18, 19, 10, 25
_PROGRAM = Pubkey.from_string(TOKEN_METADATA_PROGRAM)
_NO_KEY = bytes(32)


@dataclass(frozen=True, slots=True)
class Creator:
    address: str
    verified: bool
    share: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of a token. None: the account lacks it, or it is unreadable."""

    name: str | None = None
    symbol: str | None = None
    uri: str | None = None
    update_authority: str | None = None
    basis_points: int = 0
    creators: tuple[Creator, ...] = ()
    primary_sale_happened: bool = False
    is_mutable: bool | None = None
    standard: str | None = None
    collection: str | None = None
    collection_verified: bool = False


@dataclass(frozen=True, slots=True)
class MintAccount:
    """extensions: of Token-2022, by name, as DAS shows them. is_scaled: the amount that people see is not the amount
    by the decimals, or this cannot be told, because the account goes on behind the slice."""

    program: str
    supply: int
    decimals: int
    mint_authority: str | None
    freeze_authority: str | None
    extensions: Mapping[str, Any]
    metadata: Metadata | None
    is_scaled: bool


class _End(Exception):
    """The bytes ended, or are malformed."""


class _Reader:
    """Reads consecutive values. Raises _End."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self._at = data, at

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise _End
        taken, self._at = self._data[self._at : end], end
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def flag(self) -> bool:
        value = self.number(1)
        if value > 1:
            raise _End
        return value == 1

    def key(self) -> str:
        return str(Pubkey(self.take(32)))

    def text(self, bytes_max: int) -> str | None:
        """Read a text with its length before it. None: it is longer than bytes_max, and is skipped."""
        taken = self.take(self.number(4))
        text = taken.rstrip(b"\0")
        return text.decode("utf-8", "replace") if len(text) <= bytes_max else None


def metadata_address(mint: bytes) -> str:
    """Return the address of the Metaplex metadata account of a mint. Takes some 10 us."""
    return str(Pubkey.find_program_address([b"metadata", bytes(_PROGRAM), mint], _PROGRAM)[0])


def read_mint(owner: str, data: bytes, size: int) -> MintAccount | None:
    """Read a mint. data: the first bytes of its account, which has `size` in all. None: it is no mint."""
    if owner not in TOKEN_PROGRAMS or len(data) < _MINT_BYTES or not data[45]:
        return None
    extended = len(data) > _EXTENDED_FROM
    if (extended and data[_EXTENDED_FROM] != _MINT_KIND) or (not extended and size != _MINT_BYTES):
        return None  # A token account, or a multisig.
    values, is_cut = _extensions(data) if extended else ({}, False)
    own = _own_metadata(values)
    return MintAccount(
        program=owner,
        supply=int.from_bytes(data[36:44], "little"),
        decimals=data[44],
        mint_authority=_optional_key(data, 0),
        freeze_authority=_optional_key(data, 46),
        extensions=_shown(values, own),
        metadata=None if own is None else own[0],
        is_scaled=_INTEREST_BEARING in values or _SCALED_AMOUNT in values or is_cut or size > len(data),
    )


def read_metadata(owner: str, data: bytes, mint: bytes) -> Metadata | None:
    """Read a Metaplex metadata account. None: it is none, or of another mint."""
    if owner != TOKEN_METADATA_PROGRAM or len(data) < 65 or data[0] != _METADATA_KEY or data[33:65] != mint:
        return None
    found: dict[str, Any] = {"update_authority": _key_or_none(data[1:33])}
    try:
        _read_on(_Reader(data, 65), found)
    except _End:
        pass  # Fields that were read before the fault are kept.
    return Metadata(**found)


def _read_on(reader: _Reader, found: dict[str, Any]) -> None:
    found["name"] = reader.text(NAME_BYTES_MAX)
    found["symbol"] = reader.text(SYMBOL_BYTES_MAX)
    found["uri"] = reader.text(URI_BYTES_MAX)
    found["basis_points"] = reader.number(2)
    if reader.flag():
        count = reader.number(4)
        if count > CREATORS_MAX:
            raise _End
        creators = tuple(Creator(reader.key(), reader.flag(), reader.number(1)) for _ in range(count))
        found["creators"] = creators
    found["primary_sale_happened"] = reader.flag()
    found["is_mutable"] = reader.flag()
    if reader.flag():
        reader.take(1)  # The nonce of the edition's address.
    if reader.flag():
        standard = reader.number(1)
        if standard >= len(STANDARDS):
            raise _End
        found["standard"] = STANDARDS[standard]
    if reader.flag():
        verified = reader.flag()
        found["collection"], found["collection_verified"] = reader.key(), verified


def _optional_key(data: bytes, at: int) -> str | None:
    return str(Pubkey(data[at + 4 : at + 36])) if data[at : at + 4] == b"\x01\x00\x00\x00" else None


def _key_or_none(key: bytes) -> str | None:
    """Return a key of 32 bytes; None for zeros."""
    return None if key == _NO_KEY else str(Pubkey(key))


def _extensions(data: bytes) -> tuple[dict[int, bytes], bool]:
    """Return the value of each extension by its number, and whether the last one is cut off."""
    values: dict[int, bytes] = {}
    at = _EXTENDED_FROM + 1
    while at + 4 <= len(data):
        kind, length = struct.unpack_from("<HH", data, at)
        if kind == 0:
            return values, False
        at += 4
        values.setdefault(kind, data[at : at + length])
        if at + length > len(data):
            return values, True
        at += length
    return values, False


def _own_metadata(values: Mapping[int, bytes]) -> tuple[Metadata, dict[str, Any]] | None:
    """Read the metadata in a Token-2022 mint: as metadata, and as DAS shows the extension."""
    value = values.get(_TOKEN_METADATA)
    if value is None or len(value) < 64:
        return None
    authority, mint = _key_or_none(value[:32]), str(Pubkey(value[32:64]))
    reader = _Reader(value, 64)
    texts: list[str | None] = [None, None, None]
    pairs: list[dict[str, str | None]] = []
    try:
        for index, bytes_max in enumerate((NAME_BYTES_MAX, SYMBOL_BYTES_MAX, URI_BYTES_MAX)):
            texts[index] = reader.text(bytes_max)
        for _ in range(min(reader.number(4), PAIRS_MAX)):
            key, item = reader.text(SYMBOL_BYTES_MAX), reader.text(NAME_BYTES_MAX)
            pairs.append({"key": key, "value": item})
    except _End:
        pass  # Fields that were read before the fault are kept.
    name, symbol, uri = texts
    shown = {"updateAuthority": authority, "mint": mint, "name": name, "symbol": symbol, "uri": uri}
    return Metadata(name, symbol, uri, authority, is_mutable=authority is not None), shown | {
        "additionalMetadata": pairs
    }


def _pointer(value: bytes) -> dict[str, Any]:
    return {"authority": _key_or_none(value[:32]), "metadata_address": _key_or_none(value[32:64])}


def _fee(value: bytes, at: int) -> dict[str, int]:
    epoch, maximum, basis_points = struct.unpack_from("<QQH", value, at)
    return {"epoch": epoch, "maximum_fee": maximum, "transfer_fee_basis_points": basis_points}


def _transfer_fees(value: bytes) -> dict[str, Any]:
    return {
        "transfer_fee_config_authority": _key_or_none(value[:32]),
        "withdraw_withheld_authority": _key_or_none(value[32:64]),
        "withheld_amount": int.from_bytes(value[64:72], "little"),
        "older_transfer_fee": _fee(value, 72),
        "newer_transfer_fee": _fee(value, 90),
    }


def _interest(value: bytes) -> dict[str, Any]:
    began, average, updated, current = struct.unpack_from("<qhqh", value, 32)
    return {
        "rate_authority": _key_or_none(value[:32]),
        "initialization_timestamp": began,
        "pre_update_average_rate": average,
        "last_update_timestamp": updated,
        "current_rate": current,
    }


_ACCOUNT_STATES = ("uninitialized", "initialized", "frozen")
# By number: the name that DAS has for the extension, how many bytes it has at least, and how it is shown.
_SHOWN = {
    1: ("transfer_fee_config", 108, _transfer_fees),
    3: ("mint_close_authority", 32, lambda value: {"close_authority": _key_or_none(value[:32])}),
    6: ("default_account_state", 1, lambda value: {"state": _ACCOUNT_STATES[min(value[0], 2)]}),
    _INTEREST_BEARING: ("interest_bearing_config", 52, _interest),
    12: ("permanent_delegate", 32, lambda value: {"delegate": _key_or_none(value[:32])}),
    14: (
        "transfer_hook",
        64,
        lambda value: {"authority": _key_or_none(value[:32]), "program_id": _key_or_none(value[32:64])},
    ),
    _METADATA_POINTER: ("metadata_pointer", 64, _pointer),
}


def _shown(values: Mapping[int, bytes], own: tuple[Metadata, dict[str, Any]] | None) -> dict[str, Any]:
    """Build `mint_extensions` from the known and complete extensions."""
    shown: dict[str, Any] = {}
    for kind, value in values.items():
        if kind in _SHOWN and len(value) >= _SHOWN[kind][1]:
            name, _, show = _SHOWN[kind]
            shown[name] = show(value)
    return shown if own is None else shown | {"metadata": own[1]}
