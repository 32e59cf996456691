"""Keeps Ray from starting programs and loading packages that a local run does not need.

Implements: design, "Measured facts" (what a local run starts). Ray's version is bounded in pyproject.toml, because this
replaces parts of it that it may change.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import actors
from actors.launch.front.installation import is_known
from actors.launch.local_run import worker_setup

logger = logging.getLogger(__name__)

# What Ray's head and raylet look at ten times a second by default, or four times: changes of a node's resources, which
# only a cluster has; objects on other nodes; the space of a disk on which nothing is put; memory, and idle workers.
RARE_LOOKS: Final[Mapping[str, str]] = {
    "RAY_raylet_report_resources_period_milliseconds": "1000",
    "RAY_raylet_check_gc_period_milliseconds": "10000",
    "RAY_object_manager_timer_freq_ms": "5000",
    "RAY_local_fs_monitor_interval_ms": "10000",
    "RAY_memory_monitor_refresh_ms": "1000",
    "RAY_kill_idle_workers_interval_ms": "1000",
    "RAY_gcs_pull_resource_loads_period_milliseconds": "10000",
    "RAY_debug_dump_period_milliseconds": "60000",
    # Figures of a replica that Serve keeps for nobody, by default ten times a second. Not seldom: all that came since
    # the last time are counted at once, on the loop that calls wait for.
    "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "200",
}

_STARTERS = ("start_log_monitor", "start_monitor", "start_api_server")  # Methods of Ray's Node.
# The two agents of a node: how the raylet's option with the command of each begins, and the names of the ports that it
# tells the raylet, which are constants of Ray's.
_AGENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "--dashboard_agent_command=": (
        "METRICS_AGENT_PORT_NAME",
        "METRICS_EXPORT_PORT_NAME",
        "DASHBOARD_AGENT_LISTEN_PORT_NAME",
    ),
    "--runtime_env_agent_command=": ("RUNTIME_ENV_AGENT_PORT_NAME",),
}
_NO_PORT = -1  # What Ray's own agents tell of a port on which they do not listen.
_SESSION, _NODE = "--session_dir=", "--node_id="  # Options of the raylet.
_STAND_IN = Path(__file__).with_name("agent_stand_in.py")

# Variables of a user, or of a job of another Ray, with which Ray asks for a runtime environment.
_ENVIRONMENTS: Final = ("RAY_RUNTIME_ENV_HOOK", "RAY_JOB_CONFIG_JSON_ENV_VAR")
_UV_RUN = "RAY_ENABLE_UV_RUN_RUNTIME_ENV"  # Whether it asks for one by itself where a parent process is `uv run`.
_HOOK_VARIABLE = "WORKER_PROCESS_SETUP_HOOK_ENV_VAR"  # The constant with its name.


def use(environment: Mapping[str, str]) -> None:
    """Make this the environment of Ray in this process, before Ray is imported.

    The process, which starts a local run's Ray or joins it, must not ask for a runtime environment. Nobody makes one
    there: the raylet would wait for its agent and then end, and with it the whole run.
    """
    os.environ.update({**environment, _UV_RUN: "0"})
    for name in _ENVIRONMENTS:
        os.environ.pop(name, None)


def set_up_workers() -> None:
    """Have this process, and all of Ray that it starts, do as worker_setup.py says. Call it before Ray starts.

    In `ray.init` the same hook is part of a runtime environment, which its agent would have to make for each worker.
    """
    from ray._private import ray_constants

    worker_setup.leave_pandas_out()
    variable = getattr(ray_constants, _HOOK_VARIABLE, None)
    if variable is None:
        logger.info("Ray's processes load packages that nobody uses: it has no %s", _HOOK_VARIABLE)
        return
    os.environ[variable] = f"{worker_setup.__name__}.{worker_setup.leave_pandas_out.__name__}"
    # Ray tells its processes this one's search path only later, with their first task.
    root = str(Path(actors.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))


@contextmanager
def without_helpers() -> Iterator[None]:
    """Have Ray start none of the programs beside its head that nobody uses here, for as long as the block runs.

    The reader of log files looks for new lines ten times a second, for nobody: `log_to_driver` is off. The autoscaler
    would start machines. The API server has been told to serve no dashboard, and reports usage alone, which is off; the
    start waits for it. Together they take 130 MB, and seconds of a processor at the start. In place of the node's two
    agents, a program starts that waits (`_without_agents`). Ray has switches for none of that in `ray.init`. Where its
    parts are others, it starts them.
    """
    from ray._private import node, services

    starts_raylet = "start_ray_process"
    replaced: list[tuple[Any, str, Callable[[Any], Any]]] = [
        *((node.Node, name, lambda _: _start_nothing) for name in _STARTERS),
        (services, starts_raylet, _without_agents),
    ]
    missing = [name for owner, name, _ in replaced if not hasattr(owner, name)]
    if missing:
        logger.info("Ray starts programs that nobody uses: it has no %s", ", ".join(missing))
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in replaced if hasattr(owner, name)]
    for owner, name, instead in replaced:
        if name not in missing:
            setattr(owner, name, instead(getattr(owner, name)))
    try:
        yield
    finally:
        for owner, name, found in before:
            setattr(owner, name, found)


def _without_agents(start: Callable[..., Any]) -> Callable[..., Any]:
    """Return what starts a process of Ray as `start` does, and a raylet without its two agents.

    One serves figures of Ray's own and what a dashboard asks; the other makes the environments that tasks and actors
    name, and none of this product names one. They take 130 MB, half a per cent of a core, and 3 s of a processor at the
    start, for which the raylet waits. It insists on a command for each, ends when one ends, and waits until each has
    told its ports; so each is told as not listening, and a program takes its place that ends with the raylet.
    """

    def started(command: list[str], *arguments: Any, **more: Any) -> Any:
        return start(with_stand_ins(command), *arguments, **more)

    return started


def with_stand_ins(command: list[str]) -> list[str]:
    """Return the command of a raylet with programs in the place of its agents, whose ports are told here.

    Any other command, and that of a raylet which is started otherwise than this knows, is returned as it is. So is that
    of another version of Ray: it might wait for more, and the start would not come to saying which version is needed.
    """
    import ray
    import ray._raylet as parts

    if not any(argument.startswith(tuple(_AGENTS)) for argument in command):
        return command
    told = [getattr(parts, name, None) for names in _AGENTS.values() for name in names]
    session, node = _value(command, _SESSION), _value(command, _NODE)
    if (
        session is None
        or node is None
        or None in told
        or not hasattr(parts, "persist_port")
        or not is_known(ray.__version__)
    ):
        logger.info("Ray starts agents that nobody uses: its raylet has other options")
        return command
    for port in told:
        parts.persist_port(session, node, port, _NO_PORT)
    # -I and -S: without the environment's packages, which it does not need.
    program = subprocess.list2cmdline([sys.executable, "-I", "-S", str(_STAND_IN)])
    begins = {argument: begin for argument in command for begin in _AGENTS if argument.startswith(begin)}
    return [begins[argument] + program if argument in begins else argument for argument in command]


def _value(command: list[str], begin: str) -> str | None:
    return next((argument.removeprefix(begin) for argument in command if argument.startswith(begin)), None)


def _start_nothing(*_: Any, **__: Any) -> None:
    """Replaces a method of Ray's that starts a program."""
