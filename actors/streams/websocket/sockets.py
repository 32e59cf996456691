"""All open sockets of a process: limits their number, and closes those whose accounts may not continue.

Implements: interface, "WebSocket /ws" and the close codes; threats 30 and 31. A shell. Not here: asking whether
accounts may go on (metering/standing_watch.py).
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice

from actors.calls import KeyProof, Proof, ProvenProof
from actors.errors import Err, Refusal
from actors.http_server.websocket import RESTART_REASON, SERVICE_RESTART
from actors.identity.client_addresses import UNKNOWN
from actors.metering.api import SubscriptionKind
from actors.metering.meters import Meters
from actors.metering.standing_watch import StandingWatch
from actors.stream_config import StreamsConfig
from actors.streams.websocket.client_streams import AUTH_FAILED, OUT_OF_CREDITS, POLICY, ClientSocket, ClientStreams
from actors.streams.websocket.openings import Openings


class StreamSockets:
    def __init__(
        self,
        config: StreamsConfig,
        meters: Meters,
        watch: StandingWatch,
        kinds: Sequence[SubscriptionKind],
    ) -> None:
        self._config, self._meters, self._watch = config, meters, watch
        self._by_method = {method: kind for kind in kinds for method in (kind.subscribe, kind.unsubscribe)}
        self._openings = Openings()
        self._open: set[ClientStreams] = set()
        self._staying: dict[ClientStreams, None] = {}  # Sockets not told to end, oldest first.
        self._is_leaving = False
        self._by_account: Counter[bytes] = Counter()
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._by_account.total()

    def room_for(self, pubkey: bytes, address: str) -> bool:
        """Return whether one more socket may open. address: client_addresses.UNKNOWN has no limit, because many clients
        share it."""
        config = self._config
        return (
            not self._is_leaving
            and len(self) < config.sockets_max
            and self._by_account[pubkey] < config.sockets_per_account_max
            and (address == UNKNOWN or self._by_address[address] < config.sockets_per_address_max)
        )

    def open(self, socket: ClientSocket, payer: ProvenProof, proof: Proof, address: str) -> ClientStreams:
        config = self._config
        streams = ClientStreams(
            *(socket, payer, proof, self._meters, self._by_method),
            *(config.subscriptions_max, config.waiting_bytes_max, self._openings, partial(self._closed, address)),
        )
        self._open.add(streams)
        self._staying[streams] = None
        self._watch.join(proof, payer, streams, lambda refusal: socket.close(*_close_of(proof, refusal)))
        self._by_account[payer.pubkey] += 1
        self._by_address[address] += 1
        return streams

    # --- when this process leaves (LeavingStreams)

    @property
    def left(self) -> int:
        return len(self._staying)

    def stop_taking(self) -> None:
        self._is_leaving = True

    def end_some(self, count: int) -> None:
        """Close some sockets: each closes when its calls are answered, at the latest when the server ends."""
        for streams in list(islice(self._staying, count)):
            del self._staying[streams]
            streams.socket.leave(SERVICE_RESTART, RESTART_REASON)

    def _closed(self, address: str, streams: ClientStreams) -> None:
        if streams not in self._open:
            return
        self._open.discard(streams)
        self._staying.pop(streams, None)
        self._watch.leave(streams.proof, streams.payer, streams)
        self._by_account[streams.pubkey] -= 1
        if not self._by_account[streams.pubkey]:
            del self._by_account[streams.pubkey]
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def _close_of(proof: Proof, refusal: Refusal) -> tuple[int, str]:
    """Return close code and reason for a socket whose account may not continue."""
    if refusal.err is Err.INSUFFICIENT_CREDITS:
        return OUT_OF_CREDITS, f"insufficient_credits: {refusal.detail}"
    if refusal.err is Err.KEY_BUDGET_EXCEEDED:
        return OUT_OF_CREDITS, f"key_budget_exceeded: {refusal.detail}"
    if refusal.err is Err.AUTH_FAILED and isinstance(proof, KeyProof):
        return AUTH_FAILED, f"auth_failed: {refusal.detail}"
    return POLICY, f"policy_violation: {refusal.detail}"
