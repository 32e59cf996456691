"""A chain inside the test with a deposit wallet, for whoever reads transactions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deposits.token_making import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    shop.node.close()
