"""Deploys a running local product again, as a new release is deployed: all new replicas start before an old one ends.

As a program it joins the product's Ray, takes the settings of the replicas that run, changes one that only replicas
use, and has Serve deploy. `redeploy` runs it, and returns when the replicas of before have ended.
"""

import asyncio
import os
import sys
import time
from typing import Any

import psutil

from actors.launch.local_run.cluster import APPLICATION, run_application
from actors.launch.local_run.owner_commands import find_instance
from bench.product import ROOT, Product

_DRAINING = "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S"
_REPLICA = "ray::ServeReplica"
_SECONDS_MAX = 240.0


async def redeploy(product: Product, drain_seconds: float) -> float:
    """Return how long it took. drain_seconds: the grace of the new replicas, when they are replaced in turn."""
    began, before = time.monotonic(), product.running(_REPLICA)
    of_ray = psutil.Process(product.running("raylet/raylet")[0]).environ()
    address = find_instance(product.data_dir / "run").ray_address
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.stream_checks.redeployment", str(drain_seconds)),
        cwd=ROOT,
        env={**of_ray, "RAY_ADDRESS": address, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), _SECONDS_MAX)
    assert process.returncode == 0, said.decode(errors="replace")[-4_000:]
    async with asyncio.timeout(_SECONDS_MAX):
        while set(before) & set(product.running(_REPLICA)):  # noqa: ASYNC110 - another process ends.
            await asyncio.sleep(0.2)
    return time.monotonic() - began


def main(drain_seconds: float) -> None:
    import ray  # Reads the environment while imported.
    from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE

    from actors.gateway.actor import application

    ray.init(address=os.environ["RAY_ADDRESS"], namespace=APPLICATION, log_to_driver=False)
    controller: Any = ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)
    config, assemble = _arguments(ray.get(controller.get_deployment_info.remote("Gateway", APPLICATION)))
    gateway = config.gateway.model_copy(
        update={"account_refusals_per_second": config.gateway.account_refusals_per_second + 1}
    )
    assembled = _with_grace(assemble, drain_seconds)
    bound = application(config.model_copy(update={"gateway": gateway}), assembled, drain_seconds)
    run_application(bound)


def _with_grace(assemble: Any, drain_seconds: float) -> Any:
    """Return what builds a replica with this grace, in place of the run's own. Serve reads it from the environment, and
    a local run has no agent that makes another environment for a process (decisions, "A local run at rest")."""

    async def with_grace(config: Any) -> Any:
        from ray.serve._private import constants, replica

        for module in (constants, replica):
            assert hasattr(module, _DRAINING), module
            setattr(module, _DRAINING, drain_seconds)
        return await assemble(config)

    return with_grace


def _arguments(route: bytes) -> tuple[Any, Any]:
    """Return what the replicas were made with."""
    from ray.serve._private.deployment_info import DeploymentInfo
    from ray.serve.generated.serve_pb2 import DeploymentRoute

    info = DeploymentInfo.from_proto(DeploymentRoute.FromString(route).deployment_info)
    config, assemble, *_ = info.replica_config.init_args
    return config, assemble


if __name__ == "__main__":
    main(float(sys.argv[1]))
