"""The operator's token: one header, once, and nothing that comes near it."""

from ipaddress import ip_network

import pytest

from actors.identity.operator_token import HEADER, OperatorToken, is_among, new_token

TOKEN = new_token(bytes(range(32)))


def test_the_token_proves_an_operator_and_is_not_kept() -> None:
    token = OperatorToken(TOKEN)
    assert token.is_set and token.is_in([(b"accept", b"*/*"), (HEADER, TOKEN.encode())])
    assert TOKEN not in repr(vars(token)) and len(TOKEN) >= 64


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(HEADER, b"")],
        [(HEADER, TOKEN[:-1].encode())],
        [(HEADER, TOKEN.encode() + b" ")],
        [(HEADER, TOKEN.encode()), (HEADER, TOKEN.encode())],
        [(b"x-api-key", TOKEN.encode())],
        [(HEADER, b"x" * 10_000)],
    ],
)
def test_anything_else_proves_nobody(headers: list[tuple[bytes, bytes]]) -> None:
    assert not OperatorToken(TOKEN).is_in(headers)


def test_without_a_token_nobody_is_an_operator() -> None:
    none = OperatorToken(None)
    assert not none.is_set and not none.is_in([(HEADER, b"")]) and not none.is_in([(HEADER, b"None")])


@pytest.mark.parametrize(
    ("address", "is_in"), [("10.1.2.3", True), ("11.1.2.3", False), ("unknown", False), ("::ffff:10.1.2.3", True)]
)
def test_an_address_is_in_a_network_or_it_is_not(address: str, is_in: bool) -> None:
    assert is_among(address, [ip_network("10.0.0.0/8"), ip_network("2001:db8::/32")]) is is_in
