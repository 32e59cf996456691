"""/operator/owners and /operator/alerts: the actors of the running product, and what a person should look at.

Implements: decisions, "The operators' page". A shell: running.py looks, alerts.py judges.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from actors.errors import Refusal
from actors.operators.alerts import Alert, alerts_on
from actors.operators.ports import OperatorParts, ProductLook
from actors.pages import Page, PageAnswer, PageRequest, json_answer

_OWNER = "account-shard-"
_TOTALS_SECONDS = 4.0  # A hanging watcher is an alert itself, and must not delay the others.


class ClusterPages:
    def __init__(self, parts: OperatorParts) -> None:
        self._running, self._transfers = parts.running, parts.transfers

    def pages(self) -> list[Page]:
        return [
            Page("GET", "/operator/owners", self._owners, for_operators=True),
            Page("GET", "/operator/alerts", self._alerts, for_operators=True),
        ]

    async def _owners(self, request: PageRequest) -> PageAnswer | Refusal:
        del request
        look = await self._running.look()
        return look if isinstance(look, Refusal) else json_answer(owners_body(look))

    async def _alerts(self, request: PageRequest) -> PageAnswer | Refusal:
        del request
        look, listed = await asyncio.gather(self._running.look(), self._listed())
        if isinstance(look, Refusal):
            return look
        return json_answer(alerts_body(look, alerts_on(look, listed, self._transfers is not None)))

    async def _listed(self) -> int | None:
        """Return how many transfers wait for an operator. None: unknown now."""
        if self._transfers is None:
            return None
        try:
            async with asyncio.timeout(_TOTALS_SECONDS):
                totals = await self._transfers.totals()
        except TimeoutError:
            return None
        return None if isinstance(totals, Refusal) else int(totals["listed"])


def owners_body(look: ProductLook) -> dict[str, Any]:
    """Return each actor with its health; owners of accounts first. lag: seconds that entries wait for a statement."""
    figures = {one.process: one.gauges for one in look.figures or ()}
    rows = [_actor_body(name, state, figures.get(name, {})) for name, state in look.actors.items()]
    rows.sort(key=lambda row: (not row["name"].startswith(_OWNER), row["name"]))
    return {"ok": True, "at": look.at, "actors": rows}


def _actor_body(name: str, state: Mapping[str, Any], gauges: Mapping[str, float]) -> dict[str, Any]:
    told = ("epoch", "shards", "slices", "accounts", "waiting_entries", "oldest_hold_seconds", "committing", "fenced")
    row: dict[str, Any] = {"name": name, "answers": bool(state)}
    row |= {field: state.get(field) for field in ("machine", "process", *told)}
    unsealed = gauges.get("unsealed_seconds")
    return row | {"unsigned_seconds": None if unsealed is None else int(unsealed)}


def alerts_body(look: ProductLook, alerts: list[Alert]) -> dict[str, Any]:
    """has_figures False: no process reports figures, so only actors and the watcher are evaluated."""
    processes = len(look.figures or ())
    return {
        "ok": True,
        "at": look.at,
        "has_figures": look.figures is not None,
        "processes": processes,
        "alerts": [alert._asdict() for alert in alerts],
    }
