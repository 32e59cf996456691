"""Settings of streams: WebSockets, the Yellowstone gRPC interface, and signals.

Implements: style, "Configuration". Not here: the tree (config.py).
"""

from pydantic import Field

from actors.provider_config import Branch, Bytes, Count, Lamports


class GeyserConfig(Branch):
    # In less than a second no node has begun a subscription or come back, and a client on a slow network has read
    # nothing; a slot's updates come at once, and fifty are few of them.
    streams_per_account: int = Field(100, ge=1, le=100_000, description="open gRPC streams of an account, per replica")
    streams_max: int = Field(2_000, ge=1, le=100_000, description="open gRPC streams, or connections, of a replica")
    requests_per_second: int = Field(100, ge=1, le=100_000, description="requests on one gRPC stream in a second")
    filters_max: Count = Field(1_000, ge=1, description="filters of all kinds in one request, and data slices")
    keys_max: Count = Field(50_000, ge=1, description="public keys in all filters of one request")
    queue_updates_max: Count = Field(100_000, ge=50, description="updates that wait for a client that reads slowly")
    queue_bytes_max: Bytes = Field(64 << 20, ge=1 << 16, description="the same in bytes; then its stream ends")
    account_queues_bytes_max: Bytes = Field(256 << 20, ge=1 << 16, description="the same for all streams of an account")
    queues_bytes_max: Bytes = Field(1 << 30, ge=1 << 16, description="the same for a replica; the largest queue ends")
    end_seconds: float = Field(30.0, ge=1, le=600, description="a client that never reads is cut off after so long")
    connect_seconds: float = Field(10.0, ge=1, le=300, description="time limit for the start of a subscription")
    resume_seconds: float = Field(60.0, ge=1, le=3_600, description="streams wait so long for a node that went away")
    replay_slots: int = Field(150, ge=0, le=100_000, description="past slots kept for from_slot; 0: the node's alone")
    replay_bytes_max: int = Field(256 << 20, ge=1 << 20, le=1 << 40, description="their bytes; mainnet: 20 MB a slot")


class StreamsConfig(Branch):
    subscriptions_max: int = Field(100, ge=1, le=100_000, description="subscriptions of one WebSocket")
    sockets_max: Count = Field(20_000, ge=1, description="open WebSockets of a replica; further ones get 503")
    sockets_per_account_max: Count = Field(5_000, ge=1, description="the same for one account")
    sockets_per_address_max: Count = Field(10_000, ge=1, description="the same for one client address")
    waiting_bytes_max: Bytes = Field(
        1 << 20, ge=1 << 16, description="notifications that wait for a client; more close its WebSocket with 1013"
    )
    hub_waiting_bytes_max: Bytes = Field(64 << 20, ge=1 << 20, description="the same for a replica; more become a gap")
    topics_max: Count = Field(200_000, ge=100, description="different subscriptions at the nodes at the same time")
    silent_seconds_max: float = Field(10.0, ge=1, le=300, description="a node's WebSocket without a new slot ends then")


class SignalsConfig(Branch):
    classifiers: int = Field(1, ge=1, le=64, description="actors that classify transactions; each takes an equal part")
    large_swap_lamports: Lamports = Field(10_000_000_000, ge=1, description="smallest SOL side of a largeSwap")
    stream_entries_max: Count = Field(200_000, ge=1_000, description="entries of the log that Redis keeps, about")
    stream_hours: int = Field(24, ge=1, le=168, description="entries leave Redis after so long")
    history_days: int = Field(30, ge=1, le=360, description="entries leave PostgreSQL after so long")
