"""jsonParsed of Token-2022's extensions.

Implements: every extension that an Agave node parses; keys of encryption and ciphertexts are base64. Extensions of a
number that is unknown here, and those whose bytes are too short, appear as `unparseableExtension`.
Pure. Not here: the mint or account that has them (token_accounts.py).
"""

import base64
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from devnode.encoding.addresses import TOKEN_ACCOUNT_BYTES
from devnode.parsing.bincode import key_at

TOKEN_STATES = ("uninitialized", "initialized", "frozen")
_EXTENSIONS_OFFSET = TOKEN_ACCOUNT_BYTES + 1
_NO_KEY = bytes(32)
_CIPHERTEXT_BYTES = 64  # ElGamal.
_BALANCE_BYTES = 36  # AES-GCM-SIV.


def with_extensions(info: dict[str, Any], data: bytes) -> dict[str, Any]:
    extensions = []
    at = _EXTENSIONS_OFFSET
    while at + 4 <= len(data):
        kind, length = struct.unpack_from("<HH", data, at)
        if kind == 0:
            break
        extensions.append(_extension(kind, data[at + 4 : at + 4 + length]))
        at += 4 + length
    if extensions:
        info["extensions"] = extensions
    return info


def _extension(kind: int, value: bytes) -> dict[str, Any]:
    known = _EXTENSIONS.get(kind)
    if known is None:
        return {"extension": "unparseableExtension"}
    name, read = known
    if read is None:
        return {"extension": name}
    try:
        return {"extension": name, "state": read(value)}
    except (struct.error, ValueError, UnicodeDecodeError):
        return {"extension": "unparseableExtension"}


def _transfer_fee_config(value: bytes) -> dict[str, Any]:
    return {
        "newerTransferFee": _transfer_fee(value, 90),
        "olderTransferFee": _transfer_fee(value, 72),
        "transferFeeConfigAuthority": _maybe_key(value, 0),
        "withdrawWithheldAuthority": _maybe_key(value, 32),
        "withheldAmount": _u64(value, 64),
    }


def _transfer_fee(value: bytes, at: int) -> dict[str, Any]:
    epoch, maximum_fee, basis_points = struct.unpack_from("<QQH", value, at)
    return {"epoch": epoch, "maximumFee": maximum_fee, "transferFeeBasisPoints": basis_points}


def _token_metadata(value: bytes) -> dict[str, Any]:
    at = 64
    texts = []
    for _ in range(3):
        text, at = _text(value, at)
        texts.append(text)
    (count,) = struct.unpack_from("<I", value, at)
    at += 4
    pairs = []
    for _ in range(count):
        key, at = _text(value, at)
        item, at = _text(value, at)
        pairs.append([key, item])
    return {
        "additionalMetadata": pairs,
        "mint": key_at(value, 32),
        "name": texts[0],
        "symbol": texts[1],
        "updateAuthority": _maybe_key(value, 0),
        "uri": texts[2],
    }


