"""Whether an actor answers, is silent, has ended, or nobody can say."""

from typing import Any

import pytest

from actors import hosting
from actors.ownership.pulses import Pulse, Pulses


async def test_each_pulse_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(reference: Any, method: str, wait_seconds: float) -> Any:
        assert (method, wait_seconds) == ("health", 2.0)
        if reference._name == "stopped":
            raise hosting.ActorUnreachable from TimeoutError()
        if reference._name == "ended":
            raise hosting.ActorUnreachable from RuntimeError("ActorDiedError")
        return {}

    def find(name: str) -> object:
        if name == "of a head that is away":
            raise TimeoutError
        if name == "never placed":
            raise hosting.ActorUnreachable
        return object()

    monkeypatch.setattr(hosting, "ask", ask)
    pulses = Pulses(lambda name: hosting.Reference(name, find=find))
    names = ["well", "stopped", "ended", "never placed", "of a head that is away"]
    assert await pulses.look(names, 2.0) == {
        "well": Pulse.ANSWERED,
        "stopped": Pulse.SILENT,
        "ended": Pulse.ABSENT,
        "never placed": Pulse.ABSENT,
        "of a head that is away": Pulse.UNKNOWN,
    }
    assert [pulse for pulse in Pulse if pulse.may_serve] == [Pulse.ANSWERED, Pulse.UNKNOWN]


async def test_a_handle_is_kept_for_the_time_when_the_head_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    finds: list[str] = []

    def find(name: str) -> object:
        finds.append(name)
        return object()

    async def ask(*_: Any, **_options: Any) -> Any:
        return {}

    monkeypatch.setattr(hosting, "ask", ask)
    pulses = Pulses(lambda name: hosting.Reference(name, find=find))
    for _ in range(3):
        await pulses.look(["one"], 2.0)
    assert finds == ["one"]
