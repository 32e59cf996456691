"""Chooses the machine of a cluster on which an actor starts.

Implements: design, "Owners, for every kind of actor". Pure.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

_HEAD_RESOURCE = "node:__internal_head__"  # Ray gives it only to the head's node.


def seat(name: str, nodes: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the node that an actor starts on. None: any.

    nodes: as of `ray.nodes()`. The workers take turns by the number at the end of the name, so that the actors of a
    kind are apart; each kind begins at another worker. The head is left to Ray's own processes where there is a worker.
    """
    workers = sorted(
        str(node["NodeID"]) for node in nodes if node["Alive"] and _HEAD_RESOURCE not in node.get("Resources", {})
    )
    if not workers:
        return None
    kind = name.rstrip("0123456789")
    number = int(name[len(kind) :] or 0)  # The first actor of a kind may have no number.
    return workers[(zlib.crc32(kind.rstrip("-").encode()) + number) % len(workers)]
