"""Converts the bytes of an HTTP answer to its value or its error.

Implements: README.md of the project, "Errors"; decisions, `data.source` and `data.constant`: an error of the gateway
itself names its source, any other error inside HTTP 200 is the node's. Pure.
Not here: sending (client.py), asking again (retries.py).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from ledger_gateway.errors import BadAnswer, GatewayError, LedgerGatewayError, NodeError, Unavailable, class_of

RETRY_AFTER_SECONDS_MAX = 86_400.0  # A longer wait is implausible, and counts as "do not retry".
CALL_ID = 0  # JSON-RPC id of a call that is sent alone.
_TEXT_MAX = 500  # Characters of a server's text that an error contains.
_UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, as it arrived. headers: with lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Figures:
    """The account's figures from the last answer; None: the answer did not have it."""

    credits_remaining: int | None = None
    credits_low: bool = False
    requests_per_second: int | None = None
    requests_left: int | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class BatchItem:
    """The end of one call of a batch."""

    value: Any = None
    error: LedgerGatewayError | None = None

    def result(self) -> Any:
        """Return the node's result. Raises the error of this call."""
        if self.error is not None:
            raise self.error
        return self.value


def figures_of(headers: Mapping[str, str]) -> Figures:
    return Figures(
        _whole(headers.get("x-credits-remaining")),
        headers.get("x-credits-low", "").lower() == "true",
        _whole(headers.get("x-ratelimit-limit")),
        _whole(headers.get("x-ratelimit-remaining")),
        _text(headers.get("x-request-id")) or None,
    )


def document_of(answer: Answer) -> Any:
    """Return the JSON of a path that is no JSON-RPC. Raises GatewayError for a refusal, BadAnswer for anything else."""
    value = _json(answer)
    if answer.status < 300:
        return value
    raise _refusal(value, answer)


def text_of(answer: Answer) -> str:
    """Return a page that is no JSON. Raises GatewayError for a refusal, BadAnswer for anything else."""
    if answer.status < 300:
        return answer.body.decode("utf-8", "replace")
    raise _refusal(_json(answer), answer)


def result_of(answer: Answer) -> Any:
    """Return the result of a single JSON-RPC call, whose id is CALL_ID. Raises NodeError, GatewayError or BadAnswer."""
    reply = _json(answer)
    if isinstance(reply, dict) and ("id" in reply or "result" in reply):
        number = reply.get("id")
        # A request that cannot be read is refused under the id null (JSON-RPC 2.0, section 5).
        is_refusal = number is None and "result" not in reply
        if not is_refusal and (type(number) is not int or number != CALL_ID):
            told = f"the answer has the id {_text(number) or 'null'}, and the call had {CALL_ID}"
            raise BadAnswer(f"{told}: it is the answer to another call", answer.status)
    return item_of(reply, answer, _whole(answer.headers.get("x-credits-cost"))).result()


def items_of(answer: Answer, count: int) -> list[BatchItem]:
    """Return the ends of a batch's calls, whose ids are 0 to count-1, in their order; the replies may have another one.

    A call without a reply, or with two, ends in BadAnswer. Raises GatewayError for a refusal of the whole batch.
    """
    value = _json(answer)
    if not isinstance(value, list):
        raise _refusal(value, answer)
    found: dict[int, BatchItem] = {}
    strays = 0
    for reply in value:
        number = reply.get("id") if isinstance(reply, dict) else None
        if type(number) is not int or not 0 <= number < count:
            strays += 1
        elif number in found:
            twice = BadAnswer(f"the batch's answer has two replies to the call with id {number}", answer.status)
            found[number] = BatchItem(error=twice)
        else:
            found[number] = item_of(reply, answer)
    told = f", and {strays} with ids that no call had" if strays else ""
    lost = BatchItem(error=BadAnswer(f"the batch's answer has no reply to this call{told}", answer.status))
    return [found.get(number, lost) for number in range(count)]


