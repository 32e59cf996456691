"""Checks before anything is started or deleted: settings that do not fit together, taken ports, stores that are away.

Implements: launch/README.md ("all mistakes are reported together before anything starts"). A start and `config` use the
same checks of settings. Not here: the rules for one setting alone (config.py).
"""

import asyncio
import os
import ssl
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from urllib.parse import urlsplit

import redis.asyncio

from actors.config import Config, ConfigError, environment_name
from actors.gateway.replicas import replicas_on, room_on
from actors.identity.client_addresses import TrustedProxies
from actors.launch.front.tls_edge_config import certificate_mistake
from actors.launch.local_run.memo_setup import with_memos
from actors.launch.local_run.sponsor_setup import with_sponsor
from actors.launch.local_run.tpu_identity import with_tpu_identity
from actors.local_servers.ports import NeededPort
from actors.methods.catalog import priced_names
from actors.storage.connections import StoreUnreachable, connect_postgres, connect_redis
from actors.telemetry.metrics_page import metrics_port
from actors.telemetry.traces import tracing_mistake

_PORT_MAX = 65_535
# An owner takes above 100 MB at rest, and two or three of them use a core at full load: more only take memory.
_OWNERS_PER_CORE_MAX = 8
# Of the embedded PostgreSQL's 240 connections, those that are left beside replicas and small actors; and what an owner
# takes beside its pool.
_EMBEDDED_CONNECTIONS, _OWNER_CONNECTIONS = 160, 2
_INTERNAL = "LEDGER_SERVE__INTERNAL_PORT_FIRST"
_LOOKS_AT_A_PRICE = 2  # In its lifetime: one may fail.
_SLOTS_SILENT_MIN = 2  # Of a node's WebSocket that counts as working.
_HOST = "LEDGER_SERVE__HOST"
_INTERNAL_WANTED = "the first of 1,000 free ports"
_ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound.
_POSTGRES_SCHEMES = ("postgresql", "postgres")
_APPLICATION = "ledger-gateway start"
_ANY_SEED = bytes(32)  # Stands for the seed that is made later.


def network_of(config: Config) -> str:
    """Return the network whose money is taken: mainnet with a node of one's own, unless the settings say otherwise."""
    return config.payments.network or ("devnet" if config.upstream.node_url is None else "mainnet")


def require_whole(config: Config) -> None:
    """Raise ConfigError with a line for each URL or wallet without which the product cannot serve."""
    _raise([*_mistakes(config)])


def require_startable(config: Config, secrets_folder: Path | None = None) -> None:
    """Do as require_whole; look at the certificate, the folders and the keys of a local run, and compare its ports.

    secrets_folder: of the data folder, which need not exist yet; it may have a sealed key.
    """
    if secrets_folder is not None and not os.access(secrets_folder, os.R_OK | os.X_OK):
        secrets_folder = None  # The step that opens the data folder tells why.
    local = (_certificate_mistakes, _folder_mistakes, _port_mistakes)
    found = [*_mistakes(config), *(mistake for of in local for mistake in of(config))]
    _raise([*found, *_key_mistakes(config, secrets_folder)])


def require_room(config: Config, cores: int) -> None:
    """Raise ConfigError where this machine has no room for all replicas, for which the start would wait for ever, or
    for all owners of accounts, whose processes would take the memory and the database's connections."""
    wanted, room = replicas_on(cores, config.gateway), room_on(cores)
    of_machine = f"the {cores} cores of this machine have room for"
    found = [(wanted, room, "gateway.replicas", f"{of_machine} {room}")]
    owners, rooms = config.accounts.shard_actors, cores * _OWNERS_PER_CORE_MAX
    found.append((owners, rooms, "accounts.shard_actors", f"{of_machine} {rooms}"))
    if config.storage.postgres_url is None:
        rooms = _EMBEDDED_CONNECTIONS // (config.storage.postgres_pool_size + _OWNER_CONNECTIONS)
        told = f"the embedded PostgreSQL has connections for {rooms} with this storage.postgres_pool_size"
        found.append((owners, rooms, "accounts.shard_actors", told))
    _raise(
        [
            f"{name}: {wanted}, and {told}; correct {environment_name(name)}"
            for wanted, room, name, told in found
            if wanted > room
        ]
    )


def _mistakes(config: Config) -> Iterator[str]:
    yield from _url_mistakes(config)
    yield from _wallet_mistakes(config)
    yield from _webhook_mistakes(config)
    yield from _proxy_mistakes(config)
    yield from _pricing_mistakes(config)
    yield from _slot_mistakes(config)
    yield from _price_mistakes(config)
    if (mistake := tracing_mistake(config.telemetry)) is not None:
        yield mistake


def _raise(mistakes: list[str]) -> None:
    if mistakes:
        raise ConfigError("\n".join(mistakes))


