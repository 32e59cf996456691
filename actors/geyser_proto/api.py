"""The calls of the service `geyser.Geyser`: the path, request and response of each, for servers and clients.

Implements: the service in geyser.proto as a table; a test compares both. Pure.
Not here: channels and servers; the messages themselves, which are generated (geyser_pb2.py, solana_storage_pb2.py).
"""

from dataclasses import dataclass

from google.protobuf.message import Message

from actors.geyser_proto import geyser_pb2

SERVICE = "geyser.Geyser"


@dataclass(frozen=True, slots=True)
class Rpc:
    name: str
    request: type[Message]
    response: type[Message]
    is_stream: bool = False  # True: both directions are streams; False: neither is.

    @property
    def path(self) -> str:
        """Return the path for grpc.Channel's stream_stream and unary_unary."""
        return f"/{SERVICE}/{self.name}"


SUBSCRIBE = Rpc("Subscribe", geyser_pb2.SubscribeRequest, geyser_pb2.SubscribeUpdate, is_stream=True)
SUBSCRIBE_DESHRED = Rpc(
    "SubscribeDeshred", geyser_pb2.SubscribeDeshredRequest, geyser_pb2.SubscribeUpdateDeshred, is_stream=True
)
SUBSCRIBE_REPLAY_INFO = Rpc(
    "SubscribeReplayInfo", geyser_pb2.SubscribeReplayInfoRequest, geyser_pb2.SubscribeReplayInfoResponse
)
PING = Rpc("Ping", geyser_pb2.PingRequest, geyser_pb2.PongResponse)
GET_LATEST_BLOCKHASH = Rpc(
    "GetLatestBlockhash", geyser_pb2.GetLatestBlockhashRequest, geyser_pb2.GetLatestBlockhashResponse
)
GET_BLOCK_HEIGHT = Rpc("GetBlockHeight", geyser_pb2.GetBlockHeightRequest, geyser_pb2.GetBlockHeightResponse)
GET_SLOT = Rpc("GetSlot", geyser_pb2.GetSlotRequest, geyser_pb2.GetSlotResponse)
IS_BLOCKHASH_VALID = Rpc("IsBlockhashValid", geyser_pb2.IsBlockhashValidRequest, geyser_pb2.IsBlockhashValidResponse)
GET_VERSION = Rpc("GetVersion", geyser_pb2.GetVersionRequest, geyser_pb2.GetVersionResponse)

RPCS = (
    SUBSCRIBE,
    SUBSCRIBE_DESHRED,
    SUBSCRIBE_REPLAY_INFO,
    PING,
    GET_LATEST_BLOCKHASH,
    GET_BLOCK_HEIGHT,
    GET_SLOT,
    IS_BLOCKHASH_VALID,
    GET_VERSION,
)
