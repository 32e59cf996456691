"""Several block engines as one: the regions of one network, each with a rate of its own.

Implements: interface, "Bundle relay" and sendAndConfirm ("Legs": a bundle-relay leg). A shell. A request goes to a
region that answers and may be asked now; to the next one where that did not get it. Not here: one engine (engine.py).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import count

from actors.addresses import TIP_ACCOUNTS
from actors.clock import Clock
from actors.sends.engine import BlockEngineClient, EngineAnswer, EngineAway, EngineCall, EngineUnavailable

logger = logging.getLogger(__name__)

_BUNDLES_MAX = 20_000  # Ids kept, the newest; five minutes at 60 a second.
_BUSY = 429
_KEPT_HERE = frozenset({"getTipAccounts", "tipFloor"})  # Answered from the cache; every region gives the same answer.


class EngineRegions:
    """engines: in the order of the settings; at least one."""

    def __init__(self, engines: Sequence[BlockEngineClient], clock: Clock) -> None:
        assert engines
        self._engines, self._clock = engines, clock
        self._turns = count()
        self._region_of: OrderedDict[str, BlockEngineClient] = OrderedDict()  # By bundle id.

    @property
    def known_tip_accounts(self) -> tuple[str, ...]:
        """Return the accounts that an engine named, or the known ones."""
        told = (engine.known_tip_accounts for engine in self._engines)
        return next((accounts for accounts in told if accounts != TIP_ACCOUNTS), TIP_ACCOUNTS)

    @property
    def reachable(self) -> bool:
        return any(engine.reachable for engine in self._engines)

    @property
    def requests_per_second(self) -> float:
        """Return this racer's rate at all engines together."""
        return sum(engine.leased_per_second for engine in self._engines)

    async def close(self) -> None:
        await asyncio.gather(*(engine.close() for engine in self._engines))

    async def watch(self) -> None:
        """Watch until cancelled whether each engine answers."""
        await asyncio.gather(*(engine.watch() for engine in self._engines))

    async def send_transaction(self, raw: bytes, timeout_ms: int) -> EngineAnswer:
        """Send to the first region that takes it; a race does not wait for a rate. Raises EngineUnavailable."""
        give_up_at = self._clock.monotonic() + timeout_ms / 1000
        refused: EngineUnavailable | EngineAnswer | None = None
        for engine in self._in_order():
            left_ms = round((give_up_at - self._clock.monotonic()) * 1000)
            if left_ms <= 0:
                break
            try:
                answer = await engine.send_transaction(raw, left_ms)
            except EngineUnavailable as error:
                if error.sent:
                    raise
                refused = refused or error
                continue
            if answer.status != _BUSY and answer.status < 500:
                return answer
            refused = answer  # The same signed bytes may go to the next one, whatever happened to this attempt.
        if isinstance(refused, EngineAnswer):
            return refused
        raise refused or EngineUnavailable("the block engine did not answer: TimeoutError", late=True)

    async def answer(self, call: EngineCall) -> EngineAnswer | EngineAway:
        """Answer a customer's question. Raises nothing.

        Where no region may be asked now, it waits for the rate of one, for half of its time at most.
        """
        if call.method in _KEPT_HERE:
            return await next(iter(self._reachable_first())).answer(call)
        engines = list(self._in_order(call.bundle_id))
        found: EngineAnswer | EngineAway = EngineAway("no block engine is configured")
        for engine in engines:
            found = await engine.answer(call, wait_ms=0)
            if not _goes_on(call, found):
                return self._remembered(call, engine, found)
        busy = next((engine for engine in engines if engine.leased_per_second > 0 and engine.reachable), None)
        if busy is None:
            return found
        return self._remembered(call, busy, await busy.answer(call))

    def _remembered(
        self, call: EngineCall, engine: BlockEngineClient, found: EngineAnswer | EngineAway
    ) -> EngineAnswer | EngineAway:
        """A region knows the state of its own bundles alone while they are in flight."""
        if call.bundle_id and isinstance(found, EngineAnswer) and call.sends:
            self._region_of[call.bundle_id] = engine
            while len(self._region_of) > _BUNDLES_MAX:
                self._region_of.popitem(last=False)
        return found

    def _in_order(self, bundle_id: str = "") -> Iterator[BlockEngineClient]:
        """Those that answer before those that do not; of equals the one that may be asked soonest, and else in turn."""
        known = self._region_of.get(bundle_id)
        turn, size = next(self._turns), len(self._engines)
        now = self._clock.monotonic()
        ranked = [
            (engine is not known, not engine.reachable, engine.wait_seconds(now), (place - turn) % size, place)
            for place, engine in enumerate(self._engines)
        ]
        return (self._engines[row[-1]] for row in sorted(ranked))

    def _reachable_first(self) -> list[BlockEngineClient]:
        return sorted(self._engines, key=lambda engine: not engine.reachable)


def _goes_on(call: EngineCall, found: EngineAnswer | EngineAway) -> bool:
    """Return whether the next region may be asked: this one did not answer, and certainly takes no bundle for it."""
    if isinstance(found, EngineAnswer):
        return found.status == _BUSY or (found.status >= 500 and not call.sends)
    return not found.late and not (found.may_have_it and call.sends)