def _url_mistakes(config: Config) -> Iterator[str]:
    """Check the form of the stores' URLs. No text has the URL, which may hold a password."""
    storage = config.storage
    for name, url in (
        ("postgres_url", storage.postgres_url),
        ("postgres_migrations_url", storage.postgres_migrations_url),
    ):
        if url is not None and not _is_postgres_url(url.get_secret_value()):
            wanted = "DATABASE_URL" if name == "postgres_url" else environment_name(f"storage.{name}")
            yield f"storage.{name}: wanted postgresql://USER:PASSWORD@HOST:PORT/DATABASE; correct {wanted}"
    if storage.postgres_url is None and storage.postgres_migrations_url is not None:
        yield "storage.postgres_migrations_url: it is for a PostgreSQL of your own; set DATABASE_URL too"
    if config.upstream.node_url is None and config.upstream.node_ws_url is not None:
        yield f"upstream.node_ws_url: it is of a node of your own; set {environment_name('upstream.node_url')} too"
    if storage.redis_url is not None:
        try:
            redis.asyncio.ConnectionPool.from_url(storage.redis_url.get_secret_value())
        except ValueError:
            yield (
                "storage.redis_url: wanted redis://:PASSWORD@HOST:PORT/NUMBER, rediss:// in its place for TLS, or "
                "unix:// and the path of a socket; correct REDIS_URL"
            )


def _is_postgres_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        hosts = parts.netloc.rpartition("@")[2].split(",")  # There may be several.
        # Reading a port checks it.
        return parts.scheme in _POSTGRES_SCHEMES and all(urlsplit(f"//{host}").port != 0 for host in hosts)
    except ValueError:
        return False


def _wallet_mistakes(config: Config) -> Iterator[str]:
    if network_of(config) == "mainnet" and config.payments.deposit_wallet is None:
        yield (
            "payments.deposit_wallet: on mainnet deposits are real money, and no key is made for them here; set "
            f"{environment_name('payments.deposit_wallet')} to the public key of a wallet of yours. For a node whose "
            f"money is worth nothing, set {environment_name('payments.network')}=devnet"
        )


def _webhook_mistakes(config: Config) -> Iterator[str]:
    """Without this check the dispatcher would end again and again, and the run would go on without webhooks."""
    path = config.webhooks.ca_file
    if path is not None:
        try:
            ssl.create_default_context(cafile=path)
        except OSError as error:  # Of a file that is not there, and of one without certificates.
            yield f"webhooks.ca_file: {path} cannot be used ({error.strerror or error}); give a PEM file that exists"
    if config.webhooks.name_servers:
        from actors.webhooks.resolver import name_server  # Its packages take a third of a second to import.

    for text in config.webhooks.name_servers:
        try:
            name_server(text)
        except ValueError:
            yield f"webhooks.name_servers: {text!r} is not an address or address:port; correct it"


def _pricing_mistakes(config: Config) -> Iterator[str]:
    """Without this check a price that the operator meant would be nobody's."""
    known = priced_names()
    for name, prices in config.pricing.lists.items():
        for method in sorted(prices.methods.keys() - known):
            near = get_close_matches(method, known, 1)
            meant = f"did you mean {near[0]}?" if near else "GET /pricing has those that cost something"
            yield f"pricing.lists.{name}.methods: {method[:64]!r} is no method with a price; {meant}"


def _slot_mistakes(config: Config) -> Iterator[str]:
    """Without this check every slot of the embedded chain would come too late for the subscriptions."""
    least = _SLOTS_SILENT_MIN * config.devnode.slot_ms / 1_000
    if config.upstream.node_url is None and config.streams.silent_seconds_max < least:
        yield (
            f"streams.silent_seconds_max: {config.streams.silent_seconds_max:g}, wanted at least {least:g}, "
            f"{_SLOTS_SILENT_MIN} slots of devnode.slot_ms; correct one of the two"
        )


def _price_mistakes(config: Config) -> Iterator[str]:
    """Without this check trades would be refused between two looks at the price, as it would be too old by then."""
    trades, looks = config.trades, _LOOKS_AT_A_PRICE * config.trades.sol_usd_poll_seconds
    if trades.sol_usd_age_seconds_max < looks:
        yield (
            f"trades.sol_usd_age_seconds_max: {trades.sol_usd_age_seconds_max}, wanted at least {looks:g}, "
            f"{_LOOKS_AT_A_PRICE} times trades.sol_usd_poll_seconds; correct one of the two"
        )


def _proxy_mistakes(config: Config) -> Iterator[str]:
    """Without this check each replica would fail at its start."""
    try:
        TrustedProxies(config.identity.trusted_proxies)
    except ValueError as error:
        yield f"{error}; correct {environment_name('identity.trusted_proxies')}"


