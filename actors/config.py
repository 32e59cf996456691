"""The one configuration tree: a branch for each context, validated whole.

Implements: style, "Configuration". config_loader.py reads the values.
Not here: reading anything; each context gets its branch.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from actors import addresses
from actors.operator_config import OperatorConfig
from actors.pricing_config import PricingConfig
from actors.provider_config import (
    BlockEngineConfig,
    Branch,
    Bytes,
    ClusterSecret,
    Count,
    Lamports,
    MemosConfig,
    NodeConfig,
    Origin,
    Released,
    plain_text,
    required_url,
)
from actors.stream_config import GeyserConfig, SignalsConfig, StreamsConfig
from actors.units import parse_pubkey

ENVIRONMENT_PREFIX = "LEDGER_"
_Port = Annotated[int, Field(ge=1, le=65535)]
_Seconds = Annotated[int, Field(le=10 * 366 * 86_400)]
_Credits = Annotated[int, Field(le=10**15)]


class ConfigError(Exception):
    """The settings are wrong; the text has one line for each mistake, with the field's full name."""


class ServeConfig(Branch):
    host: str = Field("127.0.0.1", description="address that HTTP listens on")
    http_port: _Port = Field(8080, description="port of HTTP; a local run also takes WebSockets on the next port")
    # Not the next port after HTTP: web3.js 1.x opens its WebSocket there by itself.
    grpc_port: _Port = Field(
        default_factory=lambda values: values.get("http_port", 8080) + 2,
        description="port of gRPC, by default http_port + 2",
    )
    tls: bool = Field(
        False, description="also serve HTTPS, WSS and gRPC over TLS; the other ports are then on loopback"
    )
    tls_port: _Port = Field(8443, description="port of HTTPS, WSS and gRPC over TLS")
    tls_certificate_file: Path | None = Field(
        None, description="PEM file with certificate chain and private key; without one a local run makes its own"
    )
    internal_port_first: int = Field(21_000, ge=1024, le=60_000, description="first of 1,000 ports behind the front")
    small_actors: Literal["together", "apart"] = Field(
        "together", description="whether a local run has one process for its small actors, or one for each"
    )
    public_url: Origin | None = Field(None, description="origin that clients see, where a proxy stands in front")
    connections_max: int = Field(8_192, ge=256, le=1_000_000, description="client connections to one machine at once")
    request_seconds_max: int = Field(5, ge=1, le=60, description="time limit for a request's head and first 15 kB")

    @property
    def plain_host(self) -> str:
        """Return the address of the ports without TLS: where TLS is served, nothing else leaves this machine."""
        return "127.0.0.1" if self.tls else self.host


class StorageConfig(Branch):
    data_dir: Path | None = Field(None, description="folder of the embedded servers; default under the user's data")
    postgres_url: SecretStr | None = Field(None, description="URL of a PostgreSQL that replaces the embedded one")
    postgres_migrations_url: SecretStr | None = Field(None, description="the same, with the role that owns the tables")
    redis_url: SecretStr | None = Field(None, description="URL of a Redis that replaces the embedded one")
    postgres_pool_size: int = Field(4, ge=3, le=64, description="PostgreSQL connections of each process")
    cluster_secret: ClusterSecret | None = Field(
        None, description="secret that signs links and challenges in the cluster; a local run makes one"
    )


class AccountsConfig(Branch):
    shard_actors: int = Field(1, ge=1, le=256, description="actors that own accounts; they share 1,024 virtual shards")
    requests_per_second: int = Field(100, ge=1, le=1_000_000, description="default limit for one account in a second")
    concurrency: int = Field(64, ge=1, le=100_000, description="default limit of an account's calls in flight")
    activations_max: Count = Field(100_000, ge=10, description="accounts kept in memory by one shard actor")
    activations_in_flight_max: int = Field(64, ge=1, le=10_000, description="accounts that are loaded at the same time")
    idle_seconds: _Seconds = Field(900, ge=5, description="an account without requests leaves memory after so long")
    unknown_seconds: int = Field(5, ge=0, le=300, description="an unknown account is looked up again after so long")
    # Longer than the longest call: 30 s at the node, 5 s for the hold, 15 s for the settle.
    hold_seconds: int = Field(60, ge=55, le=600, description="an open hold is released after so long")
    hourly_limit_learnt_least_credits: _Credits = Field(
        100_000, ge=0, description="no learnt hourly limit of an account is lower; 0: none is learnt"
    )
    ledger_kept_months: int = Field(
        13, ge=2, le=240, description="whole months before this one that `months detach` leaves in the ledger"
    )
    roots_dir: Path | None = Field(
        None, description="folder for the files of signed statements; a local run uses its data folder"
    )


