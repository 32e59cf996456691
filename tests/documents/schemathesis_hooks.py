"""Contracts of this service that no JSON schema can say, for schemathesis; schemathesis.toml loads this file.

A failure is dropped only if a row of CONTRACTS describes it: kind, operations, status and text of the answer. Every
other failure stays. Not here: rules that a schema can say; they belong into actors/documents.
"""

import base64
import json
import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import base58
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.openapi.checks import RejectedPositiveData

from actors.units import base58_text

_pubkeys = st.binary(min_size=32, max_size=32).map(base58_text)
schemathesis.openapi.format("solana-pubkey", _pubkeys)
schemathesis.openapi.format("solana-pubkeys", st.lists(_pubkeys, min_size=1, max_size=3).map(",".join))
schemathesis.openapi.format("solana-signature", st.binary(min_size=64, max_size=64).map(base58_text))
schemathesis.openapi.format(
    "solana-transaction", st.binary(min_size=134, max_size=300).map(lambda raw: base64.b64encode(raw).decode())
)
# Deliveries go to this machine: no stranger gets any, and a product in development accepts the URL.
schemathesis.openapi.format("webhook-url", st.from_regex(r"https://localhost/[a-z0-9]{1,8}", fullmatch=True))

_JSON_RPC = r"POST /(rpc|mcp|relay/.+)?"
_BASE58 = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,88}")


class Contract(NamedTuple):
    """Describes answers that are correct though schemathesis calls them failures.

    operations: pattern of "METHOD /path". text: pattern within the body of the answer.
    """

    kind: type[Failure]
    operations: str
    status: int
    text: str


CONTRACTS = (
    # 412: the request's own X-Max-Credits is below its price.
    Contract(RejectedPositiveData, r"POST /(rpc|mcp|(bulk|relay)/.+)?|GET /relay/.+", 412, '"MAX_CREDITS_EXCEEDED"'),
    # The same of an export of signals; and its from and to are dates of the calendar, in order, and not too old.
    Contract(RejectedPositiveData, "GET /signals/history", 412, '"MAX_CREDITS_EXCEEDED"'),
    Contract(RejectedPositiveData, "GET /signals/history", 400, "invalid request: (from|to|cursor|signals before)"),
    # An Idempotency-Key belongs to one call, so it cannot come with a batch.
    Contract(RejectedPositiveData, r"POST /(rpc|mcp)?", 400, "an Idempotency-Key belongs to one call"),
    # from and to are dates of the calendar. A cursor takes the place of an offset.
    Contract(RejectedPositiveData, "GET /account/ledger", 400, r"invalid request: ((from|to) must|a cursor takes) "),
    # from and to are dates of the calendar, of 1970 to 2199, in order, and at most 92 days apart (31 by hour).
    Contract(RejectedPositiveData, "GET /account/usage", 400, r"invalid request: (from|to|from and to) (must|may) "),
    # The transaction must be whole base64, and hold one payment to the deposit wallet.
    Contract(RejectedPositiveData, "POST /x402/settle", 400, "invalid_exact_svm_payload_|transaction is not base64"),
    # A webhook's host must be on the public network, whatever its name resolves to at the moment.
    Contract(RejectedPositiveData, "POST /webhooks", 400, "invalid request: url: "),
    # An account has at most 50 webhooks, with 500 wallets.
    Contract(RejectedPositiveData, "POST /webhooks", 400, "an account has at most 50|name at most 500 wallets"),
    # filter_value of my_account is the caller's own key.
    Contract(RejectedPositiveData, "POST /webhooks", 400, "filter_value of my_account is your own"),
    # A webhook can change the filters of its own type only.
    Contract(RejectedPositiveData, "PATCH /webhooks/.+", 400, r"is for filter_type (lifecycle|signal)"),
    # Event ids belong to one webhook.
    Contract(RejectedPositiveData, "(GET|POST) /webhooks/.+", 400, r"must be (an )?event ids? of this webhook"),
    # The times of a replay are in order.
    Contract(RejectedPositiveData, "POST /webhooks/.+/replay", 400, "from must not be after to"),
)


@schemathesis.hook
def filter_failure(context: Any, failure: Failure, case: Any, response: Any) -> bool:
    """Keep a failure that no contract describes."""
    if isinstance(failure, AcceptedNegativeData):
        if re.fullmatch(_JSON_RPC, case.operation.label) is None or response.status_code not in (200, 202):
            return True
        # Calls that move no money ignore their Idempotency-Key, whatever it is.
        is_about_key = "parameter `Idempotency-Key` in header" in failure.message
        # Errors of JSON-RPC have HTTP 200, also where the request violates the document.
        return not (is_about_key or (response.status_code == 200 and _is_json_rpc_error(response.text)))
    # Base58 text of the right length can decode to another number of bytes.
    if isinstance(failure, RejectedPositiveData) and response.status_code == 400 and "base58" in response.text:
        return not _has_odd_base58(response.request)
    return not any(
        isinstance(failure, row.kind)
        and response.status_code == row.status
        and re.fullmatch(row.operations, case.operation.label)
        and re.search(row.text, response.text)
        for row in CONTRACTS
    )


def _has_odd_base58(request: Any) -> bool:
    """Whether a text of the request looks like a key or a signature and is neither."""
    body = request.body.decode("utf-8", "replace") if isinstance(request.body, bytes) else request.body
    texts = _BASE58.findall(f"{unquote(request.url)} {body}")
    return any(len(base58.b58decode(text)) not in (32, 64) for text in texts)


def _is_json_rpc_error(text: str) -> bool:
    """Whether this is an error object of JSON-RPC, or a batch of nothing else."""
    answer = json.loads(text)
    replies = answer if isinstance(answer, list) and answer else [answer]
    return all(
        isinstance(reply, dict)
        and reply.get("jsonrpc") == "2.0"
        and "result" not in reply
        and isinstance(reply.get("error"), dict)
        and isinstance(reply["error"].get("code"), int)
        and isinstance(reply["error"].get("message"), str)
        for reply in replies
    )


_asked_without: set[str] = set()


@schemathesis.check
def credentials_are_needed(context: Any, response: Any, case: Any) -> None:
    """A request that an account's credential made succeed is 402 without one and 401 with a wrong one."""
    operation = case.operation
    schemes = operation.definition.raw.get("security", [])
    is_answered = response.status_code < 300 and response.request.method == operation.method.upper()
    if not schemes or {} in schemes or not is_answered or operation.label in _asked_without:
        return
    declared = operation.schema.raw_schema["components"]["securitySchemes"].values()
    names = {scheme.get("name", "Authorization").lower() for scheme in declared}
    bare = response.request.copy()
    for name in list(bare.headers):
        if name.lower() in names:
            del bare.headers[name]
    parts = urlsplit(bare.url)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in names]
    bare.url = parts._replace(query=urlencode(query)).geturl()
    with requests.Session() as session:
        for headers, status in (({}, 402), ({"X-Api-Key": "wrong"}, 401)):
            bare.headers.update(headers)
            answer = session.send(bare, timeout=30, verify=response.verify)
            assert answer.status_code == status, f"{answer.status_code}, wanted {status}: {answer.text[:200]}"
    _asked_without.add(operation.label)
