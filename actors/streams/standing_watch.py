"""Tells open streams within a second that their account may not go on: key, session, suspension, balance.

Implements: interface, "WebSocket minimum balance" and the close codes; hostile input 31. A shell.
The owners of accounts are asked once for all streams of a credential, every CHECK_SECONDS, in one message to each
owner. An owner that does not answer ends nothing: meanwhile no allowance is held, so
nothing is delivered on trust. Not here: how a stream ends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from actors.accounts.api import AccountsClient, AccountStanding, OwnerReply, ReadStanding
from actors.calls import KeyProof, Proof
from actors.errors import Err, Refusal

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.7  # A stream ends within a second of its reason.
BALANCE_MIN = 10  # Interface, "WebSocket minimum balance".
_ASKED_AT_ONCE_MAX = 2_000
_KEY_REPLACED = Refusal(Err.AUTH_FAILED, "the API key was replaced")
_SESSION_OVER = Refusal(Err.AUTH_FAILED, "the session has ended")
_SUSPENDED = Refusal(Err.METHOD_NOT_ALLOWED, "this account is suspended")

OnEnd = Callable[[Refusal], None]


class StandingWatch:
    """Belongs to one event loop. balance_min: a stream with less ends. prolongs_sessions: as calls do."""

    def __init__(
        self,
        accounts: AccountsClient,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        balance_min: int = BALANCE_MIN,
        prolongs_sessions: bool = False,
    ) -> None:
        self._accounts, self._sleep = accounts, sleep
        self._balance_min, self._prolongs_sessions = balance_min, prolongs_sessions
        self._by_proof: dict[Proof, dict[object, OnEnd]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._check_for_ever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def join(self, proof: Proof, stream: object, on_end: OnEnd) -> None:
        """Watch for a stream. proof: of a wallet's signature, which counts once, give its account (ProvenProof)."""
        self._by_proof.setdefault(proof, {})[stream] = on_end

    def leave(self, proof: Proof, stream: object) -> None:
        streams = self._by_proof.get(proof)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._by_proof[proof]

    async def check(self) -> None:
        """Ask once whether the accounts of all streams may go on, and end the streams of those that may not."""
        proofs = list(self._by_proof)
        for start in range(0, len(proofs), _ASKED_AT_ONCE_MAX):
            part = proofs[start : start + _ASKED_AT_ONCE_MAX]
            replies = await self._accounts.ask_many([ReadStanding(proof, self._prolongs_sessions) for proof in part])
            for proof, reply in zip(part, replies, strict=True):
                refusal = _refusal_of(proof, reply, self._balance_min)
                if refusal is not None:
                    for on_end in list(self._by_proof.get(proof, {}).values()):
                        on_end(refusal)

    async def _check_for_ever(self) -> None:
        while True:
            await self._sleep(CHECK_SECONDS)
            try:
                await self.check()
            except Exception:  # After a bug streams must still be checked.
                logger.exception("open streams could not be checked")


def _refusal_of(proof: Proof, reply: OwnerReply[AccountStanding], balance_min: int) -> Refusal | None:
    """Why the streams of this credential end. None: they go on."""
    if reply.refusal == Err.AUTH_FAILED.name:
        return _KEY_REPLACED if isinstance(proof, KeyProof) else _SESSION_OVER
    if reply.value is None:
        return None
    if not reply.value.is_active:
        return _SUSPENDED
    if reply.value.balance < balance_min:
        return Refusal(Err.INSUFFICIENT_CREDITS, f"an open stream needs a balance of {balance_min} credits")
    return None