class IdentityConfig(Branch):
    address_requests_per_minute: int = Field(
        60, ge=1, le=1_000_000, description="requests of a client address to /account/*, /auth/* and /x402/settle"
    )
    trusted_proxies: tuple[str, ...] = Field((), description="addresses or networks whose X-Forwarded-For is believed")
    session_seconds: _Seconds = Field(3_600, ge=60, description="lifetime of a session token, extended by each use")
    challenge_seconds: _Seconds = Field(300, ge=30, description="lifetime of a challenge")
    # At most 60: nonces are kept for 130 s, which is twice that and 10 s (money rule 11).
    timestamp_window_seconds: int = Field(
        60, ge=1, le=60, description="largest difference between a wallet signature's time and the server's"
    )


class GatewayConfig(Branch):
    replicas: int | None = Field(
        None, ge=1, le=1_000, description="gateway replicas; by default one for every two cores, at least two"
    )
    replicas_max: int | None = Field(
        None, ge=1, le=1_000, description="replicas follow their load, from `replicas` of them to this number"
    )
    replica_load_percent: int = Field(60, ge=5, le=95, description="processor load of a replica that is aimed at then")
    scale_up_seconds: float = Field(30.0, ge=0, le=3_600, description="for so long the load asks for more replicas")
    scale_down_seconds: float = Field(600.0, ge=0, le=86_400, description="for so long it asks for fewer")
    body_bytes_max: int = Field(262_144, ge=1_024, le=64 << 20, description="largest request body")
    idempotency_keys_max: Count = Field(100_000, ge=1, description="Idempotency-Keys of an account in 24 hours")
    logged_calls_of_account_max: int = Field(10_000, ge=10, le=1_000_000, description="calls in the log of an account")
    logged_calls_max: Count = Field(
        2_000_000, ge=0, description="calls in all logs together; 0: no log of calls is kept"
    )
    calls_in_flight_max: Count = Field(4_096, ge=1, description="calls in flight of a replica; further ones get 503")
    hold_wait_ms: int = Field(5_000, ge=100, le=5_000, description="time limit for the hold of a call")
    account_refusals_per_second: Count = Field(500, ge=1, description="refused calls of an account, per replica")
    address_refusals_per_second: Count = Field(500, ge=1, description="the same of an address without valid credential")
    mcp_origins: tuple[str, ...] = Field((), description="origins of web pages that may use /mcp, beside our own")
    mcp_refusals_as_200: bool = Field(False, description="/mcp refuses with HTTP 200, for clients that need it")
    settle_wait_ms: int = Field(15_000, ge=100, le=15_000, description="time limit for the settle of a call")
    socket_messages_per_second_max: int = Field(200, ge=10, le=100_000, description="frames of a WebSocket in a second")
    account_handshakes_per_second: Count = Field(
        100, ge=1, description="WebSocket handshakes of an account, per replica"
    )
    address_handshakes_per_second: Count = Field(300, ge=1, description="the same of a client address; more get 429")

    @model_validator(mode="after")
    def _has_ranges(self) -> "GatewayConfig":
        if self.replicas_max is not None and self.replicas_max < (self.replicas or 1):
            raise ValueError(f"replicas_max, {self.replicas_max}, is below replicas, {self.replicas}")
        if 0 < self.logged_calls_max < 2 * self.logged_calls_of_account_max:
            raise ValueError("logged_calls_max is below twice logged_calls_of_account_max")
        return self


