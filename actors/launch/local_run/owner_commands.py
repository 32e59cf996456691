"""Operator commands on accounts of a running instance: grant, remove, suspend, resume, show, limits.

Implements: decisions, "account status" (an operator's action) and ledger type `adjustment`.
Not here: the rules; the account's owner applies them, through ordinary actor calls.
"""

import asyncio
import contextlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actors import hosting
from actors.accounts.api import Command, OwnerReply, Value
from actors.accounts.one_command import ask_owner_of
from actors.errors import Err
from actors.units import parse_pubkey

_INSTANCE = "instance.json"
_NEXT_STEPS = {
    Err.ACCOUNT_NOT_FOUND.name: "there is no account of this key: check the key; `accounts grant` opens an account",
    Err.SERVICE_TEMPORARILY_UNAVAILABLE.name: (
        "the ledger did not answer, and may have made the change all the same: see the outcome (`accounts show`) and "
        "the logs before you repeat it"
    ),
}
_ACTOR_SECONDS = 30.0  # A node may be slow to look up a transaction.


class OperatorError(Exception):
    """A command failed; the text names the reason and the next step."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Where a running product's actors are found; the launcher of a local run writes it into its data folder."""

    ray_address: str


def announce(run_folder: Path, instance: Instance) -> None:
    (run_folder / _INSTANCE).write_text(json.dumps(asdict(instance)), encoding="utf-8")


def withdraw(run_folder: Path) -> None:
    (run_folder / _INSTANCE).unlink(missing_ok=True)


def find_instance(run_folder: Path) -> Instance:
    path = run_folder / _INSTANCE
    try:
        return Instance(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise OperatorError(
            f"no product runs on {run_folder.parent}: start it with `python serve_app.py`, "
            "or name its data folder with --data-dir; on a machine of a Ray cluster, set RAY_ADDRESS=auto"
        ) from None


def ask_owner(instance: Instance, command: Command[Value]) -> Value:
    """Send one command to the owner of its account, and return the result. Raises OperatorError for a refusal."""
    with joined(instance):
        return ask_owner_here(command)


def ask_actor(instance: Instance, name: str, method: str, *arguments: Any) -> Any:
    """Send one request to a named actor of the running product, and return its answer."""
    with joined(instance):
        return ask_actor_here(name, method, *arguments)


def ask_actor_here(name: str, method: str, *arguments: Any) -> Any:
    """Do as ask_actor, in a process that has already joined the cluster."""
    try:
        return asyncio.run(hosting.ask(hosting.Reference(name), method, *arguments, wait_seconds=_ACTOR_SECONDS))
    except hosting.ActorUnreachable as error:
        raise OperatorError(f"{name} did not answer ({error}): try again in a few seconds") from None


def ask_all(instance: Instance, wait_seconds: float) -> dict[str, dict[str, Any]]:
    """Return what each actor of the running product says of itself, by its name; nothing where it does not answer."""
    with joined(instance):
        names = hosting.names()
        states = asyncio.run(hosting.ask_each(map(hosting.Reference, names), "actor_state", wait_seconds))
        return {name: state or {} for name, state in zip(names, states, strict=True)}


@contextlib.contextmanager
def joined(instance: Instance) -> Iterator[None]:
    """Join the cluster as a client during the block."""
    try:
        hosting.connect(instance.ray_address)
    except ConnectionError:
        raise OperatorError(
            f"no Ray cluster answers at {instance.ray_address}: "
            "start the product, or set RAY_ADDRESS to a cluster that runs"
        ) from None
    try:
        yield
    finally:
        hosting.disconnect()


def ask_owner_here(command: Command[Value]) -> Value:
    """Do as ask_owner, in a process that has already joined the cluster."""
    try:
        reply: OwnerReply[Value] = asyncio.run(ask_owner_of(command))
    except hosting.ActorUnreachable as error:
        # A grant that is typed again is a second grant, and a rotation a second key.
        raise OperatorError(
            f"the owner did not answer ({error}), and may have carried the command out all the same: see the outcome "
            "(`accounts show`, `ledger-key show`) before you try again"
        ) from None
    if reply.value is None:
        raise OperatorError(_refusal_text(reply))
    return reply.value


def _refusal_text(reply: OwnerReply[Any]) -> str:
    """Say why an owner refused a command: its own sentence, else one for the refusal's name."""
    assert reply.refusal is not None, reply
    return f"{reply.refusal}: {reply.detail or _NEXT_STEPS.get(reply.refusal) or Err[reply.refusal].value.message}"


def account_of(pubkey: str) -> bytes:
    raw = parse_pubkey(pubkey)
    if raw is None:
        raise OperatorError(f"{pubkey!r} is not a base58 public key of 32 bytes")
    return raw


def new_operation() -> str:
    """Return an id for one action of an operator, so that a repeated message is not a second grant."""
    return f"operator:{secrets.token_hex(12)}"
