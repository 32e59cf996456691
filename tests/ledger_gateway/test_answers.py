"""Every answer is classified as what it is: the gateway's refusals, the node's errors, nonsense."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err, Refusal
from actors.gateway.calls import replies
from ledger_gateway.answers import (
    RETRY_AFTER_SECONDS_MAX,
    Answer,
    asked_wait,
    document_of,
    figures_of,
    items_of,
    plain,
    refusal_of,
    result_of,
    retry_after_of,
)
from ledger_gateway.errors import BadAnswer, GatewayError, LedgerGatewayError, NodeError, Unavailable, class_of

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
STATUSES = st.sampled_from([200, 201, 301, 400, 401, 402, 403, 404, 409, 429, 500, 502, 503, 504, 599])


def answer_of(response: replies.Response) -> Answer:
    return Answer(response.status, {k.decode(): v.decode() for k, v in response.headers}, response.body)


@pytest.mark.parametrize("is_rpc", [True, False], ids=["rpc", "plain"])
@pytest.mark.parametrize("err", Err, ids=lambda err: err.name)
def test_what_the_gateway_writes_is_read_as_its_refusal(err: Err, is_rpc: bool) -> None:
    """The gateway's own code makes the answer: constant, status, code, wait and request id arrive."""
    refusal = Refusal(err, "why")
    made = replies.single(refusal, b"0", "req-1", None) if is_rpc else replies.plain(refusal, "req-1")
    answer = answer_of(made)
    if not is_rpc and made.status == 200:
        return  # A path that is no JSON-RPC gives these their own status.
    error = refusal_of(answer)
    assert isinstance(error, GatewayError) and type(error) is class_of(err.name, made.status)
    assert error.constant in (err.name, "UPSTREAM_ERROR") and error.request_id == "req-1" and "why" in error.message
    if is_rpc and err.row.code is not None:
        assert (error.code, error.retry_after) == (err.row.code, err.row.retry_seconds)
        with pytest.raises(type(error)):
            result_of(answer)


def _says_gateway(data: Any) -> bool:
    return isinstance(data, dict) and data.get("source") == "gateway"


@given(
    code=st.integers(-40_000, 40_000), message=st.text(max_size=40), data=VALUES.filter(lambda d: not _says_gateway(d))
)
def test_the_nodes_errors_pass_through_as_they_are(code: int, message: str, data: Any) -> None:
    """Decisions, "Errors of the node", "Errors of this service": inside HTTP 200, an error that names no source is the
    node's, whatever its number."""
    body = {"jsonrpc": "2.0", "id": 0, "error": {"code": code, "message": message, "data": data}}
    with pytest.raises(NodeError) as raised:
        result_of(Answer(200, {}, json.dumps(body).encode()))
    assert (raised.value.code, raised.value.message) == (code, plain(message))
    assert raised.value.data == json.loads(json.dumps(data))


@pytest.mark.parametrize(
    ("headers", "said"),
    [({"x-credits-cost": "25"}, "charged: 25 credits"), ({"x-credits-cost": "0"}, None), ({}, None)],
)
def test_a_nodes_error_is_called_charged_where_the_answer_says_so(headers: dict[str, str], said: str | None) -> None:
    """A block that the node has cleaned up is free, and so is whatever another node answers, which a deposit asks."""
    reply = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32001, "message": "Block 1 cleaned up"}}
    with pytest.raises(NodeError) as raised:
        result_of(Answer(200, headers, json.dumps(reply).encode()))
    assert ("charged" in raised.value.next_step) is (said is not None) and (said or "") in raised.value.next_step
    (end,) = items_of(Answer(200, headers, json.dumps([reply]).encode()), 1)  # The header is the whole batch's.
    assert end.error is not None and "charged" not in end.error.next_step


@given(
    status=STATUSES,
    body=st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()),
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "x-request-id", "x-credits-remaining"]), st.text(max_size=9)
    ),
    error=st.none() | VALUES,
)
def test_no_answer_whatever_breaks_the_client(status: int, body: bytes, headers: dict[str, str], error: Any) -> None:
    """A hostile or broken server causes a value or a LedgerGatewayError, and never a success above HTTP 299."""
    bodies = [body, json.dumps({"id": 0, "error": error}).encode(), json.dumps([{"id": 0, "error": error}]).encode()]
    for sent in bodies:
        answer = Answer(status, headers, sent)
        figures_of(headers)
        for parse in (document_of, result_of, lambda given: [end.result() for end in items_of(given, 2)]):
            try:
                parse(answer)
            except LedgerGatewayError as failed:
                assert failed.next_step
                assert str(failed).isprintable()
            else:
                assert status < 300


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"1e400000", b"\xff\xfe", b"", b"9" * 5_000])
def test_bombs_are_bad_answers(body: bytes) -> None:
    """Hostile JSON: depth, huge numbers, no UTF-8."""
    with pytest.raises(BadAnswer):
        result_of(Answer(200, {}, body))


