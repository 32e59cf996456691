"""Keeps Ray from starting programs and loading packages that a local run does not need.

Implements: design, "Measured facts" (what a local run starts). Ray's version is bounded in pyproject.toml, because this
replaces parts of it that it may change.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import actors
from actors.launch.local_run import worker_setup

logger = logging.getLogger(__name__)

_STARTERS = ("start_log_monitor", "start_monitor", "start_api_server")  # Methods of Ray's Node.
_DASHBOARD_LACKS = "get_dashboard_dependency_error"

_HOOK_VARIABLE = "WORKER_PROCESS_SETUP_HOOK_ENV_VAR"  # The constant with its name.


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
    start waits for it. Together they take 130 MB, and seconds of a processor at the start. The agent of the node is
    started as Ray starts it where the packages of its dashboard are not installed: it serves metrics of Ray's own
    otherwise. Ray has switches for none of that in `ray.init`. Where its parts are others, it starts them.
    """
    from ray._private import node, utils

    replaced = [(node.Node, name, _start_nothing) for name in _STARTERS] + [(utils, _DASHBOARD_LACKS, _lacks_dashboard)]
    before = [(owner, name, getattr(owner, name, None), instead) for owner, name, instead in replaced]
    missing = [name for _, name, found, _ in before if found is None]
    if missing:
        logger.info("Ray starts programs that nobody uses: it has no %s", ", ".join(missing))
    present = [one for one in before if one[2] is not None]
    for owner, name, _, instead in present:
        setattr(owner, name, instead)
    try:
        yield
    finally:
        for owner, name, found, _ in present:
            setattr(owner, name, found)


def _start_nothing(*_: Any, **__: Any) -> None:
    """Replaces a method of Ray's that starts a program."""


def _lacks_dashboard() -> str:
    """Replaces Ray's look for the packages of its dashboard."""
    return "no dashboard is wanted"
