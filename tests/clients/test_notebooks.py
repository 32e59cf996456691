"""The notebook that asks a gateway, run against the whole product."""

from pathlib import Path

import pytest

from bench.product import Product
from tests.notebooks.executing import assert_runs, paths


@pytest.mark.parametrize("path", paths(needs_gateway=True), ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_kept_without_outputs(product: Product, path: Path, tmp_path: Path) -> None:
    """Rule: a reader gets it to run with one command, which takes the gateway of GATEWAY_URL where it is given."""
    pytest.importorskip("nbclient")
    assert_runs(path, tmp_path, {"GATEWAY_URL": product.http_url, "API_KEY": product.api_key})
