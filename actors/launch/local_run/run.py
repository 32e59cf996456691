"""Runs the whole product on one machine: starts all parts, waits for a stop signal, stops all parts.

Implements: the README's first command. Checks that fail quickly come first (settings, folder, ports). Then the stores
and Ray start at the same time, Serve and the process of small actors beside the stores, the owners of accounts beside
Serve and the application, then the demo account, and the ready file.
Not here: the parts of the application (serve_app.py hands it in).
"""

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors import hosting
from actors.accounts.api import AdjustCredits
from actors.clock import SystemClock
from actors.config import Config, ConfigError
from actors.config_loader import Loaded, load
from actors.free_memory import tune_gc
from actors.gateway.replicas import has_spare_on, range_on, replicas_on
from actors.launch.front import installation as front
from actors.launch.front import tls_edge as edge
from actors.launch.local_run import (
    cluster,
    demo,
    leftovers,
    memo_setup,
    sponsor_setup,
    start_checks,
    stores,
    supervisor_process,
    wallets,
)
from actors.launch.local_run import owner_commands as operator
from actors.launch.local_run.deadlines import GivenUp, Stop, within
from actors.launch.local_run.readiness import until_deployed, until_healthy
from actors.launch.local_run.screen import Demo, Ready, Screen
from actors.local_servers import ports
from actors.local_servers.child_processes import ChildFailed, Supervisor
from actors.local_servers.datadir import DataDir, DataDirError, default_path, remove
from actors.local_servers.private_files import write_private
from actors.provider_config import shown_url
from actors.signals import api as classifier_names
from actors.storage.connections import StoreUnreachable
from actors.storage.schema_plan import MigrationStep, SchemaMismatch
from actors.telemetry import logs
from actors.telemetry.metrics_page import metrics_url, place_metrics_page
from actors.telemetry.shared_process import place_shared_process

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
# Files below the data folder that --fresh keeps: a key that is deleted takes with it the money of its wallet.
_KEY_FILES = tuple(f"secrets/{name}" for name in (wallets.FILE, *sponsor_setup.KEY_FILES))
_PARTS_OF_ACTORS = "actors.launch.assembly.placing"  # Imports the classes of all actors beside the owners.
_STOP_SIGNAL_SECONDS = 1.0  # For a stop signal sent to all processes at once.


@dataclass(frozen=True, slots=True)
class Parts:
    """The product, assembled by serve_app.py."""

    application: Callable[[Config], Any]  # The bound Serve application.
    place_owners: Callable[[Config], Any]  # Starts the actors that own accounts.
    migrate: Callable[[Config], Config]  # Brings the database to this version's tables; returns the settings for Ray.
    # What `migrate` would do, and the same in a transaction that is rolled back.
    planned_steps: Callable[[Config], tuple[MigrationStep, ...]]
    try_out: Callable[[Config], tuple[MigrationStep, ...]]


@dataclass(frozen=True, slots=True)
class Options:
    data_dir: Path | None
    fresh: bool
    config_path: Path | None
    ready_file: Path | None
    overrides: dict[str, str]  # Environment names to values, from command-line options.


def settings(options: Options) -> Loaded:
    """Load the settings from the environment, the options and the file. Raises ConfigError."""
    return load({**os.environ, **options.overrides}, options.config_path)


def data_path(config: Config, given: Path | None) -> Path:
    return (given or config.storage.data_dir or default_path(os.environ)).expanduser().absolute()


def run(options: Options, parts: Parts) -> int:
    """Start all parts, wait for a stop signal, stop all parts. Returns the exit code."""
    screen = Screen()
    stop = Stop()
    supervisor_process.accept_signals(stop.set)
    try:
        config = settings(options).config
        start_checks.require_startable(config, data_path(config, options.data_dir) / "secrets")
        start_checks.require_room(config, os.cpu_count() or 1)
        _require_place(options.ready_file)
        with _opened(config, options, screen) as data, Supervisor() as supervisor:
            _require_own_stores(config, screen, stop)
            return _Run(config, data, supervisor, screen, stop, options, parts).go()
    except (ConfigError, DataDirError, ports.PortTaken, ChildFailed, cluster.StartFailed) as error:
        return _not_started(screen, stop, error)
    except (
        demo.DemoFailed,
        front.FrontUnusable,
        GivenUp,
        sponsor_setup.SponsorFailed,
        operator.OperatorError,
        StoreUnreachable,
        SchemaMismatch,
        TimeoutError,
    ) as error:
        return _not_started(screen, stop, error)


