"""Streams of any door end for the same reasons as sockets; test_sockets.py shows it for those."""

from typing import Any

from actors.accounts.api import AccountStanding, OwnerReply, ReadStanding
from actors.calls import KeyProof, ProvenProof
from actors.errors import Err, Refusal
from actors.metering.standing_watch import BALANCE_MIN, StandingWatch
from actors.units import routing_bytes

WALLET = ProvenProof(b"a" * 32)
KEY = KeyProof(b"h" * 32, routing_bytes(WALLET.pubkey))


class Owners:
    def __init__(self) -> None:
        self.asked: list[list[Any]] = []
        self.uses: set[bool] = set()
        self.open_under: list[int] = []
        self.replies: dict[Any, OwnerReply[AccountStanding]] = {}

    async def ask_many(self, commands: list[ReadStanding]) -> list[OwnerReply[AccountStanding]]:
        self.asked.append([command.proof for command in commands])
        self.uses = {command.uses for command in commands}
        self.open_under = [command.open_under for command in commands]
        good = OwnerReply(AccountStanding(b"a" * 32, BALANCE_MIN, is_active=True))
        return [self.replies.get(command.proof, good) for command in commands]


async def test_each_credential_is_asked_about_once_and_all_its_streams_end() -> None:
    """Threat 31. One that has left is told nothing."""
    owners, ended = Owners(), list[tuple[str, Err]]()
    watch = StandingWatch(owners)  # type: ignore[arg-type]

    def end(name: str) -> Any:
        return lambda refusal: ended.append((name, refusal.err))

    for name, proof in (("one", KEY), ("two", KEY), ("gone", KEY), ("three", WALLET)):
        watch.join(proof, WALLET, name, end(name))
    watch.leave(KEY, WALLET, "gone")
    await watch.check()
    assert owners.asked == [[KEY, WALLET]] and owners.uses == {False} and ended == []
    owners.replies[KEY] = OwnerReply(None, Err.AUTH_FAILED.name)
    owners.replies[WALLET] = OwnerReply(AccountStanding(b"a" * 32, BALANCE_MIN - 1, is_active=True))
    await watch.check()
    assert ended == [("one", Err.AUTH_FAILED), ("two", Err.AUTH_FAILED), ("three", Err.INSUFFICIENT_CREDITS)]
    told: list[Refusal] = []
    watch.join(WALLET, WALLET, "four", told.append)
    owners.replies = {WALLET: OwnerReply(AccountStanding(b"a" * 32, 1_000, is_active=False))}
    await watch.check()
    assert [refusal.err for refusal in told] == [Err.METHOD_NOT_ALLOWED]


async def test_a_stream_ends_with_the_budget_of_its_key_and_says_so() -> None:
    """Its account may have plenty, so its holder is not told to deposit."""
    owners, told = Owners(), list[Refusal]()
    watch, named = StandingWatch(owners), ProvenProof(WALLET.pubkey, 7)  # type: ignore[arg-type]
    watch.join(KEY, named, "one", told.append)
    owners.replies[named] = OwnerReply(AccountStanding(b"a" * 32, BALANCE_MIN - 1, is_active=True, key=7))
    owners.replies[KEY] = owners.replies[named]
    await watch.check()
    assert [refusal.err for refusal in told] == [Err.KEY_BUDGET_EXCEEDED] and "its key's budget" in told[0].detail


async def test_a_key_is_asked_about_once_wherever_its_streams_come_from() -> None:
    """Threat 31. The origin of a handshake is the client's choice; asked about one by one, 5,000 sockets of an account
    took their owner's loop for 75 ms in every look. A stream that leaves is found among all of them."""
    owners, ended = Owners(), list[int]()
    watch = StandingWatch(owners)  # type: ignore[arg-type]
    named = ProvenProof(WALLET.pubkey, 7)

    def place(number: int) -> KeyProof:
        # A legacy key's own bytes name any owner.
        return KeyProof(KEY.key_hash, b"elsewher", f"2001:db8::{number:x}", f"https://{number}.example", "text")

    for payer in (WALLET, named):
        for number in range(5_000):
            watch.join(place(number), payer, (payer, number), lambda _: ended.append(1))
    await watch.check()
    assert owners.asked == [[KEY, KEY]] and owners.open_under == [0, 7]
    for number in range(4_999):
        watch.leave(place(number), WALLET, (WALLET, number))
        watch.leave(place(number), named, (named, number))
    owners.replies[KEY] = OwnerReply(None, Err.AUTH_FAILED.name)
    await watch.check()
    assert len(ended) == 2


async def test_streams_that_are_paid_by_the_minute_need_no_balance_and_prolong_their_session() -> None:
    """Those of gRPC. An owner that is away, or does not admit the question, has revoked nothing."""
    owners, told = Owners(), list[Refusal]()
    watch = StandingWatch(owners, balance_min=0, prolongs_sessions=True)  # type: ignore[arg-type]
    watch.join(KEY, WALLET, "one", told.append)
    for reply in (
        OwnerReply(AccountStanding(b"a" * 32, 0, is_active=True)),
        *(OwnerReply(None, err.name) for err in (Err.SERVICE_TEMPORARILY_UNAVAILABLE, Err.RATE_LIMITED)),
    ):
        owners.replies[KEY] = reply
        await watch.check()
    assert owners.uses == {True} and told == []


class Spent:
    """What streams of this process have delivered and not posted."""

    def __init__(self) -> None:
        self.credits, self.posts = 0, 0

    def unposted_credits(self, pubkey: bytes) -> int:
        return self.credits

    def post_spent(self, pubkey: bytes) -> None:
        self.posts += 1


async def test_near_the_minimum_what_is_delivered_is_posted_and_the_account_is_asked_for_more_often() -> None:
    """Decisions, "Balance of an account with open sockets": other processes learn by the post what this one has
    delivered, and this one what they have."""
    owners, spent, told = Owners(), Spent(), list[Refusal]()
    watch = StandingWatch(owners, spending=spent)  # type: ignore[arg-type]
    watch.join(KEY, WALLET, "one", told.append)
    watch.join(WALLET, WALLET, "two", told.append)

    def stand(balance: int, available: int) -> None:
        owners.replies[KEY] = OwnerReply(AccountStanding(b"a" * 32, balance, True, available))

    owners.replies[WALLET] = OwnerReply(AccountStanding(b"b" * 32, 1_000, True, 1_000))
    stand(60, BALANCE_MIN)  # Whatever the others deliver of what they hold, enough is left.
    await watch.check()
    await watch.check_near()
    assert spent.posts == 0 and owners.asked == [[KEY, WALLET]]
    stand(60, BALANCE_MIN - 1)
    await watch.check()
    await watch.check_near()
    assert spent.posts == 2 and owners.asked[2:] == [[KEY]] and told == []
    stand(1_060, 1_009)
    await watch.check_near()
    await watch.check_near()
    assert spent.posts == 2 and owners.asked[3:] == [[KEY]]
    spent.credits = 50
    stand(60, 10)
    await watch.check()
    assert told == []
    stand(59, 10)
    await watch.check()
    assert [refusal.err for refusal in told] == [Err.INSUFFICIENT_CREDITS]
