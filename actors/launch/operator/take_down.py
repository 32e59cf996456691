"""Ends the product and Ray on all machines of a cluster that Ray's launcher has started.

Implements: cluster.yaml, "Take it down". `ray down` runs `ray stop` on the head alone; Ray on the other machines would
wait for their head for ten minutes (RAY_gcs_rpc_server_reconnect_timeout_s). `python -m
actors.launch.operator.take_down` runs on the head: it ends Serve, so that open calls are answered, has Ray ended on the
other machines, then here.
"""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.clock import Clock, SystemClock

_HEAD = "node:__internal_head__"  # A resource that Ray gives only to its head.
_CONTROLLER = "SERVE_CONTROLLER_ACTOR"
_LEAVE_SECONDS = 2  # The task that tells a machine to stop has answered by then.
_GONE_SECONDS, _POLL_SECONDS = 60.0, 0.5
_ASK_SECONDS = 60.0


def workers_of(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the machines that are alive beside the head: addresses by node id. nodes: as ray.nodes() gives them."""
    return {
        str(node["NodeID"]): str(node["NodeManagerAddress"])
        for node in nodes
        if node["Alive"] and _HEAD not in node["Resources"]
    }


async def await_none(
    is_there: Callable[[], object], clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> bool:
    """Wait until something is not there any more. False: it is still there after a minute."""
    deadline = clock.monotonic() + _GONE_SECONDS
    while is_there():
        if clock.monotonic() >= deadline:
            return False
        await sleep(_POLL_SECONDS)
    return True


def _is_serving(ray: Any) -> bool:
    """Serve's own shutdown waits for 30 s, and a replica may take longer to answer its calls."""
    try:
        ray.get_actor(_CONTROLLER, namespace="serve")
    except ValueError:
        return False
    return True


def _stop_command() -> list[str]:
    return [str(Path(sys.executable).with_name("ray")), "stop"]


def _stop_later() -> None:
    """Runs on a machine, in a worker of Ray, which `ray stop` ends: so a process of no worker does it."""
    script = f'(sleep {_LEAVE_SECONDS}; exec "$0" stop) >/dev/null 2>&1 &'
    subprocess.Popen(["/bin/sh", "-c", script, _stop_command()[0]], start_new_session=True)  # noqa: S603 (our own words)


def main() -> int:
    import ray  # Ray reads the environment while it is imported.
    from ray import serve
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    sys.stdout.write("Serve ends; calls that are under way are answered.\n")
    serve.shutdown()
    asyncio.run(await_none(lambda: _is_serving(ray), SystemClock()))
    workers = workers_of(ray.nodes())
    stop = ray.remote(num_cpus=0)(_stop_later)
    told = [
        stop.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote() for node in workers
    ]
    if told:
        ray.wait(told, num_returns=len(told), timeout=_ASK_SECONDS)
    asyncio.run(await_none(lambda: workers_of(ray.nodes()), SystemClock()))
    left = sorted(workers_of(ray.nodes()).values())
    ray.shutdown()
    if left:
        sys.stderr.write(f"Ray still runs on {', '.join(left)}: run `.venv/bin/ray stop` there.\n")
    sys.stdout.write(f"Ray has ended on {len(workers) - len(left)} machines beside the head, and ends here.\n")
    sys.stdout.write("Next, on your own machine: ray down cluster.yaml, which forgets the machines.\n")
    sys.stdout.flush()
    done = subprocess.run(_stop_command(), check=False)  # noqa: S603 (our own words)
    return 1 if left else done.returncode


if __name__ == "__main__":
    sys.exit(main())