def _not_started(screen: Screen, stop: Stop, error: Exception) -> int:
    if stop.is_set():  # The servers may have received the same stop signal, which explains the error.
        return 0
    screen.failed(str(error) or type(error).__name__)
    return 1


def _require_place(ready_file: Path | None) -> None:
    """Raise ConfigError where the ready file could not be written, which would be found at the end of the start."""
    if ready_file is not None and (ready_file.is_dir() or not os.access(ready_file.absolute().parent, os.W_OK)):
        raise ConfigError(f"--ready-file: {ready_file} cannot be written; name a file in a folder that can be")


def _opened(config: Config, options: Options, screen: Screen) -> DataDir:
    """Return the data folder, locked; with --fresh it is emptied before.

    Taken ports and a folder in use are told together: another run on this machine usually has both. Nothing is deleted
    while the run cannot start. Raises DataDirError and PortTaken.
    """
    path = data_path(config, options.data_dir)
    try:
        ports.require_free_ports(start_checks.needed_ports(config))
    except ports.PortTaken as taken:
        try:
            DataDir(path).close()
        except DataDirError as error:
            raise DataDirError(f"{error}\n{taken}") from taken
        raise
    if options.fresh and remove(path, kept=_KEY_FILES):
        screen.say(f"removed the data in {path}; wallets' keys stay in its secrets/")
    return DataDir(path)


def _require_own_stores(config: Config, screen: Screen, stop: Stop) -> None:
    """Wait for the operator's own PostgreSQL and Redis, before Ray starts. Raises StoreUnreachable, GivenUp."""
    if config.storage.postgres_url is not None or config.storage.redis_url is not None:
        with screen.step("reaching your stores"):
            wait = start_checks.require_own_stores(config)
            within(lambda: asyncio.run(wait), None, lambda: not stop.is_set())


