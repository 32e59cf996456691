"""A hub on a chain inside the test process, and its clients."""

from collections.abc import Callable

import pytest

from devnode.pubsub.hub import PubsubHub
from tests.devnode.local_node import LocalNode

from .listener import Listener

NewListener = Callable[[], Listener]


@pytest.fixture
def hub(local: LocalNode) -> PubsubHub:
    return PubsubHub(local.node)


@pytest.fixture
def new_listener(local: LocalNode, hub: PubsubHub) -> NewListener:
    """Makes a new client at each call."""
    return lambda: Listener(local, hub)


@pytest.fixture
def listener(new_listener: NewListener) -> Listener:
    return new_listener()
