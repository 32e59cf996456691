"""The node that always answers the same."""

import orjson

from bench.constant import SLOT, answer_to


def test_ids_are_echoed() -> None:
    """Whatever the id is: a gateway's own numbering, or a client's text."""
    for identity in (1, "a", 10**15, None):
        body = orjson.dumps({"jsonrpc": "2.0", "id": identity, "method": "getSlot"})
        assert orjson.loads(answer_to(body)) == {"jsonrpc": "2.0", "result": SLOT, "id": identity}


def test_what_is_no_call_gets_an_error() -> None:
    """Never a result for nonsense: a generator's mistake must show."""
    for body in (b"", b"[]", b"{}", b"\xff"):
        assert orjson.loads(answer_to(body))["error"]["code"] == -32600


def test_a_block_is_as_long_as_its_slot_says() -> None:
    """The measurement chooses the size by the slot."""
    answer = answer_to(b'{"jsonrpc":"2.0","id":7,"method":"getBlock","params":[1000000]}')
    assert len(answer) == 1_000_000
    assert orjson.loads(answer)["id"] == 7
