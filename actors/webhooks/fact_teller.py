"""Tells facts about webhooks to the owners of their accounts, who write them into the ledgers.

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
_AWAY_SECONDS = 5.0  # Until facts are told again that an owner did not take, or after a failure.
_PUT_OFF_MAX = 10_000


class FactTeller:
    """Goes through the facts that wait, in the order of their ids, and begins anew at their end."""

    def __init__(
        self,
        store: FactsStore,
        accounts: OwnersClient,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._accounts, self._sleep = store, accounts, sleep
        self._after = 0
        self._put_off: set[bytes] = set()  # Accounts whose facts wait until the next time through.

    async def run(self) -> None:
        while True:
            try:
                seconds = await self.tell_once()
            except WebhooksUnavailable as error:
                logger.warning("webhooks: %s", error)
                seconds = _AWAY_SECONDS
            except Exception:  # After a bug, the facts of others must still be told.
                logger.exception("webhooks: a round of facts failed")
                seconds = _AWAY_SECONDS
            await self._sleep(seconds)

    async def tell_once(self) -> float:
        """Tell some facts. Gives the seconds until the next ones."""
        waiting = await self._store.waiting(self._after, AT_ONCE_MAX)
        if waiting:
            self._after = waiting[-1].id
            # An earlier fact about the same account was not taken: later ones wait with it.
            told = await self._tell([fact for fact in waiting if fact.pubkey not in self._put_off])
            if told:
                await self._store.told(told)
        if len(waiting) == AT_ONCE_MAX and len(self._put_off) < _PUT_OFF_MAX:
            return _BETWEEN_SECONDS
        seconds = _AWAY_SECONDS if self._put_off else _IDLE_SECONDS
        self._after, self._put_off = 0, set()
        return seconds

    async def _tell(self, facts: Sequence[WaitingFact]) -> list[int]:
        """Return the ids of the facts that are in the ledgers now."""
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
    """Divide facts into commands: each of one account, in the order of their ids."""
    by_account: dict[bytes, list[WaitingFact]] = {}
    for fact in facts:
        by_account.setdefault(fact.pubkey, []).append(fact)
    return [
        mine[start : start + BODIES_MAX] for mine in by_account.values() for start in range(0, len(mine), BODIES_MAX)
    ]