class UpstreamConfig(Branch):
    # A provider's URL contains a key, so it is not in the representation and is masked where it is shown.
    node_url: str | None = Field(
        None, repr=False, description="JSON-RPC URL of the node; without one the embedded devnode is started"
    )
    node_ws_url: str | None = Field(None, repr=False, description="WebSocket URL of the node; speeds up deposits")
    nodes: tuple[NodeConfig, ...] = Field((), max_length=64, description="several nodes; replaces node_url")
    node_header: bool = Field(True, description="answers have the header X-Node with the node's name")
    connections_max: int = Field(512, ge=1, le=65_536, description="connections of a replica to one node")
    answer_bytes_max: Bytes = Field(128 << 20, ge=1 << 20, description="largest answer that is accepted from a node")
    large_answers_bytes_max: Bytes = Field(
        512 << 20, ge=128 << 20, description="a replica's memory for answers above 1 MiB"
    )
    yellowstone_url: str | None = Field(
        None, description="Yellowstone gRPC endpoint; without one gRPC is off with a real node"
    )
    yellowstone_token: SecretStr | None = Field(None, description="token of that endpoint, sent as x-token")
    cache_bytes_max: Bytes = Field(64 << 20, ge=0, description="memory of a replica for cached answers; 0: no cache")
    probe_seconds: float = Field(1.0, ge=0.1, le=60, description="time between two health probes of a node")
    probe_timeout_ms: int = Field(1_000, ge=50, le=10_000, description="time limit of a probe")
    lag_slots_max: Count = Field(128, ge=1, description="a node that is further behind counts as lagging")
    hedge_ms_min: int = Field(20, ge=1, le=60_000, description="shortest time before a late read goes to a second node")
    hedge_percent_max: int = Field(10, ge=0, le=100, description="reads in 100 that may go to a second node")
    breaker_open_ms: int = Field(
        1_000, ge=100, le=3_600_000, description="a failing node gets no calls for so long, at first"
    )

    @field_validator("node_url", "node_ws_url", "yellowstone_url")
    @classmethod
    def _is_a_url(cls, text: str | None, info: ValidationInfo) -> str | None:
        schemes = ("ws", "wss") if info.field_name == "node_ws_url" else ("http", "https")
        return required_url(text, schemes)

    @model_validator(mode="before")
    @classmethod
    def _first_of_several(cls, values: Any) -> Any:
        """Set node_url to the URL of the first of several nodes, for callers that need any node."""
        nodes = values.get("nodes") if isinstance(values, dict) else None
        if not nodes or not isinstance(nodes, list | tuple):
            return values
        if values.get("node_url") is not None or values.get("node_ws_url") is not None:
            raise ValueError("give either node_url or nodes, not both")
        first = dict(nodes[0]) if isinstance(nodes[0], dict | NodeConfig) else {}
        return values | {"node_url": plain_text(first.get("url")), "node_ws_url": plain_text(first.get("ws_url"))}

    @model_validator(mode="after")
    def _can_serve(self) -> "UpstreamConfig":
        named = [node.name for node in self.named_nodes]
        if len(set(named)) != len(named):
            raise ValueError("two nodes have the same name")
        for role in ("read", "send"):
            if self.nodes and not any(role in node.roles and node.weight for node in self.nodes):
                raise ValueError(f"no node has the role {role} and a weight above 0")
        if self.large_answers_bytes_max < self.answer_bytes_max:
            raise ValueError("large_answers_bytes_max must be at least answer_bytes_max")
        return self

    @property
    def named_nodes(self) -> tuple[NodeConfig, ...]:
        """Return every node with its name; node_url alone is a list of one. Empty until a URL is known."""
        if self.nodes:
            return tuple(
                node.model_copy(update={"name": node.name or f"node-{number}"})
                for number, node in enumerate(self.nodes, 1)
            )
        if self.node_url is None:
            return ()
        ws_url = None if self.node_ws_url is None else SecretStr(self.node_ws_url)
        return (NodeConfig(name="node-1", url=SecretStr(self.node_url), ws_url=ws_url),)


class LookupsConfig(Branch):
    node_calls_max: int = Field(128, ge=1, le=65_536, description="a replica's calls for methods that need many")
    free_node_calls_per_minute: int = Field(
        600, ge=60, le=1_000_000, description="calls to a node that an account's failed look-ups may cause for nothing"
    )
    fee_block_seconds: int = Field(5, ge=0, le=60, description="between blocks that are read for their fees; 0: none")


