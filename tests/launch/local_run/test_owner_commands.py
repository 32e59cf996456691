"""Guards how operator commands find the running instance, and what they say when there is none."""

import socket
from pathlib import Path
from typing import Any

import pytest

from actors import hosting
from actors.accounts.api import Describe, OwnerReply, refused
from actors.errors import Err
from actors.launch.local_run import owner_commands as operator


def test_a_running_instance_is_found_and_a_stopped_one_is_not(tmp_path: Path) -> None:
    """Rule: every error says what to do about it."""
    instance = operator.Instance("127.0.0.1:1")
    operator.announce(tmp_path, instance)
    assert operator.find_instance(tmp_path) == instance
    operator.withdraw(tmp_path)
    with pytest.raises(operator.OperatorError, match=r"serve_app\.py"):
        operator.find_instance(tmp_path)


def test_a_bad_public_key_is_refused_before_anything_is_asked() -> None:
    """Rule: bad input gets a clear error."""
    with pytest.raises(operator.OperatorError, match="not a base58 public key"):
        operator.account_of("0OIl")


def test_two_actions_are_two_operations() -> None:
    """Rule: an adjustment is idempotent by its operation, so each action must have its own."""
    assert operator.new_operation() != operator.new_operation()


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (refused(Err.ACCOUNT_NOT_FOUND), "ACCOUNT_NOT_FOUND: there is no account of this key: check the key"),
        (refused(Err.INSUFFICIENT_CREDITS, "nothing is available"), "INSUFFICIENT_CREDITS: nothing is available"),
        (refused(Err.AUTH_FAILED), f"AUTH_FAILED: {Err.AUTH_FAILED.value.message}"),
    ],
)
def test_a_refusal_says_why(monkeypatch: pytest.MonkeyPatch, reply: OwnerReply[Any], told: str) -> None:
    """Rule: every error says what to do about it; never the word `refused` alone."""

    async def answer(*_: Any) -> OwnerReply[Any]:
        return reply

    monkeypatch.setattr(operator, "ask_owner_of", answer)
    with pytest.raises(operator.OperatorError) as raised:
        operator.ask_owner_here(Describe(b"k" * 32))
    assert str(raised.value).startswith(told)


def test_a_command_in_doubt_is_not_told_to_be_repeated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a command that is typed again is another one. A grant of which nobody knows would be made twice."""

    async def silent(*_: Any) -> OwnerReply[Any]:
        raise hosting.ActorUnreachable("ask: TimeoutError")

    async def away(*_: Any) -> OwnerReply[Any]:
        return refused(Err.SERVICE_TEMPORARILY_UNAVAILABLE)

    for ask in (silent, away):
        monkeypatch.setattr(operator, "ask_owner_of", ask)
        with pytest.raises(operator.OperatorError, match=r"may have .*all the same.*accounts show"):
            operator.ask_owner_here(Describe(b"k" * 32))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "ray://127.0.0.1"])
def test_where_no_cluster_answers_the_command_says_so(host: str) -> None:
    """Rule: every error says what to do about it. Ray itself looks for two minutes, then shows a page of its inside."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(operator.OperatorError, match=f"no Ray cluster answers at .*{port}: start the product, or"):
        operator.ask_actor(operator.Instance(f"{host}:{port}"), "any", "ask")
