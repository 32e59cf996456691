"""How accounts stand: who never had a credit has none, and of whom nobody knows nothing is said."""

from typing import Any

from actors.accounts.api import AccountStanding, OwnerReply
from actors.webhooks.standings import AWAY, SUSPENDED, Standings

PAYS, NONE, GONE, STOPPED = (bytes([number]) * 32 for number in range(4))


class Owners:
    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def ask(self, command: Any) -> OwnerReply[Any]:
        raise AssertionError(command)

    async def ask_many(self, commands: Any) -> list[OwnerReply[Any]]:
        self.asked += [command.proof.pubkey for command in commands]
        replies = {
            PAYS: OwnerReply[Any](AccountStanding(PAYS, 7, is_active=True)),
            NONE: OwnerReply[Any](None, "PAYMENT_REQUIRED"),
            GONE: OwnerReply[Any](None, "SERVICE_TEMPORARILY_UNAVAILABLE"),
            STOPPED: OwnerReply[Any](AccountStanding(STOPPED, 7, is_active=False)),
        }
        return [replies[command.proof.pubkey] for command in commands]


async def test_each_account_is_asked_for_once_and_an_unknown_one_has_nothing() -> None:
    owners = Owners()
    found = await Standings(owners).of([PAYS, NONE, PAYS, GONE, STOPPED])
    assert owners.asked == [PAYS, NONE, GONE, STOPPED] and GONE not in found
    assert [found[each].balance for each in (PAYS, NONE)] == [7, 0]


async def test_who_may_make_nothing_is_told_why() -> None:
    standings = Standings(Owners())
    assert await standings.one(GONE) == AWAY and await standings.one(STOPPED) == SUSPENDED
    assert await standings.one(PAYS) == AccountStanding(PAYS, 7, is_active=True)
