"""Guards the replica's client of accounts: routing, and what becomes of silence."""

import asyncio
from typing import Any

import pytest
from pydantic import SecretStr
from ray.exceptions import ActorDiedError, RayError

from actors.accounts import owner_link
from actors.accounts.api import (
    CHARGE,
    DELIVERED,
    HOLD,
    SETTLE,
    UNDELIVERED,
    VOID,
    AdjustCredits,
    CreditDeposit,
    OwnerReply,
    OwnerUnavailable,
    PaidTransfer,
    ReadAccount,
    ReadStanding,
)
from actors.accounts.client import ShardedAccounts
from actors.accounts.holders_store import RouteTable
from actors.calls import (
    ChargeReply,
    ChargeRequest,
    DeliveredNotice,
    HoldItem,
    HoldReply,
    HoldRequest,
    KeyProof,
    Noted,
    SettleReply,
    SettleRequest,
    UndeliveredNotice,
    WalletProof,
)
from actors.config import Config, GatewayConfig, StorageConfig
from actors.hotlink.owner import LinkServer
from actors.units import VIRTUAL_SHARDS, routing_bytes, shard_of

REPLICA = b"replica0"
SECRET = "the cluster's, of 128 bits"
WALLETS = [bytes([n]) * 32 for n in range(8)]


class Owner:
    """A shard actor as replicas see it: an address to link to, and rare requests."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.told: list[UndeliveredNotice] = []
        self.silent = False
        self.is_committing, self.deaths = True, 0  # deaths: so many questions meet an owner that has ended.
        self.clock_doubt: str | None = None
        self.notices: asyncio.Queue[DeliveredNotice] = asyncio.Queue()
        self.ended: asyncio.Queue[SettleRequest] = asyncio.Queue()
        self.server = LinkServer(
            SECRET.encode(),
            {
                HOLD: self._hold,
                SETTLE: self._settle,
                CHARGE: self._charge,
                VOID: self._settle,
                DELIVERED: self._delivered,
                UNDELIVERED: self._told,
            },
        )
        self.where: tuple[str, int] = ("127.0.0.1", 0)
        self.table: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if name not in ("address", "health", "ask", "ask_many", "routes"):
            raise AttributeError(name)
        owner = self

        class Method:
            @staticmethod
            async def remote(*arguments: Any) -> Any:
                if name == "address":
                    return owner.where
                if name == "routes":
                    return RouteTable(bytes(owner.table), (1,) * 4)
                owner.seen.append((name, *arguments))
                if name in ("ask", "ask_many") and owner.deaths:
                    owner.deaths -= 1
                    raise ActorDiedError
                if name == "ask_many":
                    if owner.silent:
                        raise RayError("the test says so")
                    return [OwnerReply(True) for _ in arguments[0]]
                if name == "health":
                    return {"committing": owner.is_committing, "clock_doubt": owner.clock_doubt}
                return OwnerReply(True)

        return Method

    def _hold(self, items: list[HoldRequest]) -> list[Any]:
        self.seen += items
        if self.silent:
            return [asyncio.get_running_loop().create_future() for _ in items]
        return [HoldReply(b"", 1, None, (None,), None) for _ in items]

    def _settle(self, items: list[SettleRequest]) -> list[Any]:
        self.seen += items
        for item in items:
            self.ended.put_nowait(item)
        return [SettleReply(True, 5) for _ in items]

    def _charge(self, items: list[ChargeRequest]) -> list[Any]:
        self.seen += items
        return [ChargeReply(HoldReply(b"", 1, None, (None,), None), SettleReply(True, 5)) for _ in items]

    def _told(self, items: list[UndeliveredNotice]) -> list[Any]:
        self.told += items
        return [Noted() for _ in items]

    def _delivered(self, items: list[DeliveredNotice]) -> list[Any]:
        for item in items:
            self.notices.put_nowait(item)
        return [Noted() for _ in items]


async def world(count: int) -> tuple[ShardedAccounts, list[Owner]]:
    owners = [Owner() for _ in range(count)]
    for owner in owners:
        owner.where = ("127.0.0.1", await owner.server.start("127.0.0.1"))
    config = Config(
        storage=StorageConfig(cluster_secret=SecretStr(SECRET)),
        gateway=GatewayConfig(hold_wait_ms=300),
    )
    for owner in owners:
        owner.table = [number % count for number in range(VIRTUAL_SHARDS)]
    accounts = ShardedAccounts(config, REPLICA, owners.__getitem__)
    accounts.start()
    await accounts.connected()
    return accounts, owners


async def end(accounts: ShardedAccounts, owners: list[Owner]) -> None:
    await accounts.stop()
    for owner in owners:
        await owner.server.stop()


async def test_each_request_goes_to_the_owner_of_its_account() -> None:
    """Rule (money rule 5): one owner per account; keys, wallets and settles of it all find the same one."""
    accounts, owners = await world(3)
    for number, pubkey in enumerate(WALLETS):
        owner = owners[shard_of(pubkey) % 3]
        operation = number.to_bytes(16, "big")
        before = len(owner.seen)
        await accounts.hold(HoldRequest(operation, KeyProof(b"h", routing_bytes(pubkey)), (HoldItem("getSlot", 1),)))
        await accounts.hold(HoldRequest(operation, WalletProof(pubkey, "n", 0), (HoldItem("getSlot", 1),)))
        await accounts.settle(SettleRequest(operation, pubkey, 1, "getSlot", 1, 1, 0, 0))
        await accounts.ask(ReadAccount(WalletProof(pubkey, "n", 0)))
        assert len(owner.seen) == before + 4
    assert await accounts.committing()
    await end(accounts, owners)


@pytest.mark.parametrize(
    ("command", "again"),
    [
        (ReadAccount(KeyProof(b"h", routing_bytes(WALLETS[0]))), 1),
        (ReadStanding(KeyProof(b"h", routing_bytes(WALLETS[0]))), 1),
        (ReadAccount(WalletProof(WALLETS[0], "n", 0)), 0),
        (AdjustCredits(WALLETS[0], 5, "goodwill", "operation"), 0),
    ],
)
async def test_a_question_that_met_a_replaced_owner_is_asked_its_successor(command: Any, again: int) -> None:
    """A deployment, or a move to another machine, ends an owner without accounts, and replicas have its handle. What
    could be carried out twice, or takes a wallet's nonce, is not asked again: the former one may have done it."""
    accounts, owners = await world(1)
    owners[0].deaths = again
    assert (await accounts.ask(command)).value
    owners[0].deaths = again + 1
    before = len(owners[0].seen)
    with pytest.raises(OwnerUnavailable):
        await accounts.ask(command)
    asked = [name for name, *_ in owners[0].seen[before:] if name in ("ask", "ask_many")]
    assert len(asked) == again + 1
    await end(accounts, owners)


