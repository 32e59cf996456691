"""The racers as one replica reaches them: each call goes to the racer that holds the slice of its signature.

Implements: design, "Owners, for every kind of actor" (replicas ask again when refused). A shell. Who holds what is read
from the store of ownership: every few seconds, and whenever a racer refuses a call as moved or does not answer.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

from actors import hosting
from actors.actor_client import ActorClient
from actors.addresses import TIP_ACCOUNTS
from actors.background import Background
from actors.clock import Clock
from actors.methods.transactions import whole_transaction
from actors.ownership.api import Owned, OwnershipUnavailable
from actors.sends.api import RaceRefused, RaceResult, RacerUnreachable, SliceMoved, WantedRace
from actors.sends.engine import EngineAnswer, EngineAway, EngineCall
from actors.sends.slices import slice_of
from actors.sends.statistics import landing_document

logger = logging.getLogger(__name__)

_RACE_SECONDS = 28.0  # A window of 24 s and the work around it; below the 30 s timeout of its class.
_STATUS_SECONDS = 4.0
_HAS_SENT_SECONDS = 1.0  # Short, because a send waits for it, and its blockhash ages.
_WAY_SECONDS = 0.5  # Time to the racer and back, in addition to the engine's time for a request.
_LOOK_SECONDS = 5.0  # Interval of reading who holds which slice; a waiting call checks it too.
_MOVING_SECONDS = 0.05  # Interval of retries while a slice is given but not taken yet.

ReadHolders = Callable[[], Awaitable[Mapping[int, Owned]]]


class SendsClient:
    """read_holders: of all slices; raises OwnershipUnavailable. refer: gives a reference to the actor of a name."""

    def __init__(
        self, read_holders: ReadHolders, clock: Clock, refer: Callable[[str], Any] = hosting.Reference
    ) -> None:
        self._read_holders, self._clock, self._refer = read_holders, clock, refer
        self._holders: dict[int, str] = {}
        self._racers: dict[str, ActorClient] = {}
        self._references: dict[str, Any] = {}
        self._reading: asyncio.Task[None] | None = None
        self._turns = count()
        self._background = Background(logger, "reading the holders of sends failed")

    async def start(self) -> None:
        """Learn who holds what, and follow it until `stop`."""
        await self._look()
        self._background.repeat(self._look, _LOOK_SECONDS, self._pause)

    async def stop(self) -> None:
        await self._background.stop()
        await asyncio.gather(*(racer.stop() for racer in self._racers.values()))

    # --- races

    async def race(self, wanted: WantedRace) -> RaceResult | RaceRefused:
        """Raises RacerUnreachable: then whether a racer has the call is not known."""
        signature = bytes(whole_transaction(wanted.transaction).signatures[0])
        found, in_doubt = await self._ask_owner(signature, "race", _RACE_SECONDS, wanted)
        if in_doubt and isinstance(found, RaceRefused):
            raise RacerUnreachable(f"the slice moved meanwhile, and its next racer refused: {found.reason}")
        assert isinstance(found, RaceResult | RaceRefused), found
        return found

    async def status(self, signature: bytes, pubkey: bytes) -> RaceResult | None:
        """Raises RacerUnreachable."""
        found, _ = await self._ask_owner(signature, "status", _STATUS_SECONDS, signature, pubkey)
        assert found is None or isinstance(found, RaceResult), found
        return found

    async def has_sent(self, signature: bytes) -> bool:
        """Return whether a race has sent it, in its present window or before it landed. Raises RacerUnreachable."""
        found, _ = await self._ask_owner(signature, "has_sent", _HAS_SENT_SECONDS, signature)
        return bool(found)

    async def _ask_owner(self, signature: bytes, method: str, seconds: float, *arguments: Any) -> tuple[Any, bool]:
        """Ask the racer that holds the slice, and the next one where the slice moves meanwhile. Returns its answer, and
        whether a racer before it may have the call as well. Raises RacerUnreachable."""
        number, deadline = slice_of(signature), self._clock.monotonic() + seconds
        in_doubt = False
        while (left := deadline - self._clock.monotonic()) > 0:
            name = self._holders.get(number)
            if name is not None:
                try:
                    found = await self._ask_while_held(number, name, method, arguments, left)
                except hosting.ActorUnreachable as error:
                    await self._read()
                    if self._holders.get(number) == name:
                        raise RacerUnreachable(str(error)) from error
                    in_doubt = True
                    continue
                if not isinstance(found, SliceMoved):
                    return found, in_doubt
                in_doubt |= found.in_doubt
            await self._read()
            if self._holders.get(number) == name:
                await self._pause(_MOVING_SECONDS)
        raise RacerUnreachable(f"no racer has taken slice {number} in time")

    async def _ask_while_held(self, number: int, name: str, method: str, arguments: Any, seconds: float) -> Any:
        """Raises ActorUnreachable, also once the slice has moved away from a racer that has not answered yet: one that
        was cut off would be waited for until the end."""
        asking = asyncio.create_task(hosting.ask(self._reference(name), method, *arguments, wait_seconds=seconds))
        try:
            while not (await asyncio.wait((asking,), timeout=_LOOK_SECONDS))[0]:
                if self._holders.get(number) != name:
                    raise hosting.ActorUnreachable(f"{name} does not answer, and another racer has its slice")
            return asking.result()
        finally:
            asking.cancel()

    # --- the block engine

    async def ask_engine(self, call: EngineCall) -> EngineAnswer | EngineAway:
        """Ask a racer that has a share of the engine's rate. Questions about a bundle go to the racer that its bundle
        went to, as long as the racers are the same. Raises RacerUnreachable."""
        able = [name for name, racer in sorted(self._racers.items()) if _relay(racer).get("requests_per_second", 0) > 0]
        names = able or sorted(self._racers)
        if not names:
            raise RacerUnreachable("there is no racer")
        turn = _number_of(call.bundle_id) if call.bundle_id else next(self._turns)
        wait_seconds = call.timeout_ms / 1000 + _WAY_SECONDS
        try:
            found: EngineAnswer | EngineAway = await hosting.ask(
                self._reference(names[turn % len(names)]), "ask_engine", call, wait_seconds=wait_seconds
            )
        except hosting.ActorUnreachable as error:
            raise RacerUnreachable(str(error)) from error
        return found

    @property
    def tip_accounts(self) -> tuple[str, ...]:
        """As the engine told them last, or those of mainnet."""
        told = (_relay(racer).get("tip_accounts") for _, racer in sorted(self._racers.items()))
        return next((accounts for accounts in told if accounts), TIP_ACCOUNTS)

    @property
    def relay_reachable(self) -> bool:
        """False only where every racer that answers says so. While all of them are silent, nobody knows."""
        told = [relay["reachable"] for racer in self._racers.values() if "reachable" in (relay := _relay(racer))]
        return any(told) or not told

    @property
    def landing(self) -> dict[str, Any] | None:
        """Return the document of GET /stats/landing, of all racers that answer. None: none does."""
        parts = [racer.state["landing"] for racer in self._racers.values() if "landing" in racer.state]
        return landing_document(parts) if parts else None

    # --- who holds what

    async def _read(self) -> None:
        """Read the holders; one reading serves all that wait. Keeps the old ones where the store does not answer."""
        if self._reading is None:
            self._reading = self._background.start(self._look())
            self._reading.add_done_callback(self._was_read)
        await asyncio.wait((self._reading,))

    def _was_read(self, _: "asyncio.Task[None]") -> None:
        self._reading = None

    async def _look(self) -> None:
        try:
            found = await self._read_holders()
        except OwnershipUnavailable as error:
            logger.warning("who races sends is not known anew: %s", error)
            return
        self._holders = {number: owned.holder for number, owned in found.items()}
        names = set(self._holders.values())
        for name in names - self._racers.keys():
            self._racers[name] = ActorClient(self._reference(name))
            self._racers[name].start()
        for name in self._racers.keys() - names:
            self._references.pop(name, None)
            self._background.start(self._racers.pop(name).stop())

    def _reference(self, name: str) -> Any:
        if name not in self._references:
            self._references[name] = self._refer(name)
        return self._references[name]

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _relay(racer: ActorClient) -> Mapping[str, Any]:
    found: Mapping[str, Any] = racer.state.get("relay", {})
    return found


def _number_of(bundle_id: str) -> int:
    return hashlib.sha256(bundle_id.encode()).digest()[0]
