"""The store of ownership in memory: what PostgreSQL keeps, in one process."""

from collections.abc import Mapping, Sequence

from actors.ownership.api import Commanded, Owned, SliceLost


class MemoryOwnership:
    def __init__(self) -> None:
        self._epoch = 0
        self._owned: dict[str, dict[int, Owned]] = {}
        self._commands: dict[str, tuple[int, int]] = {}

    async def claim(self, kind: str, slices: Sequence[int], holder: str) -> int:
        return self.claim_now(kind, slices, holder)

    def claim_now(self, kind: str, slices: Sequence[int], holder: str) -> int:
        self._epoch += 1
        self._owned.setdefault(kind, {}).update({number: Owned(holder, self._epoch) for number in slices})
        return self._epoch

    async def holders(self, kind: str) -> Mapping[int, Owned]:
        return self.holders_now(kind)

    def holders_now(self, kind: str) -> Mapping[int, Owned]:
        return dict(self._owned.get(kind, {}))

    async def wanted(self, kind: str, setting: int) -> int:
        wanted, seen = self._commands.get(kind, (setting, setting))
        if seen != setting:
            del self._commands[kind]
            return setting
        return wanted

    async def commanded(self, kind: str) -> Commanded | None:
        command = self._commands.get(kind)
        return None if command is None else Commanded(*command)

    async def set_wanted(self, kind: str, wanted: int, setting: int) -> None:
        self._commands[kind] = (wanted, setting)

    def epoch(self, kind: str, slice_number: int) -> int | None:
        owned = self._owned.get(kind, {}).get(slice_number)
        return None if owned is None else owned.epoch

    def check(self, kind: str, slice_number: int, epoch: int) -> None:
        """As ownership_check() in functions.sql."""
        if self.epoch(kind, slice_number) != epoch:
            raise SliceLost(f"slice {slice_number} of {kind}")
