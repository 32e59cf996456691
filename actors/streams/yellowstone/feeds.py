"""The Yellowstone endpoint of the node: the feeds, and over a channel of grpcio calls that are answered once.

Implements: identical subscriptions share one upstream subscription in a replica; a subscription with from_slot has one
of its own, as it begins in the past. Health: whether the endpoint answers.
A shell. Not here: a feed (yellowstone/feed.py), who may ask (gateway/doors/grpc.py).
"""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc

from actors.background import Background
from actors.clock import Clock
from actors.config import Config
from actors.geyser_proto import api, geyser_pb2
from actors.grpc_http2.client import GrpcClient
from actors.stream_config import GeyserConfig
from actors.streams.yellowstone import ends as geyser_ends
from actors.streams.yellowstone.ends import StreamEnd
from actors.streams.yellowstone.feed import FeedReader, GeyserFeed, passed_on
from actors.streams.yellowstone.pace import GeyserPace
from actors.streams.yellowstone.requests import WantedStream, read_bytes

logger = logging.getLogger(__name__)

_PROBE_SECONDS = 2.0
_FAILED_PROBES_MAX = 3
_MESSAGE_BYTES_MAX = 1 << 32  # Blocks are large; the node is trusted with their size.
_WINDOW_BYTES = 1 << 20  # Of a subscription: what the node may send before a feed has read it.
_OPTIONS: Sequence[tuple[str, Any]] = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
)


class SourceRefused(Exception):
    """The call got no answer. end: how it ends for the client."""

    def __init__(self, end: StreamEnd) -> None:
        super().__init__(end.text)
        self.end = end


class GeyserFeeds:
    """Belongs to one event loop. url: http:// or https:// and an address. token: sent as x-token."""

    def __init__(self, url: str, token: str | None, settings: GeyserConfig, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._metadata = () if token is None else (("x-token", token),)
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        target = f"{parts.hostname}:{port}" if ":" not in (parts.hostname or "") else f"[{parts.hostname}]:{port}"
        if parts.scheme == "https":
            self._channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(_roots()), options=_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        # Subscriptions bring thousands of updates a second, for which grpcio is slow.
        self._subscriptions = GrpcClient(url, dict(self._metadata), _MESSAGE_BYTES_MAX, _WINDOW_BYTES)
        # Bytes in both directions: what comes is passed on unchanged.
        self._deshred: Any = self._channel.stream_stream(api.SUBSCRIBE_DESHRED.path)
        self._calls: dict[api.Rpc, Any] = {
            rpc: self._channel.unary_unary(rpc.path) for rpc in api.RPCS if not rpc.is_stream
        }
        self.pace, self.writing_pace = GeyserPace(), GeyserPace()
        self._shared: dict[bytes, GeyserFeed] = {}
        self._feeds: set[GeyserFeed] = set()
        self._reading = ThreadPoolExecutor(1, "large-requests")
        self._background = Background(logger, "probing the Yellowstone endpoint failed")
        self._failed_probes = 0

    def start(self) -> None:
        self._background.start(self._probe_for_ever())

    async def close(self) -> None:
        await self._background.stop()
        for feed in tuple(self._feeds):
            feed.stop()
        self._reading.shutdown(wait=False, cancel_futures=True)
        await self._subscriptions.close()
        await self._channel.close()

    @property
    def is_up(self) -> bool:
        """Return whether the endpoint answered one of the last probes."""
        return self._failed_probes < _FAILED_PROBES_MAX

    @property
    def feeds_open(self) -> int:
        return len(self._feeds)

    async def call(self, rpc: api.Rpc, request: bytes, seconds: float) -> bytes:
        """One call that is answered once. Raises SourceRefused with the node's own status."""
        try:
            return bytes(await self._calls[rpc](request, timeout=seconds, metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise SourceRefused(geyser_ends.NOT_REACHED) from error
            raise SourceRefused(passed_on(error.code(), error.details() or "")) from error

    def open_deshred(self) -> Any:
        """Return a new call of grpcio, of SubscribeDeshred."""
        return self._deshred(metadata=self._metadata)

    async def read_large(self, raw: bytes) -> WantedStream | int:
        """Read a large request in a thread, one at a time. Raises what read_bytes raises."""
        settings = self._settings
        work = partial(read_bytes, raw, settings.filters_max, settings.keys_max)
        return await asyncio.get_running_loop().run_in_executor(self._reading, work)

    # --- feeds

    def join(
        self,
        wanted: WantedStream,
        reader: FeedReader,
        first_kept: int | None = None,
        instead_of: FeedReader | None = None,
    ) -> GeyserFeed:
        """The feed for this subscription, with this reader in it. first_kept, instead_of: as GeyserFeed's."""
        assert wanted.key is not None
        feed = self._shared.get(wanted.key) if wanted.from_slot is None else None
        if feed is None or feed.end is not None:
            feed = GeyserFeed(
                wanted,
                lambda: self._subscriptions.open(api.SUBSCRIBE.path),
                self._clock,
                self._settings.resume_seconds,
                self._settings.connect_seconds,
                first_kept,
                self.pace,
            )
            self._feeds.add(feed)
            if wanted.from_slot is None:
                self._shared[wanted.key] = feed
            feed.start()
        feed.join(reader, instead_of)
        return feed

    def leave(self, feed: GeyserFeed, reader: FeedReader) -> None:
        """Take a reader out; with the last one the feed's subscription ends."""
        if feed.leave(reader):
            self._feeds.discard(feed)
            for key in [key for key, one in self._shared.items() if one is feed]:
                del self._shared[key]
            feed.stop()

    # --- health

    async def _probe_for_ever(self) -> None:
        ping = geyser_pb2.PingRequest(count=1).SerializeToString()
        while True:
            try:
                await self.call(api.PING, ping, _PROBE_SECONDS)
                self._failed_probes = 0
            except SourceRefused as refused:
                self._failed_probes += 1
                if self._failed_probes == _FAILED_PROBES_MAX:
                    logger.warning("the stream source does not answer: %s", refused.end.text[:200])
            await asyncio.sleep(_PROBE_SECONDS)


def _roots() -> bytes | None:
    """Read the certificates that the machine trusts, as subscriptions do: a probe must find what they find.

    None: the machine has no such file, and grpcio takes its own.
    """
    path = ssl.get_default_verify_paths().cafile
    return None if path is None else Path(path).read_bytes()


def open_feeds(config: Config, clock: Clock) -> GeyserFeeds:
    """The configured endpoint of the node."""
    upstream = config.upstream
    assert upstream.yellowstone_url is not None, "the caller has looked"
    token = None if upstream.yellowstone_token is None else upstream.yellowstone_token.get_secret_value()
    return GeyserFeeds(upstream.yellowstone_url, token, config.geyser, clock)
