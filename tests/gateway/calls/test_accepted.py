"""Which content a client prefers."""

import pytest

from actors.gateway.calls.accepted import prefers


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (b"text/csv", True),
        (b"application/json;q=0.5, Text/CSV;q=0.6", True),
        (b"application/json, text/csv;q=0.9", False),
        (b"text/csv;q=0", False),
        (b"text/csv;q=nan, application/json", False),
        (b"text/csv;q=2", False),
        (b"*/*", False),
        (b"text/*", False),
        (b"", False),
        (b"text/csv-with-more", False),
        (b"," * 60 + b"text/csv", False),
    ],
)
def test_content_is_chosen_only_by_its_name(accept: bytes, wanted: bool) -> None:
    """A tool that accepts everything, or sends nothing, gets the usual content."""
    assert prefers([(b"accept", accept)], b"text/csv", b"application/json") is wanted
    assert not prefers([], b"text/csv", b"application/json")
