"""All open sockets of a process: how many there may be, and whether their accounts may go on.

Implements: interface, "WebSocket /ws" and the close codes; hostile inputs 30 and 31. A shell.
The owners of accounts are asked once for all sockets of a credential, every CHECK_SECONDS, in one message to each
owner. An owner that does not answer ends nothing: meanwhile no allowance is held, so nothing is delivered on trust.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from actors.accounts.api import AccountsClient, AccountStanding, OwnerReply, ReadStanding
from actors.calls import KeyProof, Proof
from actors.config import StreamsConfig
from actors.errors import Err
from actors.streams.api import SubscriptionKind
from actors.streams.client_streams import OUT_OF_CREDITS, POLICY, ClientSocket, ClientStreams
from actors.streams.meters import Meters

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.7  # A socket ends within a second of its reason.
BALANCE_MIN = 10  # Interface, "WebSocket minimum balance".
AUTH_FAILED = 4001
_ASKED_AT_ONCE_MAX = 2_000


class StreamSockets:
    def __init__(
        self,
        config: StreamsConfig,
        accounts: AccountsClient,
        meters: Meters,
        kinds: Sequence[SubscriptionKind],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._config, self._accounts, self._meters, self._sleep = config, accounts, meters, sleep
        self._by_method = {method: kind for kind in kinds for method in (kind.subscribe, kind.unsubscribe)}
        self._by_proof: dict[Proof, dict[ClientStreams, None]] = {}
        self._by_account: Counter[bytes] = Counter()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._check_for_ever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def __len__(self) -> int:
        return self._by_account.total()

    def room_for(self, pubkey: bytes) -> bool:
        config = self._config
        return len(self) < config.sockets_max and self._by_account[pubkey] < config.sockets_per_account_max

    def open(self, socket: ClientSocket, pubkey: bytes, proof: Proof) -> ClientStreams:
        config = self._config
        streams = ClientStreams(
            *(socket, pubkey, proof, self._meters, self._by_method),
            *(config.subscriptions_max, config.waiting_bytes_max, self._closed),
        )
        self._by_proof.setdefault(proof, {})[streams] = None
        self._by_account[pubkey] += 1
        return streams

    def _closed(self, streams: ClientStreams) -> None:
        same = self._by_proof.get(streams.proof)
        if same is None or same.pop(streams, streams) is streams:
            return
        if not same:
            del self._by_proof[streams.proof]
        self._by_account[streams.pubkey] -= 1
        if not self._by_account[streams.pubkey]:
            del self._by_account[streams.pubkey]

    async def check(self) -> None:
        """Ask once whether the accounts of all open sockets may go on, and end the sockets of those that may not."""
        proofs = list(self._by_proof)
        for start in range(0, len(proofs), _ASKED_AT_ONCE_MAX):
            part = proofs[start : start + _ASKED_AT_ONCE_MAX]
            replies = await self._accounts.ask_many([ReadStanding(proof) for proof in part])
            for proof, reply in zip(part, replies, strict=True):
                end = _end_of(proof, reply)
                if end is not None:
                    for streams in list(self._by_proof.get(proof, ())):
                        streams.socket.close(*end)

    async def _check_for_ever(self) -> None:
        while True:
            await self._sleep(CHECK_SECONDS)
            try:
                await self.check()
            except Exception:  # After a bug sockets must still be checked.
                logger.exception("open sockets could not be checked")


def _end_of(proof: Proof, reply: OwnerReply[AccountStanding]) -> tuple[int, str] | None:
    """Close code and reason for the sockets of this credential; None: they go on."""
    if reply.refusal == Err.AUTH_FAILED.name:
        if isinstance(proof, KeyProof):
            return AUTH_FAILED, "auth_failed: the API key was replaced"
        return POLICY, "policy_violation: the session has ended"
    if reply.value is None:
        return None
    if not reply.value.is_active:
        return POLICY, "policy_violation: this account is suspended"
    if reply.value.balance < BALANCE_MIN:
        return OUT_OF_CREDITS, f"insufficient_credits: a WebSocket needs a balance of {BALANCE_MIN} credits"
    return None
