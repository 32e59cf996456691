"""A node behind the port that composed methods ask: a real chain in this process, with failures put in by the test."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import orjson

from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from tests.devnode.local_node import LocalNode

Interfere = Callable[[str, list[Any]], NodeAnswer | None]


def node_result(value: Any) -> NodeAnswer:
    return replies.judge(json.dumps({"jsonrpc": "2.0", "result": value, "id": 1}).encode())


def node_error(code: int, message: str) -> NodeAnswer:
    return replies.judge(orjson.dumps({"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": 1}))


class PortedNode:
    """interfere: an answer in place of the node's own, or None to let it answer. at_once_max: most calls under way."""

    def __init__(self, local: LocalNode | None = None, interfere: Interfere | None = None) -> None:
        self.local, self.interfere = local, interfere
        self.calls: list[tuple[str, list[Any], int]] = []
        self.at_once = self.at_once_max = 0

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        arguments = orjson.loads(params)
        self.calls.append((method, arguments, timeout_ms))
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        try:
            await asyncio.sleep(0)
            answer = self.interfere(method, arguments) if self.interfere is not None else None
            if answer is not None:
                return answer
            assert self.local is not None, (method, arguments)
            body = self.local.dispatcher.answer(
                orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": arguments})
            )
            assert body is not None
            return replies.judge(body)
        finally:
            self.at_once -= 1

    def asked(self, method: str) -> list[list[Any]]:
        return [arguments for name, arguments, _ in self.calls if name == method]
