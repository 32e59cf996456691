"""Options as headers: none where nothing was said."""

from ledger_gateway.call_requests import call_headers, encoded, new_idempotency_key, request_of


def test_a_call_is_a_jsonrpc_request() -> None:
    asked = {"jsonrpc": "2.0", "id": 3, "method": "getBlock", "params": [5]}
    assert request_of(3, ("getBlock", 5)) == asked
    assert encoded(request_of(3, ("getBlock", 5))) == b'{"jsonrpc":"2.0","id":3,"method":"getBlock","params":[5]}'


def test_each_option_has_its_header() -> None:
    assert call_headers(None, None, None) == {}
    assert call_headers("k", 0, "any") == {"Idempotency-Key": "k", "X-Max-Credits": "0", "X-Consistency": "any"}


def test_keys_of_different_sends_differ() -> None:
    """Two sends with one key would be one."""
    assert len({new_idempotency_key() for _ in range(100)}) == 100
