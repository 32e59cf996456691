"""jsonParsed of the token programs' instructions.

Implements: the base instructions of both token programs, and a batch with its parts. Pure.
Of Token-2022's extensions only the transfer with fee is parsed. The caller shows other instructions as raw data, as a
node shows unknown instructions.
"""

import struct
from collections.abc import Callable
from typing import Any

from devnode.encoding.accounts import ui_token_amount
from devnode.parsing.bincode import key_at

Accounts = tuple[str, ...]
_BATCH = 255
_TRANSFER_FEE_EXTENSION = 26
_TRANSFER_CHECKED_WITH_FEE = 1
_AUTHORITY_TYPES = (
    "mintTokens",
    "freezeAccount",
    "accountOwner",
    "closeAccount",
    "transferFeeConfig",
    "withheldWithdraw",
    "closeMint",
    "interestRate",
    "permanentDelegate",
    "confidentialTransferMint",
    "transferHookProgramId",
    "confidentialTransferFeeConfig",
    "metadataPointer",
    "groupPointer",
    "groupMemberPointer",
    "scaledUiAmount",
    "pause",
    "permissionedBurn",
)
_ACCOUNT_AUTHORITIES = ("accountOwner", "closeAccount")


def parse_token_instruction(data: bytes, accounts: Accounts) -> dict[str, Any] | None:
    """Parse an instruction; None if it is unknown or has too few accounts.

    Raises IndexError or struct.error on short data."""
    kind = data[0]
    if kind == _BATCH:
        return _batch(data[1:], accounts)
    if kind == _TRANSFER_FEE_EXTENSION and data[1] == _TRANSFER_CHECKED_WITH_FEE:
        return _transfer_checked_with_fee(data, accounts)
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(data, accounts)
    plain = _PLAIN.get(kind)
    if plain is None:
        return None
    name, roles, amount, authority = plain
    if len(accounts) < len(roles) + (1 if authority else 0):
        return None
    info: dict[str, Any] = dict(zip(roles, accounts, strict=False))
    if amount == "amount":
        info["amount"] = str(_u64(data, 1))
    elif amount == "tokenAmount":
        info["tokenAmount"] = ui_token_amount(_u64(data, 1), data[9])
    if authority:
        _add_signers(info, accounts, len(roles), authority)
    return {"info": info, "type": name}


# Number: (name, roles of the first accounts, field of the amount, role of the authority after these accounts).
_PLAIN: dict[int, tuple[str, tuple[str, ...], str | None, str | None]] = {
    1: ("initializeAccount", ("account", "mint", "owner", "rentSysvar"), None, None),
    3: ("transfer", ("source", "destination"), "amount", "authority"),
    4: ("approve", ("source", "delegate"), "amount", "owner"),
    5: ("revoke", ("source",), None, "owner"),
    7: ("mintTo", ("mint", "account"), "amount", "mintAuthority"),
    8: ("burn", ("account", "mint"), "amount", "authority"),
    9: ("closeAccount", ("account", "destination"), None, "owner"),
    10: ("freezeAccount", ("account", "mint"), None, "freezeAuthority"),
    11: ("thawAccount", ("account", "mint"), None, "freezeAuthority"),
    12: ("transferChecked", ("source", "mint", "destination"), "tokenAmount", "authority"),
    13: ("approveChecked", ("source", "mint", "delegate"), "tokenAmount", "owner"),
    14: ("mintToChecked", ("mint", "account"), "tokenAmount", "mintAuthority"),
    15: ("burnChecked", ("account", "mint"), "tokenAmount", "authority"),
    17: ("syncNative", ("account",), None, None),
    21: ("getAccountDataSize", ("mint",), None, None),
    22: ("initializeImmutableOwner", ("account",), None, None),
    23: ("amountToUiAmount", ("mint",), "amount", None),
    31: ("createNativeMint", ("payer", "nativeMint", "systemProgram"), None, None),
    32: ("initializeNonTransferableMint", ("mint",), None, None),
    38: ("withdrawExcessLamports", ("source", "destination"), None, "authority"),
}


def _initialize_mint(data: bytes, accounts: Accounts) -> dict[str, Any] | None:
    second = data[0] == 20
    if len(accounts) < (1 if second else 2):
        return None
    info: dict[str, Any] = {"decimals": data[1], "mint": accounts[0], "mintAuthority": key_at(data, 2)}
    if not second:
        info["rentSysvar"] = accounts[1]
    if len(data) > 34 and data[34]:
        info["freezeAuthority"] = key_at(data, 35)
    return {"info": info, "type": "initializeMint2" if second else "initializeMint"}


