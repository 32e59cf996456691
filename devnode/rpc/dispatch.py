"""Turns the body of a JSON-RPC request into the body of its reply.

Implements: JSON-RPC 2.0 single calls, batches and notifications; the fields of a reply have the order jsonrpc, result
or error, id. Synchronous: a handler runs in the chain's thread to its end, or, for a send, to the point where it needs
a check of its signatures.
Not here: HTTP (http.py), the methods (a module for each topic), their list (table.py), the check of signatures
(execution/signature_checks.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import orjson

from devnode.rpc.errors import RpcError, invalid_params, invalid_request, method_not_found, parse_error
from devnode.rpc.node import Node

Answer_co = TypeVar("Answer_co", covariant=True)


class Unfinished(msgspec.Struct, Generic[Answer_co], frozen=True):
    """A send that waits for a check of its signatures. Its first half has refused all other mistakes and has changed
    nothing. A struct, because every send makes two.

    Call `finish` once. Its argument is_signed: all signatures are known to be valid. With False, they are invalid
    or not checked, and `finish` checks them itself."""

    raw: bytes  # The transaction.
    finish: Callable[[bool], Answer_co]


Handler = Callable[[Node, list[Any]], Any]


@dataclass(frozen=True, slots=True)
class Method:
    handler: Handler
    least: int  # Number of required parameters.
    most: int  # Number of allowed parameters.


Table = Mapping[str, Method]


class Dispatcher:
    def __init__(self, node: Node, table: Table) -> None:
        self._node, self._table = node, table

    def answer(self, body: bytes) -> bytes | None:
        """Execute a request body; None if it has only notifications."""
        reply = self.begin(body)
        return reply.finish(False) if isinstance(reply, Unfinished) else reply

    def begin(self, body: bytes) -> "bytes | Unfinished[bytes | None] | None":
        """Execute a request body up to a check of signatures: the reply, or an Unfinished that makes it."""
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError:
            return orjson.dumps(_failure(parse_error(), None))
        if isinstance(request, list):
            return self._answer_batch(request)
        reply = self._answer_one(request)
        if isinstance(reply, Unfinished):
            unfinished = reply
            return Unfinished(reply.raw, lambda is_signed: _written(_finished(request, unfinished, is_signed)))
        return _written(reply)

    def _answer_batch(self, requests: list[Any]) -> bytes | None:
        if not requests:
            return orjson.dumps(_failure(invalid_request(), None))
        replies = [reply for request in requests if (reply := self._answer_now(request)) is not None]
        return orjson.dumps(replies) if replies else None

    def _answer_now(self, request: Any) -> dict[str, Any] | None:
        reply = self._answer_one(request)
        return _finished(request, reply, False) if isinstance(reply, Unfinished) else reply

    def _answer_one(self, request: Any) -> dict[str, Any] | Unfinished[Any] | None:
        if not isinstance(request, dict):
            return _failure(invalid_request(), None)
        identifier = request.get("id")
        # An object without a method is an invalid request, not a notification, so it gets an error.
        is_notification = "id" not in request and isinstance(request.get("method"), str)
        try:
            result = self._call(request)
        except RpcError as error:
            return None if is_notification else _failure(error, identifier)
        if isinstance(result, Unfinished):
            return result
        return None if is_notification else _success(result, identifier)

    def _call(self, request: dict[str, Any]) -> Any:
        name = request.get("method")
        if request.get("jsonrpc") != "2.0" or not isinstance(name, str):
            raise invalid_request()
        if isinstance(request.get("id"), (dict, list, bool)):
            raise invalid_request()
        method = self._table.get(name)
        if method is None:
            raise method_not_found(name)
        params = request.get("params")
        if params is None:
            params = []
        elif not isinstance(params, list):
            raise invalid_params("Invalid params: expected a sequence of positional parameters.")
        count = len(params)
        if count < method.least:
            raise invalid_params(f"`params` should have at least {method.least} argument(s)")
        if count > method.most:
            expected = (
                "No parameters were expected"
                if method.most == 0
                else f"Expected from {method.least} to {method.most} parameters."
            )
            raise invalid_params(f"Invalid parameters: {expected}", f'"Got: {count}"')
        return method.handler(self._node, params)


def _finished(request: dict[str, Any], unfinished: Unfinished[Any], is_signed: bool) -> dict[str, Any] | None:
    """Finish a send. Its request has a method, so without an id it is a notification."""
    identifier = request.get("id")
    try:
        result = unfinished.finish(is_signed)
    except RpcError as error:
        return None if "id" not in request else _failure(error, identifier)
    return None if "id" not in request else _success(result, identifier)


def failed(body: bytes, error: RpcError) -> bytes:
    """The answer to a body none of whose calls is executed, for the same reason."""
    asked = orjson.loads(body)
    if isinstance(asked, list):
        return orjson.dumps([_failure(error, call.get("id") if isinstance(call, dict) else None) for call in asked])
    return orjson.dumps(_failure(error, asked.get("id")))


def _written(reply: dict[str, Any] | None) -> bytes | None:
    return None if reply is None else orjson.dumps(reply)


def _success(result: Any, identifier: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "result": result, "id": identifier}


def _failure(error: RpcError, identifier: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "error": error.body(), "id": identifier}
