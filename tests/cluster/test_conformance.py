"""Every method through the gateway is the node's own answer, for the published price, and the README says so."""

import pytest

from bench.product import Product
from tests.conformance import table
from tests.conformance.session import rows_of


@pytest.fixture(scope="module")
def rows(product: Product) -> list[table.Row]:
    return rows_of(product)


def test_every_method_answers_as_the_node_for_the_published_price(rows: list[table.Row]) -> None:
    """Equal bytes or JSON, errors with their data included; the ledger's sum was checked on the way."""
    assert table.complaints(rows) == []


def test_the_table_in_the_readme_is_this_one(rows: list[table.Row]) -> None:
    """`python -m tests.conformance` writes it anew."""
    assert table.in_readme() == table.text(rows)
