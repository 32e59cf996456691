"""A second start on the folder of a product that runs: refused at once, and the first goes on unharmed."""

import pytest

from bench.product import Product, free_ports
from tests.launch.test_refused_starts import refused


@pytest.mark.parametrize("fresh", [False, True])
def test_a_second_instance_on_the_same_data_is_refused(product: Product, fresh: bool) -> None:
    """One owner of a data folder; --fresh on a folder in use deletes nothing."""
    more = ("--fresh",) if fresh else ()
    text = refused(*more, "--data-dir", str(product.data_dir), settings=free_ports().settings())
    assert "already in use" in text
    assert str(product.data_dir) in text
    assert product.account()["ok"] is True
