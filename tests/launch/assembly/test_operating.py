"""The parts that operators' pages are given: the watcher's words, and the nodes of the settings."""

from typing import Any

import pytest

from actors import hosting
from actors.config import UpstreamConfig
from actors.deposits.api import AssignTransfer, CountTransfers
from actors.errors import Err, Refusal
from actors.launch.assembly import operating
from actors.launch.assembly.operating import NodesOfSettings, WatchedTransfers
from actors.status.live import CurrentHealth
from actors.upstream.node_health import Probe


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


async def test_nodes_are_shown_as_this_replica_finds_them_and_their_keys_are_not() -> None:
    """The one that answers is well, the one that never did is failing; neither can be changed here."""
    nodes = [
        {"name": "a", "url": "https://a.example/secret-key", "weight": 3},
        {"name": "b", "url": "https://b.example"},
    ]
    config = UpstreamConfig.model_validate({"nodes": nodes})
    current = CurrentHealth(config)
    current.probed("a", Probe(True, slot=700, version="4.1"), 700)
    desk = NodesOfSettings(config, current)
    http, body = await desk.listing()
    first, second = body["nodes"]
    assert http == 200 and "secret-key" not in str(body) and body["can_change"] is False
    assert (first["id"], first["weight"], first["slot"], first["health"]["well"]) == ("a", 3, 700, 1)
    assert (second["state"], second["health"]["failing"], second["lag_slots"]) == ("joining", 1, None)
    for refused in (await desk.add(), await desk.change(), await desk.remove()):
        assert refused.http == 409 and "upstream.nodes" in refused.body["message"]
