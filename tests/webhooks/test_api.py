"""Guards that a command goes to the dispatcher that has its slice, once, and that who does not answer is a refusal."""

from collections.abc import Mapping
from typing import Any

import pytest

from actors import hosting
from actors.clock import SystemClock
from actors.errors import Err, Refusal
from actors.ownership.api import Owned, OwnershipUnavailable
from actors.webhooks import api
from actors.webhooks.api import (
    ChangeWebhook,
    CreateWebhook,
    ListWebhooks,
    NotMine,
    ReplayWebhook,
    TryWebhook,
    WebhooksClient,
)
from actors.webhooks.slices import SLICES, SOURCES_SLICE, slice_of

ALICE = b"k" * 32
OWN = slice_of(ALICE)


class Cluster:
    """Dispatchers "a", which has the slice of the sources, and "b", which has all others; answers by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert OWN != SOURCES_SLICE
        self.holders: Mapping[int, Owned] = {number: Owned("b", 2) for number in range(SLICES)} | {0: Owned("a", 1)}
        self.asked: list[tuple[str, Any]] = []
        self.waits: list[float] = []
        self.is_away = False
        self.answers: dict[str, list[Any]] = {}
        monkeypatch.setattr(hosting, "ask", self._ask)
        monkeypatch.setattr(api, "_MOVING_SECONDS", 0.0)
        self.client = WebhooksClient(self._read, SystemClock(), lambda name: name)

    async def _read(self) -> Mapping[int, Owned]:
        if self.is_away:
            raise OwnershipUnavailable
        return self.holders

    async def _ask(self, name: str, method: str, *arguments: Any, wait_seconds: float = 10.0) -> Any:
        if method == "health":
            return {}
        self.asked.append((name, *arguments))
        self.waits.append(wait_seconds)
        answer = self.answers[name].pop(0) if self.answers.get(name) else {"by": name}
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Cluster(monkeypatch)
    await made.client.start()
    yield made
    await made.client.stop()


async def test_a_dispatcher_that_does_not_answer_is_a_refusal_with_a_retry(cluster: Cluster) -> None:
    """503, and not an error of ours; it may have done the work, so no other is asked. A test delivery may take as long
    as its endpoint."""
    cluster.answers["b"] = [hosting.ActorUnreachable("ask"), hosting.ActorUnreachable("ask")]
    for command in (ListWebhooks(ALICE), TryWebhook(ALICE, "wh_1")):
        found = await cluster.client.ask(command)
        assert isinstance(found, Refusal) and found.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    assert cluster.waits[1] > 15 > cluster.waits[0] and len(cluster.asked) == 2


async def test_commands_go_to_the_account_and_those_about_wallets_to_the_sources(cluster: Cluster) -> None:
    """Places of watched wallets are counted by the dispatcher that watches them."""
    wallets = {"wallets": ["w"]}
    for command, name in (
        (CreateWebhook(ALICE, fields={"filter_type": "signal"}), "b"),
        (CreateWebhook(ALICE, fields={"filter_type": "signal"} | wallets), "a"),
        (CreateWebhook(ALICE, fields="nonsense"), "b"),
        (ChangeWebhook(ALICE, "wh_1", wallets), "a"),
        (ReplayWebhook(ALICE, "wh_1", wallets), "b"),
    ):
        assert await cluster.client.ask(command) == {"by": name}


async def test_a_webhook_that_is_disabled_with_its_wallets_is_withdrawn_where_its_deliveries_are(
    cluster: Cluster,
) -> None:
    command = ChangeWebhook(ALICE, "wh_1", {"wallets": ["w"], "status": "disabled"})
    assert await cluster.client.ask(command) == {"by": "b"}
    assert cluster.asked == [("a", command), ("b", ChangeWebhook(ALICE, "wh_1", {"status": "disabled"}))]
    cluster.answers["a"], cluster.asked = [Refusal(Err.NOT_FOUND, "")], []
    assert await cluster.client.ask(command) == Refusal(Err.NOT_FOUND, "") and len(cluster.asked) == 1


async def test_a_command_follows_its_slice_when_it_has_moved(cluster: Cluster) -> None:
    """Who does not have the slice did nothing, so the next one may be asked."""
    cluster.answers["b"] = [NotMine()]
    cluster.holders = {number: Owned("a", 3) for number in range(SLICES)}
    assert await cluster.client.ask(ListWebhooks(ALICE)) == {"by": "a"}
    assert [name for name, _ in cluster.asked] == ["b", "a"]


async def test_while_the_holders_are_not_known_anew_the_known_ones_are_asked(cluster: Cluster) -> None:
    cluster.is_away, cluster.answers["b"] = True, [NotMine(), NotMine()]
    assert await cluster.client.ask(ListWebhooks(ALICE)) == {"by": "b"}
