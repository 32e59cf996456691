import orjson
import pytest

from actors.config import PaymentsConfig
from actors.errors import Err, Refusal
from actors.gateway.calls import admission, replies
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


def test_the_messages_that_the_interface_fixes():
    """Clients tell these apart by their text."""
    for err, message in (
        (Err.INSUFFICIENT_CREDITS, "insufficient credits"),
        (Err.RATE_LIMITED, "rate limit exceeded"),
        (Err.CONCURRENCY_LIMITED, "concurrency limit exceeded"),
    ):
        assert orjson.loads(replies.single(Refusal(err), b"1", "r", PAGE).body)["error"]["message"] == message


@pytest.mark.parametrize("err", [Err.RATE_LIMITED, Err.CONCURRENCY_LIMITED, Err.SERVICE_TEMPORARILY_UNAVAILABLE])
def test_429_and_503_say_when_to_come_back(err):
    """Retry-After on both kinds of body."""
    for response in (replies.single(Refusal(err), b"1", "r", PAGE), replies.plain(Refusal(err), "r")):
        assert dict(response.headers)[b"retry-after"] == str(err.row.retry_seconds).encode()


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


def test_request_airdrop_is_403_with_the_code_of_a_denied_method():
    """Interface rule 1 and the error reference, both at once; a suspended account keeps the table's code."""
    response = replies.single(admission.FORBIDDEN, b"1", "r", PAGE)
    error = orjson.loads(response.body)["error"]
    assert (response.status, error["code"], error["data"]["constant"]) == (403, -32601, "METHOD_NOT_ALLOWED")
    suspended = replies.single(Refusal(Err.METHOD_NOT_ALLOWED, "this account is suspended"), b"1", "r", PAGE)
    assert orjson.loads(suspended.body)["error"]["code"] == -32001


def test_a_bad_item_of_a_batch_has_json_rpcs_own_code():
    """The table gives invalid requests no code, because alone they are HTTP 400."""
    item = orjson.loads(replies.error_object(Refusal(Err.INVALID_REQUEST, "x"), b"null", "r", {}))
    assert (item["id"], item["error"]["code"]) == (None, -32600)


def test_a_plain_402_is_read_by_version_1_clients_too():
    """Other routes and batches: `x402Version` and `accepts` beside the error."""
    response = replies.plain(Refusal(Err.PAYMENT_REQUIRED), "r", PAGE)
    body = orjson.loads(response.body)
    assert (response.status, body["error"]["code"], body["x402Version"]) == (402, "PAYMENT_REQUIRED", 1)
    assert body["accepts"] == PAGE.v1_accepts
    assert dict(response.headers)[b"payment-required"] == PAGE.header


def test_an_unknown_fault_is_500_and_says_nothing_but_the_id():
    """The text of an exception is for the log."""
    response = replies.internal("req-9")
    assert response.status == 500
    assert orjson.loads(response.body) == {
        "error": {
            "code": "INTERNAL_ERROR",
            "source": "gateway",
            "constant": "INTERNAL_ERROR",
            "message": "internal error",
            "requestId": "req-9",
        }
    }
