"""Answers under an Idempotency-Key are read by the releases after the one that stored them."""

import msgspec

from actors.gateway.calls.kept_answers import KeptAnswer, KeptPage


def test_an_answer_that_has_no_later_fields_is_read() -> None:
    """As a release stored it whose answers had no price posted, nor anything of the block engine."""
    stored = msgspec.msgpack.encode([1, b"{}", 0, 1])
    assert msgspec.msgpack.decode(stored, type=KeptAnswer) == KeptAnswer(1, b"{}", 0, 1, 200, "", 0)


def test_what_is_stored_is_read_as_it_was() -> None:
    for kept in (KeptAnswer(2, b"[]", 0, 2, 400, "bundle", 25), KeptPage(201, b"page")):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=type(kept)) == kept
