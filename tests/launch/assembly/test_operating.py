"""The parts that operators' pages are given: the watcher's words, and the commands about nodes."""

from typing import Any

import pytest

from actors import hosting
from actors.deposits.api import AssignTransfer, CountTransfers
from actors.errors import Err, Refusal
from actors.launch.assembly import operating
from actors.launch.assembly.operating import ChangingNodes, WatchedTransfers
from tests.upstream.changing import Chain
from tests.upstream.test_node_operator import a_world


@pytest.mark.parametrize(
    ("answer", "err", "told"),
    [
        ("0 transfers of it are listed", Err.INVALID_REQUEST, "0 transfers"),
        ("the store does not answer: password=x", Err.SERVICE_TEMPORARILY_UNAVAILABLE, "may or may not"),
        (hosting.ActorUnreachable("gone"), Err.SERVICE_TEMPORARILY_UNAVAILABLE, "may or may not"),
    ],
)
async def test_what_the_watcher_says_is_a_refusal_without_the_text_of_an_exception(
    monkeypatch: pytest.MonkeyPatch, answer: Any, err: Err, told: str
) -> None:
    """Nobody can say whether an assignment was made by a watcher that did not answer: it is repeated."""
    asked: list[Any] = []

    async def ask_watcher(watchers: Any, method: str, command: Any, wait_seconds: float) -> Any:
        asked.append(command)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(operating, "ask_watcher", ask_watcher)
    refused = await WatchedTransfers().assign("sig", 3, "pubkey", "why")
    assert isinstance(refused, Refusal) and refused.err is err and told in refused.detail
    assert "password" not in refused.detail and asked == [AssignTransfer("sig", 3, "pubkey", "why")]
    counted = await WatchedTransfers().totals()
    assert isinstance(counted, Refusal) and asked[-1] == CountTransfers()


async def test_the_desk_carries_out_commands_about_nodes_and_shows_no_key() -> None:
    """A node is added, weighted, drained and removed; a refusal has its status and its remedy."""
    old, new = Chain(), Chain()
    async with a_world(old, further=(new,)) as world:
        desk = ChangingNodes(world.operator)
        added = await desk.add("new", f"{new.url}SECRETKEY", None, 3, ["read", "send"], False)
        assert added.http == 200 and "SECRETKEY" not in str(added.body)
        (settings, mine) = (await desk.listing()).body["nodes"]
        assert (mine["id"], mine["weight"], mine["origin"], settings["origin"]) == ("new", 3, "operator", "settings")
        await world.follower.look()
        assert (await desk.remove("new")).http == 409, "drained first"
        assert (await desk.change("new", 5, None, False)).body["nodes"][1]["weight"] == 5
        assert (await desk.change("new", None, True, True)).http == 200 and (await desk.remove("new")).http == 200
        last = await desk.change(settings["id"], None, True, False)
        assert (last.http, last.body["reason"]) == (409, "last_node") and last.body["message"]