def _text(value: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<I", value, at)
    return value[at + 4 : at + 4 + length].decode(), at + 4 + length


def _interest_bearing(value: bytes) -> dict[str, Any]:
    initialized, average, updated, current = struct.unpack_from("<qhqh", value, 32)
    return {
        "currentRate": current,
        "initializationTimestamp": initialized,
        "lastUpdateTimestamp": updated,
        "preUpdateAverageRate": average,
        "rateAuthority": _maybe_key(value, 0),
    }


def _group(value: bytes) -> dict[str, Any]:
    return {
        "maxSize": _u64(value, 72),
        "mint": key_at(value, 32),
        "size": _u64(value, 64),
        "updateAuthority": _maybe_key(value, 0),
    }


def _group_member(value: bytes) -> dict[str, Any]:
    return {"group": key_at(value, 32), "memberNumber": _u64(value, 64), "mint": key_at(value, 0)}


def _scaled_ui_amount(value: bytes) -> dict[str, Any]:
    multiplier, effective_at, new_multiplier = struct.unpack_from("<dqd", value, 32)
    return {
        "authority": _maybe_key(value, 0),
        "multiplier": _number_text(multiplier),
        "newMultiplier": _number_text(new_multiplier),
        "newMultiplierEffectiveTimestamp": effective_at,
    }


def _number_text(number: float) -> str:
    """A float without an exponent and without a fraction of zero, as Rust writes it."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "inf" if number > 0 else "-inf"
    text = format(Decimal(repr(number)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _confidential_mint(value: bytes) -> dict[str, Any]:
    return {
        "auditorElgamalPubkey": _maybe_base64(value, 33),
        "authority": _maybe_key(value, 0),
        "autoApproveNewAccounts": _flag(value, 32),
    }


def _confidential_account(value: bytes) -> dict[str, Any]:
    counters = struct.unpack_from("<4Q", value, 263)
    return {
        "actualPendingBalanceCreditCounter": counters[3],
        "allowConfidentialCredits": _flag(value, 261),
        "allowNonConfidentialCredits": _flag(value, 262),
        "approved": _flag(value, 0),
        "availableBalance": _base64(value, 161, _CIPHERTEXT_BYTES),
        "decryptableAvailableBalance": _base64(value, 225, _BALANCE_BYTES),
        "elgamalPubkey": _base64(value, 1),
        "expectedPendingBalanceCreditCounter": counters[2],
        "maximumPendingBalanceCreditCounter": counters[1],
        "pendingBalanceCreditCounter": counters[0],
        "pendingBalanceHi": _base64(value, 97, _CIPHERTEXT_BYTES),
        "pendingBalanceLo": _base64(value, 33, _CIPHERTEXT_BYTES),
    }


def _confidential_fee_config(value: bytes) -> dict[str, Any]:
    return {
        "authority": _maybe_key(value, 0),
        "harvestToMintEnabled": _flag(value, 64),
        "withdrawWithheldAuthorityElgamalPubkey": _maybe_base64(value, 32),
        "withheldAmount": _base64(value, 65, _CIPHERTEXT_BYTES),
    }


def _confidential_mint_burn(value: bytes) -> dict[str, Any]:
    return {
        "confidentialSupply": _base64(value, 0, _CIPHERTEXT_BYTES),
        "decryptableSupply": _base64(value, 64, _BALANCE_BYTES),
        "pendingBurn": _base64(value, 132, _CIPHERTEXT_BYTES),
        "supplyElgamalPubkey": _base64(value, 100),
    }


_Reader = Callable[[bytes], dict[str, Any]] | None
_EXTENSIONS: dict[int, tuple[str, _Reader]] = {
    1: ("transferFeeConfig", _transfer_fee_config),
    2: ("transferFeeAmount", lambda value: {"withheldAmount": _u64(value, 0)}),
    3: ("mintCloseAuthority", lambda value: {"closeAuthority": _maybe_key(value, 0)}),
    4: ("confidentialTransferMint", _confidential_mint),
    5: ("confidentialTransferAccount", _confidential_account),
    6: ("defaultAccountState", lambda value: {"accountState": _state(value)}),
    7: ("immutableOwner", None),
    8: ("memoTransfer", lambda value: {"requireIncomingTransferMemos": _flag(value, 0)}),
    9: ("nonTransferable", None),
    10: ("interestBearingConfig", _interest_bearing),
    11: ("cpiGuard", lambda value: {"lockCpi": _flag(value, 0)}),
    12: ("permanentDelegate", lambda value: {"delegate": _maybe_key(value, 0)}),
    13: ("nonTransferableAccount", None),
    14: ("transferHook", lambda value: {"authority": _maybe_key(value, 0), "programId": _maybe_key(value, 32)}),
    15: ("transferHookAccount", lambda value: {"transferring": _flag(value, 0)}),
    16: ("confidentialTransferFeeConfig", _confidential_fee_config),
    17: ("confidentialTransferFeeAmount", lambda value: {"withheldAmount": _base64(value, 0, _CIPHERTEXT_BYTES)}),
    18: (
        "metadataPointer",
        lambda value: {"authority": _maybe_key(value, 0), "metadataAddress": _maybe_key(value, 32)},
    ),
    19: ("tokenMetadata", _token_metadata),
    20: ("groupPointer", lambda value: {"authority": _maybe_key(value, 0), "groupAddress": _maybe_key(value, 32)}),
    21: ("tokenGroup", _group),
    22: (
        "groupMemberPointer",
        lambda value: {"authority": _maybe_key(value, 0), "memberAddress": _maybe_key(value, 32)},
    ),
    23: ("tokenGroupMember", _group_member),
    24: ("confidentialMintBurn", _confidential_mint_burn),
    25: ("scaledUiAmountConfig", _scaled_ui_amount),
    26: ("pausableConfig", lambda value: {"authority": _maybe_key(value, 0), "paused": _flag(value, 32)}),
    27: ("pausableAccount", None),
    28: ("permissionedBurnConfig", lambda value: {"authority": _maybe_key(value, 0)}),
}


def _flag(value: bytes, at: int) -> bool:
    (flag,) = struct.unpack_from("<B", value, at)
    return bool(flag)


def _state(value: bytes) -> str:
    (number,) = struct.unpack_from("<B", value)
    return TOKEN_STATES[number] if number < len(TOKEN_STATES) else TOKEN_STATES[0]


def _u64(data: bytes, at: int) -> int:
    (number,) = struct.unpack_from("<Q", data, at)
    return int(number)


def _maybe_key(data: bytes, at: int) -> str | None:
    """A key; None if it is absent, which extensions write as zeros."""
    return None if data[at : at + 32] == _NO_KEY else key_at(data, at)


def _base64(data: bytes, at: int, size: int = 32) -> str:
    if len(data) < at + size:
        raise ValueError("the extension is too short")
    return base64.b64encode(data[at : at + size]).decode()


def _maybe_base64(data: bytes, at: int) -> str | None:
    return None if data[at : at + 32] == _NO_KEY else _base64(data, at)
