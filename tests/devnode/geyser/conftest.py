"""The embedded chain's stream: a hub on a chain stepped by hand."""

import pytest

from tests.devnode.local_node import LocalNode

from .listening import Streaming


@pytest.fixture
def streaming(local: LocalNode) -> Streaming:
    return Streaming(local)
