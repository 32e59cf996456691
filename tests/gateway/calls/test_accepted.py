"""Which content a client prefers."""

import pytest

from actors.gateway.calls.accepted import preferred, prefers


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


@pytest.mark.parametrize(
    ("accept", "content"),
    [
        (b"text/csv, application/x-file", b"text/csv"),
        (b"application/x-file, text/csv", b"text/csv"),
        (b"text/csv;q=0.5, application/x-file;q=0.6", b"application/x-file"),
        (b"application/json, application/x-file;q=0.9", b"application/json"),
        (b"application/x-file;q=0, text/csv;q=0", b"application/json"),
        (b"*/*", b"application/json"),
    ],
)
def test_of_several_kinds_the_one_that_is_liked_best(accept: bytes, content: bytes) -> None:
    """Of two that are liked equally, the server's first."""
    assert preferred([(b"accept", accept)], (b"text/csv", b"application/x-file"), b"application/json") == content
