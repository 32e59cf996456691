"""Assembles one devnode (folder, journal, chain, doors), and runs it from its start to a clean end.

Implements: start, restart on the same chain, shutdown on SIGTERM, SIGINT or the end of the parent process.
Wiring only. All doors (HTTP, WebSocket, gRPC, QUIC, block engine) are started here; they get the `Node`, subscribe to
`node.chain.bus` and submit through `node.chain.submit`. The status is a log line and, on a terminal, a line that is
rewritten in place; rich is only imported for a terminal, to keep the memory of other nodes small.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import orjson
import uvicorn

from actors.clock import Clock, SystemClock
from actors.free_memory import tune_gc
from actors.http_server.choice import CautiousApp, http_server
from actors.http_server.exchange import Doorway
from devnode.admin import admin_routes
from devnode.block_engine.endpoints import block_engine_routes
from devnode.block_engine.engine import BlockEngine
from devnode.chain.chain import Chain
from devnode.chain.crowd import CrowdSettings
from devnode.chain.faucet import Faucet
from devnode.chain.genesis import SALT_BYTES, Birth, chain_keys, genesis_accounts, leader_accounts, seeded_salt
from devnode.chain.open_block import SpaceLimits
from devnode.chain.pacemaker import Pacemaker
from devnode.cloning.cloner import Cloner
from devnode.cloning.upstream import HttpUpstream
from devnode.execution.dumps import load, overlaid
from devnode.execution.signature_checks import SignatureChecks
from devnode.faults.plan import FaultPlan
from devnode.geyser.hub import GrpcHub
from devnode.geyser.server import GeyserServer
from devnode.journal import journal as journal_module
from devnode.journal.archive import Archive
from devnode.journal.journal import FolderLock, Journal
from devnode.launchpad.genesis import launch_accounts
from devnode.ports import BACKLOG, address_text, open_ports, open_udp, port_of
from devnode.pubsub.door import SERVER_OPTIONS, PubsubDoor
from devnode.pubsub.hub import PubsubHub
from devnode.rpc.dispatch import Dispatcher
from devnode.rpc.http import HttpDoor
from devnode.rpc.node import Node
from devnode.rpc.table import METHODS
from devnode.settings import Dumps, Settings
from devnode.tpu.door import TpuDoor

logger = logging.getLogger("devnode")
PARENT_CHECK_SECONDS = 0.5


class ReadyFileUnusable(Exception):
    """The ready file cannot be written; the text says why."""


class Devnode:
    """A devnode. The constructor opens files and sockets and raises if it cannot; `run` serves, and closes them."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock if clock is not None else SystemClock()
        self._stop = asyncio.Event()
        self._sockets = open_ports(settings.host, settings.http_port, settings.ws_port)
        self.http_port = port_of(self._sockets[0])
        self.ws_port = port_of(self._sockets[-1])  # Without a second port this is the HTTP port, which serves both.
        with contextlib.ExitStack() as opened:
            for listening in self._sockets:
                opened.callback(listening.close)
            self._tpu_sockets = [
                open_udp(settings.host, settings.tpu_port if leader == 0 else 0, "--tpu-port")
                for leader in range(settings.leaders)
            ]
            for bound in self._tpu_sockets:
                opened.callback(bound.close)
            lock = FolderLock(settings.data_dir)
            opened.callback(lock.release)
            self._journal = Journal(settings.data_dir, settings.retention_slots)
            opened.callback(self._journal.close)
            self.node = self._open_chain()
            opened.callback(self.node.archive.close)
            self._opened = opened.pop_all()
        self.pacemaker = Pacemaker(self.node.chain, self._journal, self._clock, settings.slot_ms, self.node.faults)
        self.node.pacemaker = self.pacemaker
        if settings.clone_from is not None:
            upstream = HttpUpstream(settings.clone_from)
            self.node.cloner = Cloner(self.node.chain, upstream, self._clock, self._cloned_before)
        self._hub = PubsubHub(self.node)
        self._signature_checks = SignatureChecks()
        self._tpus = [TpuDoor(self.node, self._clock, leader=leader) for leader in range(settings.leaders)]
        self._block_engine = BlockEngine(self.node, self._clock)
        self._geyser_hub = GrpcHub(self.node, settings.geyser.replay_slots)
        self.geyser = GeyserServer(self.node, self._geyser_hub, settings.geyser, settings.host, settings.data_dir)

    def _open_chain(self) -> Node:
        settings, now = self.settings, self._clock.now()
        past = self._journal.restore()
        self._cloned_before = {} if past is None else past.cloned
        if past is not None:
            if settings.seed is not None and past.salt != seeded_salt(settings.seed):
                logger.warning("--seed is ignored: the chain in %s has another seed", settings.data_dir)
            if settings.dumps != Dumps():
                logger.warning(
                    "--account, --accounts and --program are ignored: the chain in %s exists", settings.data_dir
                )
            keys = chain_keys(past.seed, past.salt, settings.leaders)
            chain = Chain.restored(past, now, settings.root_depth)
            for pubkey, account in leader_accounts(keys):  # An earlier run may have had fewer leaders.
                if chain.vm.account(pubkey) is None:
                    chain.place(pubkey, account)
        else:
            seed = settings.seed or 0
            salt = secrets.token_bytes(SALT_BYTES) if settings.seed is None else seeded_salt(seed)
            keys = chain_keys(seed, salt, settings.leaders)
            loaded = load(settings.dumps.accounts, settings.dumps.programs, settings.dumps.folders)
            self._journal.begin(seed, salt)
            accounts = [*genesis_accounts(keys), *(launch_accounts() if settings.launch_programs else [])]
            chain = self._new_chain(Birth(salt, overlaid(accounts, loaded), now))
        node = Node(
            chain=chain,
            archive=Archive(settings.data_dir),
            keys=keys,
            faucet=Faucet(chain, keys.faucet),
            clock=self._clock,
            slot_ms=settings.slot_ms,
            http_address=address_text(settings.host, self.http_port),
            pubsub_address=address_text(settings.host, self.ws_port),
        )
        node.leaders.leader_at(chain.levels.building.slot)  # Draws the epoch's schedule, which would delay a send.
        node.faults.set(settings.faults)
        node.crowd.settings = CrowdSettings(load=settings.crowd, seed=settings.seed or 0)
        chain.limits = SpaceLimits(settings.block_units, settings.account_units)
        chain.levels.confirm_depth = settings.confirm_depth
        return node

    def _new_chain(self, birth: Birth) -> Chain:
        """Create a chain and seal its first blocks, so that every commitment level has a block from the start."""
        depth = self.settings.root_depth
        age_seconds = depth * self.settings.slot_ms // 1000
        chain = Chain.new(Birth(birth.salt, birth.accounts, birth.unix_time - age_seconds), depth)
        chain.levels.confirm_depth = self.settings.confirm_depth
        for beat in range(1, depth + 1):
            unix_time = birth.unix_time - (depth - beat) * self.settings.slot_ms // 1000
            sealed = chain.seal(unix_time, self._clock.monotonic())
            self._journal.flush(sealed)
            chain.mark_durable(sealed.block.slot)
        return chain

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """Close files and sockets of a devnode that never ran."""
        self._opened.close()

    async def run(self, on_ready: Callable[["Devnode"], None] | None = None) -> None:
        """Serve until `stop`, a signal or the end of the parent. Raises the error of a part that failed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        server = _Server(self._door())
        tasks = [
            asyncio.create_task(self.pacemaker.run(), name="pacemaker"),
            asyncio.create_task(server.serve(sockets=self._sockets), name="http"),
            asyncio.create_task(self._hub.run(), name="pubsub"),
            asyncio.create_task(self._geyser_hub.run(), name="geyser"),
            asyncio.create_task(self._block_engine.run(), name="block engine"),
            asyncio.create_task(self._stopped(), name="stop"),
        ]
        if self.settings.parent_pid is not None:
            tasks.append(asyncio.create_task(_wait_for_end_of(self.settings.parent_pid), name="parent"))
        try:
            self._block_engine.fund_tip_accounts()
            for tpu, bound in zip(self._tpus, self._tpu_sockets, strict=True):
                await tpu.open(bound)
            await self.geyser.start()
            await server.listening.wait()
            tune_gc()  # Later garbage collections skip present objects; otherwise they would delay slots.
            self._announce()
            if on_ready is not None:
                on_ready(self)
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._close(server, tasks)

    async def _stopped(self) -> None:
        await self._stop.wait()

    async def _close(self, server: "_Server", tasks: list[asyncio.Task[None]]) -> None:
        for tpu in self._tpus:
            tpu.close()
        await self.geyser.stop()
        server.should_exit = True
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(3):
                await asyncio.shield(tasks[1])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.node.cloner is not None:
            await self.node.cloner.close()
        self._signature_checks.close()
        if self.settings.ready_file is not None:
            self.settings.ready_file.unlink(missing_ok=True)
        try:
            await self.pacemaker.stop()
        finally:
            self._opened.close()

    def _door(self) -> uvicorn.Config:
        pubsub = PubsubDoor(self.node, self._hub)
        routes = admin_routes(self.node) | block_engine_routes(self._block_engine)
        dispatcher, checks = Dispatcher(self.node, METHODS), self._signature_checks
        door = HttpDoor(dispatcher, self.node.health, routes, pubsub, checks, self.node.cloner)
        http = http_server(Doorway(door, websocket_paths=None))
        return uvicorn.Config(
            door if http else CautiousApp(door),
            http=http or "auto",
            **SERVER_OPTIONS,
            loop="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="warning",
            server_header=False,
            proxy_headers=False,  # The admin door needs the true peer address, and there is no proxy in front.
            date_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=2,
        )

    def _announce(self) -> None:
        """Write the ready file in one step, so that no reader sees a part of it. Raises ReadyFileUnusable."""
        path = self.settings.ready_file
        if path is None:
            return
        facts = {
            "pid": os.getpid(),
            "url": f"http://{self.node.http_address}",
            "http_port": self.http_port,
            "ws_url": f"ws://{self.node.pubsub_address}",
            "ws_port": self.ws_port,
            "tpu_quic": self.node.tpu_quic_address,
            "grpc_url": f"http://{address_text(self.settings.host, self.geyser.port)}",
            "grpc_tls_url": f"https://{address_text(self.settings.host, self.geyser.tls_port)}",
            "grpc_ca_file": None if self.geyser.ca_file is None else str(self.geyser.ca_file.absolute()),
            "faucet": str(self.node.faucet.pubkey),
            "identity": str(self.node.keys.identity.pubkey()),
        }
        partial = path.with_name(path.name + ".partial")
        try:
            partial.write_bytes(orjson.dumps(facts) + b"\n")
            partial.replace(path)
        except OSError as error:
            text = f"{path}: cannot be written ({error.strerror}); give another --ready-file"
            raise ReadyFileUnusable(text) from error


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals: the devnode handles them, because it also has to close the chain."""
        yield