class _Run:
    def __init__(
        self,
        config: Config,
        data: DataDir,
        supervisor: Supervisor,
        screen: Screen,
        stop: Stop,
        options: Options,
        parts: Parts,
    ) -> None:
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._config, self._data, self._supervisor = config, data, supervisor
        self._screen, self._stop, self._options, self._parts = screen, stop, options, parts
        self._head: cluster.RayHead | None = None
        self._application_runs = False
        self._secrets = wallets.load_or_make(data.folder("secrets"))
        self._embedded_chain = config.upstream.node_url is None
        self._edge: edge.Edge | None = None
        self._cores = os.cpu_count() or 1
        host = config.serve.plain_host
        host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104
        self._http_url = f"http://{host}:{config.serve.http_port}"

    def go(self) -> int:
        self._remove_ready_file()  # Of a run that was killed: whoever waits for this start must not take it for ready.
        run_folder = leftovers.make_scratch(self._data.folder("run"))
        leftovers.remove_old_logs(self._data.logs)
        try:
            if self._start(run_folder):
                tune_gc()
                self._wait_for_stop()
            return 0
        except cluster.RayGone:
            # A service manager may stop all processes at the same time; then this is no failure.
            if self._stop.wait(_STOP_SIGNAL_SECONDS):
                return 0
            self._screen.ended(
                f"Ray's own processes have ended by themselves; their logs are in {cluster.RAY_LOGS}; "
                "all other processes are stopped too: start the product again"
            )
            return 1
        finally:
            self._remove_ready_file()
            self._supervisor.let_end()  # A child that the same signal stops must not be restarted.
            operator.withdraw(self._data.folder("run"))
            kept = [state.pid for state in self._supervisor.states() if state.pid is not None]
            cluster.stop_ray(self._head, self._screen.say, kept, self._application_runs)
            self._supervisor.stop()
            shutil.rmtree(run_folder, ignore_errors=True)
            self._screen.say(f"stopped; accounts, ledger and chain are kept in {self._data.path}")

    def _remove_ready_file(self) -> None:
        if self._options.ready_file is not None:
            self._options.ready_file.unlink(missing_ok=True)

    def _wait_for_stop(self) -> None:
        assert self._head is not None
        while not self._stop.wait(_LOOK_SECONDS):
            if not self._head.lives():
                raise cluster.RayGone
        self._screen.say("stopping")

    def _with_folders(self, config: Config) -> Config:
        """The settings with folders of the data folder, where none is named."""
        telemetry, accounts = config.telemetry, config.accounts
        if telemetry.log_dir is None:
            telemetry = telemetry.model_copy(update={"log_dir": self._data.logs})
        if accounts.roots_dir is None:
            accounts = accounts.model_copy(update={"roots_dir": self._data.folder("roots")})
        return config.model_copy(update={"telemetry": telemetry, "accounts": accounts})

    def _start(self, run_folder: Path) -> bool:
        config = stores.fill_local(self._config, self._secrets, self._data.folder("secrets"))
        config = self._with_folders(config)
        logs.set_up(config.telemetry, "run", config.telemetry.log_dir, people=True)
        if config.serve.tls and config.serve.public_url is None:
            serve = config.serve.model_copy(update={"public_url": edge.https_url(config.serve)})
            config = config.model_copy(update={"serve": serve})
        with ThreadPoolExecutor(3) as pool:
            # Ray takes longest and must be started by the main thread; the stores start meanwhile.
            stores_started = pool.submit(self._start_stores, config)
            with self._screen.step("starting Ray"):
                front_program = self._install_front(run_folder, config)
                if config.serve.tls:
                    self._edge = edge.install(run_folder, config, self._data.folder("tls"))
                environment = cluster.ray_environment(config.serve, run_folder)
                try:
                    head = cluster.start_ray(environment | cluster.token_environment(self._secrets.ray_token))
                except SystemExit:  # From Ray's handler of SIGTERM, which is in place until ours is set again.
                    self._stop.set()
                    return False
                self._head = head
                supervisor_process.accept_signals(self._stop.set)
            serve_started = pool.submit(self._start_serve, head, config, front_program)
            beside = [pool.submit(self._start_small_actors, head, config)]
            with self._screen.step("starting PostgreSQL, Redis and the chain"):
                config = stores_started.result()
                config = self._parts.migrate(config)
            beside.append(pool.submit(self._start_owners, head, config))
            with self._screen.step("starting Ray Serve"):
                serve_started.result()
            if self._stop.is_set() or not self._start_gateway(head, config, beside):
                return False
        if self._edge is not None:
            with self._screen.step("starting TLS"):
                self._supervisor.start(edge.child(self._edge, config.serve, self._data.logs))
        if self._stop.is_set():
            return False
        instance = operator.Instance(head.address)
        operator.announce(self._data.folder("run"), instance)
        account = None
        if config.payments.network != "mainnet":  # Credits are worth money there, so none are given away.
            with self._screen.step("preparing the demo account"):
                account = head.during(lambda: self._prepare_demo(config))
        with self._screen.step("waiting for all replicas"):
            head.during(lambda: asyncio.run(until_deployed(self._stop, cluster.is_deployed)))
        if self._stop.is_set():
            return False
        self._show(head, config, account)
        return True

    def _start_gateway(self, head: cluster.RayHead, config: Config, beside: Sequence[Future[None]]) -> bool:
        """Deploy the replicas, and wait until one takes paid calls. False: the run is to stop.

        beside: what starts meanwhile. A replica starts without it, and longer than it; where it fails, nobody waits for
        the replica.
        """
        replicas = replicas_on(self._cores, config.gateway)
        names = f"{replicas} replica{'s' if replicas > 1 else ''}"
        if has_spare_on(self._cores, config.gateway):
            names = "a replica and a spare one"
        elif (limits := range_on(self._cores, config.gateway)) is not None:
            names = f"{limits[0]} to {limits[1]} replicas"
        with self._screen.step(f"starting the gateway, {names}"):
            if self._stop.is_set():
                return False
            self._application_runs = True
            head.during(lambda: cluster.run_application(self._parts.application(config)))
            for started in beside:
                started.result()
            head.during(lambda: asyncio.run(until_healthy(self._http_url, self._stop, cluster.is_deployed)))
        return True

    def _start_serve(self, head: cluster.RayHead, config: Config, front_program: Path) -> None:
        has_grpc = self._embedded_chain or config.upstream.yellowstone_url is not None
        head.during(lambda: cluster.start_serve(config.serve, front_program, has_grpc))

    def _start_owners(self, head: cluster.RayHead, config: Config) -> None:
        head.during(lambda: self._parts.place_owners(config))

    def _start_small_actors(self, head: cluster.RayHead, config: Config) -> None:
        """Start the process that the replicas place small actors in. It loads their parts meanwhile."""
        if config.serve.small_actors == "together":
            # The whole traffic of a public network is half a core for the classifier: it has a process of its own.
            apart = () if self._embedded_chain else (classifier_names.ACTOR_PREFIX,)
            head.during(lambda: place_shared_process(config, apart, _PARTS_OF_ACTORS))
        head.during(lambda: place_metrics_page(config))

    def _start_stores(self, config: Config) -> Config:
        """Start the stores and the chain, and fund the demo wallet.

        The wallet is funded this early because a transfer is final after 32 slots. Clients that check a balance at
        finalized, as solana-py does by default, see the money only then.
        """
        started = stores.start_missing(config, self._data, self._supervisor)
        if self._embedded_chain:
            assert started.upstream.node_url is not None
            asyncio.run(demo.fund(started.upstream.node_url, self._secrets.demo))
            asyncio.run(sponsor_setup.prepare_embedded(started))
            asyncio.run(memo_setup.fund_embedded(started))
        return started

    def _install_front(self, run_folder: Path, config: Config) -> Path:
        has_spare = has_spare_on(self._cores, config.gateway)
        return front.install(run_folder, config, config.serve.plain_host, config.serve.http_port + 1, has_spare)

    def _prepare_demo(self, config: Config) -> Demo:
        """Return the demo account. The first start makes it."""
        wallet, folder = self._secrets.demo, self._data.folder("secrets")
        api_key = self._secrets.demo_api_key
        if api_key is None or not asyncio.run(demo.key_works(self._http_url, api_key)):
            api_key = asyncio.run(demo.issue_api_key(self._http_url, wallet))
            wallets.keep_demo_api_key(folder, api_key)
        account, reason = operator.account_of(wallet.pubkey), "demo credits of a local run"
        grant = AdjustCredits(account, demo.DEMO_CREDITS, reason, "demo:first-grant")
        return Demo(wallet.pubkey, api_key, operator.ask_owner_here(grant).balance)

    def _show(self, head: cluster.RayHead, config: Config, account: Demo | None) -> None:
        serve, node_url = config.serve, config.upstream.node_url
        assert node_url is not None
        grpc_target = f"{self._http_url.removeprefix('http://').partition(':')[0]}:{serve.grpc_port}"
        if self._options.ready_file is not None:
            content = {
                "http_url": self._http_url,
                "ws_url": f"{self._http_url.replace('http', 'ws', 1)}/ws",
                "grpc_target": grpc_target,
                **_tls_addresses(self._edge),
                "node_url": node_url,
                "node_ws_url": config.upstream.node_ws_url,
                "metrics_url": metrics_url(config),
                "api_key": account and account.api_key,
                "pubkey": account and account.pubkey,
                "secret_key": account and self._secrets.demo.secret_key,
                "data_dir": str(self._data.path),
                "pids": cluster.process_table(head.during(hosting.process_ids)),
            }
            write_private(self._options.ready_file, json.dumps(content, indent=2))
        seconds = self._clock.monotonic() - self._began
        nodes = ", ".join(shown_url(node.url.get_secret_value()) for node in config.upstream.named_nodes)
        url, ca_file = (None, None) if self._edge is None else (self._edge.url, self._edge.ca_file)
        shown = grpc_target if config.upstream.yellowstone_url is not None else None
        page, told = metrics_url(config), self._options.ready_file
        self._screen.ready(
            Ready(self._http_url, nodes, account, self._data.path, seconds, url, ca_file, shown, page, told)
        )


def _tls_addresses(tls: edge.Edge | None) -> dict[str, str | None]:
    """Return what the ready file says of TLS: nothing without it."""
    if tls is None:
        return {}
    return {
        "https_url": tls.url,
        "wss_url": f"{tls.url.replace('https', 'wss', 1)}/ws",
        "grpc_tls_target": tls.url.removeprefix("https://"),
        "tls_ca_file": None if tls.ca_file is None else str(tls.ca_file),
    }
