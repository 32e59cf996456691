"""Every path that is served has a row, and every row is served; the same for methods."""

import re

from hypothesis import given
from hypothesis import strategies as st

from actors.documents.operation import Access
from actors.documents.operations import OPERATIONS, TAGS, operations_of
from actors.errors import Refusal
from actors.gateway.pages.usage import parse_usage

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


USAGE = dict(OPERATIONS["GET /account/usage"].query)


@given(text=st.from_regex(r"\A([0-9]{1,13}|[012][0-9]{3}-[013][0-9]-[0-3][0-9](T[0-2][0-9]:[06][0-9])?Z?)\Z"))
def test_every_time_that_usage_takes_is_documented(text: str) -> None:
    """The product refuses more: 30 February, and times that are not in order."""
    asked = parse_usage(f"from={text}&to={text}".encode(), [], 0)
    assert isinstance(asked, Refusal) or re.search(USAGE["from"]["pattern"], text), text


def test_every_documented_grouping_of_usage_is_taken() -> None:
    """One, two or three columns, in any order."""
    asked = [parse_usage(f"by={grouping}".encode(), [], 10**9) for grouping in USAGE["by"]["enum"]]
    assert len(asked) == 4 + 12 + 24 + 24 and not any(isinstance(each, Refusal) for each in asked)
