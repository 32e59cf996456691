"""Tells open streams within a second that their account may not go on: key, session, suspension, balance.

Implements: interface, "WebSocket minimum balance" and the close codes; threat 31. A shell.
The owners of accounts are asked once for all streams of a credential, every CHECK_SECONDS, in one message to each
owner. Wherever its streams come from, a key is one credential: its owner has judged address and origin when each
opened, and is not asked about them again; else whoever names another origin in each handshake would have as many
questions asked. An owner that does not answer ends nothing: meanwhile no allowance is held, so nothing is delivered on
trust.

Streams deliver from allowances, which their owner counts as balance until they are posted. So what this process has
delivered is taken from the balance that the owner tells. What other processes have delivered is at most what the owner
has on hold: where the balance without all holds is below the minimum, each process posts at once what it has
delivered, and asks about that account every LOOK_SECONDS. Not here: how a stream ends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from actors.accounts.api import AccountsClient, AccountStanding, OwnerReply, ReadStanding
from actors.accounts.key_requests import payer_of
from actors.background import Background
from actors.calls import KeyProof, Proof, ProvenProof
from actors.errors import Err, Refusal
from actors.units import routing_bytes

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
CHECK_SECONDS = 3 * LOOK_SECONDS  # A stream ends within a second of its reason, also when that is in another process.
BALANCE_MIN = 10  # Interface, "WebSocket minimum balance".
_LOOKS_A_CHECK = round(CHECK_SECONDS / LOOK_SECONDS)
_ASKED_AT_ONCE_MAX = 2_000
_KEY_ENDED = Refusal(Err.AUTH_FAILED, "the API key was replaced, frozen or deleted, or its time is over")
_KEY_SPENT = Refusal(Err.KEY_BUDGET_EXCEEDED, f"an open stream needs {BALANCE_MIN} credits of its key's budget")
_SESSION_OVER = Refusal(Err.AUTH_FAILED, "the session has ended")
_SUSPENDED = Refusal(Err.METHOD_NOT_ALLOWED, "this account is suspended")

OnEnd = Callable[[Refusal], None]


class Spending(Protocol):
    """Credits that this process's streams have delivered and not posted (meters.py)."""

    def unposted_credits(self, payer: ProvenProof) -> int: ...

    def post_spent(self, payer: ProvenProof) -> None: ...


class StandingWatch:
    """Belongs to one event loop. balance_min: a stream with less ends. prolongs_sessions: as calls do.

    spending: None where streams do not pay from allowances.
    """

    def __init__(
        self,
        accounts: AccountsClient,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        balance_min: int = BALANCE_MIN,
        prolongs_sessions: bool = False,
        spending: Spending | None = None,
    ) -> None:
        self._accounts, self._sleep = accounts, sleep
        self._balance_min, self._prolongs_sessions = balance_min, prolongs_sessions
        self._spending = spending
        self._streams: dict[ReadStanding, dict[object, OnEnd]] = {}  # By the question to their owner.
        self._near: set[ReadStanding] = set()  # Questions about accounts whose streams may be near the minimum.
        self._background = Background(logger, "open streams could not be checked")
        self._looks = 0

    def start(self) -> None:
        self._background.repeat(self._look, LOOK_SECONDS, self._sleep)

    async def stop(self) -> None:
        await self._background.stop()

    def join(self, proof: Proof, payer: ProvenProof, stream: object, on_end: OnEnd) -> None:
        """Watch for a stream. proof: that it opened under; of a wallet's signature, which counts once, give the payer.
        payer: as the owner named it for this proof."""
        self._streams.setdefault(self._question(proof, payer), {})[stream] = on_end

    def leave(self, proof: Proof, payer: ProvenProof, stream: object) -> None:
        question = self._question(proof, payer)
        streams = self._streams.get(question)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._streams[question]
                self._near.discard(question)

    def _question(self, proof: Proof, payer: ProvenProof) -> ReadStanding:
        """The same for all streams of a credential. A legacy key's own bytes may name another owner than its
        account's."""
        if not isinstance(proof, KeyProof):
            return ReadStanding(proof, self._prolongs_sessions)
        key = KeyProof(proof.key_hash, routing_bytes(payer.pubkey))
        return ReadStanding(key, self._prolongs_sessions, payer.key)

    async def check(self) -> None:
        """Ask once whether the accounts of all streams may go on, and end the streams of the others."""
        await self._check(list(self._streams))

    async def check_near(self) -> None:
        """Ask the same about accounts that may be near the minimum."""
        await self._check(list(self._near))

    async def _check(self, questions: list[ReadStanding]) -> None:
        for start in range(0, len(questions), _ASKED_AT_ONCE_MAX):
            part = questions[start : start + _ASKED_AT_ONCE_MAX]
            for question, reply in zip(part, await self._accounts.ask_many(part), strict=True):
                unposted = self._unposted(question, reply.value)
                refusal = _refusal_of(question.proof, reply, self._balance_min, unposted)
                if refusal is not None:
                    for on_end in list(self._streams.get(question, {}).values()):
                        on_end(refusal)

    def _unposted(self, question: ReadStanding, standing: AccountStanding | None) -> int:
        """The credits that are delivered here and still in the balance. Posts them where few are left."""
        if self._spending is None or standing is None or question not in self._streams:
            return 0
        payer = payer_of(standing)
        unposted = self._spending.unposted_credits(payer)
        if standing.available < self._balance_min:
            self._near.add(question)
            self._spending.post_spent(payer)
        else:
            self._near.discard(question)
        return unposted

    async def _look(self) -> None:
        self._looks += 1
        await (self.check_near() if self._looks % _LOOKS_A_CHECK else self.check())


def _refusal_of(proof: Proof, reply: OwnerReply[AccountStanding], balance_min: int, unposted: int) -> Refusal | None:
    """Return why the streams of this credential must end, or None. unposted: delivered credits in the balance."""
    if reply.refusal == Err.AUTH_FAILED.name:
        return _KEY_ENDED if isinstance(proof, KeyProof | ProvenProof) else _SESSION_OVER
    if reply.value is None:
        return None
    if not reply.value.is_active:
        return _SUSPENDED
    if reply.value.balance - unposted < balance_min:
        if reply.value.key:
            return _KEY_SPENT
        return Refusal(Err.INSUFFICIENT_CREDITS, f"an open stream needs a balance of {balance_min} credits")
    return None
