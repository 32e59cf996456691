"""Guards the life of a replica: connections stand before the first call and are closed after the last."""

from typing import Any

import pytest

from actors.config import Config, GatewayConfig
from actors.gateway.actor import ONGOING_MAX, _Door, application
from actors.gateway.autoscaling import replicas_for


async def test_connections_stand_before_the_first_call_and_close_after_the_last() -> None:
    """Rule: a replica takes no call before its links stand, and leaves nothing open."""
    told: list[str] = []
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        del receive, send
        told.append(scope["path"])

    app.websocket_paths = frozenset()  # type: ignore[attr-defined]
    app.name_of_client = None  # type: ignore[attr-defined]

    async def close() -> None:
        told.append("closed")

    async def assemble(config: Config) -> tuple[Any, Any]:
        assert isinstance(config, Config)
        told.append("opened")
        return app, close

    door = _Door(Config(), assemble)

    async def receive() -> Any:
        if len(messages) == 1:
            await door({"type": "http", "path": "/rpc"}, None, None)
        return messages.pop(0)

    async def send(message: Any) -> None:
        told.append(message["type"])

    await door({"type": "lifespan"}, receive, send)
    assert told == ["opened", "lifespan.startup.complete", "/rpc", "closed", "lifespan.shutdown.complete"]


async def test_a_call_before_start_up_is_a_bug() -> None:
    """Rule: bugs are assertions, left on."""

    async def assemble(config: Config) -> tuple[Any, Any]:
        raise AssertionError(config)

    with pytest.raises(AssertionError, match="before start-up"):
        await _Door(Config(), assemble)({"type": "http"}, None, None)


def test_serve_never_queues_before_the_door() -> None:
    """Rule: overload is answered by the door, in the interface's words, never by a queue in between."""
    bound = application(Config(), None)  # type: ignore[arg-type]
    deployment = bound._bound_deployment
    assert deployment.max_ongoing_requests == ONGOING_MAX
    assert deployment.max_queued_requests == -1


def test_the_number_of_replicas_is_fixed_unless_it_may_follow_their_load() -> None:
    """A replica reports its load by the name that the policy reads."""
    fixed = application(Config(gateway=GatewayConfig(replicas=3)), None)._bound_deployment  # type: ignore[arg-type]
    assert fixed._deployment_config.autoscaling_config is None and fixed.num_replicas == 3
    wanted = GatewayConfig(replicas=1, replicas_max=4, scale_up_seconds=2, scale_down_seconds=7)
    follows = application(Config(gateway=wanted), None)._bound_deployment  # type: ignore[arg-type]
    scaling = follows._deployment_config.autoscaling_config
    assert (scaling.min_replicas, scaling.max_replicas) == (1, 4)
    assert (scaling.upscale_delay_s, scaling.downscale_delay_s) == (2, 7)
    assert scaling.policy.get_policy().__name__ == replicas_for.__name__
