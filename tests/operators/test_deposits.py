"""Deposits that wait, for operators. Rule: decisions, "The operators' page"."""

import asyncio

import pytest

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


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "offset=-1", "offset=1000001", "limit=x", "page=1"])
async def test_a_malformed_list_of_transfers_is_refused(query: str) -> None:
    async with operated() as one:
        assert (await one.ask("GET", f"deposits?{query}")).status_code == 400
        assert one.transfers.asked == []


@pytest.mark.parametrize(
    "body", [{}, {"pubkey": "x"}, {"reason": "x"}, {"pubkey": "x" * 65, "reason": "x"}, {"pubkey": 5, "reason": "x"}]
)
async def test_a_malformed_assignment_is_refused(body: object) -> None:
    async with operated() as one:
        assert (await one.ask("POST", f"deposits/{SIGNATURE}/assign", body)).status_code == 400
        assert one.transfers.asked == []