def wipe(settings: Settings) -> None:
    """Delete the chain of an earlier run. Raises FolderTaken while a devnode uses the folder."""
    lock = FolderLock(settings.data_dir)
    try:
        for suffix in ("", "-wal", "-shm"):
            (settings.data_dir / (journal_module.FILE_NAME + suffix)).unlink(missing_ok=True)
    finally:
        lock.release()


async def _wait_for_end_of(pid: int) -> None:
    """Wait until a process ends. Uses a process descriptor, which also reports a process that is dead but not waited
    for, and cannot be confused by a reused process id. Without descriptors, polls every half second."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        descriptor = None
    except (AttributeError, OSError):
        while _is_running(pid):  # noqa: ASYNC110 - there is no event to wait for.
            await asyncio.sleep(PARENT_CHECK_SECONDS)
        descriptor = None
    if descriptor is not None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
    logger.warning("process %d has ended, so this devnode ends too", pid)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


REFRESH_SECONDS = 0.5
_tasks: set[asyncio.Task[None]] = set()  # The loop itself keeps only weak references to its tasks.


def show_status(devnode: Devnode) -> None:
    """Show the status. Call it when the node answers calls."""
    url = f"http://{devnode.node.http_address}"
    logger.info(
        "listening on %s, TPU %s, gRPC %s and with TLS %d, slot %d, faucet %s",
        url,
        devnode.node.tpu_quic_address,
        address_text(devnode.settings.host, devnode.geyser.port),
        devnode.geyser.tls_port,
        devnode.node.chain.levels.building.slot,
        devnode.node.faucet.pubkey,
    )
    if sys.stdout.isatty():
        task = asyncio.get_running_loop().create_task(_follow(devnode, url))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)


async def _follow(devnode: Devnode, url: str) -> None:
    from rich.console import Console

    with Console().status("") as status:
        while True:
            chain = devnode.node.chain
            faults = "" if devnode.node.faults.plan == FaultPlan() else "[red]faults on[/red]  "
            status.update(
                f"[bold]devnode[/bold] {url}  gRPC {devnode.geyser.port}  slot {chain.levels.building.slot:,}  "
                f"transactions {chain.transaction_count:,}  {faults}(Ctrl-C stops)"
            )
            await asyncio.sleep(REFRESH_SECONDS)