async def test_one_owner_with_a_doubtful_clock_is_enough_to_say_so() -> None:
    """Threat 53: the health page of any replica shows it, and not for longer than it lasts."""
    accounts, owners = await world(3)
    await accounts.connected()
    for doubt in (None, "the wall clock of this process is 86400 s ahead of the database's clock", None):
        owners[1].clock_doubt = doubt
        assert await accounts.committing()
        assert accounts.clocks_disagree is (doubt is not None)
    await end(accounts, owners)


async def test_half_of_the_owners_are_enough_and_the_others_are_named() -> None:
    """Decisions, "health transitions"."""
    accounts, owners = await world(3)
    await accounts.connected()
    for dead, committing in (((1,), True), ((0, 1), False)):
        for number, owner in enumerate(owners):
            owner.is_committing = number not in dead
        assert await accounts.committing() is committing
        assert accounts.owners_away == dead
    await end(accounts, owners)


async def test_owners_without_a_shard_are_not_missed() -> None:
    """Decisions, "health transitions": owners that an operator takes away end before replicas read the table by
    themselves. One that has shards is missed, whatever became of the others."""
    accounts, owners = await world(4)
    for owner in owners:
        owner.table, owner.is_committing = [0] * VIRTUAL_SHARDS, owner is owners[0]
    assert await accounts.committing()
    assert accounts.owners_away == ()
    for owner in owners:
        owner.table, owner.is_committing = [number % 2 for number in range(VIRTUAL_SHARDS)], owner is owners[1]
    await accounts._read_routes()
    await accounts.connected()
    assert await accounts.committing() and accounts.owners_away == (0,)
    owners[1].table = [2] * VIRTUAL_SHARDS  # All shards have gone to one that was not asked.
    owners[2].is_committing = False
    assert not await accounts.committing() and accounts.owners_away == (2,)
    await end(accounts, owners)


async def test_a_silent_owner_is_unavailable_and_its_hold_is_voided() -> None:
    """Rule (money rule 9): nothing is served on trust; what may have been held is let go."""
    accounts, owners = await world(1)
    owners[0].silent = True
    request = HoldRequest(bytes(16), WalletProof(WALLETS[1], "n", 0), (HoldItem("getSlot", 1),))
    with pytest.raises(OwnerUnavailable):
        await accounts.hold(request)
    void = await asyncio.wait_for(owners[0].ended.get(), 5)
    assert (void.operation, void.pubkey, void.charged) == (bytes(16), WALLETS[1], 0)
    await end(accounts, owners)


async def test_an_owner_that_does_not_answer_refuses_its_own_deposits_alone() -> None:
    """Those of other owners are told as credited; one message to each owner, answers in the order asked for."""
    accounts, owners = await world(3)
    await accounts.connected()
    silent = shard_of(WALLETS[0]) % 3
    owners[silent].silent = True
    wanted = [CreditDeposit(pubkey, PaidTransfer(pubkey * 2, 0, 10_000, 1)) for pubkey in WALLETS]
    answers = await accounts.ask_many(wanted)
    for pubkey, answer in zip(WALLETS, answers, strict=True):
        refused = shard_of(pubkey) % 3 == silent
        assert answer.refusal == ("SERVICE_TEMPORARILY_UNAVAILABLE" if refused else None)
    assert all(len(owner.seen) <= 1 for owner in owners)
    await end(accounts, owners)


