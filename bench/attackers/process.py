"""Runs one attacker in a process of its own, from the side of the measurement."""

import json

from bench.attackers.target import Target
from bench.children import Child


class AttackerProcess:
    """An attacker process, ready once it is made; `begin` starts the attack, `end` waits for its end."""

    def __init__(self, name: str, target: Target) -> None:
        self._child = Child("bench.attackers", name)
        self._child.tell(target.text())
        self._child.hear()

    def begin(self) -> None:
        self._child.tell("begin")

    def end(self) -> dict[str, int]:
        """Return the attacker's counts."""
        try:
            found: dict[str, int] = json.loads(self._child.hear())
        finally:
            self._child.close()
        return found
