"""The nodes in use, each by itself, for callers that need answers of several nodes or two answers of one.

Implements: upstream/README.md, "Nodes that change while the service runs". Pure.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from actors.upstream.replies import Node

_Each = TypeVar("_Each")


class SingleNodes(Sequence[Any]):
    """The nodes at the time of each call; they may change in between."""

    def __init__(self, now: Callable[[], Sequence[Node]]) -> None:
        self._now = now

    @overload
    def __getitem__(self, at: int) -> Node: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Node]: ...

    def __getitem__(self, at: int | slice) -> Node | Sequence[Node]:
        return self._now()[at]

    def __len__(self) -> int:
        return len(self._now())

    def __iter__(self) -> Iterator[Node]:
        return iter(tuple(self._now()))


class OfEachNode(Generic[_Each]):
    """One object for each of these nodes, made when a node is first seen, and kept for as long as it is there."""

    def __init__(self, nodes: Sequence[Node], make: Callable[[Node], _Each]) -> None:
        self._nodes, self._make = nodes, make
        self._made: dict[int, tuple[Node, _Each]] = {}

    def now(self) -> list[_Each]:
        nodes = tuple(self._nodes)
        self._made = {id(node): self._made.get(id(node)) or (node, self._make(node)) for node in nodes}
        return [each for _, each in self._made.values()]
