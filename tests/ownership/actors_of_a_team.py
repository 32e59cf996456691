"""Actors of a team in one process, with Ray's part played by a list of names."""

from typing import Any

import pytest

from actors import hosting
from actors.ownership import spreading
from tests.ownership.memory_store import MemoryOwnership
from tests.ownership.test_team import TEAM


class TeamActors:
    """silent: those that do not answer. steps: of moves, in order. kept: those that were not ended, the last time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.silent = MemoryOwnership(), set[str]()
        self.placed: list[str] = []
        self.running = set[str]()
        self.kept: set[str] | None = None
        self.steps: list[tuple[str, str]] = []
        self.headless = False  # Ray's head is away: no actor is found by its name.
        monkeypatch.setattr(hosting, "remove_others", self._remove_others)
        monkeypatch.setattr(hosting, "names", lambda prefix: sorted(self.running) if prefix == TEAM.name_prefix else [])
        monkeypatch.setattr(hosting, "ask", self._ask)
        monkeypatch.setattr(spreading, "opened_ownership", lambda *_: self)
        monkeypatch.setattr(spreading, "_AGAIN_SECONDS", 0.0)

    async def __aenter__(self) -> MemoryOwnership:
        return self.store

    async def __aexit__(self, *_: Any) -> None: ...

    def place(self, name: str) -> None:
        self.placed.append(name)
        self.running.add(name)

    def _remove_others(self, prefix: str, names: set[str]) -> None:
        assert prefix == TEAM.name_prefix
        assert names >= {owned.holder for owned in self.store.holders_now(TEAM.kind).values()}, (
            "its slices are nobody's"
        )
        self.running &= names
        self.kept = names

    async def _ask(self, reference: Any, method: str, *arguments: Any, wait_seconds: float) -> Any:
        name = reference._name
        if name in self.silent:
            raise hosting.ActorUnreachable(method) from TimeoutError()
        if name not in self.running:
            raise hosting.ActorUnreachable(method)
        if method == "health":
            return {}
        self.steps.append((method, name))
        if method == "take":
            await self.store.claim(TEAM.kind, arguments[0], name)
        return None

    def refer(self, name: str) -> hosting.Reference:
        return hosting.Reference(name, find=self._find)

    def _find(self, name: str) -> object:
        if self.headless:
            raise TimeoutError
        if name not in self.running:
            raise hosting.ActorUnreachable(name)
        return object()

    async def shares(self) -> dict[str, int]:
        return await spreading.held_by(self.store, TEAM)
