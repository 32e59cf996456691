"""Tells open streams within a second that their credential is revoked, or their account suspended.

Implements: a stream of a revoked key or session ends within a second. Each credential is asked about once for all its
streams, by a request to the owner that holds nothing and takes no rate unit. As with calls, asking extends a session.
While an owner is away nothing ends: nobody has revoked anything.
A shell. Not here: how a stream ends.
"""

import asyncio
import logging
from collections.abc import Callable

from actors.accounts.api import AccountsClient, OwnerUnavailable
from actors.calls import HoldRequest, Proof
from actors.errors import Err, Refusal

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.7

OnRevoked = Callable[[Refusal], None]


class WatchedCredentials:
    """Belongs to one event loop. next_operation: makes an operation id that takes no rate unit (Meters)."""

    def __init__(self, accounts: AccountsClient, next_operation: Callable[[], bytes]) -> None:
        self._accounts, self._next_operation = accounts, next_operation
        self._streams: dict[Proof, dict[object, OnRevoked]] = {}
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look_for_ever())

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    def join(self, proof: Proof, stream: object, on_revoked: OnRevoked) -> None:
        """Watch for a stream. proof: of a wallet's signature, which counts once, give its account (ProvenProof)."""
        self._streams.setdefault(proof, {})[stream] = on_revoked

    def leave(self, proof: Proof, stream: object) -> None:
        streams = self._streams.get(proof)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._streams[proof]

    async def look(self) -> None:
        """Ask about every credential once."""
        await asyncio.gather(*(self._look_at(proof) for proof in tuple(self._streams)))

    async def _look_at(self, proof: Proof) -> None:
        try:
            reply = await self._accounts.hold(HoldRequest(self._next_operation(), proof, ()))
        except OwnerUnavailable:
            return
        if reply.refusal is None:
            return
        refusal = Refusal(Err[reply.refusal])
        if refusal.err in (Err.AUTH_FAILED, Err.METHOD_NOT_ALLOWED, Err.PAYMENT_REQUIRED):
            for on_revoked in tuple(self._streams.get(proof, {}).values()):
                on_revoked(refusal)

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self.look()
            except Exception:  # After a bug, streams must still be watched.
                logger.exception("looking at the credentials of open streams failed")