def item_of(reply: Any, answer: Answer, cost: int | None = None) -> BatchItem:
    """Return the end that one JSON-RPC reply means. cost: the credits of this reply alone, where the answer tells."""
    if not isinstance(reply, dict):
        return BatchItem(error=BadAnswer("the answer is no JSON-RPC reply", answer.status))
    error = reply.get("error")
    if error is not None:
        data = error.get("data") if isinstance(error, dict) else None
        is_gateways = isinstance(data, dict) and data.get("source") == "gateway"
        code = error.get("code") if isinstance(error, dict) else None
        if answer.status == 200 and not is_gateways and type(code) is int:
            assert isinstance(error, dict)
            return BatchItem(error=NodeError(code, _text(error.get("message")), data, _request_id(answer), cost))
        return BatchItem(error=_refusal(reply, answer))
    if answer.status >= 300 or "result" not in reply:
        return BatchItem(error=_refusal(reply, answer))
    return BatchItem(reply["result"])


def refusal_of(answer: Answer) -> LedgerGatewayError:
    """Return the error of an answer that is known to be a refusal, such as that of a WebSocket's handshake."""
    try:
        return _refusal(_json(answer), answer)
    except LedgerGatewayError as error:
        return error


def _json(answer: Answer) -> Any:
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        pass
    if answer.status == _UNAVAILABLE:  # From a proxy without a replica: nothing was carried out.
        after = asked_wait(answer.headers)
        raise Unavailable("", answer.status, "no replica of the gateway is ready", retry_after=after)
    raise BadAnswer("the answer is not JSON", answer.status)


def _refusal(value: Any, answer: Answer) -> LedgerGatewayError:
    error = value.get("error") if isinstance(value, dict) else None
    fields: dict[str, Any] = error if isinstance(error, dict) else {}
    data: dict[str, Any] = fields["data"] if isinstance(fields.get("data"), dict) else {}
    code = fields.get("code")
    # Beside the code in plain errors, in the data of JSON-RPC errors; the code is the name in those of older gateways.
    constant = next((each for each in (fields.get("constant"), data.get("constant")) if isinstance(each, str)), code)
    told = fields.get("message", error if isinstance(error, str) else None)
    if answer.status < 300 and not fields:
        return BadAnswer("the answer has neither a result nor an error", answer.status)
    if not told and not isinstance(constant, str):
        return BadAnswer("a refusal without a reason", answer.status)
    name = _text(constant) if isinstance(constant, str) else ""
    waits = [asked_wait(answer.headers), retry_after_of(data.get("retry_after_secs"))]
    told_waits = [wait for wait in waits if wait is not None]
    request_id = fields.get("requestId") or data.get("requestId")
    return class_of(name, answer.status)(
        name,
        answer.status,
        _text(told),
        code=code if type(code) is int else None,
        retry_after=max(told_waits) if told_waits else None,
        request_id=_text(request_id) if isinstance(request_id, str) else _request_id(answer),
        data=data,
    )


def retry_after_of(value: Any) -> float | None:
    """Return seconds, or None for what is none: a date, a negative number, more than a day."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= RETRY_AFTER_SECONDS_MAX else None


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After, or None.

    A proxy may send a date (RFC 9110, section 10.2.3): it is compared with the date of the answer, because this
    machine's clock may differ."""
    told = headers.get("retry-after")
    try:
        until, sent = parsedate_to_datetime(told or ""), parsedate_to_datetime(headers.get("date", ""))
        return retry_after_of(max((until - sent).total_seconds(), 0.0))
    except (ValueError, TypeError, OverflowError):
        return retry_after_of(told)


def decode(value: Any, kind: type[Any], answer: Answer) -> Any:
    """Return JSON as a typed record; unknown fields are left out. Raises BadAnswer."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise BadAnswer(f"the answer is not as documented: {_text(str(error))}", answer.status) from None


def plain(text: str) -> str:
    """Return text of a server without control characters, which could drive a terminal, and without reordering ones."""
    return "".join(letter if letter.isprintable() else " " if letter in "\n\t\r" else "�" for letter in text)


def told_errors(items: Sequence[BatchItem]) -> list[GatewayError]:
    return [item.error for item in items if isinstance(item.error, GatewayError)]


def _text(value: Any) -> str:
    return (
        plain(value[:_TEXT_MAX]) if isinstance(value, str) else "" if value is None else plain(repr(value)[:_TEXT_MAX])
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 18 else None


def _request_id(answer: Answer) -> str | None:
    return _text(answer.headers.get("x-request-id")) or None
