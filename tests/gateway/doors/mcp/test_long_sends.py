"""Sends that go on as tasks, over the embedded chain: stored before they are told, and charged by their outcome."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from actors.gateway.doors.mcp import eras, long_sends, tasks
from tests.gateway.doors.mcp.test_door import request, tool
from tests.gateway.doors.mcp.test_modern import ask
from tests.gateway.doors.mcp.test_output_schemas import TOOLS
from tests.gateway.doors.mcp.whole import Whole, a_whole, text
from tests.gateway.world import Wallet
from tests.sends.world import turns

TAKES = {eras.CAPABILITIES_META: {"extensions": {tasks.EXTENSION: {}}}}


@pytest.fixture
async def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Whole]:
    monkeypatch.setattr(long_sends, "SOON_SECONDS", 0)
    async with a_whole(tmp_path) as found:
        yield found


def send(whole: Whole, wallet: Wallet, lamports: int = 5_000_000, **more: Any) -> dict[str, Any]:
    more["_meta"] = TAKES | more.get("_meta", {})
    return tool("sendAndConfirm", text(whole.transfer(wallet, lamports)), **more)


async def of_task(
    whole: Whole, wallet: Wallet | None, method: str, task_id: Any, meta: Any = TAKES, **more: Any
) -> Any:
    message = request(method, 7, taskId=task_id, _meta=dict(meta), **more)
    return await ask(whole.world, message, wallet, **{"mcp-name": str(task_id)})


async def begun(whole: Whole, wallet: Wallet, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = (await ask(whole.world, send(whole, wallet, **more), wallet)).json()["result"]
    assert result["resultType"] == "task", result
    return result


async def test_a_long_send_is_a_task_until_its_outcome_is_known(whole: Whole) -> None:
    """CreateTaskResult, then tasks/get: working, then completed with the result of the call; one charge, by outcome."""
    wallet = await whole.customer(100)
    task = await begun(whole, wallet)
    assert task["status"] == "working" and task["ttlMs"] is None and task["pollIntervalMs"] > 0
    assert task["_meta"]["ledger-gateway/credits"] == {"spent": 0, "left": 50}, "set aside, and not spent"
    working = (await of_task(whole, wallet, "tasks/get", task["taskId"])).json()["result"]
    assert (working["resultType"], working["status"]) == ("complete", "working") and "result" not in working
    await whole.slots(8)
    over = (await of_task(whole, wallet, "tasks/get", task["taskId"])).json()["result"]
    assert (over["resultType"], over["status"], over["createdAt"]) == ("complete", "completed", task["createdAt"])
    result = over["result"]
    assert result["structuredContent"]["status"] == "confirmed" and not result["isError"]
    Draft202012Validator(TOOLS["sendAndConfirm"]["outputSchema"]).validate(result["structuredContent"])
    assert "legs" not in result["structuredContent"]
    assert result["_meta"]["ledger-gateway/credits"] == {"spent": 50, "left": 50}
    assert over["_meta"]["ledger-gateway/credits"] == {"spent": 0, "left": 50}
    assert await whole.world.debits(wallet) == [("sendAndConfirm", 50)]


async def test_a_send_that_ends_soon_is_no_task(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server decides, call by call. A refusal is told at once, and so is what needs no waiting."""
    monkeypatch.setattr(long_sends, "SOON_SECONDS", 30)
    wallet, poor = await whole.customer(100), await whole.customer(1)
    done = await whole.finished(ask(whole.world, send(whole, wallet), wallet))
    assert done.json()["result"]["structuredContent"]["status"] == "confirmed"
    lacking = (await ask(whole.world, send(whole, poor), poor)).json()["result"]
    assert lacking["isError"] and lacking["resultType"] == "complete"
    assert await whole.world.debits(poor) == []


async def test_a_client_that_has_not_declared_it_gets_no_task(whole: Whole) -> None:
    wallet = await whole.customer(100)
    plain = send(whole, wallet, _meta={eras.CAPABILITIES_META: {}})
    done = await whole.finished(ask(whole.world, plain, wallet))
    assert done.json()["result"]["resultType"] == "complete"
    for method in tasks.TASK_METHODS:
        told = await of_task(whole, wallet, method, "x", {eras.CAPABILITIES_META: {}}, inputResponses={})
        assert (told.status_code, told.json()["error"]["code"]) == (400, -32021)
        assert told.json()["error"]["data"]["requiredCapabilities"] == {"extensions": {tasks.EXTENSION: {}}}


