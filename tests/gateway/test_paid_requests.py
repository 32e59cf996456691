"""What is looked at before money moves."""

import pytest

from actors.errors import Err, Refusal
from actors.gateway import jsonrpc
from actors.gateway.paid_requests import (
    has_credentials,
    is_offer,
    refused_for_free,
    under_session,
    without_credentials,
)
from actors.gateway.replies import Response
from actors.gateway.requests import Request


def parsed(body: bytes):
    found = jsonrpc.parse(body)
    assert not isinstance(found, Refusal)
    return found


def test_a_call_that_can_be_made_is_worth_a_payment():
    """Also one among many that cannot."""
    good = b'{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
    bad = b'{"jsonrpc":"2.0","id":2,"method":"nothing"}'
    assert refused_for_free(parsed(good)) is None
    assert refused_for_free(parsed(b"[" + bad + b"," + good + b"]")) is None


def test_what_would_be_refused_anyway_is_refused_first():
    """In order, with each call's own reason."""
    bad = b'{"jsonrpc":"2.0","id":2,"method":"nothing"}'
    found = refused_for_free(parsed(b"[" + bad + b",7]"))
    assert found is not None
    assert [reply.refusal.err for reply in found.items if reply.refusal] == [Err.METHOD_NOT_FOUND, Err.INVALID_REQUEST]
    assert [reply.id for reply in found.items] == [b"2", b"null"]


@pytest.mark.parametrize(
    ("status", "added", "offer"), [(402, [(b"payment-required", b"x")], True), (402, [], False), (200, [], False)]
)
def test_an_offer_is_a_402_with_terms(status, added, offer):
    """A 402 without them could not be paid."""
    assert is_offer(Response(status, b"", added)) is offer


def test_credentials_leave_and_a_session_takes_their_place():
    """All of them, in headers and in the URL; what else was sent stays."""
    sent = [
        *((b"x-api-key", b"k"), (b"x-pubkey", b"p"), (b"x-signature", b"s"), (b"x-timestamp", b"1")),
        *((b"x-nonce", b"n"), (b"authorization", b"Bearer t"), (b"accept", b"*/*")),
    ]
    request = Request("POST", b"/bulk/getBalances", b"api-key=k&limit=2", sent, b"{}", "id", None)
    assert has_credentials(request)
    bare = without_credentials(request)
    assert (bare.headers, bare.query, bare.body) == ([(b"accept", b"*/*")], b"limit=2", b"{}")
    assert not has_credentials(bare)
    assert under_session(request, "token").headers == [(b"accept", b"*/*"), (b"authorization", b"Bearer token")]
    assert len(request.headers) == 7
