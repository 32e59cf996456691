"""Sends facts about webhooks to the owners of their accounts, which write them into the ledgers.

Implements: decisions, "One chain of facts"; threat 56. A shell. A fact is removed when its owner has answered that it
is durable, so a kill at any moment loses none, and may tell one twice. Facts have numbers: one that comes twice or late
changes nothing, as the highest number about a webhook counts.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from actors.accounts.api import OwnersClient
from actors.accounts.fact_commands import BODIES_MAX, TellFacts
from actors.accounts.facts import FactKind
from actors.errors import Err
from actors.webhooks.facts_store import FactsStore, WaitingFact
from actors.webhooks.store import WebhooksUnavailable

logger = logging.getLogger(__name__)

AT_ONCE_MAX = 200  # Facts of one round, in one message to each owner; 10 kB is the longest.
_BETWEEN_SECONDS = 0.25  # Rounds of a backlog: after an upgrade 100,000 facts are told in two minutes.
_IDLE_SECONDS = 1.0
_AWAY_SECONDS = 5.0  # Pause before facts are sent again that an owner did not accept, or after a failure.
_PUT_OFF_MAX = 10_000


class FactTeller:
    """Goes through the waiting facts in the order of their ids, and starts again at the end."""

    def __init__(
        self,
        store: FactsStore,
        accounts: OwnersClient,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._accounts, self._sleep = store, accounts, sleep
        self._after = 0
        self._put_off: set[bytes] = set()  # Accounts whose facts wait for the next pass.

    async def run(self) -> None:
        while True:
            try:
                seconds = await self.tell_once()
            except WebhooksUnavailable as error:
                logger.warning("webhooks: %s", error)
                seconds = _AWAY_SECONDS
            except Exception:  # A bug must not stop the facts of others.
                logger.exception("webhooks: a round of facts failed")
                seconds = _AWAY_SECONDS
            await self._sleep(seconds)

    async def tell_once(self) -> float:
        """Send some facts. Returns the seconds until the next ones."""
        waiting = await self._store.waiting(self._after, AT_ONCE_MAX)
        if waiting:
            self._after = waiting[-1].id
            # If an earlier fact of the same account was not accepted, later ones wait with it.
            told = await self._tell([fact for fact in waiting if fact.pubkey not in self._put_off])
            if told:
                await self._store.told(told)
        if len(waiting) == AT_ONCE_MAX and len(self._put_off) < _PUT_OFF_MAX:
            return _BETWEEN_SECONDS
        seconds = _AWAY_SECONDS if self._put_off else _IDLE_SECONDS
        self._after, self._put_off = 0, set()
        return seconds

    async def _tell(self, facts: Sequence[WaitingFact]) -> list[int]:
        """Return the ids of the facts that are now in the ledgers."""
        parts = _parts(facts)
        commands = [
            TellFacts(part[0].pubkey, FactKind.WEBHOOK.value, tuple(fact.numbered for fact in part)) for part in parts
        ]
        told: list[int] = []
        for part, reply in zip(parts, await self._accounts.ask_many(commands), strict=True):
            if reply.refusal is None:
                told += [fact.id for fact in part]
                continue
            self._put_off.add(part[0].pubkey)
            if reply.refusal != Err.SERVICE_TEMPORARILY_UNAVAILABLE.name:
                logger.warning("webhooks: facts are not taken: %s, %s", reply.refusal, reply.detail)
        return told


def _parts(facts: Sequence[WaitingFact]) -> list[list[WaitingFact]]:
    """Group facts into commands: each for one account, in the order of ids."""
    by_account: dict[bytes, list[WaitingFact]] = {}
    for fact in facts:
        by_account.setdefault(fact.pubkey, []).append(fact)
    return [
        mine[start : start + BODIES_MAX] for mine in by_account.values() for start in range(0, len(mine), BODIES_MAX)
    ]
