"""jsonParsed of instructions, and the memo of a transaction.

Implements: the programs that a node parses and this chain runs: system, spl-token (both ids), associated token
account, memo, address lookup table. Other programs, also the compute budget, stay `{programId, accounts, data}`.
The memo for getSignaturesForAddress: `[length] text` for each memo instruction, joined by "; ".
Pure. Not here: token instructions (token_instructions.py).
"""

import struct
from collections.abc import Callable
from typing import Any

import base58

from devnode.encoding import addresses
from devnode.encoding.addresses import MEMO_PROGRAMS
from devnode.parsing.bincode import key_at
from devnode.parsing.token_instructions import parse_token_instruction
from devnode.records.records import TransactionRecord

_MEMO_PROGRAMS = frozenset(map(str, MEMO_PROGRAMS))
_CREATE_ALLOW_PREFUND = 13
# The index is the instruction's number: (name, roles of the accounts, fields of the data in order).
_SYSTEM: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]], ...] = (
    ("createAccount", ("source", "newAccount"), (("lamports", "u64"), ("space", "u64"), ("owner", "key"))),
    ("assign", ("account",), (("owner", "key"),)),
    ("transfer", ("source", "destination"), (("lamports", "u64"),)),
    (
        "createAccountWithSeed",
        ("source", "newAccount"),
        (("base", "key"), ("seed", "text"), ("lamports", "u64"), ("space", "u64"), ("owner", "key")),
    ),
    ("advanceNonce", ("nonceAccount", "recentBlockhashesSysvar", "nonceAuthority"), ()),
    (
        "withdrawFromNonce",
        ("nonceAccount", "destination", "recentBlockhashesSysvar", "rentSysvar", "nonceAuthority"),
        (("lamports", "u64"),),
    ),
    ("initializeNonce", ("nonceAccount", "recentBlockhashesSysvar", "rentSysvar"), (("nonceAuthority", "key"),)),
    ("authorizeNonce", ("nonceAccount", "nonceAuthority"), (("newAuthorized", "key"),)),
    ("allocate", ("account",), (("space", "u64"),)),
    ("allocateWithSeed", ("account",), (("base", "key"), ("seed", "text"), ("space", "u64"), ("owner", "key"))),
    ("assignWithSeed", ("account",), (("base", "key"), ("seed", "text"), ("owner", "key"))),
    (
        "transferWithSeed",
        ("source", "sourceBase", "destination"),
        (("lamports", "u64"), ("sourceSeed", "text"), ("sourceOwner", "key")),
    ),
    ("upgradeNonce", ("nonceAccount",), ()),
    ("createAccountAllowPrefund", ("newAccount",), (("lamports", "u64"), ("space", "u64"), ("owner", "key"))),
)


def memo_text(record: TransactionRecord) -> str | None:
    """Memos of the outer instructions; None if there is none."""
    if _MEMO_PROGRAMS.isdisjoint(record.keys):  # True for most transactions, which need no parsing.
        return None
    memos = []
    for instruction in record.transaction().message.instructions:
        if record.keys[instruction.program_id_index] in _MEMO_PROGRAMS:
            data = instruction.data
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = "(unparseable)"
            memos.append(f"[{len(data)}] {text}")
    return "; ".join(memos) or None


Accounts = tuple[str, ...]


class NotParsable(Exception):
    """The bytes or the number of accounts do not fit the instruction."""


def ui_instruction(program: str, accounts: Accounts, data: bytes, stack_height: int | None) -> dict[str, Any]:
    """The JSON of an instruction, parsed if possible. accounts: the instruction's accounts in base58."""
    known = _PROGRAMS.get(program)
    if known is not None:
        name, parse = known
        try:
            parsed = parse(data, accounts)
        except (NotParsable, struct.error, IndexError, UnicodeDecodeError, ValueError):
            parsed = None
        if parsed is not None:
            return {"parsed": parsed, "program": name, "programId": program, "stackHeight": stack_height}
    return {
        "accounts": list(accounts),
        "data": base58.b58encode(data).decode(),
        "programId": program,
        "stackHeight": stack_height,
    }


def _memo(data: bytes, accounts: Accounts) -> str:
    return data.decode()


