"""The unary calls of the service.

Implements: Ping, GetSlot, GetBlockHeight, GetLatestBlockhash, IsBlockhashValid, GetVersion and SubscribeReplayInfo, as
Yellowstone servers answer them: `processed` is the newest sealed block; a blockhash is valid for 300 blocks, and
`last_valid_block_height` says so, which differs from JSON-RPC's 150.
Reads only. Not here: gRPC (service.py).
"""

import importlib.metadata
from typing import Any

import orjson

from actors.geyser_proto import geyser_pb2
from devnode.geyser.filters import LEVELS
from devnode.geyser.hub import GrpcHub
from devnode.geyser.refusals import NO_BLOCK, End, unknown_commitment
from devnode.records.blockhashes import BLOCKHASHES_KEPT, RecentBlockhash
from devnode.rpc.node import SOLANA_CORE_VERSION, Node

PROTO_VERSION = "12.6.0"  # The version of the public format that the .proto files follow.
PACKAGE = "ledger-gateway"


class CallRefused(Exception):
    """The call ends with an error status."""

    def __init__(self, end: End) -> None:
        super().__init__(end.text)
        self.end = end


class Calls:
    def __init__(self, node: Node, hub: GrpcHub) -> None:
        self._node, self._hub = node, hub

    def ping(self, request: geyser_pb2.PingRequest) -> geyser_pb2.PongResponse:
        return geyser_pb2.PongResponse(count=request.count)

    def get_slot(self, request: geyser_pb2.GetSlotRequest) -> geyser_pb2.GetSlotResponse:
        return geyser_pb2.GetSlotResponse(slot=self._newest(request).slot)

    def get_block_height(self, request: geyser_pb2.GetBlockHeightRequest) -> geyser_pb2.GetBlockHeightResponse:
        return geyser_pb2.GetBlockHeightResponse(block_height=self._newest(request).height)

    def get_latest_blockhash(
        self, request: geyser_pb2.GetLatestBlockhashRequest
    ) -> geyser_pb2.GetLatestBlockhashResponse:
        newest = self._newest(request)
        return geyser_pb2.GetLatestBlockhashResponse(
            slot=newest.slot,
            blockhash=str(newest.blockhash),
            last_valid_block_height=newest.height + BLOCKHASHES_KEPT,
        )

    def is_blockhash_valid(self, request: geyser_pb2.IsBlockhashValidRequest) -> geyser_pb2.IsBlockhashValidResponse:
        """Whether a blockhash is known at the level. Text that is no hash is answered with false."""
        newest = self._newest(request)
        known = (str(entry.blockhash) for entry in self._node.chain.blockhashes.entries() if entry.slot <= newest.slot)
        is_valid = request.blockhash in known
        return geyser_pb2.IsBlockhashValidResponse(slot=newest.slot, valid=is_valid)

    def get_version(self, request: geyser_pb2.GetVersionRequest) -> geyser_pb2.GetVersionResponse:
        """The version as JSON text. Fields about a Rust build are empty."""
        version = {
            "package": f"{PACKAGE}-devnode",
            "version": importlib.metadata.version(PACKAGE),
            "proto": PROTO_VERSION,
            "solana": SOLANA_CORE_VERSION,
            "git": "",
            "rustc": "",
            "buildts": "",
        }
        text = orjson.dumps({"version": version, "extra": {"hostname": "devnode"}}).decode()
        return geyser_pb2.GetVersionResponse(version=text)

    def subscribe_replay_info(
        self, request: geyser_pb2.SubscribeReplayInfoRequest
    ) -> geyser_pb2.SubscribeReplayInfoResponse:
        return geyser_pb2.SubscribeReplayInfoResponse(first_available=self._hub.logs.first_slot)

    def _newest(self, request: Any) -> RecentBlockhash:
        """The newest sealed block at the request's level. Raises CallRefused."""
        level = LEVELS.get(request.commitment)
        if level is None:
            raise CallRefused(unknown_commitment(request.commitment))
        chain = self._node.chain
        newest = chain.blockhashes.latest_at(chain.levels.at(level).slot)
        if newest.height < 0:  # This hash is the one that the first block builds on; it has no block.
            raise CallRefused(NO_BLOCK)
        return newest