def _initialize_account_with_owner(data: bytes, accounts: Accounts) -> dict[str, Any] | None:
    third = data[0] == 18
    if len(accounts) < (2 if third else 3):
        return None
    info = {"account": accounts[0], "mint": accounts[1], "owner": key_at(data, 1)}
    if not third:
        info["rentSysvar"] = accounts[2]
    return {"info": info, "type": "initializeAccount3" if third else "initializeAccount2"}


def _initialize_multisig(data: bytes, accounts: Accounts) -> dict[str, Any] | None:
    second = data[0] == 19
    first_signer = 1 if second else 2
    if len(accounts) <= first_signer:
        return None
    info: dict[str, Any] = {"m": data[1], "multisig": accounts[0], "signers": list(accounts[first_signer:])}
    if not second:
        info["rentSysvar"] = accounts[1]
    return {"info": info, "type": "initializeMultisig2" if second else "initializeMultisig"}


def _set_authority(data: bytes, accounts: Accounts) -> dict[str, Any] | None:
    if len(accounts) < 2 or data[1] >= len(_AUTHORITY_TYPES):
        return None
    authority_type = _AUTHORITY_TYPES[data[1]]
    info: dict[str, Any] = {
        "account" if authority_type in _ACCOUNT_AUTHORITIES else "mint": accounts[0],
        "authorityType": authority_type,
        "newAuthority": key_at(data, 3) if data[2] else None,
    }
    _add_signers(info, accounts, 1, "authority")
    return {"info": info, "type": "setAuthority"}


def _ui_amount_to_amount(data: bytes, accounts: Accounts) -> dict[str, Any] | None:
    if not accounts:
        return None
    return {"info": {"mint": accounts[0], "uiAmount": data[1:].decode()}, "type": "uiAmountToAmount"}


def _unwrap_lamports(data: bytes, accounts: Accounts) -> dict[str, Any] | None:
    if len(accounts) < 3:
        return None
    info: dict[str, Any] = {"destination": accounts[1], "source": accounts[0]}
    if data[1]:
        info["amount"] = str(_u64(data, 2))
    _add_signers(info, accounts, 2, "authority")
    return {"info": info, "type": "unwrapLamports"}


_SPECIAL: dict[int, Callable[[bytes, Accounts], dict[str, Any] | None]] = {
    0: _initialize_mint,
    2: _initialize_multisig,
    6: _set_authority,
    16: _initialize_account_with_owner,
    18: _initialize_account_with_owner,
    19: _initialize_multisig,
    20: _initialize_mint,
    24: _ui_amount_to_amount,
    45: _unwrap_lamports,
}


def _transfer_checked_with_fee(data: bytes, accounts: Accounts) -> dict[str, Any] | None:
    if len(accounts) < 4:
        return None
    decimals = data[10]
    info: dict[str, Any] = {
        "destination": accounts[2],
        "feeAmount": ui_token_amount(_u64(data, 11), decimals),
        "mint": accounts[1],
        "source": accounts[0],
        "tokenAmount": ui_token_amount(_u64(data, 2), decimals),
    }
    _add_signers(info, accounts, 3, "authority")
    return {"info": info, "type": "transferCheckedWithFee"}


def _batch(data: bytes, accounts: Accounts) -> dict[str, Any] | None:
    """Parse all parts of a batch; None if any part cannot be parsed. The accounts of the parts follow each other."""
    parts = []
    at = first_account = 0
    while at < len(data):
        account_count, length = data[at], data[at + 1]
        part = data[at + 2 : at + 2 + length]
        part_accounts = accounts[first_account : first_account + account_count]
        if len(part) != length or len(part_accounts) != account_count or part[:1] == bytes((_BATCH,)):
            return None
        parsed = parse_token_instruction(part, part_accounts)
        if parsed is None:
            return None
        parts.append(parsed)
        at += 2 + length
        first_account += account_count
    return {"info": {"instructions": parts}, "type": "batch"}


def _add_signers(info: dict[str, Any], accounts: Accounts, at: int, role: str) -> None:
    """Add the authority. If more accounts follow it, a node shows it as a multisig and them as its signers."""
    if len(accounts) > at + 1:
        info["multisig" + role[0].upper() + role[1:]] = accounts[at]
        info["signers"] = list(accounts[at + 1 :])
    else:
        info[role] = accounts[at]


def _u64(data: bytes, at: int) -> int:
    (number,) = struct.unpack_from("<Q", data, at)
    return int(number)
