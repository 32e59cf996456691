"""Chooses the machine of a cluster on which an actor starts, and which actor moves to a machine that has too few.

Implements: design, "Owners, for every kind of actor". Pure.
"""

import zlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from typing import Any

NODE_LABEL = "ray.io/node-id"  # Ray gives it to each node.
_HEAD_RESOURCE = "node:__internal_head__"  # Ray gives it only to the head's node.


def seat(name: str, nodes: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the id of the node that an actor starts on. None: any.

    nodes: as of `ray.nodes()`. The workers take turns by the number at the end of the name, so that the actors of a
    kind are apart; each kind begins at another worker. The head is left to Ray's own processes where there is a worker.
    """
    workers = _workers(nodes)
    if not workers:
        return None
    kind = kind_of(name)
    number = int(name[len(kind) :].lstrip("-") or 0)  # The first actor of a kind may have no number.
    return workers[(zlib.crc32(kind.encode()) + number) % len(workers)]


def kind_of(name: str) -> str:
    """Return the name of an actor without its number."""
    return name.rstrip("0123456789").rstrip("-")


def next_best(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return where Ray starts an actor whose node is lost: on a worker, and else on any node."""
    heads = ",".join(str(node["NodeID"]) for node in nodes if node["Alive"] and _HEAD_RESOURCE in node["Resources"])
    return [{"label_selector": {NODE_LABEL: f"!in({heads})"}}] * bool(heads) + [{"label_selector": {}}]


def next_move(
    seats: Mapping[str, str], nodes: Iterable[Mapping[str, Any]], stay: Container[str] = ()
) -> tuple[str, str] | None:
    """Return an actor that shall move, and the id of the worker it moves to. None: the actors are well spread.
    stay: names of actors that are left where they are.

    seats: the id of the node of each actor, by its name. First, none is on the head; then the actors of a kind differ
    by one at most from worker to worker; then all actors together do so, as far as moves of one actor reach that.
    Whoever makes each of these moves, and asks again, comes to an end.
    """
    workers = _workers(nodes)
    if not workers:
        return None
    of_kind = Counter((kind_of(name), node) for name, node in seats.items())
    of_all = Counter(seats.values())

    def load(kind: str, node: str) -> tuple[int, int, str]:
        return of_kind[kind, node], of_all[node], node

    for name, node in sorted(seats.items()):
        if node not in workers and name not in stay:
            return name, min(workers, key=lambda worker: load(kind_of(name), worker))
    for kind in sorted({kind for kind, _ in of_kind}):
        fewest, most = (extreme(workers, key=lambda worker: load(kind, worker)) for extreme in (min, max))
        there = [name for name, node in seats.items() if node == most and kind_of(name) == kind and name not in stay]
        if there and of_kind[kind, most] - of_kind[kind, fewest] > 1:
            return max(there), fewest
    fewest, most = (extreme(workers, key=lambda worker: (of_all[worker], worker)) for extreme in (min, max))
    if of_all[most] - of_all[fewest] > 1:
        # The last names first: owners of accounts, whose moves take longest, are the first ones.
        for name in sorted((name for name, node in seats.items() if node == most), reverse=True):
            if name not in stay and of_kind[kind_of(name), most] > of_kind[kind_of(name), fewest]:
                return name, fewest
    return None


def _workers(nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(
        str(node["NodeID"]) for node in nodes if node["Alive"] and _HEAD_RESOURCE not in node.get("Resources", {})
    )
