"""Bodies and queries of operators: what is taken, and what a fault's sentence says."""

import msgspec
import pytest

from actors.errors import Refusal
from actors.operators import bodies


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"credits": 5, "credits": 6, "reason": "x"}', "twice"),
        (b'{"credits": NaN, "reason": "x"}', "credits"),
        (b'{"credits": 1e3, "reason": "x"}', "credits"),
        (b'{"reason": "x"}', "credits"),
        (b"x" * 16_385, "16384"),
        (b"[" * 10_000, "JSON"),
        (b"", "credits"),
    ],
)
def test_a_body_that_is_not_whole_is_refused(body: bytes, told: str) -> None:
    """A field that stands twice may mean either: nothing is moved."""
    refused = bodies.decoded(body, bodies.Adjust)
    assert isinstance(refused, Refusal) and told in refused.detail


def test_a_node_s_url_is_in_no_sentence() -> None:
    """It may be a key."""
    refused = bodies.decoded(b'{"id": "n", "url": ["https://x/secret-key"]}', bodies.AddedNode)
    assert isinstance(refused, Refusal) and "secret-key" not in refused.detail
    taken = bodies.decoded(b'{"id": "n", "url": "https://x/secret-key"}', bodies.AddedNode)
    assert isinstance(taken, bodies.AddedNode) and taken.roles == ["read", "send"]


def test_the_same_key_names_the_same_operation_and_another_one_another() -> None:
    first, again, other = (bodies.operation_of(key) for key in ("a", "a", "b"))
    assert first == again != other and isinstance(first, str) and first.startswith("operator:")
    assert isinstance(bodies.operation_of(None), Refusal) and isinstance(bodies.operation_of("x" * 256), Refusal)


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), ("0", None), ("11", None), ("-5", None), ("५", None), ("", None)]
)
def test_a_number_is_whole_and_within_its_range(text: str, value: int | None) -> None:
    assert bodies.number_in(text, 1, 10) == value


def test_limits_that_are_left_out_stay() -> None:
    assert bodies.decoded(b"{}", bodies.Limits) == bodies.Limits(msgspec.UNSET, msgspec.UNSET)
