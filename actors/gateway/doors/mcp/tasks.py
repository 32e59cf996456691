"""Sends that take long, as tasks: their ids, and what a client that polls is told.

Implements: extension io.modelcontextprotocol/tasks 2026-07-28; decisions, "MCP tasks". Pure: times arrive as Unix
seconds.

A task is a sendAndConfirm that is under way, and nothing else is kept of it: its id has the signature of the
transaction, signed for one account, and its state is what getSendStatus tells.
"""

import base64
import binascii
import datetime
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

import msgspec

EXTENSION: Final = "io.modelcontextprotocol/tasks"
TASK_METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")
REQUIRED: Final[Mapping[str, Any]] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
POLL_MS: Final = 2_000
# A transaction that has not landed by now has expired with its blockhash, and what is not proven will not be soon: the
# task then ends with the status `unknown`, as the call itself would. Until then it is working.
PROVEN_SECONDS: Final = 180
_PURPOSE = b"ledger-gateway: ids of tasks over MCP"
_SIGNATURE_BYTES, _TIME_BYTES, _TAG_BYTES = 64, 8, 16
_ID_BYTES = _SIGNATURE_BYTES + _TIME_BYTES + _TAG_BYTES
_ID_CHARACTERS_MAX = 128
_NOT_OF_THE_CALL = ("updated_at", "legs")  # Fields of getSendStatus that the result of sendAndConfirm lacks.


class Task(msgspec.Struct, frozen=True):
    """signature: of the transaction, 64 bytes. created_at: Unix seconds."""

    task_id: str
    signature: bytes
    created_at: int


def takes_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Return whether a client has declared the extension."""
    extensions = capabilities.get("extensions")
    return type(extensions) is dict and type(extensions.get(EXTENSION)) is dict


class TaskIds:
    """Makes and verifies task ids; every replica knows the key."""

    def __init__(self, cluster_secret: bytes) -> None:
        self._key = hmac.new(cluster_secret, _PURPOSE, hashlib.sha256).digest()

    def make(self, account: bytes, signature: bytes, now: int) -> Task:
        """account: the owner of the task."""
        assert len(signature) == _SIGNATURE_BYTES, len(signature)
        named = signature + now.to_bytes(_TIME_BYTES, "big")
        task_id = base64.urlsafe_b64encode(named + self._tag(named, account)).decode().rstrip("=")
        return Task(task_id, signature, now)

    def read(self, task_id: str, account: bytes) -> Task | None:
        """Parse a task id of this account; None: it is not one."""
        if len(task_id) > _ID_CHARACTERS_MAX or not task_id.isascii():
            return None
        try:
            found = base64.b64decode(task_id + "=" * (-len(task_id) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        named, tag = found[:-_TAG_BYTES], found[-_TAG_BYTES:]
        if len(found) != _ID_BYTES or not hmac.compare_digest(tag, self._tag(named, account)):
            return None
        created_at = int.from_bytes(named[_SIGNATURE_BYTES:], "big")
        return Task(task_id, named[:_SIGNATURE_BYTES], created_at)

    def _tag(self, named: bytes, account: bytes) -> bytes:
        return hmac.new(self._key, named + account, hashlib.sha256).digest()[:_TAG_BYTES]


def created(task: Task) -> dict[str, Any]:
    """Return the fields of a task that has just begun."""
    return _fields(task, "working", task.created_at, "The transaction is sent, and its outcome is awaited.")


def outcome_of(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of sendAndConfirm. status: the result of getSendStatus."""
    return {name: value for name, value in status.items() if name not in _NOT_OF_THE_CALL}


def is_over(task: Task, status: Mapping[str, Any], now: int) -> bool:
    """Return whether a task has its result."""
    return status["status"] in ("confirmed", "failed") or now >= task.created_at + PROVEN_SECONDS


def fields_of(task: Task, status: Mapping[str, Any], now: int) -> dict[str, Any]:
    """Return the fields of a task by its status, without the result."""
    updated_at = max(task.created_at, int(status["updated_at"]))
    if is_over(task, status, now):
        return _fields(task, "completed", updated_at, f"The outcome of the send is {status['status']}.")
    return _fields(task, "working", updated_at, f"The outcome of the send is {status['status']} so far.")


def _fields(task: Task, status: str, updated_at: int, message: str) -> dict[str, Any]:
    return {
        "taskId": task.task_id,
        "status": status,
        "statusMessage": message,
        "createdAt": _time(task.created_at),
        "lastUpdatedAt": _time(updated_at),
        "ttlMs": None,  # Outcomes are kept for ever.
        "pollIntervalMs": POLL_MS,
    }


def _time(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
