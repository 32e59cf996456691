"""Reads the files of `--account FILE`, `--accounts DIR` and `--program ADDRESS=FILE`.

Implements: the JSON that `solana account --output json` writes, and program files (ELF) at a given address. All of
them are loaded into a separate VM first, so that a chain never starts with unusable files. Changes nothing.
"""

import base64
import binascii
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import base58
import orjson
import zstandard
from solders.account import Account
from solders.pubkey import Pubkey

from devnode.encoding.addresses import RENT_EPOCH_EXEMPT, UPGRADEABLE_LOADER
from devnode.execution.vm import NotLoadable, Vm

LOADER = Pubkey.from_string("BPFLoader2111111111111111111111111111111111")  # The code is in the program's account.
DATA_BYTES_MAX = 10 * 1024 * 1024  # Solana's limit for one account.
FILES_MAX = 20_000  # Of all folders; each is read and its account kept in memory.
_BASE58_CHARACTERS_MAX = 20_000  # Decoding takes time that grows with the square of the length.
_PROGRAM_DATA_KEY = slice(4, 36)


class DumpError(Exception):
    """A file that cannot be used; the text names it and says why."""


def load(
    accounts: Iterable[Path] = (), programs: Iterable[str] = (), folders: Iterable[Path] = ()
) -> list[tuple[Pubkey, Account]]:
    """Read all files; each program comes after the account that has its code. Raises DumpError.

    programs: each as ADDRESS=FILE. folders: each .json file in them is an account.
    """
    found: dict[Pubkey, tuple[Account, str]] = {}
    origins = [*((path, f"--account {path}") for path in accounts), *_files_in(folders)]
    for path, origin in origins:
        pubkey, account = _read_account(path, origin)
        if pubkey in found:
            raise DumpError(f"{origin}: {pubkey} is given twice, first by {found[pubkey][1]}")
        found[pubkey] = (account, origin)
    for text in programs:
        pubkey, account = _read_program(text)
        found[pubkey] = (account, f"--program {text}")
    ordered = sorted(found.items(), key=lambda entry: entry[1][0].executable)
    _try(ordered)
    return [(pubkey, account) for pubkey, (account, _) in ordered]


def overlaid(
    genesis: list[tuple[Pubkey, Account]], loaded: list[tuple[Pubkey, Account]]
) -> list[tuple[Pubkey, Account]]:
    """Genesis accounts, where loaded accounts replace those of the same address."""
    replaced = {pubkey for pubkey, _ in loaded}
    return [*((pubkey, account) for pubkey, account in genesis if pubkey not in replaced), *loaded]


def _try(ordered: list[tuple[Pubkey, tuple[Account, str]]]) -> None:
    vm = Vm()
    for pubkey, (account, origin) in ordered:
        if account.executable and account.owner == UPGRADEABLE_LOADER:
            data = account.data[_PROGRAM_DATA_KEY]
            if len(data) != 32 or vm.account(Pubkey.from_bytes(data)) is None:
                wanted = Pubkey.from_bytes(data) if len(data) == 32 else "its program data account"
                raise DumpError(f"{origin}: the program's code is in another account; give {wanted} as well")
        try:
            vm.put(pubkey, account)
        except NotLoadable as error:
            raise DumpError(f"{origin}: not a program that can be loaded: {error}") from None


def _read_program(text: str) -> tuple[Pubkey, Account]:
    address, separator, name = text.partition("=")
    if not separator or not name:
        raise DumpError(f"--program {text}: wanted ADDRESS=FILE")
    pubkey = _pubkey(address, f"--program {text}")
    data = _bytes_of(Path(name), f"--program {text}")
    lamports = Vm().rent_exempt_lamports(len(data))
    return pubkey, Account(lamports, data, LOADER, True, RENT_EPOCH_EXEMPT)


def _files_in(folders: Iterable[Path]) -> list[tuple[Path, str]]:
    """The .json files of the folders, by name, as solana-test-validator's --account-dir takes them: files with other
    endings and folders in them do not count."""
    found = []
    for folder in folders:
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.is_file())
        except OSError as error:
            raise DumpError(f"--accounts {folder}: {error.strerror}") from None
        if not paths:
            raise DumpError(f"--accounts {folder}: no .json file in it")
        found += [(path, f"--accounts {path}") for path in paths]
    if len(found) > FILES_MAX:
        raise DumpError(f"--accounts: {len(found)} files, at most {FILES_MAX} are taken")
    return found


def _read_account(path: Path, origin: str) -> tuple[Pubkey, Account]:
    try:
        dump = orjson.loads(_bytes_of(path, origin, DATA_BYTES_MAX * 2))
    except orjson.JSONDecodeError as error:
        raise DumpError(f"{origin}: not JSON: {error}") from None
    account = dump.get("account") if isinstance(dump, dict) else None
    if not isinstance(account, dict):
        raise DumpError(f"{origin}: wanted the output of `solana account --output json`: pubkey and account")
    lamports, executable = account.get("lamports"), account.get("executable", False)
    if not isinstance(lamports, int) or isinstance(lamports, bool) or not 0 < lamports < 2**64:
        raise DumpError(f"{origin}: lamports: wanted a whole number from 1 up")
    if not isinstance(executable, bool):
        raise DumpError(f"{origin}: executable: wanted true or false")
    owner = _pubkey(account.get("owner"), f"{origin}: owner")
    data = _data(account.get("data"), origin)
    return _pubkey(dump.get("pubkey"), f"{origin}: pubkey"), Account(
        lamports, data, owner, executable, RENT_EPOCH_EXEMPT
    )


def _data(value: Any, origin: str) -> bytes:
    text, encoding = value if isinstance(value, list) and len(value) == 2 else (value, "base58")
    if not isinstance(text, str):
        raise DumpError(f"{origin}: data: wanted [text, encoding]")
    try:
        if encoding == "base58":
            if len(text) > _BASE58_CHARACTERS_MAX:
                raise DumpError(f"{origin}: data: too long for base58; write it as base64")
            return bytes(base58.b58decode(text))
        if encoding == "base64":
            return base64.b64decode(text, validate=True)
        if encoding == "base64+zstd":
            packed = base64.b64decode(text, validate=True)
            with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)) as reader:
                data = reader.read(DATA_BYTES_MAX + 1)
            if len(data) > DATA_BYTES_MAX:
                raise DumpError(f"{origin}: data: more than {DATA_BYTES_MAX} bytes")
            return data
    except (binascii.Error, ValueError, zstandard.ZstdError) as error:
        raise DumpError(f"{origin}: data: {error}") from None
    raise DumpError(f"{origin}: data: {encoding!r} is not base58, base64 or base64+zstd")


def _pubkey(value: Any, origin: str) -> Pubkey:
    try:
        return Pubkey.from_string(value)
    except (ValueError, TypeError):
        raise DumpError(f"{origin}: {value!r} is not an address") from None


def _bytes_of(path: Path, origin: str, most: int = DATA_BYTES_MAX) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DumpError(f"{origin}: {error.strerror}") from None
    if len(data) > most:
        raise DumpError(f"{origin}: {len(data)} bytes, more than an account can hold")
    return data
