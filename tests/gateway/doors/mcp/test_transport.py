"""What a request must be before its body is read: by its headers alone. Through the door: test_door.py."""

import pytest

from actors.gateway.doors.mcp import transport

JSON = {b"content-type": b"application/json; charset=utf-8"}


@pytest.mark.threat(38)
@pytest.mark.parametrize(
    ("sent", "http"),
    [
        (JSON, None),
        (JSON | {b"origin": b"https://App.example"}, None),
        (JSON | {b"origin": b"https://evil.example"}, 403),
        (JSON | {b"origin": b"https://app.example, https://evil.example"}, 403),
        ({}, 415),
        ({b"content-type": b"text/plain"}, 415),
        (JSON | {b"accept": b"text/event-stream"}, 406),
        (JSON | {b"accept": b"text/event-stream, Application/JSON"}, None),
    ],
)
def test_only_json_of_our_own_pages_is_taken(sent: dict[bytes, bytes], http: int | None) -> None:
    found = transport.unfit(sent, {"https://app.example"}, "r")
    assert (None if found is None else found.status) == http


def test_other_methods_are_told_to_post() -> None:
    found = transport.only_post("r")
    assert found.status == 405 and (b"allow", b"POST") in found.headers
