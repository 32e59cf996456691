"""The notebooks that ask a gateway, run against the whole product."""

from pathlib import Path

import pytest

from bench.product import Product
from tests.notebooks.executing import assert_runs, paths


def _settings(product: Product) -> dict[str, str]:
    return {"GATEWAY_URL": product.http_url, "API_KEY": product.api_key, "NODE_URL": product.ready["node_url"]}


@pytest.mark.parametrize("path", paths(needs_gateway=True), ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_kept_without_outputs(product: Product, path: Path, tmp_path: Path) -> None:
    """Rule: a reader gets it to run with one command, which takes the gateway of GATEWAY_URL where it is given."""
    pytest.importorskip("nbclient")
    assert_runs(path, tmp_path, _settings(product))
