import orjson
import pytest

from actors.config import PaymentsConfig
from actors.errors import Err, Refusal
from actors.gateway.calls import replies
from actors.gateway.payments import terms as payment_terms

WALLET, SPONSOR = "So11111111111111111111111111111111111111112", "11111111111111111111111111111111"
PAGE = payment_terms.build(
    PaymentsConfig(network="devnet", deposit_wallet=WALLET, sponsor_pubkey=SPONSOR), "https://rpc.example", "/rpc"
)


@pytest.mark.parametrize("err", list(Err))
def test_every_row_has_a_body_at_its_status(err):
    """With a code: a JSON-RPC error under the request's id, marked as ours. Without: a plain HTTP error."""
    response = replies.single(Refusal(err), b'"id"', "req-1", PAGE)
    body = orjson.loads(response.body)
    assert response.status == err.row.http
    if err.row.code is None:
        assert body["error"]["code"] == err.name
        assert (body["error"]["source"], body["error"]["constant"]) == ("gateway", err.name)
        assert body["error"]["requestId"] == "req-1"
        assert "jsonrpc" not in body
    else:
        assert (body["jsonrpc"], body["id"]) == ("2.0", "id")
        assert body["error"]["code"] == err.row.code
        assert body["error"]["message"] == err.row.message
        data = body["error"]["data"]
        assert (data["source"], data["constant"], data["requestId"]) == ("gateway", err.name, "req-1")
        assert data.get("retry_after_secs") == err.row.retry_seconds


@pytest.mark.parametrize("err", [Err.PAYMENT_REQUIRED, Err.INSUFFICIENT_CREDITS])
def test_402_carries_the_terms_in_header_and_body_together(err):
    """Clients of both protocol versions, and readers of bodies alone, all find them; nobody may cache them."""
    response = replies.single(Refusal(err), b"1", "r", PAGE)
    sent = dict(response.headers)
    assert sent[b"payment-required"] == PAGE.header
    assert sent[b"cache-control"] == b"no-store"
    body = orjson.loads(response.body)
    assert body["x402Version"] == 1
    assert body["accepts"] == PAGE.v1_accepts
    assert body["error"]["data"]["x402"] == PAGE.v2
    assert body["error"]["data"]["deposit_address"] == WALLET


@pytest.mark.parametrize("err", [err for err in Err if err.row.http in (404, 429, 502, 503, 504)])
def test_every_error_that_passes_by_itself_says_retry_after_secs(err):
    """Interface, "HTTP statuses and bodies": the hint is in the body, at one place in both kinds, and equals the
    header; errors that asking again does not mend have neither."""
    answers = [replies.plain(Refusal(err, "why"), "r")]
    if err.row.code is not None:
        answers.append(replies.single(Refusal(err, "why"), b"1", "r", PAGE))
    for response in answers:
        hint = orjson.loads(response.body)["error"].get("data", {}).get("retry_after_secs")
        header = dict(response.headers).get(b"retry-after")
        assert hint == err.row.retry_seconds
        assert header == (None if hint is None else b"%d" % hint)


def test_a_plain_502_is_named_as_the_interface_has_it():
    """Interface, "HTTP statuses and bodies": UPSTREAM_ERROR where the body is a plain error."""
    error = orjson.loads(replies.plain(Refusal(Err.BACKEND_UNAVAILABLE), "r").body)["error"]
    assert (error["code"], error["constant"], error["source"]) == ("UPSTREAM_ERROR", "BACKEND_UNAVAILABLE", "gateway")


def test_a_plain_402_is_read_by_version_1_clients_too():
    """Other routes and batches: `x402Version` and `accepts` beside the error."""
    response = replies.plain(Refusal(Err.PAYMENT_REQUIRED), "r", PAGE)
    body = orjson.loads(response.body)
    assert (response.status, body["error"]["code"], body["x402Version"]) == (402, "PAYMENT_REQUIRED", 1)
    assert body["accepts"] == PAGE.v1_accepts
    assert dict(response.headers)[b"payment-required"] == PAGE.header
