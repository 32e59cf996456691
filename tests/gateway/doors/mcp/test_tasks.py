"""Ids of tasks belong to one account, and a task is over once its outcome is proven, or cannot be proven any more."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.doors.mcp import tasks
from actors.gateway.doors.mcp.tasks import PROVEN_SECONDS, TaskIds

IDS = TaskIds(b"s" * 32)
SIGNATURE = bytes(range(64))
TASK = IDS.make(b"account", SIGNATURE, 1_000)


def test_an_id_is_read_for_its_own_account_alone() -> None:
    """Security considerations: unguessable, and checked against the caller each time."""
    assert IDS.read(TASK.task_id, b"account") == TASK
    assert IDS.read(TASK.task_id, b"another") is None
    assert TaskIds(b"t" * 32).read(TASK.task_id, b"account") is None


@given(place=st.integers(0, 116), character=st.sampled_from("AZaz09-_="))
def test_no_changed_id_is_read(place: int, character: str) -> None:
    changed = TASK.task_id[:place] + character + TASK.task_id[place + 1 :]
    if changed != TASK.task_id and place < len(TASK.task_id) - 1:
        assert IDS.read(changed, b"account") is None


@pytest.mark.parametrize("text", ["", "=", "é", "A" * 118, "A" * 10_000, "786512e2-9e0d-44bd-8f29-789f320fe840"])
def test_what_is_no_id_is_no_task(text: str) -> None:
    assert IDS.read(text, b"account") is None


@pytest.mark.parametrize(
    ("status", "now", "is_over"),
    [
        ("pending", 1_001, False),
        ("unknown", 1_000 + PROVEN_SECONDS - 1, False),
        ("unknown", 1_000 + PROVEN_SECONDS, True),
        ("pending", 1_000 + PROVEN_SECONDS, True),
        ("confirmed", 1_001, True),
        ("failed", 1_001, True),
    ],
)
def test_a_task_is_over_once_its_outcome_is_proven_or_can_be_no_more(status: str, now: int, is_over: bool) -> None:
    """An outcome on the chain is a result, also a bad one: `failed` is for JSON-RPC errors alone."""
    told = {"status": status, "updated_at": 990}
    fields = tasks.fields_of(TASK, told, now)
    assert (tasks.is_over(TASK, told, now), fields["status"]) == (is_over, "completed" if is_over else "working")
    assert (fields["createdAt"], fields["lastUpdatedAt"]) == ("1970-01-01T00:16:40Z",) * 2
    assert fields["ttlMs"] is None and fields["pollIntervalMs"] > 0 and fields["taskId"] == TASK.task_id


@pytest.mark.parametrize(
    ("capabilities", "takes"),
    [
        ({}, False),
        ({"extensions": {}}, False),
        ({"extensions": {tasks.EXTENSION: {}}}, True),
        ({"extensions": {tasks.EXTENSION: None}}, False),
        ({"extensions": [tasks.EXTENSION]}, False),
        ({"tasks": {}}, False),
    ],
)
def test_no_client_gets_a_task_that_has_not_declared_the_extension(capabilities: Any, takes: bool) -> None:
    assert tasks.takes_tasks(capabilities) is takes
