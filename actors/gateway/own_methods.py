"""Methods that this service answers itself, beside those that a node answers.

Implements: interface specification, "JSON-RPC gateway" (methods that no node has).
A shell without rules: a table from name to handler over a `Node`, and itself one, so that the pipeline bills both
kinds alike. Handlers are handed in as ports, so the contexts that have them never meet the doors.
"""

from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any

from actors.upstream.replies import MethodHandler, Node, NodeAnswer


class OwnMethods:
    """A handler raises nothing: what goes wrong is a kind of answer, and outcomes.py says what that costs."""

    def __init__(self, node: Node, handlers: Mapping[str, MethodHandler]) -> None:
        self._node, self._handlers = node, MappingProxyType(dict(handlers))

    def call(self, method: str, params: bytes, timeout_ms: int) -> Coroutine[Any, Any, NodeAnswer]:
        handler = self._handlers.get(method)
        return self._node.call(method, params, timeout_ms) if handler is None else handler(params, timeout_ms)
