"""An operator's command finds the owner of its account while shards move."""

from typing import Any

from actors.accounts.api import Describe, OwnerReply, owner_name
from actors.accounts.holders_store import RouteTable
from actors.accounts.one_command import ask_owner_of
from actors.units import shard_of
from tests.accounts.making import ALICE


class Actors:
    """Alice's shard moves from the first owner to the second when it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.owners = bytearray(1024)

    def __call__(self, name: str) -> Any:
        actors = self

        class Handle:
            def __getattr__(self, method: str) -> Any:
                if method.startswith("__"):  # Of Ray's own.
                    raise AttributeError(method)
                return Method(method)

        class Method:
            def __init__(self, method: str) -> None:
                self.method = method

            async def remote(self, *arguments: Any) -> Any:
                if self.method == "routes":
                    return RouteTable(bytes(actors.owners), (1, len(actors.asked)))
                actors.asked.append(name)
                is_first = not actors.owners[shard_of(ALICE)]
                actors.owners[shard_of(ALICE)] = 1
                return OwnerReply(refusal="SERVICE_TEMPORARILY_UNAVAILABLE", moved=True) if is_first else OwnerReply(7)

        return Handle()


async def test_a_command_follows_its_account() -> None:
    actors = Actors()
    assert (await ask_owner_of(Describe(ALICE), actors)).value == 7  # type: ignore[comparison-overlap]
    assert actors.asked == [owner_name(0), owner_name(1)]
