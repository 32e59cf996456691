"""/operator/nodes: health of the nodes; weights and drains changed, nodes added and removed while the product runs.

Implements: decisions, "The operators' page". A shell: NodeDesk (ports.py) carries the commands out and words refusals.
A node's URL may be a key, so no answer and no log contains it.
"""

import logging

from actors.errors import Refusal
from actors.operators import bodies
from actors.operators.ports import NodesAnswer, OperatorParts
from actors.pages import Page, PageAnswer, PageRequest, json_answer

logger = logging.getLogger(__name__)

PATH = "/operator/nodes"


class NodePages:
    def __init__(self, parts: OperatorParts) -> None:
        self._desk = parts.nodes

    def pages(self) -> list[Page]:
        one = f"{PATH}/{{id}}"
        return [
            Page("GET", PATH, self._list, for_operators=True),
            Page("POST", PATH, self._add, for_operators=True),
            Page("PATCH", one, self._change, for_operators=True),
            Page("DELETE", one, self._remove, for_operators=True),
        ]

    async def _list(self, request: PageRequest) -> PageAnswer | Refusal:
        del request
        return _told(await self._desk.listing())

    async def _add(self, request: PageRequest) -> PageAnswer | Refusal:
        wanted = bodies.decoded(request.body, bodies.AddedNode)
        if isinstance(wanted, Refusal):
            return wanted
        answer = await self._desk.add(
            *(wanted.id, wanted.url, wanted.ws_url, wanted.weight, wanted.roles, wanted.unreachable)
        )
        return _noted(answer, f"{wanted.id} added with weight {wanted.weight}")

    async def _change(self, request: PageRequest) -> PageAnswer | Refusal:
        node_id, wanted = request.parameters["id"], bodies.decoded(request.body, bodies.ChangedNode)
        if isinstance(wanted, Refusal):
            return wanted
        answer = await self._desk.change(node_id, wanted.weight, wanted.drained, wanted.unreachable)
        return _noted(answer, f"{node_id} changed: weight {wanted.weight}, drained {wanted.drained}")

    async def _remove(self, request: PageRequest) -> PageAnswer | Refusal:
        node_id = request.parameters["id"]
        return _noted(await self._desk.remove(node_id), f"{node_id} removed")


def _noted(answer: NodesAnswer, what: str) -> PageAnswer:
    if answer.http == 200:
        logger.warning("operator: node %s", what)
    return _told(answer)


def _told(answer: NodesAnswer) -> PageAnswer:
    if answer.http == 200:
        return json_answer({"ok": True, **answer.body})
    return json_answer({"error": {"source": "gateway", **answer.body}}, answer.http)