async def test_deliveries_are_told_several_at_once() -> None:
    """Rule (money rule 2): the owner learns what was delivered; never one message per call."""
    accounts, owners = await world(1)
    operations = tuple(REPLICA + number.to_bytes(8, "big") for number in range(5))
    for operation in operations:
        accounts.delivered(WALLETS[0], operation)
    notice = await asyncio.wait_for(owners[0].notices.get(), 5)
    assert notice.operations == operations
    await end(accounts, owners)


async def test_several_deliveries_are_told_with_the_next_call_to_their_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice of its own would wake the owner once more; one for each call would delay the calls of a lone client. And
    what was told is not told again."""
    monkeypatch.setattr(owner_link, "_NOTICE_SECONDS", 3_600)
    accounts, owners = await world(1)
    await accounts.connected()
    request = HoldRequest(bytes(16), WalletProof(WALLETS[1], "n", 0), (HoldItem("getSlot", 1),))
    operations = tuple(REPLICA + number.to_bytes(8, "big") for number in range(owner_link._NOTICE_OPERATIONS))
    for operation in operations[:-1]:
        accounts.delivered(WALLETS[0], operation)
    await accounts.hold(request)
    assert owners[0].notices.empty()
    accounts.delivered(WALLETS[0], operations[-1])
    for _ in range(2):
        await accounts.hold(request)
    assert owners[0].notices.get_nowait().operations == operations
    assert owners[0].notices.empty()
    await end(accounts, owners)


async def test_who_stops_has_told_every_delivery() -> None:
    """Rule (money rule 2): also what waits behind others on the way; the owner would refund what was answered."""
    accounts, owners = await world(1)
    await accounts.connected()
    loop = asyncio.get_running_loop()
    handler, decoder = owners[0].server.handlers[DELIVERED.number]

    def slowly(items: list[DeliveredNotice]) -> list[Any]:
        later = loop.create_future()
        loop.call_later(0.02, later.set_result, None)
        return [(reply, later) for reply in handler(items)]

    owners[0].server.handlers[DELIVERED.number] = slowly, decoder
    operations = [REPLICA + bytes([number] * 8) for number in range(4)]
    for operation in operations:
        accounts.delivered(WALLETS[0], operation)
        accounts._owners[0].send_gathered()
        await asyncio.sleep(0)
    await accounts.stop()
    told: list[bytes] = []
    while not owners[0].notices.empty():
        told += owners[0].notices.get_nowait().operations
    assert told == operations
    await owners[0].server.stop()


async def test_who_links_again_names_every_charge_whose_answer_has_not_left() -> None:
    """Rule (money rule 2): posted ones, and those whose settle or void has no reply yet. The owner takes all others of
    a former list as delivered."""
    accounts, owners = await world(1)
    await accounts.connected()
    charges = [
        SettleRequest(REPLICA + bytes([number] * 8), WALLETS[0], 1, "getSlot", 1, 1, 0, 0) for number in range(4)
    ]
    for charge in charges[:2]:
        assert (await accounts.settle(charge)).ok
    accounts.delivered(WALLETS[0], charges[1].operation)
    for kind in (SETTLE, VOID):
        owners[0].server.handlers[kind.number] = _never, owners[0].server.handlers[kind.number][1]
    settling = asyncio.ensure_future(accounts.settle(charges[2]))
    accounts.void(charges[3])
    await asyncio.sleep(0)
    told = len(owners[0].told)
    connection = accounts._owners[0].link._connection
    assert connection is not None
    connection.abandon()
    async with asyncio.timeout(5):
        while len(owners[0].told) == told:  # noqa: ASYNC110 - nobody says when.
            await asyncio.sleep(0.002)
    notice = owners[0].told[-1]
    assert notice.replica == REPLICA
    assert set(notice.operations) == {charge.operation for charge in (charges[0], *charges[2:])}
    settling.cancel()
    await end(accounts, owners)


def _never(items: list[Any]) -> list[Any]:
    return [asyncio.get_running_loop().create_future() for _ in items]


async def test_a_charge_says_how_many_follow_wherever_its_key_was_located() -> None:
    """decisions, "Calls asked ahead": an owner that is not told writes each charge in a group of its own."""
    accounts, owners = await world(2)
    proof = KeyProof(b"h" * 32, routing_bytes(WALLETS[1]))
    hold = HoldRequest(bytes(16), proof, (HoldItem("getSlot", 1),))
    settle = SettleRequest(bytes(16), WALLETS[0], 1, "getSlot", 1, 0, 0, 0)
    assert accounts._locations.learn(proof, WALLETS[0])
    assert (await accounts.charge(ChargeRequest(hold, settle, 3))).settled == SettleReply(True, 5)
    (seen,) = owners[shard_of(WALLETS[0]) % 2].seen
    assert (seen.coming, seen.hold.proof.routing) == (3, routing_bytes(WALLETS[0]))
    await end(accounts, owners)
