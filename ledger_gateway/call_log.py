"""The calls that an account has made in the last day, refused and free ones too.

Implements: README, "The log of your calls". A named key sees the calls that it paid for, any other credential all:

    async with Gateway(url, "srpc_live_...") as gateway:
        for call in await CallLog(gateway).newest(outcome="refused"):
            print(call.at, call.method, call.outcome, call.request_id)
"""

from collections.abc import AsyncIterator

from ledger_gateway.answers import Answer, decode
from ledger_gateway.client import Gateway
from ledger_gateway.records import LoggedCall

_ANSWER = Answer(200, {}, b"")
_PAGE_MAX = 200


class CallLog:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def newest(
        self,
        limit: int = 50,
        *,
        request_id: str | None = None,
        method: str | None = None,
        outcome: str | None = None,
        key: int | None = None,
        before: str | None = None,
    ) -> list[LoggedCall]:
        """Calls, newest first; at most 200.

        request_id: the X-Request-Id of an answer; a batch has one for all its calls. outcome: "result", "node_error",
        "refused" or a constant of the error table. key: id of a named key; 0: calls of no named key. before: the id of
        a call.
        """
        wanted = {"request_id": request_id, "method": method, "outcome": outcome, "key": key, "before": before}
        return (await self._page(limit, {name: value for name, value in wanted.items() if value is not None}))[0]

    async def all(self) -> AsyncIterator[LoggedCall]:
        """Every call that is kept, newest first, read page by page."""
        before: str | None = None
        while True:
            calls, before = await self._page(_PAGE_MAX, {} if before is None else {"before": before})
            for call in calls:
                yield call
            if before is None:
                return

    async def _page(self, limit: int, query: dict[str, str | int]) -> tuple[list[LoggedCall], str | None]:
        found = await self._gateway.page("/account/calls", {"limit": limit, **query})
        return decode(found.get("calls"), list[LoggedCall], _ANSWER), found.get("next_before")
