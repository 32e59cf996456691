"""A hub of the gRPC stream, on a chain inside the test process."""

import pytest

from tests.devnode.local_node import LocalNode

from .listening import Streaming


@pytest.fixture
def streaming(local: LocalNode) -> Streaming:
    return Streaming(local)
