"""Answers the methods that no node has, by this service's own handlers.

Implements: interface specification, "JSON-RPC gateway" (methods that no node has).
A shell without rules: it is a `Node` itself, which asks the handler of a method of our own, and the real node else. So
the pipeline bills both alike. The launcher hands the handlers in, so their contexts do not import the gateway.
"""

from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any

from actors.upstream.replies import MethodHandler, Node, NodeAnswer


class OwnMethods:
    """handlers: by method. A handler never raises: a failure is a kind of answer, which outcomes.py prices."""

    def __init__(self, node: Node, handlers: Mapping[str, MethodHandler]) -> None:
        self._node, self._handlers = node, MappingProxyType(dict(handlers))

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        handler = self._handlers.get(method)
        return self._node.call(method, params, timeout_ms) if handler is None else handler(params, timeout_ms)
