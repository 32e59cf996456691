"""The Ray Serve deployment of the gateway: stateless replicas, as many as the operator wants.

Implements: design, "Measured facts" (exactly one application; its ingress deployment takes every protocol). Holds no
rules: opens the replica's connections, and closes them again.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy

from actors.clock import SystemClock
from actors.config import Config
from actors.gateway.autoscaling import METRIC, LoadMeter, replicas_for
from actors.gateway.doors import serve_layer
from actors.gateway.replicas import REPLICAS_PER_CORE_MAX, range_on, replicas_on

_LAST_CALLS_SECONDS = 10.0  # Time for running calls after a replica stops taking connections.
# Interval of load reports, and the period of which Serve takes the mean.
_REPORT_SECONDS, _LOOK_BACK_SECONDS = 5.0, 15.0
ONGOING_MAX = 100_000  # The door refuses calls above gateway.calls_in_flight_max; Serve must not queue any.

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]
Close = Callable[[], Awaitable[None]]
Assemble = Callable[[Config], Awaitable[tuple[AsgiApp, Close]]]


class _Door:
    """Opens the connections on ASGI's start-up event, so that a replica takes no call before they are open."""

    def __init__(self, config: Config, assemble: Assemble) -> None:
        self._config, self._assemble = config, assemble
        self._app: AsgiApp | None = None
        self._close: Close | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            assert self._app is not None, "a call before start-up"
            await self._app(scope, receive, send)
            return
        await receive()
        self._app, self._close = await self._assemble(self._config)
        serve_layer.open_to(self._app)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        serve_layer.open_to(None)
        await self._close()
        await send({"type": "lifespan.shutdown.complete"})


@serve.ingress()
class Gateway:
    """The Serve deployment. `assemble` builds the ASGI app and its connections inside the replica; serve_app.py passes
    it."""

    def __init__(self, config: Config, assemble: Assemble) -> None:
        self._door = _Door(config, assemble)
        aim = config.gateway.replica_load_percent / 100
        self._meter = LoadMeter(aim, SystemClock.monotonic, SystemClock.process_seconds)

    def __serve_build_asgi_app__(self) -> Any:
        return self._door

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Report the load. Serve calls this only when the number of replicas is automatic."""
        return {METRIC: self._meter.read()}


def _number_of_replicas(config: Config) -> dict[str, Any]:
    """Return the deployment options that set the number of replicas."""
    cores = os.cpu_count() or 1
    limits = range_on(cores, config.gateway)
    if limits is None:
        return {"num_replicas": replicas_on(cores, config.gateway)}
    follows = AutoscalingConfig(
        min_replicas=limits[0],
        max_replicas=limits[1],
        metrics_interval_s=_REPORT_SECONDS,
        look_back_period_s=_LOOK_BACK_SECONDS,
        upscale_delay_s=config.gateway.scale_up_seconds,
        downscale_delay_s=config.gateway.scale_down_seconds,
        policy=AutoscalingPolicy(policy_function=replicas_for),
    )
    return {"autoscaling_config": follows}


def application(config: Config, assemble: Assemble, drain_seconds: float = 0.0) -> Any:
    """Return the bound Serve application. drain_seconds: how long a replica that is being replaced still takes
    connections."""
    deployment = serve.deployment(Gateway).options(
        name="Gateway",
        **_number_of_replicas(config),
        max_ongoing_requests=ONGOING_MAX,
        max_queued_requests=-1,
        # Serve counts this time from the start of shutdown, and then kills the replica.
        graceful_shutdown_timeout_s=drain_seconds + _LAST_CALLS_SECONDS,
        max_surge_percent=100,  # A deployment with other arguments starts all new replicas before an old one leaves.
        health_check_period_s=5,
        ray_actor_options={"num_cpus": 1 / REPLICAS_PER_CORE_MAX},
        logging_config={"enable_access_log": False, "log_level": "WARNING"},
    )
    return deployment.bind(config, assemble)
