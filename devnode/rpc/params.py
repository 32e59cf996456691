"""Reads the parameters of a call, with the error texts of Agave's decoder.

Implements: positional parameters, optional configuration objects, keys, signatures, commitment and minContextSlot.
Unknown fields of a configuration object are ignored, as a node does. Pure; every refusal is an RpcError.
"""

from typing import Any

from solders.pubkey import Pubkey
from solders.signature import Signature

from devnode.records.commitment import Commitment
from devnode.rpc.errors import RpcError, invalid_params

_U64_MAX = 2**64 - 1
Params = list[Any]


def described(value: Any) -> str:
    """A JSON value in the words of Agave's decoder."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{'true' if value else 'false'}`"
    if isinstance(value, int):
        return f"integer `{value}`"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return f'string "{value}"'
    return "sequence" if isinstance(value, list) else "map"


def wrong_type(value: Any, expected: str) -> RpcError:
    return invalid_params(f"Invalid params: invalid type: {described(value)}, expected {expected}.")


def at(params: Params, index: int) -> Any:
    return params[index] if index < len(params) else None


def text(params: Params, index: int) -> str:
    value = at(params, index)
    if not isinstance(value, str):
        raise wrong_type(value, "a string")
    return value


def unsigned(value: Any, bits: int = 64) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(value, f"u{bits}")
    if not 0 <= value < 2**bits:
        raise invalid_params(f"Invalid params: invalid value: integer `{value}`, expected u{bits}.")
    return value


def optional_unsigned(value: Any, bits: int = 64) -> int | None:
    return None if value is None else unsigned(value, bits)


def boolean(config: dict[str, Any], name: str, default: bool = False) -> bool:
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise wrong_type(value, "a boolean")
    return value


def config(params: Params, index: int, struct: str) -> dict[str, Any]:
    """Read an optional configuration object; absent and null are an empty one."""
    value = at(params, index)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_type(value, f"struct {struct}")
    return value


def listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(value, "a sequence")
    return value


def variant(value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise wrong_type(value, "string or map")
    if value not in choices:
        names = ", ".join(f"`{choice}`" for choice in choices)
        raise invalid_params(f"Invalid params: unknown variant `{value}`, expected one of {names}.")
    return value


def pubkey_of(value: Any) -> Pubkey:
    if not isinstance(value, str):
        raise wrong_type(value, "a string")
    try:
        return Pubkey.from_string(value)
    except ValueError as error:
        raise invalid_params(f"Invalid param: {_key_fault(value, 44, error)}") from None


def pubkey(params: Params, index: int) -> Pubkey:
    return pubkey_of(at(params, index))


def signature_of(value: Any) -> Signature:
    if not isinstance(value, str):
        raise wrong_type(value, "a string")
    try:
        return Signature.from_string(value)
    except ValueError as error:
        raise invalid_params(f"Invalid param: {_key_fault(value, 88, error)}") from None


def _key_fault(value: str, length_max: int, error: ValueError) -> str:
    """The error name of the chain's key parser: WrongSize or Invalid."""
    if len(value) > length_max:
        return "WrongSize"
    return "WrongSize" if "size" in str(error).lower() else "Invalid"


_LEVELS = tuple(level.value for level in Commitment)
_BY_NAME = {level.value: level for level in Commitment}


def commitment(fields: dict[str, Any], name: str = "commitment") -> Commitment:
    value = fields.get(name)
    if value is None:
        return Commitment.FINALIZED
    known = _BY_NAME.get(value) if isinstance(value, str) else None
    return known if known is not None else _BY_NAME[variant(value, _LEVELS)]


def confirmed_or_higher(fields: dict[str, Any]) -> Commitment:
    level = commitment(fields)
    if level is Commitment.PROCESSED:
        raise invalid_params("Method does not support commitment below `confirmed`")
    return level
