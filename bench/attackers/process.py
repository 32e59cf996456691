"""Runs one attacker in a process of its own, from the side of the measurement."""

import json

from bench.attackers.target import Target
from bench.children import Child


class AttackerProcess:
    """Ready to attack once it is made; `begin` lets it, `end` waits until it is over."""

    def __init__(self, name: str, target: Target) -> None:
        self._child = Child("bench.attackers", name)
        self._child.tell(target.text())
        self._child.hear()

    def begin(self) -> None:
        self._child.tell("begin")

    def end(self) -> dict[str, int]:
        """Return what the attacker saw, counted."""
        try:
            found: dict[str, int] = json.loads(self._child.hear())
        finally:
            self._child.close()
        return found