def _key_mistakes(config: Config, secrets_folder: Path | None) -> Iterator[str]:
    """Without this check `--fresh` would delete all data, and then refuse to start."""
    made = _ANY_SEED if config.upstream.node_url is None else None  # A local run makes keys for the embedded chain.
    for settle in (
        with_tpu_identity,
        lambda config: with_memos(config, made),
        lambda config: with_sponsor(config, secrets_folder, made),
    ):
        try:
            settle(config)
        except ConfigError as error:
            yield str(error)


def _folder_mistakes(config: Config) -> Iterator[str]:
    """Without this check each process would end at its start, or write no statements."""
    for name, path in (
        ("telemetry.log_dir", config.telemetry.log_dir),
        ("accounts.roots_dir", config.accounts.roots_dir),
    ):
        if path is not None and not _can_hold_files(path.absolute()):
            yield f"{name}: {path} is no folder that can be written; correct {environment_name(name)}"


def _can_hold_files(path: Path) -> bool:
    """Return whether a folder is there, or can be made."""
    try:
        there = next(one for one in (path, *path.parents) if one.exists())
    except OSError:  # Of a name that is too long, among others.
        return False
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _certificate_mistakes(config: Config) -> Iterator[str]:
    path = config.serve.tls_certificate_file
    if path is not None and (mistake := certificate_mistake(path)) is not None:
        yield mistake


def needed_ports(config: Config) -> Iterator[NeededPort]:
    """Yield every port with a fixed number that a local run listens on."""
    serve = config.serve
    yield NeededPort(
        serve.plain_host, serve.http_port, "HTTP", "--http-port or LEDGER_SERVE__HTTP_PORT", host_setting=_HOST
    )
    if serve.tls:
        yield NeededPort(serve.host, serve.tls_port, "TLS", "LEDGER_SERVE__TLS_PORT", host_setting=_HOST)
    before = "the port before it (--http-port or LEDGER_SERVE__HTTP_PORT)"
    yield NeededPort(serve.plain_host, serve.http_port + 1, "WebSockets", before, host_setting=_HOST)
    if config.upstream.node_url is None or config.upstream.yellowstone_url is not None:
        yield NeededPort(serve.plain_host, serve.grpc_port, "gRPC", "LEDGER_SERVE__GRPC_PORT", host_setting=_HOST)
    for port in range(serve.internal_port_first, serve.internal_port_first + 4):
        yield NeededPort("127.0.0.1", port, "the cluster", _INTERNAL, _INTERNAL_WANTED)
    page = metrics_port(config)
    if page is not None:
        yield NeededPort(
            config.telemetry.metrics_host,
            page,
            "GET /metrics",
            "LEDGER_TELEMETRY__METRICS_PORT",
            host_setting="LEDGER_TELEMETRY__METRICS_HOST",
        )
    if config.upstream.node_url is None:
        yield NeededPort("127.0.0.1", config.devnode.http_port, "the embedded chain", "LEDGER_DEVNODE__HTTP_PORT")


def _port_mistakes(config: Config) -> Iterator[str]:
    """Compare the ports of one run with each other: what listens second would fail, long after the start began."""
    serve, ports = config.serve, [one for one in needed_ports(config) if one.port]
    if serve.http_port == _PORT_MAX:
        yield f"serve.http_port: {_PORT_MAX}, wanted less: WebSockets use the next port"
    if config.upstream.node_url is None:
        setting, next_port = "LEDGER_DEVNODE__HTTP_PORT", config.devnode.http_port + 1
        ports.append(NeededPort("127.0.0.1", next_port, "the embedded chain's WebSockets", setting))
    for one, other in combinations(ports, 2):
        if one.port == other.port and _meet(one.host, other.host):
            yield (
                f"port {one.port} is wanted for {one.purpose} and for {other.purpose}: "
                f"change {one.setting}, or {other.setting}"
            )


def _meet(one: str, other: str) -> bool:
    return one == other or one in _ANY_ADDRESS or other in _ANY_ADDRESS


async def require_own_stores(config: Config, deadline_seconds: float = 30.0) -> None:
    """Ask the operator's own PostgreSQL and Redis for a sign of life. Raises StoreUnreachable, for both at once."""
    waits = []
    if config.storage.postgres_url is not None:
        waits.append(_reach_postgres(config.storage.postgres_url.get_secret_value(), deadline_seconds))
    if config.storage.redis_url is not None:
        waits.append(_reach_redis(config.storage.redis_url.get_secret_value(), deadline_seconds))
    faults = [fault for fault in await asyncio.gather(*waits, return_exceptions=True) if fault is not None]
    for fault in faults:
        if not isinstance(fault, StoreUnreachable):
            raise fault
    if faults:
        raise StoreUnreachable("\n".join(map(str, faults)))


async def _reach_postgres(url: str, seconds: float) -> None:
    await (await connect_postgres(url, connections_max=1, application=_APPLICATION, deadline_seconds=seconds)).close()


async def _reach_redis(url: str, seconds: float) -> None:
    await (await connect_redis(url, deadline_seconds=seconds)).aclose()
