"""Which revision a request is of, and what its envelope must be; MCP 2026-07-28, basic and streamable HTTP."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err
from actors.gateway.doors.mcp import eras
from actors.gateway.doors.mcp.eras import MODERN, OLDER

NEW = MODERN.version


def message(method: str = "tools/call", version: Any = NEW, **params: Any) -> dict[str, Any]:
    meta = {eras.VERSION_META: version, eras.CAPABILITIES_META: {}} | params.pop("_meta", {})
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta} | params}


def headers(version: str = NEW, method: str = "tools/call", name: str | None = "getSlot") -> dict[bytes, bytes]:
    found = {b"mcp-protocol-version": version.encode(), b"mcp-method": method.encode()}
    return found if name is None else found | {b"mcp-name": name.encode()}


def encoded(value: str) -> bytes:
    return b"=?base64?" + base64.b64encode(value.encode()) + b"?="


CALL = message(name="getSlot", arguments={})


@pytest.mark.parametrize(
    ("sent", "body", "version"),
    [
        ({}, {"method": "tools/list"}, "2025-03-26"),
        ({b"mcp-protocol-version": b"2025-06-18"}, {"method": "tools/list"}, "2025-06-18"),
        ({b"mcp-protocol-version": b"2025-11-25"}, {"method": "tools/list"}, "2025-11-25"),
        ({b"mcp-protocol-version": NEW.encode()}, {"method": "tools/list"}, NEW),
        ({b"mcp-protocol-version": b"2031-01-01"}, {"method": "tools/list"}, NEW),
        ({}, CALL, NEW),
        ({b"mcp-protocol-version": b"2025-06-18"}, CALL, NEW),
        ({}, message("initialize"), NEW),
        ({b"mcp-protocol-version": NEW.encode()}, {"method": "initialize", "params": {}}, "2025-11-25"),
        ({b"mcp-protocol-version": b"2025-06-18"}, message(version="2025-06-18"), "2025-06-18"),
    ],
)
def test_each_request_says_itself_of_which_revision_it_is(
    sent: dict[bytes, bytes], body: dict[str, Any], version: str
) -> None:
    """Basic, versioning: both eras on one URL, and nothing is remembered of a client."""
    assert eras.dialect_of(sent, body).version == version


@pytest.mark.parametrize(
    ("sent", "body", "err"),
    [
        (headers(), CALL, None),
        ({**headers(), b"mcp-name": b" \tgetSlot "}, CALL, None),
        ({**headers(), b"mcp-name": encoded("getSlot")}, CALL, None),
        (headers("2026-07-28", "tools/list", None), message("tools/list"), None),
        (headers(), {"method": "tools/call", "params": {"name": "getSlot"}}, Err.INVALID_PARAMS),
        (headers(), {"method": "tools/call", "params": []}, Err.INVALID_PARAMS),
        (headers(), message(version=5), Err.INVALID_PARAMS),
        (headers(), message(_meta={eras.CAPABILITIES_META: None}), Err.INVALID_PARAMS),
        ({}, CALL, Err.MCP_HEADER_MISMATCH),
        (headers("2025-06-18"), CALL, Err.MCP_HEADER_MISMATCH),
        ({b"mcp-protocol-version": NEW.encode()}, CALL, Err.MCP_HEADER_MISMATCH),
        (headers(name=None), CALL, Err.MCP_HEADER_MISMATCH),
        (headers(name="GETSLOT"), CALL, Err.MCP_HEADER_MISMATCH),
        (headers(method="tools/list"), CALL, Err.MCP_HEADER_MISMATCH),
        ({**headers(), b"mcp-name": b"=?base64?***?="}, CALL, Err.MCP_HEADER_MISMATCH),
        (
            {**headers(), b"mcp-name": b"=?BASE64?" + base64.b64encode(b"getSlot") + b"?="},
            CALL,
            Err.MCP_HEADER_MISMATCH,
        ),
        ({**headers(), b"mcp-name": b"=?base64?Z2V0U2xvdB=="}, CALL, Err.MCP_HEADER_MISMATCH),
        ({**headers(), b"mcp-name": b"=?base64?"}, CALL, Err.MCP_HEADER_MISMATCH),
        ({**headers(), b"mcp-name": b"getSlot\x01"}, CALL, Err.MCP_HEADER_MISMATCH),
        ({**headers(), b"mcp-name": b"getSlot, getSlot"}, CALL, Err.MCP_HEADER_MISMATCH),
        (headers("2031-01-01"), message(version="2031-01-01", name="getSlot"), Err.MCP_VERSION_UNSUPPORTED),
        (headers("2031-01-01"), {"method": "tools/list"}, Err.MCP_VERSION_UNSUPPORTED),
    ],
)
def test_an_envelope_is_refused_by_the_protocols_own_codes(
    sent: dict[bytes, bytes], body: dict[str, Any], err: Err | None
) -> None:
    """A proxy acts on the headers and this service on the body, so both must say the same, in one spelling."""
    refusal = eras.unfit(sent, body)
    assert (None if refusal is None else refusal.err) is err


@given(st.text(min_size=1, max_size=20))
def test_any_name_can_be_sent_in_its_base64_form(name: str) -> None:
    try:
        sent = {**headers(), b"mcp-name": encoded(name)}
    except UnicodeEncodeError:  # A lone surrogate is no text.
        return
    assert eras.unfit(sent, message(name=name)) is None
    assert eras.unfit(sent, message(name=name + "x")) is not None


@given(st.binary(max_size=40), st.recursive(st.none() | st.text(max_size=5), lambda it: st.dictionaries(st.text(), it)))
def test_no_header_and_no_body_raises(sent: bytes, value: Any) -> None:
    for body in ({"method": value, "params": value}, {"params": {"_meta": value}}, message(name=value)):
        found = {b"mcp-protocol-version": sent, b"mcp-method": sent, b"mcp-name": sent}
        assert eras.dialect_of(found, body) in (*OLDER.values(), MODERN)
        eras.unfit(found, body)
        eras.unsupported_data(found, body)
