"""The refusal of a server whose door has no words of its own."""

import json

from actors.http_server.responses import CLOSE, refusal


def test_a_refusal_is_the_interfaces_error_and_ends_the_connection() -> None:
    """Rule: clients read one form of error, whoever refuses."""
    response = refusal("why", 408)
    whose = {"source": "gateway", "constant": "INVALID_REQUEST"}
    assert json.loads(response.body) == {"error": {"code": "INVALID_REQUEST", **whose, "message": "why"}}
    assert response.status == 408 and CLOSE in response.headers
    assert (b"content-length", b"%d" % len(response.body)) in response.headers
