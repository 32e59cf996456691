import pytest

from actors.errors import Err, Refusal
from actors.gateway.calls.requests import ClientLeftError, raw_path, read_body, read_headers


def receiving(*messages):
    pending = list(messages)

    async def receive():
        return pending.pop(0)

    return receive


def part(body: bytes, more: bool) -> dict:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_parts_is_one_body():
    """However the server hands it over."""
    assert await read_body(receiving(part(b"a", True), part(b"", True), part(b"bc", False)), 3) == b"abc"
    assert await read_body(receiving(part(b"abc", False)), 3) == b"abc"


@pytest.mark.threat(10)
async def test_reading_stops_at_the_limit():
    """Threat 10: a body of 100 MB is refused when its first surplus byte is seen; the rest is not asked for."""
    for messages in ([part(b"abcd", True)], [part(b"abcd", False)], [part(b"ab", True), part(b"cd", True)]):
        refusal = await read_body(receiving(*messages), 3)
        assert isinstance(refusal, Refusal)
        assert refusal.err is Err.INVALID_REQUEST
        assert "3 bytes" in refusal.detail


async def test_a_client_that_leaves_while_sending_is_not_answered():
    """Half a request is none."""
    with pytest.raises(ClientLeftError):
        await read_body(receiving(part(b"a", True), {"type": "http.disconnect"}), 3)
    with pytest.raises(ClientLeftError):
        await read_body(receiving({"type": "http.disconnect"}), 3)


@pytest.mark.parametrize(
    ("headers", "good"),
    [
        ([(b"content-length", b"1")], True),
        ([(b"transfer-encoding", b"chunked")], True),
        ([(b"content-encoding", b"identity")], True),
        ([(b"content-length", b"1"), (b"content-length", b"1")], False),
        ([(b"content-length", b"1"), (b"transfer-encoding", b"chunked")], False),
        ([(b"content-encoding", b"gzip")], False),
        ([(b"content-encoding", b"identity, br")], False),
        ([(b"content-encoding", b"gzip"), (b"content-encoding", b"identity")], False),
    ],
)
@pytest.mark.threat(7)
def test_ambiguous_and_compressed_bodies_are_refused(headers, good):
    """Threat 7: smuggling shapes are 400 and gzip bodies 415; the hash is over raw bytes."""
    fault = read_headers(headers).fault
    assert (fault is None) is good
    is_coded = headers[0][0] == b"content-encoding"
    assert fault is None or fault.err is (Err.UNSUPPORTED_MEDIA_TYPE if is_coded else Err.INVALID_REQUEST)


def test_a_browser_is_known_by_its_origin():
    """Only browsers need CORS headers on an answer."""
    assert read_headers([(b"origin", b"https://x")]).browser
    assert not read_headers([(b"host", b"x")]).browser


@pytest.mark.parametrize(
    ("name", "field"),
    [(b"idempotency-key", "key"), (b"x-max-credits", "max_credits"), (b"x-consistency", "consistency")],
)
def test_a_header_that_is_read_once_is_invalid_when_it_comes_twice(name, field):
    """Whichever counted, a client could mean the other. Each of them is refused, free, when it is empty."""
    assert getattr(read_headers([(name, b"5")]), field) == b"5"
    for first, second in ((b"5", b"5"), (b"5", b"6"), (b"", b"5")):
        assert getattr(read_headers([(name, first), (b"accept", b"*/*"), (name, second)]), field) == b""


def test_an_replicas_id_is_found():
    """Whether it is believed is configuration; a client's own is not."""
    assert read_headers([(b"x-request-id", b"abc")]).serve_id == b"abc"


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ({"raw_path": b"/rpc", "path": "/rpc"}, b"/rpc"),
        ({"raw_path": b"/%72pc", "path": "/rpc"}, b"/%72pc"),
        ({"raw_path": b"/rpc?x=1", "path": "/rpc"}, b"/rpc"),
        ({"path": "/rpc"}, b"/rpc"),
    ],
)
@pytest.mark.threat(6)
def test_the_path_is_the_clients_own_bytes(scope, path):
    """Threat 6: what is compared, and what wallets sign, is never decoded."""
    assert raw_path(scope) == path


@pytest.mark.parametrize(
    ("name", "pays"), [(b"payment-signature", True), (b"x-payment", True), (b"payment-response", False)]
)
def test_a_request_that_comes_with_a_payment_is_noticed(name, pays):
    """Both versions of x402; everybody else takes the path without looking for one."""
    assert read_headers([(b"accept", b"*/*"), (name, b"x")]).pays is pays
