"""Starts PostgreSQL, Redis and the embedded chain for a run, each only where no URL of another one is configured.

Implements: design, "The system in one picture" ("setting a URL for any of the three uses the real one instead; nothing
else changes"). Not here: how the servers are started and kept (local_servers/).
"""

import asyncio
import atexit
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from pydantic import SecretStr

import actors
from actors.config import Config, ConfigError, environment_name
from actors.launch.local_run.memo_setup import fund_embedded, with_memos
from actors.launch.local_run.sponsor_setup import prepare_embedded, with_sponsor
from actors.launch.local_run.start_checks import needed_ports, network_of, require_whole
from actors.launch.local_run.tpu_identity import with_tpu_identity
from actors.launch.local_run.wallets import LocalSecrets, load_or_make
from actors.local_servers.child_processes import Child, Supervisor
from actors.local_servers.datadir import DataDir, default_path
from actors.local_servers.embedded_postgres import EmbeddedPostgres
from actors.local_servers.embedded_redis import EmbeddedRedis
from actors.local_servers.ports import free_port_from

EMBEDDED_SOL_USD_MICRO = 150_000_000  # Price of the embedded chain's SOL: 150 dollars.
_PROBE_SECONDS = 0.5
_DEVNODE_GRPC_ABOVE_HTTP = 2  # WebSockets have the port between. Runs that start at the same moment differ in it.
_PORT_MAX = 65_535


def require_cluster_settings(config: Config) -> None:
    """Raise ConfigError unless everything is configured that all machines of a cluster must share."""
    wanted = {
        "storage.postgres_url": config.storage.postgres_url,
        "storage.redis_url": config.storage.redis_url,
        "storage.cluster_secret": config.storage.cluster_secret,
        "upstream.node_url": config.upstream.node_url,
        "payments.deposit_wallet": config.payments.deposit_wallet,
    }
    missing = [name for name, value in wanted.items() if value is None]
    if missing:
        raise ConfigError(
            "\n".join(f"{name}: a cluster needs it; set {environment_name(name)}" for name in missing)
            + "\nOn one machine `python serve_app.py` and `serve run serve_app:app` need none of these settings."
        )
    require_whole(config)


def start_missing(config: Config, data: DataDir, supervisor: Supervisor) -> Config:
    """Start all servers that have no URL, at once, and return the configuration with every URL filled in.

    Raises ChildFailed when a server cannot be started.
    """
    children: list[Child] = []
    storage, upstream, sends = config.storage, config.upstream, config.sends
    if storage.postgres_url is None:
        postgres = EmbeddedPostgres(data)
        children.append(postgres.child)
        urls = {"postgres_url": postgres.url, "postgres_migrations_url": postgres.migrations_url}
        storage = storage.model_copy(update={name: SecretStr(url) for name, url in urls.items()})
    if storage.redis_url is None:
        redis = EmbeddedRedis(data)
        children.append(redis.child)
        storage = storage.model_copy(update={"redis_url": SecretStr(redis.url)})
    if upstream.node_url is None:
        url = f"http://127.0.0.1:{config.devnode.http_port}"
        grpc_port = _devnode_grpc_port(config)
        children.append(_devnode(config, data, url, grpc_port))
        upstream = upstream.model_copy(update={"node_url": url, "node_ws_url": url.replace("http", "ws", 1)})
        if upstream.yellowstone_url is None:
            upstream = upstream.model_copy(update={"yellowstone_url": f"http://127.0.0.1:{grpc_port}"})
        if not sends.engines:
            sends = sends.model_copy(update={"block_engine_url": url})  # The embedded chain also has a block engine.
    supervisor.start(*children)
    return config.model_copy(update={"storage": storage, "upstream": upstream, "sends": sends})


def fill_local(config: Config, secrets: LocalSecrets, secrets_folder: Path | None = None) -> Config:
    """Return the configuration with the secrets that a local run makes: the cluster's secret, the operator's token
    and the payment keys.

    Configured values stay. A key that holds real money is made by the operator: a sponsor's is made here for the
    embedded chain only, and the deposit wallet's for no mainnet.
    """
    storage, payments = config.storage, config.payments
    if storage.cluster_secret is None:
        storage = storage.model_copy(update={"cluster_secret": SecretStr(secrets.cluster_secret)})
    embedded_chain = config.upstream.node_url is None
    network = network_of(config)
    made = None if network == "mainnet" else secrets.deposit.pubkey
    wallet = payments.deposit_wallet or made
    payments = payments.model_copy(update={"network": network, "deposit_wallet": wallet})
    trades = config.trades
    if embedded_chain and trades.sol_usd_micro is None:  # Its SOL has no market, and no account with a price.
        trades = trades.model_copy(update={"sol_usd_micro": EMBEDDED_SOL_USD_MICRO})
    operator = config.operator
    if operator.token is None:
        operator = operator.model_copy(update={"token": SecretStr(secrets.operator_token)})
    changed = {"storage": storage, "payments": payments, "trades": trades, "operator": operator}
    config = config.model_copy(update=changed)
    config = with_memos(with_tpu_identity(config), secrets.memos.seed if embedded_chain else None)
    return with_sponsor(config, secrets_folder, secrets.sponsor.seed if embedded_chain else None)


def _devnode_grpc_port(config: Config) -> int:
    """Return a port that is free, and that no other part of this run will listen on later."""
    wanted, taken = config.devnode.http_port + _DEVNODE_GRPC_ABOVE_HTTP, {one.port for one in needed_ports(config)}
    while wanted in taken:
        wanted += 1
    return free_port_from("127.0.0.1", min(wanted, _PORT_MAX))


def _devnode(config: Config, data: DataDir, url: str, grpc_port: int) -> Child:
    def is_ready(_pid: int) -> bool:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=_PROBE_SECONDS) as answer:  # noqa: S310 - our own URL.
                return bool(answer.read() == b"ok") and (data.folder("devnode") / "ready.json").exists()
        except (urllib.error.URLError, OSError):
            return False

    command = (
        *(sys.executable, "-m", "devnode"),
        *("--http-port", str(config.devnode.http_port), "--data-dir", str(data.folder("devnode"))),
        *("--slot-ms", str(config.devnode.slot_ms)),
        *(() if config.devnode.seed is None else ("--seed", str(config.devnode.seed))),
        # Given, so that it is the same after a restart: the gateway subscribes there.
        *("--grpc-port", str(grpc_port)),
        # Where the usual port for TPU is taken, devnode uses a free one; the file names it.
        *("--ready-file", str(data.folder("devnode") / "ready.json")),
    )
    return Child(
        name="devnode",
        command=command,
        log_path=data.logs / "devnode.log",
        is_ready=is_ready,
        # It runs in the root folder, so the path leads it to the package, installed or cloned.
        environment={"PYTHONPATH": str(Path(actors.__file__).parents[1]), "HOME": str(data.path)},
    )


def start_beside(config: Config) -> Config:
    """Start all servers that have no URL, for as long as this process lives; for `serve run`.

    Raises as start_missing and DataDir do.
    """
    require_whole(config)
    data = DataDir((config.storage.data_dir or default_path(os.environ)).expanduser().absolute())
    supervisor = Supervisor()
    atexit.register(data.close)
    atexit.register(supervisor.stop)  # Runs before data.close: handlers run in reverse order.
    folder = data.folder("secrets")
    started = start_missing(fill_local(config, load_or_make(folder), folder), data, supervisor)
    if config.upstream.node_url is None:
        asyncio.run(prepare_embedded(started))
        asyncio.run(fund_embedded(started))
    return started