def _associated_token(data: bytes, accounts: Accounts) -> dict[str, Any]:
    kind = data[0] if data else 0
    if kind > 2 or len(data) > 1:
        raise NotParsable
    if kind == 2:
        nested = ("nestedSource", "nestedMint", "destination", "nestedOwner", "ownerMint", "wallet", "tokenProgram")
        return _named("recoverNested", accounts, nested)
    names = ("source", "account", "wallet", "mint", "systemProgram", "tokenProgram")
    return _named("createIdempotent" if kind else "create", accounts, names)


def _lookup_table(data: bytes, accounts: Accounts) -> dict[str, Any]:
    (kind,) = struct.unpack_from("<I", data)
    if kind == 0:
        recent_slot, bump = struct.unpack_from("<QB", data, 4)
        names = ("lookupTableAccount", "lookupTableAuthority", "payerAccount", "systemProgram")
        parsed = _named("createLookupTable", accounts, names)
        parsed["info"] |= {"bumpSeed": bump, "recentSlot": recent_slot}
        return parsed
    if kind == 1:
        return _named("freezeLookupTable", accounts, ("lookupTableAccount", "lookupTableAuthority"))
    if kind == 2:
        parsed = _named("extendLookupTable", accounts, ("lookupTableAccount", "lookupTableAuthority"))
        (count,) = struct.unpack_from("<Q", data, 4)
        parsed["info"]["newAddresses"] = [key_at(data, 12 + 32 * index) for index in range(count)]
        if len(accounts) >= 4:
            parsed["info"] |= {"payerAccount": accounts[2], "systemProgram": accounts[3]}
        return parsed
    if kind == 3:
        return _named("deactivateLookupTable", accounts, ("lookupTableAccount", "lookupTableAuthority"))
    if kind == 4:
        return _named("closeLookupTable", accounts, ("lookupTableAccount", "lookupTableAuthority", "recipient"))
    raise NotParsable


def _system(data: bytes, accounts: Accounts) -> dict[str, Any]:
    (kind,) = struct.unpack_from("<I", data)
    if kind >= len(_SYSTEM):
        raise NotParsable
    name, roles, fields = _SYSTEM[kind]
    if kind == _CREATE_ALLOW_PREFUND:
        # Without lamports there is no payer, so the instruction has only the new account.
        (lamports,) = struct.unpack_from("<Q", data, 4)
        roles = ("newAccount", "source") if lamports else ("newAccount",)
    parsed = _named(name, accounts, roles)
    at = 4
    for field, kind_of_field in fields:
        value, at = _FIELDS[kind_of_field](data, at)
        parsed["info"][field] = value
    if kind == _CREATE_ALLOW_PREFUND and not parsed["info"]["lamports"]:
        del parsed["info"]["lamports"]
    return parsed


def _number(data: bytes, at: int) -> tuple[int, int]:
    return struct.unpack_from("<Q", data, at)[0], at + 8


def _pubkey(data: bytes, at: int) -> tuple[str, int]:
    return key_at(data, at), at + 32


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    if at + 8 + length > len(data):
        raise NotParsable
    return data[at + 8 : at + 8 + length].decode(), at + 8 + length


_FIELDS: dict[str, Callable[[bytes, int], tuple[Any, int]]] = {"u64": _number, "key": _pubkey, "text": _string}


def _named(name: str, accounts: Accounts, roles: tuple[str, ...]) -> dict[str, Any]:
    if len(accounts) < len(roles):
        raise NotParsable
    return {"info": dict(zip(roles, accounts, strict=False)), "type": name}


_PROGRAMS: dict[str, tuple[str, Callable[[bytes, Accounts], Any]]] = {
    str(addresses.SYSTEM_PROGRAM): ("system", _system),
    str(addresses.ASSOCIATED_TOKEN_PROGRAM): ("spl-associated-token-account", _associated_token),
    str(addresses.ADDRESS_LOOKUP_TABLE_PROGRAM): ("address-lookup-table", _lookup_table),
    **{str(program): ("spl-memo", _memo) for program in addresses.MEMO_PROGRAMS},
    **{str(program): ("spl-token", parse_token_instruction) for program in addresses.TOKEN_PROGRAMS},
}
