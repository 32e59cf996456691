"""Gives calls whose credential no owner has confirmed yet a share of their own of a replica's calls in flight.

Implements: threat 63. A shell: calls wait here; who is confirmed, calls/refusal_limits.py remembers.

Anybody can make up keys, and each of them has to be asked about. With the calls of customers in one count, a stranger's
batches of 100 would use up all calls in flight, and customers would get 503. So calls wait here, before they are
counted in flight, until their address and all strangers together have a place. A place is given back when the owner
confirms the credential or the request ends; both take a few milliseconds. The share also bounds the look-ups that
strangers have under way at the owners. Few requests come in here in one round of the loop (actors/start_line.py).

What happens when full: calls above WAITING_MAX in all, or ADDRESS_WAITING_MAX of one address, are refused with 503,
and count as refused calls of their address: one that goes on is soon told to wait, before its requests are read.
Clients whose address cannot be known share one name, and only the bound on all of them.
"""

import asyncio
from collections import Counter, OrderedDict, deque

from actors.calls import Proof
from actors.gateway.calls.refusal_limits import RefusalLimits, credential_of
from actors.gateway.calls.requests import Client
from actors.identity.client_addresses import UNKNOWN
from actors.start_line import StartLine

SHARE = 8  # Strangers get an eighth of the calls in flight, and an address a quarter of that.
ADDRESS_SHARE = 4
WAITING_MAX = 8_192
ADDRESS_WAITING_MAX = 2_048
_PER_ROUND = 8  # Asking an owner about a credential, and refusing the request, takes 0.2 ms.
_LOOKS_MAX = 32  # Addresses examined when a place becomes free: few can have used all their places.


class StrangersPlace:
    """The place of one request's calls, given back at the latest at the end of its `with`."""

    __slots__ = ("_calls", "address", "count", "credential", "ready")

    def __init__(self, calls: "UnprovenCalls", address: str, credential: bytes, count: int) -> None:
        self._calls, self.address, self.credential, self.count = calls, address, credential, count
        self.ready: asyncio.Future[None] | None = None  # Set while it waits.

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._calls.leave(self)


class UnprovenCalls:
    """calls_max: of all strangers at once. A request with more calls than a share has it alone."""

    def __init__(self, calls_max: int, limits: RefusalLimits) -> None:
        self._calls_max, self._address_max = max(1, calls_max), max(1, calls_max // ADDRESS_SHARE)
        self._limits, self._starts = limits, StartLine(_PER_ROUND)
        self._total = 0
        self._by_address: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[StrangersPlace]] = OrderedDict()  # By address; addresses take turns.
        self._waiting_total = 0
        self._waiting_by_address: Counter[str] = Counter()
        self._inside: dict[bytes, set[StrangersPlace]] = {}  # By credential.
        limits.on_confirmed = self._confirmed

    async def enter(self, proof: Proof, client: Client | None, count: int) -> StrangersPlace | None:
        """Wait for a place for this many calls. None: too many wait already."""
        place = StrangersPlace(self, self._limits.address_of(client), credential_of(proof), count)
        if not await self._starts.enter(place.address):
            return None
        if place.address not in self._waiting and self._fits(place):
            self._let_in(place)
            return place
        address_max = WAITING_MAX if place.address == UNKNOWN else ADDRESS_WAITING_MAX
        if self._waiting_total + count > WAITING_MAX or self._waiting_by_address[place.address] + count > address_max:
            return None
        place.ready = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(place.address, deque()).append(place)
        self._count_waiting(place, count)
        try:
            await place.ready
        except asyncio.CancelledError:
            self._give_up(place)
            raise
        return place

    def _give_up(self, place: StrangersPlace) -> None:
        line = self._waiting.get(place.address)
        if line is not None and place in line:
            line.remove(place)
            if not line:
                del self._waiting[place.address]
            self._count_waiting(place, -place.count)
        self.leave(place)

    def leave(self, place: StrangersPlace) -> None:
        inside = self._inside.get(place.credential)
        if inside is None or place not in inside:
            return
        inside.remove(place)
        if not inside:
            del self._inside[place.credential]
        self._total -= place.count
        _add(self._by_address, place.address, -place.count)
        self._let_next_in()

    def _fits(self, place: StrangersPlace) -> bool:
        address_max = self._calls_max if place.address == UNKNOWN else self._address_max
        of_address = self._by_address[place.address]
        return (not self._total or self._total + place.count <= self._calls_max) and (
            not of_address or of_address + place.count <= address_max
        )

    def _let_in(self, place: StrangersPlace) -> None:
        self._inside.setdefault(place.credential, set()).add(place)
        self._total += place.count
        self._by_address[place.address] += place.count

    def _let_next_in(self) -> None:
        """Let in the first of each address that fits, in turns: an address without a free place holds up no other."""
        looks = 0
        while self._waiting and self._total < self._calls_max and looks < _LOOKS_MAX:
            address, line = self._waiting.popitem(last=False)
            place = line[0]
            if self._fits(place):
                line.popleft()
                self._count_waiting(place, -place.count)
                self._let_in(place)
                assert place.ready is not None
                if not place.ready.done():
                    place.ready.set_result(None)
            else:
                looks += 1
            if line:
                self._waiting[address] = line

    def _confirmed(self, credential: bytes) -> None:
        """The owner accepted this credential: its calls count as a customer's from now on."""
        for place in tuple(self._inside.get(credential, ())):
            self.leave(place)

    def _count_waiting(self, place: StrangersPlace, count: int) -> None:
        self._waiting_total += count
        _add(self._waiting_by_address, place.address, count)


def _add(counter: Counter[str], name: str, count: int) -> None:
    counter[name] += count
    if not counter[name]:
        del counter[name]
