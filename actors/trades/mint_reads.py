"""Reads the accounts that a build needs: one call to the node per coin at a time, for all who wait.

Implements: "one fetch per mint at a time, all accounts in as few node calls as possible".
A shell: snapshot.py says which accounts, and what they mean.

A caller that arrives while the call for its coin is unanswered waits for the next one: the node may have read the curve
before this caller asked. The next call has the coin's accounts once, and those of every waiting wallet. So a thousand
callers for one coin make calls one after the other, each for up to 31 wallets. Nothing is kept after an answer.
"""

import asyncio
import logging
from dataclasses import dataclass, field

import orjson
from solders.pubkey import Pubkey

from actors.errors import Refusal
from actors.trades.snapshot import (
    COIN_ACCOUNTS,
    WALLET_ACCOUNTS,
    CoinState,
    RawAccount,
    UnreadableAccountsError,
    WalletState,
    coin_addresses,
    read_accounts,
    read_coin,
    read_wallet,
    wallet_addresses,
)
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, Node, NodeAnswer

logger = logging.getLogger(__name__)

ACCOUNTS_PER_CALL = 100  # Limit of getMultipleAccounts.
WALLETS_PER_CALL = (ACCOUNTS_PER_CALL - COIN_ACCOUNTS) // WALLET_ACCOUNTS
CALL_TIMEOUT_MS = 5_000
# The newest state: quotes from older states are wrong more often. Slippage covers changes by a fork.
_CONFIG = {"encoding": "base64", "commitment": "processed"}


@dataclass(frozen=True, slots=True)
class ReadCoin:
    """Result of one call. node: the name of the node that answered."""

    coin: CoinState
    wallet: WalletState
    node: str


ReadResult = ReadCoin | Refusal | NodeAnswer


@dataclass(slots=True)
class _Queue:
    """The wallets that wait for the next call about one coin."""

    waiting: dict[Pubkey, "asyncio.Future[ReadResult]"] = field(default_factory=dict)
    task: "asyncio.Task[None] | None" = None


class MintReads:
    """For one event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._queues: dict[Pubkey, _Queue] = {}

    async def read(self, mint: Pubkey, user: Pubkey) -> ReadResult:
        """Read a coin and a wallet; raises nothing but cancellation. A caller that leaves ends nobody else's call."""
        queue = self._queues.get(mint)
        if queue is None:
            queue = self._queues[mint] = _Queue()
            queue.task = asyncio.create_task(self._serve(mint, queue))
        found = queue.waiting.get(user)
        if found is None:
            found = queue.waiting[user] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(found)

    async def _serve(self, mint: Pubkey, queue: _Queue) -> None:
        while queue.waiting:
            users = list(queue.waiting)[:WALLETS_PER_CALL]
            futures = [queue.waiting.pop(user) for user in users]
            try:
                found = await self._read(mint, users)
            except Exception:  # A bug must not leave callers waiting, nor stop the calls of others.
                logger.exception("reading a coin failed")
                found = [replies.GARBAGE] * len(users)
            for future, result in zip(futures, found, strict=True):
                if not future.done():
                    future.set_result(result)
        del self._queues[mint]

    async def _read(self, mint: Pubkey, users: list[Pubkey]) -> list[ReadResult]:
        addresses = coin_addresses(mint)
        for user in users:
            addresses += wallet_addresses(mint, user)
        params = orjson.dumps([[str(address) for address in addresses], _CONFIG])
        answer = await self._node.call("getMultipleAccounts", params, CALL_TIMEOUT_MS)
        if answer.kind is not AnswerKind.RESULT:
            return [answer] * len(users)
        try:
            found = read_accounts(answer.value(), len(addresses))
            coin = read_coin(mint, found[:COIN_ACCOUNTS])
        except UnreadableAccountsError as fault:
            logger.warning("the node's accounts of a coin cannot be used: %s", fault)
            return [replies.GARBAGE] * len(users)
        if isinstance(coin, Refusal):
            return [coin] * len(users)
        parts = (found[at : at + WALLET_ACCOUNTS] for at in range(COIN_ACCOUNTS, len(found), WALLET_ACCOUNTS))
        return [_seen(coin, user, part, answer.node) for user, part in zip(users, parts, strict=True)]


def _seen(coin: CoinState, user: Pubkey, part: list[RawAccount | None], node: str) -> ReadResult:
    try:
        return ReadCoin(coin, read_wallet(coin, user, part), node)
    except UnreadableAccountsError as fault:
        logger.warning("the node's accounts of a wallet cannot be used: %s", fault)
        return replies.GARBAGE
