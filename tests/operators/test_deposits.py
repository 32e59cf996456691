"""Deposits that wait, for operators. Rule: decisions, "The operators' page"."""

import asyncio

from tests.operators.world import REASON, operated

SIGNATURE = "5" * 87


async def test_a_transfer_that_waits_is_given_to_an_account_once() -> None:
    """Of two operators who assign it at the same moment, one is told that nothing is listed any more."""
    async with operated() as one:
        listed = (await one.ask("GET", "deposits")).json()
        assert [row["signature"] for row in listed["transfers"]] == [SIGNATURE] and listed["watcher"]["listed"] == 1
        body = {"pubkey": "1" * 32, "reason": REASON}
        both = await asyncio.gather(*(one.ask("POST", f"deposits/{SIGNATURE}/assign", body) for _ in range(2)))
        assert sorted(answer.status_code for answer in both) == [200, 400]
        assert one.transfers.asked[-1] == (SIGNATURE, None, "1" * 32, REASON)
        assert (await one.ask("GET", "deposits")).json()["transfers"] == []
        told = (await one.ask("POST", f"deposits/{SIGNATURE}/explain")).json()
        assert told["verdict"] == "credited" and told["transfers"][0]["status"] == "assigned"


async def test_a_malformed_list_or_assignment_is_refused() -> None:
    """And the watcher of deposits is not asked."""
    async with operated() as one:
        for query in ("limit=0", "limit=201", "offset=-1", "offset=1000001", "limit=x", "page=1"):
            assert (await one.ask("GET", f"deposits?{query}")).status_code == 400, query
        long = {"pubkey": "x" * 65, "reason": "x"}
        for body in ({}, {"pubkey": "x"}, {"reason": "x"}, long, {"pubkey": 5, "reason": "x"}):
            assert (await one.ask("POST", f"deposits/{SIGNATURE}/assign", body)).status_code == 400, body
        assert one.transfers.asked == []