class PaymentsConfig(Branch):
    network: Literal["mainnet", "devnet"] | None = Field(None, description="mainnet with a real node, else devnet")
    usdc_mint: str | None = Field(None, description="mint of deposits; by default the network's USDC")
    deposit_wallet: str | None = Field(None, description="public key that receives USDC; needed on mainnet")
    sponsor_pubkey: str | None = Field(None, description="public key of the sponsor; follows from sponsor_key")
    sponsor_key: SecretStr | None = Field(None, description="secret key of the sponsor; without one x402 is off")
    sponsor_key_file: Path | None = Field(
        None, description="encrypted file with sponsor_key, made by `sponsor rotate`; default secrets/sponsor.json"
    )
    sponsor_passphrase: SecretStr | None = Field(None, description="passphrase of the encrypted file")
    sponsor_low_lamports: Lamports = Field(50_000_000, ge=0, description="with less, /health and the logs say so")
    x402_commitment: Literal["confirmed", "finalized"] = Field(
        "confirmed", description="commitment at which a payment is credited; finalized takes 13 s, clients wait 5 s"
    )
    x402_wait_ms: int = Field(3_500, ge=500, le=60_000, description="after so long the answer to a payment is pending")
    x402_unit_price_max: Count = Field(50_000, ge=1, description="highest sponsored micro-lamports for a compute unit")
    x402_unit_limit_max: int = Field(200_000, ge=1_000, le=1_400_000, description="compute units that are sponsored")
    x402_attempts_per_minute: Count = Field(20, ge=1, description="sponsored payments of one wallet in a minute")
    x402_failures_per_hour: Count = Field(
        60, ge=1, description="sponsored payments of new wallets that may fail in an hour; then none is sponsored"
    )
    x402_failures_per_address_per_hour: Count = Field(
        5, ge=1, description="the same for the new wallets behind one client address, open payments included"
    )
    sign_in_with_x: bool = Field(True, description="x402 terms let a wallet with an account sign in")
    credits_per_usdc: Count = Field(100_000, ge=1, description="credits for one USDC")
    credit_expiry_days: int = Field(365, ge=1, le=36_500, description="lifetime of a deposited batch of credits")
    minimum_deposit_base_units: int = Field(
        10_000, ge=1, le=10**12, description="smallest deposit, in base units of USDC"
    )
    deposit_start_slot: int = Field(0, ge=0, le=10**15, description="deposits before this slot are ignored")
    deposit_poll_seconds: float = Field(
        5.0, ge=0.5, le=300, description="longest time between two look-ups of deposits"
    )
    deposit_watchers: int = Field(
        1, ge=1, le=2, description="with 2, a second one takes over within 10 s where the first hangs or is lost"
    )

    @field_validator("deposit_wallet", "usdc_mint")
    @classmethod
    def _is_pubkey(cls, text: str | None) -> str | None:
        """Refuse a text that is no public key: money sent there would be lost."""
        if text is not None and parse_pubkey(text) is None:
            raise ValueError("wanted a base58 public key of 32 bytes")
        return text


class SendsConfig(Branch):
    racers: int = Field(1, ge=1, le=16, description="actors that race sends; they share 256 slices of the signatures")
    block_engine_url: str | None = Field(None, description="block engine for the leg jito and bundles; None: neither")
    block_engine_auth: SecretStr | None = Field(None, description="UUID that raises the engine's limit")
    block_engine_requests_per_second: float = Field(1.0, ge=0.1, le=10_000, description="that the engine takes of us")
    tip_floor_url: str | None = Field(None, description="of the tip floor, where the engine itself does not serve it")
    block_engines: tuple[BlockEngineConfig, ...] = Field(
        (), max_length=16, description="several block engines, each with a rate; replaces block_engine_url"
    )
    tpu: bool = Field(True, description="whether transactions also go straight to the leaders, over QUIC")
    tpu_private_leaders: bool = Field(
        False, description="leaders at private addresses are used too; always so with nodes that are at private ones"
    )
    tpu_identity_key: SecretStr | None = Field(
        None, description="secret key of the identity shown to leaders, with its stake; without one a new one is made"
    )
    tpu_identity_file: Path | None = Field(None, description="file with that key, as solana-keygen writes it")
    open_sends_max: int = Field(500, ge=1, le=100_000, description="sends without outcome; then CONCURRENCY_LIMITED")
    fault_file: Path | None = Field(None, description="for tests: names the step at which the racer kills itself")

    @field_validator("block_engine_url", "tip_floor_url")
    @classmethod
    def _is_a_url(cls, text: str | None) -> str | None:
        return required_url(text, ("http", "https"))

    @model_validator(mode="after")
    def _has_one_form_of_engines(self) -> "SendsConfig":
        if self.block_engines and self.block_engine_url is not None:
            raise ValueError("give either block_engine_url or block_engines, not both")
        of_one = {"block_engine_auth", "block_engine_requests_per_second"} & self.model_fields_set
        if self.block_engines and of_one:
            raise ValueError(f"{sorted(of_one)[0]} is of block_engine_url; give it in each of block_engines")
        urls = [engine.url.get_secret_value().rstrip("/") for engine in self.block_engines]
        if len(set(urls)) != len(urls):
            raise ValueError("two of block_engines have the same URL; their rates could not be told apart")
        if self.tpu_identity_key is not None and self.tpu_identity_file is not None:
            raise ValueError("give either tpu_identity_key or tpu_identity_file, not both")
        return self

    @property
    def engines(self) -> tuple[BlockEngineConfig, ...]:
        """Return every block engine; block_engine_url alone is a list of one. Empty: there is none."""
        if self.block_engines or self.block_engine_url is None:
            return self.block_engines
        one = {"requests_per_second": self.block_engine_requests_per_second, "auth": self.block_engine_auth}
        return (BlockEngineConfig(url=SecretStr(self.block_engine_url), **one),)