async def test_a_task_is_shown_to_its_own_account_alone(whole: Whole) -> None:
    wallet, other = await whole.customer(100), await whole.customer(100)
    task = await begun(whole, wallet)
    for method in tasks.TASK_METHODS:
        for who, task_id in ((other, task["taskId"]), (wallet, "x"), (wallet, task["taskId"][:-4] + "AAAA")):
            told = await of_task(whole, who, method, task_id, inputResponses={})
            assert (told.status_code, told.json()["error"]["code"]) == (200, -32602), method
        stranger = await whole.world.customer(account=False)
        stranger.api_key = "0" * 64
        assert (await of_task(whole, stranger, method, task["taskId"], inputResponses={})).status_code == 401
    odd = await of_task(whole, wallet, "tasks/update", task["taskId"])
    assert odd.json()["error"]["code"] == -32602
    named = request("tasks/get", 7, taskId=task["taskId"], _meta=dict(TAKES))
    assert (await ask(whole.world, named, wallet, **{"mcp-name": "another"})).json()["error"]["code"] == -32020


async def test_a_send_cannot_be_called_back_and_asks_for_nothing(whole: Whole) -> None:
    """tasks/cancel and tasks/update are acknowledged; the task goes on to its outcome."""
    wallet = await whole.customer(100)
    task = await begun(whole, wallet)
    for method in ("tasks/cancel", "tasks/update"):
        told = (await of_task(whole, wallet, method, task["taskId"], inputResponses={"a": {}})).json()["result"]
        assert set(told) == {"resultType", "_meta"} and told["resultType"] == "complete"
    await whole.slots(8)
    over = (await of_task(whole, wallet, "tasks/get", task["taskId"])).json()["result"]
    assert over["result"]["structuredContent"]["status"] == "confirmed"


async def test_a_client_that_leaves_ends_nothing_and_its_key_finds_the_outcome(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call runs under a key. The same call and key again: its answer, and no second charge."""
    wallet = await whole.customer(100)
    message = send(whole, wallet)
    leaving = asyncio.ensure_future(ask(whole.world, message, wallet, **{"idempotency-key": "k"}))
    await turns()
    leaving.cancel()
    await whole.slots(8)
    monkeypatch.setattr(long_sends, "SOON_SECONDS", 30)
    again = (await ask(whole.world, message, wallet, **{"idempotency-key": "k"})).json()["result"]
    assert again["structuredContent"]["status"] == "confirmed"
    assert await whole.world.debits(wallet) == [("sendAndConfirm", 50)]


async def test_a_confirmed_send_may_be_a_task(whole: Whole) -> None:
    """Tasks, "Task Creation": the question comes first, and then the task."""
    wallet = await whole.customer(100)
    both = {eras.CAPABILITIES_META: TAKES[eras.CAPABILITIES_META] | {"elicitation": {}}}
    message = send(whole, wallet, _meta=both)
    question = (await ask(whole.world, message, wallet)).json()["result"]
    assert question["resultType"] == "input_required"
    message["params"] |= {"requestState": question["requestState"], "id": 2}
    message["params"]["inputResponses"] = {"confirm": {"action": "accept", "content": {"confirm": True}}}
    assert (await ask(whole.world, message, wallet)).json()["result"]["resultType"] == "task"
    await whole.slots(8)


async def test_discovery_names_the_extension_where_keys_can_be_stored(whole: Whole, tmp_path: Path) -> None:
    found = (await ask(whole.world, request("server/discover"))).json()["result"]
    assert found["capabilities"]["extensions"] == {tasks.EXTENSION: {}}
    (tmp_path / "other").mkdir()
    async with a_whole(tmp_path / "other", idempotency=None) as without:
        told = (await ask(without.world, request("server/discover"))).json()["result"]
        assert "extensions" not in told["capabilities"]
        wallet = await without.customer(100)
        done = await without.finished(ask(without.world, send(without, wallet), wallet))
        assert done.json()["result"]["resultType"] == "complete"
