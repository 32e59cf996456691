"""Which content a client prefers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.calls.accepted import coding_of, is_json, preferred, prefers


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


@pytest.mark.parametrize(
    ("accepts", "coding"),
    [
        (b"gzip", b"gzip"),
        (b"x-gzip", b"gzip"),
        (b"GZip;q=0.3", b"gzip"),
        (b"gzip, deflate, br", b"gzip"),
        (b"gzip, deflate, br, zstd", b"zstd"),
        (b"gzip;q=1.0, zstd;q=0.9", b"gzip"),
        (b"zstd;q=0, gzip", b"gzip"),
        (b"gzip;q=0.5, identity;q=0.6", None),
        (b"gzip;q=0.5, identity;q=0.5", b"gzip"),
        (b"identity", None),
        (b"identity;q=0", None),
        (b"br", None),
        (b"*", None),
        (b"*;q=0.1, gzip;q=0", None),
        (b"gzip;q=0", None),
        (b"gzip;q=0.000", None),
        (b"gzip;q=7", None),
        (b"gzip;q=-1", None),
        (b"gzip;q=nan", None),
        (b"gzip;q=inf", None),
        (b"gzip;q=", None),
        (b"gzip;q=0.5;q=0", b"gzip"),
        (b"gzip;level=9", b"gzip"),
        (b";;;,,,=;gzip", None),
        (b"gzipped", None),
        (b"", None),
        (b"," * 60 + b"gzip", None),
        (b" " * 2_000 + b"gzip", None),
    ],
)
def test_a_coding_is_chosen_by_its_name_and_by_what_the_client_likes(accepts: bytes, coding: bytes | None) -> None:
    """RFC 9110: q=0 means never; what is not named is not sent, nor is anything for a wildcard or nonsense."""
    assert coding_of([(b"accept", b"gzip"), (b"accept-encoding", accepts)]) == coding
    assert coding_of([(b"accept-encoding", b"br"), (b"accept-encoding", accepts)]) == coding or len(accepts) > 1_000
    assert coding_of([(b"accept", b"*/*")]) is None


@given(st.binary(max_size=80))
def test_no_bytes_are_too_odd_to_choose_by(accepts: bytes) -> None:
    """A client may send anything."""
    assert coding_of([(b"accept-encoding", accepts)]) in (None, b"gzip", b"zstd")


@pytest.mark.parametrize(
    ("content_type", "taken"),
    [
        (b"application/json", True),
        (b"Application/JSON; charset=utf-8", True),
        (b"application/json;", True),
        (b"text/json", True),
        (b"application/vnd.api+json", True),
        (b"application/octet-stream", True),
        (b"", True),
        (b"text/plain;charset=UTF-8", False),
        (b"application/x-www-form-urlencoded", False),
        (b"multipart/form-data; boundary=a", False),
        (b"application/xml", False),
        (b"application/jsonp", False),
        (b"json", False),
    ],
)
def test_a_body_is_json_unless_its_type_says_otherwise(content_type: bytes, taken: bool) -> None:
    """Clients that name no type, or only bytes, are taken at the body."""
    assert is_json(content_type) is taken