class WebhooksConfig(Branch):
    dispatchers: int = Field(1, ge=1, le=16, description="actors that deliver; they share 64 slices of the accounts")
    ports: tuple[_Port, ...] = Field((443, 8443), min_length=1, description="ports that deliveries may go to")
    allow_loopback: bool = Field(
        False, description="for development: URLs of this machine, with http and any port; never in production"
    )
    name_servers: tuple[str, ...] = Field((), description="address or address:port, in place of the machine's own")
    ca_file: Path | None = Field(None, description="certificates (PEM) that are trusted beside the machine's own")
    kept_days: int = Field(7, ge=1, le=365, description="days that ended deliveries are kept, for the log and replays")


class TradesConfig(Branch):
    sol_usd_micro: int | None = Field(
        None, ge=1, le=10**12, description="fixed price of one SOL in millionths of a US dollar; else the account's"
    )
    sol_usd_account: str = Field(addresses.PYTH_SOL_USD_ACCOUNT, description="Pyth account with the SOL/USD price")
    sol_usd_age_seconds_max: int = Field(120, ge=1, le=86_400, description="an older price is refused")
    sol_usd_poll_seconds: float = Field(5.0, ge=0.5, le=300, description="time between two looks at the price")

    @field_validator("sol_usd_account")
    @classmethod
    def _is_address(cls, text: str) -> str:
        if parse_pubkey(text) is None:
            raise ValueError("wanted a base58 public key of 32 bytes")
        return text


class DevnodeConfig(Branch):
    http_port: _Port = Field(8899, description="JSON-RPC port of the embedded chain; WebSocket has the next one")
    slot_ms: int = Field(400, ge=10, le=60_000, description="length of a slot")
    seed: int | None = Field(
        None, ge=0, le=2**63 - 1, description="makes a new embedded chain equal to all others with this seed"
    )


class TelemetryConfig(Branch):
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="lowest level that is logged")
    log_format: Literal["text", "json"] = Field("text", description="form of log lines on the standard error output")
    log_dir: Path | None = Field(None, description="folder for JSON logs; a local run uses its data folder")
    traces_url: str | None = Field(None, description="collector of OpenTelemetry (OTLP over HTTP); unset: no traces")
    traced_per_10000: int = Field(100, ge=0, le=10_000, description="of 10,000 requests, those that are traced")
    traces_per_second_max: int = Field(20, ge=1, le=10_000, description="traces that a replica begins in a second")
    metrics_host: str = Field("127.0.0.1", description="address that GET /metrics listens on; keep it private")
    metrics_port: int | None = Field(None, ge=0, le=65_535, description="port of GET /metrics; 0: none")


class Config(Released):
    serve: ServeConfig = ServeConfig()
    storage: StorageConfig = StorageConfig()
    accounts: AccountsConfig = AccountsConfig()
    identity: IdentityConfig = IdentityConfig()
    gateway: GatewayConfig = GatewayConfig()
    upstream: UpstreamConfig = UpstreamConfig()
    geyser: GeyserConfig = GeyserConfig()
    lookups: LookupsConfig = LookupsConfig()
    payments: PaymentsConfig = PaymentsConfig()
    sends: SendsConfig = SendsConfig()
    memos: MemosConfig = MemosConfig()
    streams: StreamsConfig = StreamsConfig()
    webhooks: WebhooksConfig = WebhooksConfig()
    signals: SignalsConfig = SignalsConfig()
    pricing: PricingConfig = PricingConfig()
    trades: TradesConfig = TradesConfig()
    devnode: DevnodeConfig = DevnodeConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    operator: OperatorConfig = OperatorConfig()


def environment_name(field: str) -> str:
    """Return the environment variable that sets `branch.field`."""
    return ENVIRONMENT_PREFIX + field.upper().replace(".", "__")
