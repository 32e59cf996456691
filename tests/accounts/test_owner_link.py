"""What a replica keeps of one owner; more of it, over real links: test_client.py and test_returning_replica.py."""

import asyncio
from typing import Any

from actors.accounts import owner_link
from actors.accounts.owner_link import OwnerLink, reaches_others
from tests.accounts.making import operation, settle


class Client:
    replica = b"replica1"

    def start_over(self) -> None: ...

    def given_up(self, operation: bytes) -> None: ...


async def test_charges_that_are_not_delivered_are_bounded(monkeypatch: Any) -> None:
    """The oldest count as delivered, as at the owner; a delivered one is told once."""
    monkeypatch.setattr(owner_link, "UNDELIVERED_MAX", 2)
    owner = OwnerLink(Client(), None, b"secret", 100)
    for number in range(3):
        owner.charged(settle(number, 1))
    assert list(owner.undelivered) == [operation(1), operation(2)]
    owner.delivered(operation(1))
    owner.delivered(operation(2))
    assert not owner.undelivered
    owner.send_gathered()
    owner.send_gathered()
    (notice,) = (call.item for call in owner.link._calls.values())
    assert notice.operations == (operation(1), operation(2))
    await asyncio.sleep(0)
    await owner.stop()


class _Linked(OwnerLink):
    def __init__(self, host: str, is_linked: bool) -> None:
        super().__init__(Client(), None, b"secret", 100)
        self.host = host
        self.link._connection = object() if is_linked else None  # type: ignore[assignment]


def test_a_replica_knows_whether_it_reaches_an_owner_on_another_machine() -> None:
    """One on its own machine answers also where the machine is cut off; where none is known elsewhere, nothing is."""
    here, there = "10.0.0.1", "10.0.0.2"
    assert reaches_others([], here)
    assert reaches_others([_Linked(here, False), _Linked("", False)], here)
    assert not reaches_others([_Linked(here, True), _Linked(there, False)], here)
    assert reaches_others([_Linked(there, False), _Linked(there, True)], here)
