"""/operator/deposits: the transfers that wait for an operator, and their assignment to accounts.

Implements: decisions, "The operators' page". A shell: the watcher of deposits does the work, asked with the same
commands as by `ledger-gateway deposits`.
"""

import logging

from actors.errors import Err, Refusal
from actors.operators import bodies
from actors.operators.ports import OperatorParts, Transfers
from actors.pages import Page, PageAnswer, PageRequest, json_answer

logger = logging.getLogger(__name__)

PATH = "/operator/deposits"
LISTED_MAX = 200
_OFFSET_MAX = 1_000_000
_NO_WALLET = Refusal(
    Err.SERVICE_TEMPORARILY_UNAVAILABLE,
    "no deposits are taken: set payments.deposit_wallet (LEDGER_PAYMENTS__DEPOSIT_WALLET)",
)
_BAD_WINDOW = Refusal(Err.INVALID_REQUEST, f"limit must be 1 to {LISTED_MAX}, and offset 0 to {_OFFSET_MAX}")


class DepositPages:
    def __init__(self, parts: OperatorParts) -> None:
        self._transfers: Transfers | None = parts.transfers

    def pages(self) -> list[Page]:
        one = f"{PATH}/{{signature}}"
        return [
            Page("GET", PATH, self._list, for_operators=True),
            Page("POST", f"{one}/explain", self._explain, for_operators=True),
            Page("POST", f"{one}/assign", self._assign, for_operators=True),
        ]

    async def _list(self, request: PageRequest) -> PageAnswer | Refusal:
        asked = bodies.chosen(request.query, status="listed", limit="50", offset="0")
        if isinstance(asked, Refusal):
            return asked
        limit = bodies.number_in(asked["limit"], 1, LISTED_MAX)
        offset = bodies.number_in(asked["offset"], 0, _OFFSET_MAX)
        if limit is None or offset is None:
            return _BAD_WINDOW
        if self._transfers is None:
            return _NO_WALLET
        totals = await self._transfers.totals()
        if isinstance(totals, Refusal):
            return totals
        rows = await self._transfers.listing(asked["status"], limit, offset)
        return rows if isinstance(rows, Refusal) else json_answer({"ok": True, "watcher": totals, "transfers": rows})

    async def _explain(self, request: PageRequest) -> PageAnswer | Refusal:
        if self._transfers is None:
            return _NO_WALLET
        told = await self._transfers.explain(request.parameters["signature"])
        return told if isinstance(told, Refusal) else json_answer({"ok": True, **told})

    async def _assign(self, request: PageRequest) -> PageAnswer | Refusal:
        wanted, signature = bodies.decoded(request.body, bodies.Assign), request.parameters["signature"]
        if isinstance(wanted, Refusal):
            return wanted
        if self._transfers is None:
            return _NO_WALLET
        row = await self._transfers.assign(signature, wanted.transfer, wanted.pubkey, wanted.reason)
        if isinstance(row, Refusal):
            return row
        logger.warning("operator: transfer %s assigned to %s (%s)", signature, wanted.pubkey, wanted.reason)
        return json_answer({"ok": True, "transfer": row})
