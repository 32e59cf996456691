"""Which revision of the protocol a request is of, and whether its envelope is what that revision wants.

Implements: Model Context Protocol 2026-07-28, basic (`_meta`), basic/versioning and basic/transports/streamable-http
("Request Metadata", "Server Validation"); threat 38. Pure.

All revisions are served on one URL, each request by its own: nothing is remembered of a client. A request is of the
newer era where its header or its `_meta` names a version that is none of the older ones. An `initialize` without that
`_meta` always begins an older one.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from actors.errors import Err, Refusal
from actors.gateway.doors.mcp.tasks import TASK_METHODS
from actors.methods.values import shown


class Dialect(msgspec.Struct, frozen=True):
    """How a revision speaks. is_modern: each request carries its version, results say their type, and codes of our own
    are outside JSON-RPC's range. tells_unfit: arguments that are unfit for a tool, and a lack of payment, are a result
    that a model sees."""

    version: str
    is_modern: bool = False
    tells_unfit: bool = False


OLDER: Final = {
    one.version: one for one in (Dialect("2025-03-26"), Dialect("2025-06-18"), Dialect("2025-11-25", tells_unfit=True))
}
OLDEST: Final = OLDER["2025-03-26"]  # Revision of a request that names no version.
LATEST_OLDER: Final = OLDER["2025-11-25"]
MODERN: Final = Dialect("2026-07-28", is_modern=True, tells_unfit=True)
VERSION_META: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_META: Final = "io.modelcontextprotocol/clientCapabilities"
HEADERS: Final = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
# The parameter that Mcp-Name repeats.
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"} | dict.fromkeys(
    TASK_METHODS, "taskId"
)
_ENCODED = (b"=?base64?", b"?=")
# The three of the protocol's own codes that a server may send, and JSON-RPC's.
ENVELOPE_ERRORS: Final = frozenset(
    (Err.MCP_HEADER_MISMATCH, Err.MCP_VERSION_UNSUPPORTED, Err.MCP_CAPABILITY_MISSING, Err.INVALID_PARAMS)
)


def dialect_of(headers: Mapping[bytes, bytes], message: Mapping[str, Any]) -> Dialect:
    """Return the revision of a message: a newer one that it names, else the older one of its header."""
    version = _version_in(message)
    if message.get("method") == "initialize" and version is None:
        return LATEST_OLDER
    sent = headers.get(b"mcp-protocol-version")
    header = None if sent is None else sent.decode("latin-1").strip()
    if (version is not None and version not in OLDER) or (header is not None and header not in OLDER):
        return MODERN
    return OLDEST if header is None else OLDER[header]


def unfit(headers: Mapping[bytes, bytes], message: Mapping[str, Any]) -> Refusal | None:
    """Return what is wrong with the envelope of a newer request, or None."""
    meta = _meta_of(message)
    version = meta.get(VERSION_META)
    header = _value_of(headers.get(b"mcp-protocol-version"))
    if version is None and header is not None and header != MODERN.version:
        return _unsupported(header)
    if type(version) is not str:
        return Refusal(Err.INVALID_PARAMS, f'_meta["{VERSION_META}"] must be the version of the protocol, a string')
    if type(meta.get(CAPABILITIES_META)) is not dict:
        return Refusal(Err.INVALID_PARAMS, f'_meta["{CAPABILITIES_META}"] must be an object')
    method = message.get("method")
    differing = _differing(headers, message, str(version), method)
    if differing is not None:
        return differing
    return None if version == MODERN.version else _unsupported(str(version))


def _differing(headers: Mapping[bytes, bytes], message: Mapping[str, Any], version: str, method: Any) -> Refusal | None:
    """Refuse differing headers and body: a proxy acts on the headers, and this service on the body."""
    params = message.get("params")
    key = _NAMED_BY.get(method)
    wanted = [(b"mcp-protocol-version", "MCP-Protocol-Version", version), (b"mcp-method", "Mcp-Method", method)]
    if key is not None:
        wanted.append((b"mcp-name", "Mcp-Name", params.get(key) if type(params) is dict else None))
    for name, shown_name, said in wanted:
        sent = headers.get(name)
        if sent is None:
            return Refusal(Err.MCP_HEADER_MISMATCH, f"the header {shown_name} is missing")
        value = _value_of(sent)
        if value is None:
            return Refusal(Err.MCP_HEADER_MISMATCH, f"the header {shown_name} is neither ASCII nor =?base64?...?=")
        if value != said:
            return Refusal(Err.MCP_HEADER_MISMATCH, f"the header {shown_name} is {shown(value)}, the body differs")
    return None


def _value_of(sent: bytes | None) -> str | None:
    """Decode a header's value from its base64 form; None: absent or malformed."""
    if sent is None:
        return None
    value = sent.strip(b" \t")
    if not value.isascii() or any(byte < 0x20 or byte == 0x7F for byte in value):
        return None
    if not value.startswith(_ENCODED[0]):
        return value.decode()
    encoded = value[len(_ENCODED[0]) : -len(_ENCODED[1])]
    if not value.endswith(_ENCODED[1]) or len(value) < len(_ENCODED[0]) + len(_ENCODED[1]):
        return None
    try:
        decoded = base64.b64decode(encoded, validate=True)
        # Each value has one spelling: extra bits after the last character would be another one.
        return decoded.decode() if base64.b64encode(decoded) == encoded else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _unsupported(version: str) -> Refusal:
    return Refusal(Err.MCP_VERSION_UNSUPPORTED, shown(version))


def unsupported_data(headers: Mapping[bytes, bytes], message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error data that tells a client the supported versions."""
    requested = _version_in(message) or _value_of(headers.get(b"mcp-protocol-version")) or ""
    return {"supported": [MODERN.version], "requested": requested[:64]}


def _meta_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    params = message.get("params")
    meta = params.get("_meta") if type(params) is dict else None
    return meta if type(meta) is dict else {}


def _version_in(message: Mapping[str, Any]) -> str | None:
    version = _meta_of(message).get(VERSION_META)
    return version if type(version) is str else None
