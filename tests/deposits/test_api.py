"""The replicas' client of the watcher and of its standby."""

from typing import Any

import pytest

from actors import hosting
from actors.accounts.api import DepositConfirmation
from actors.deposits.api import DepositsClient, StandsBy
from actors.deposits.usdc.core import Part
from actors.errors import Err, Refusal
from tests.deposits.world import key_of

ALICE = key_of("alice")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A handle that answers by method name; an exception is raised."""
    told: dict[str, Any] = {}

    async def ask(_handle: Any, method: str, *_: Any, **_options: Any) -> Any:
        if isinstance(told[method], Exception):
            raise told[method]
        return told[method]

    monkeypatch.setattr(hosting, "ask", ask)
    return told


async def test_a_credit_is_told_to_the_caller(answers: dict[str, Any]) -> None:
    answers["confirm"] = ((Part(ALICE, 1_000, 1_000),), True)
    answer = await DepositsClient([None]).confirm(b"s" * 64, ALICE, None)
    assert answer == DepositConfirmation(credits_added=1_000, new_balance=1_000, already_processed=False)


async def test_a_refusal_passes_through(answers: dict[str, Any]) -> None:
    answers["confirm"] = (Refusal(Err.DEPOSIT_NOT_FINAL, "it is confirmed"), True)
    answer = await DepositsClient([None]).confirm(b"s" * 64, ALICE, None)
    assert answer == Refusal(Err.DEPOSIT_NOT_FINAL, "it is confirmed")


async def test_a_watcher_that_is_away_is_503(answers: dict[str, Any]) -> None:
    """It may have credited already: the caller repeats the request and gets already_processed."""
    answers["confirm"] = hosting.ActorUnreachable("restarting")
    answer = await DepositsClient([None]).confirm(b"s" * 64, ALICE, None)
    assert isinstance(answer, Refusal) and answer.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE


async def test_a_watcher_is_kept_awake_and_its_state_known(answers: dict[str, Any]) -> None:
    """A watcher that Ray restarted starts with its first call."""
    answers["health"] = {"fault": "", "caught_up_at": 5}
    client = DepositsClient([None])
    client.start()
    for _ in range(5):
        await hosting.asyncio.sleep(0)
    assert client.state == {"fault": "", "caught_up_at": 5}
    await client.stop()


class _Pair:
    """Two watchers by number, each with its health (None: it does not answer) and its answer to `confirm`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.health: list[Any] = [None, None]
        self.asked: list[int] = []
        monkeypatch.setattr(hosting, "ask", self._ask)

    async def _ask(self, watcher: int, method: str, *_: Any, **_options: Any) -> Any:
        health = self.health[watcher]
        if method == "confirm":
            self.asked.append(watcher)
        if health is None:
            raise hosting.ActorUnreachable(method)
        if method == "health":
            return health
        return StandsBy() if health["epoch"] == 0 else ((Part(ALICE, 1_000 + watcher, 1_000),), True)


@pytest.mark.parametrize(
    ("health", "asked", "added"),
    [
        ([{"epoch": 5}, {"epoch": 0}], [0], 1_000),
        ([{"epoch": 5}, {"epoch": 6}], [1], 1_001),
        ([{"epoch": 7}, {"epoch": 6}], [0], 1_000),
        ([None, {"epoch": 6}], [1], 1_001),
        ([{"epoch": 7}, None], [0], 1_000),
        ([None, {"epoch": 0}], [1, 0], None),
    ],
    ids=["standing by", "taken over", "back again", "first away", "no standby", "not yet taken over"],
)
async def test_the_one_that_watches_is_asked(
    monkeypatch: pytest.MonkeyPatch, health: list[Any], asked: list[int], added: int | None
) -> None:
    """Of two that think that they watch, it is the one with the newer epoch; the other one is fenced."""
    pair = _Pair(monkeypatch)
    pair.health = health
    client = DepositsClient([0, 1])
    client.start()
    for _ in range(5):
        await hosting.asyncio.sleep(0)
    answer = await client.confirm(b"s" * 64, ALICE, None)
    assert pair.asked == asked
    if added is None:
        assert isinstance(answer, Refusal) and answer.err is Err.SERVICE_TEMPORARILY_UNAVAILABLE
    else:
        assert isinstance(answer, DepositConfirmation) and answer.credits_added == added
        assert client.state == health[asked[-1]]
    await client.stop()
