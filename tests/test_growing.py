"""A value with a field that the release before does not know is read by it, as long as the field says nothing new."""

import pickle
from typing import Any

from actors.growing import Growing


class Before(Growing, frozen=True):
    name: str
    detail: str = ""


class Today(Growing, frozen=True):
    name: str
    detail: str = ""
    colour: str | None = None


def as_before(today: Today) -> Any:
    """What a process gets that knows the class as it was before."""
    kind, values = today.__reduce__()
    assert kind is Today
    return Before(*values)


def test_fields_that_say_nothing_new_are_left_out() -> None:
    assert as_before(Today("a")) == Before("a")
    assert as_before(Today("a", "b")) == Before("a", "b")
    assert as_before(Today("a", "", None)) == Before("a")


def test_what_is_new_reaches_processes_of_today() -> None:
    for value in (Today("a"), Today("a", "b"), Today("a", "", "red")):
        assert pickle.loads(pickle.dumps(value)) == value
    kind, values = Before("a", "b").__reduce__()
    assert Today(*values) == Today("a", "b") and kind is Before
