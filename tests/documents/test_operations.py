"""Every path that is served has a row, and every row is served; the same for methods."""

from actors.documents.operation import Access
from actors.documents.operations import OPERATIONS, TAGS, operations_of

from .service import served


def test_every_path_that_is_served_has_a_row() -> None:
    """A path without one would be listed without a description: add its row to actors/documents/operations.py."""
    assert [endpoint for endpoint in served() if endpoint not in OPERATIONS] == []


def test_every_row_is_served() -> None:
    """A row of a path that nothing serves would promise what is not there."""
    assert [endpoint for endpoint in OPERATIONS if endpoint not in served()] == []


def test_a_path_without_a_row_is_listed_all_the_same() -> None:
    """Nothing that is served is hidden."""
    row, known = operations_of(["PUT /new/{id}", "GET /health"])
    assert (row.tag, row.method, row.path, row.summary) == ("other", "PUT", "/new/{id}", "")
    assert known is OPERATIONS["GET /health"]


def test_rows_hang_together() -> None:
    """Only a path that takes an account's credential can charge it."""
    for row in OPERATIONS.values():
        assert row.tag in TAGS and row.summary.endswith(".")
        assert not row.price or row.access in (Access.ACCOUNT, Access.OPTIONAL)
        assert row.is_call is (row.tag in ("calls", "bulk", "relay") and row.path != "/quote")