def test_a_proxy_without_a_replica_is_unavailable_and_other_pages_are_not() -> None:
    """503 in a proxy's own words means that nothing was carried out; its 502 does not."""
    with pytest.raises(Unavailable):
        result_of(Answer(503, {"retry-after": "1"}, b"<html>503</html>"))
    with pytest.raises(BadAnswer):
        result_of(Answer(502, {}, b"<html>502</html>"))


@given(order=st.permutations(range(4)), lost=st.sets(st.integers(0, 3)))
def test_replies_of_a_batch_are_matched_by_their_ids(order: list[int], lost: set[int]) -> None:
    """Order and completeness are the server's; a reply that is missing is an error of its call alone."""
    sent = [{"jsonrpc": "2.0", "id": number, "result": number * 10} for number in order if number not in lost]
    ends = items_of(Answer(200, {}, json.dumps([*sent, 7, {"id": "0", "result": 1}, {"id": True}]).encode()), 4)
    for number, end in enumerate(ends):
        assert isinstance(end.error, BadAnswer) if number in lost else end.result() == number * 10


@given(id=VALUES, is_error=st.booleans())
def test_an_answer_to_another_call_is_none(id: Any, is_error: bool) -> None:
    """JSON-RPC 2.0, section 5: only the reply with the id of the call is its answer. An error may come without one."""
    end = {"error": {"code": -32600, "message": "no"}} if is_error else {"result": 5}
    try:
        assert result_of(Answer(200, {}, json.dumps({"jsonrpc": "2.0", "id": id, **end}).encode())) == 5
        assert type(id) is int and id == 0 and not is_error
    except NodeError:
        assert is_error and (id is None or (type(id) is int and id == 0))
    except BadAnswer as error:
        assert "the answer to another call" in str(error) and not (type(id) is int and id == 0)


def test_an_answer_without_an_id_and_a_call_with_two_replies_are_none() -> None:
    with pytest.raises(BadAnswer, match="id null, and the call had 0"):
        result_of(Answer(200, {}, b'{"jsonrpc":"2.0","result":5}'))
    twice = [{"id": 1, "result": 7}, {"id": 0, "result": 1}, {"id": 0, "result": 2}]
    first, second, third = items_of(Answer(200, {}, json.dumps([*twice, {"id": 9, "result": 9}]).encode()), 3)
    assert "two replies" in str(first.error) and second.result() == 7
    assert "no reply to this call, and 1 with ids that no call had" in str(third.error)


@given(value=SCALARS | st.sampled_from(["-5", "99999999", "Wed, 21 Oct 2015 07:28:00 GMT", "1e308", "nan", "inf", "3"]))
def test_a_wait_is_sane_or_none(value: Any) -> None:
    """Retry-After of a hostile server never makes a client wait for ever, or less than nothing."""
    found = retry_after_of(value)
    assert found is None or 0 <= found <= RETRY_AFTER_SECONDS_MAX


DATES = ("Fri, 28 Nov 2025 16:00:00 GMT", "Fri, 28 Nov 2025 16:00:30 GMT", "Sat, 29 Nov 2025 16:00:31 GMT")


@pytest.mark.parametrize(
    ("told", "sent", "wait"),
    [
        (DATES[1], DATES[0], 30.0),
        (DATES[0], DATES[1], 0.0),
        (DATES[2], DATES[0], None),
        (DATES[1], None, None),
        (DATES[1], "now", None),
        ("7", DATES[0], 7.0),
        (None, DATES[0], None),
    ],
)
def test_a_date_to_wait_for_counts_from_the_date_of_the_answer(
    told: str | None, sent: str | None, wait: float | None
) -> None:
    """Whatever this machine's clock says; a date that has passed is now, one beyond a day none."""
    headers = {name: value for name, value in (("retry-after", told), ("date", sent)) if value is not None}
    assert asked_wait(headers) == wait
    body = b'{"error":{"code":"SERVICE_TEMPORARILY_UNAVAILABLE","message":"x"}}'
    for answer in (Answer(503, headers, body), Answer(503, headers, b"busy")):
        error = refusal_of(answer)
        assert isinstance(error, Unavailable) and error.retry_after == wait


@given(told=st.text() | st.sampled_from(DATES), sent=st.text() | st.sampled_from(DATES))
def test_no_header_of_a_server_breaks_the_reading_of_a_wait(told: str, sent: str) -> None:
    found = asked_wait({"retry-after": told, "date": sent})
    assert found is None or 0 <= found <= RETRY_AFTER_SECONDS_MAX


@given(text=st.text())
def test_text_of_a_server_cannot_drive_a_terminal(text: str) -> None:
    """ANSI escapes, carriage returns and right-to-left marks are gone."""
    assert plain(text).isprintable() and "\x1b" not in plain("\x1b[2J\x9b31m")
