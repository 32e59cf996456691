"""What an operator sees and changes of accounts. Rule: decisions, "The operators' page"."""

import asyncio
import logging

import pytest

from tests.gateway.world import call, constant
from tests.operators.world import REASON, TOKEN, operated


async def test_accounts_are_found_sorted_and_paged() -> None:
    async with operated() as one:
        customers = [await one.world.customer(credits) for credits in (5, 900, 40)]
        rows = (await one.ask("GET", "accounts?order=balance")).json()["accounts"]
        assert [row["balance"] for row in rows] == [900, 40, 5]
        found = (await one.ask("GET", f"accounts?find={customers[0].text[:9]}")).json()
        assert [row["pubkey"] for row in found["accounts"]] == [customers[0].text] and found["next_cursor"] is None
        first = (await one.ask("GET", "accounts?order=balance&limit=2")).json()
        rest = (await one.ask("GET", f"accounts?order=balance&limit=2&cursor={first['next_cursor']}")).json()
        assert [row["balance"] for row in first["accounts"] + rest["accounts"]] == [900, 40, 5]
        assert rest["next_cursor"] is None
        await one.ask("POST", f"accounts/{customers[1].text}/suspend", {"reason": REASON})
        only = (await one.ask("GET", "accounts?status=suspended")).json()["accounts"]
        assert [row["pubkey"] for row in only] == [customers[1].text]


async def test_a_suspended_account_calls_again_once_it_is_restored(caplog: pytest.LogCaptureFixture) -> None:
    """As by command: paid calls are refused meanwhile. The log has what was done and why, and never the token."""
    async with operated() as one:
        customer = await one.world.customer(10)
        with caplog.at_level(logging.WARNING):
            answer = await one.ask("POST", f"accounts/{customer.text}/suspend", {"reason": REASON})
        assert answer.json()["account"]["status"] == "suspended"
        told = [record.getMessage() for record in caplog.records if record.name.startswith("actors.operators")]
        assert told == [f"operator: account {customer.text}: status suspended ({REASON})"] and TOKEN not in caplog.text
        assert (await one.world.rpc(customer, call())).status_code == 403
        shown = (await one.ask("GET", f"accounts/{customer.text}")).json()["account"]
        assert (shown["status"], shown["balance"], shown["named_keys"]) == ("suspended", 10, 0)
        await one.ask("POST", f"accounts/{customer.text}/resume", {"reason": REASON})
        assert (await one.world.rpc(customer, call())).status_code == 200


async def test_a_repeated_request_moves_credits_once_and_another_one_again() -> None:
    """By Idempotency-Key, also of two copies at once; the reason is in the customer's ledger."""
    async with operated() as one:
        customer = await one.world.customer(10)
        path, body = f"accounts/{customer.text}/adjust", {"credits": 500, "reason": REASON}
        copies = await asyncio.gather(*(one.ask("POST", path, body, idempotency_key="a") for _ in range(3)))
        assert sorted(copy.json()["already_applied"] for copy in copies) == [False, True, True]
        assert await one.world.balance(customer) == 510
        assert (await one.ask("POST", path, body, idempotency_key="b")).json()["balance"] == 1_010
        taken = (await one.ask("POST", path, {"credits": -5_000, "reason": REASON}, idempotency_key="c")).json()
        assert (taken["asked"], taken["amount"], taken["balance"]) == (-5_000, -1_010, 0)
        entries = (await one.world._read(customer, "ledger?limit=1"))["entries"]
        assert entries[0]["type"] == "adjustment" and REASON in entries[0]["description"]


@pytest.mark.parametrize("credits", [501, 499, -500])
async def test_a_key_of_another_change_is_refused(credits: int) -> None:
    """Else the operator is told that a change was made, and it was another one."""
    async with operated() as one:
        customer = await one.world.customer(10)
        path = f"accounts/{customer.text}/adjust"
        await one.ask("POST", path, {"credits": 500, "reason": REASON}, idempotency_key="a")
        answer = await one.ask("POST", path, {"credits": credits, "reason": REASON}, idempotency_key="a")
        assert (answer.status_code, constant(answer)) == (409, "IDEMPOTENCY_KEY_REUSED")
        assert await one.world.balance(customer) == 510


async def test_less_that_was_taken_is_of_the_same_change() -> None:
    """A repeated request gives the same answer where less was available than was to be taken."""
    async with operated() as one:
        customer = await one.world.customer(10)
        path, body = f"accounts/{customer.text}/adjust", {"credits": -500, "reason": REASON}
        for is_repeated in (False, True):
            taken = (await one.ask("POST", path, body, idempotency_key="a")).json()
            assert (taken["amount"], taken["already_applied"]) == (-10, is_repeated)
        other = await one.ask("POST", path, body | {"credits": -5}, idempotency_key="a")
        assert (other.status_code, constant(other)) == (409, "IDEMPOTENCY_KEY_REUSED")


async def test_two_keys_of_one_change_are_none() -> None:
    """A proxy may keep either of them: which one names the change, nobody can say."""
    async with operated() as one:
        customer = await one.world.customer(10)
        sent = [(b"x-operator-token", TOKEN.encode()), (b"idempotency-key", b"a"), (b"idempotency-key", b"b")]
        path, body = f"/operator/accounts/{customer.text}/adjust", {"credits": 500, "reason": REASON}
        answer = await one.world.http.post(path, headers=sent, json=body)
        assert answer.status_code == 400 and "Idempotency-Key" in answer.text
        assert await one.world.balance(customer) == 10


async def test_limits_are_set_and_go_back_to_the_default() -> None:
    async with operated() as one:
        customer = await one.world.customer(10)
        path = f"accounts/{customer.text}/limits"
        changed = (await one.ask("POST", path, {"concurrency": 3})).json()["account"]
        assert (changed["requests_per_second"], changed["concurrency"]) == (100, 3)
        changed = (await one.ask("POST", path, {"concurrency": None})).json()["account"]
        assert changed["concurrency"] == 64


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *(("adjust", b""), ("adjust", b"{"), ("adjust", b"[" * 50_000), ("adjust", b"\xff"), ("adjust", b"[]")),
        *(("adjust", {"credits": 1.5, "reason": "x"}), ("adjust", {"credits": "5", "reason": "x"})),
        *(("adjust", {"credits": 10**16, "reason": "x"}), ("adjust", {"credits": 0, "reason": "x"})),
        *(
            ("adjust", {"credits": 5}),
            ("adjust", {"credits": 5, "reason": ""}),
            ("adjust", {"credits": True, "reason": "x"}),
        ),
        *(("adjust", {"credits": 5, "reason": "x" * 201}), ("adjust", {"credits": 5, "reason": "x\n"})),
        *(("adjust", {"credits": 5, "reason": "x", "more": 1}), ("suspend", {}), ("suspend", {"reason": 5})),
        *(("suspend", {"reason": "\u0000"}), ("resume", b"null"), ("limits", {"concurrency": 0})),
        *(("limits", {"concurrency": -1}), ("limits", {"requests_per_second": 10**9}), ("limits", {"rate": 5})),
    ],
)
async def test_a_malformed_change_is_refused_and_changes_nothing(path: str, body: object) -> None:
    async with operated() as one:
        customer = await one.world.customer(10)
        answer = await one.ask("POST", f"accounts/{customer.text}/{path}", body, idempotency_key="a")
        assert (answer.status_code, constant(answer)) == (400, "INVALID_REQUEST"), answer.text
        assert await one.world.balance(customer) == 10
        shown = (await one.ask("GET", f"accounts/{customer.text}")).json()["account"]
        assert (shown["status"], shown["concurrency"]) == ("active", 64)


@pytest.mark.parametrize(
    "query",
    [
        *(
            "order=oldest",
            "limit=0",
            "limit=201",
            "limit=x",
            "limit=-1",
            "find=0OIl",
            "find=" + "2" * 45,
            "status=closed",
        ),
        *("cursor=x", "cursor=1-00", "page=2", "limit=1&limit=2", "limit=%F0%9F%98%80", "limit=" + "9" * 400),
    ],
)
async def test_a_malformed_list_is_refused(query: str) -> None:
    async with operated() as one:
        assert (await one.ask("GET", f"accounts?{query}")).status_code == 400


async def test_an_account_that_is_not_there_is_not_made_by_looking() -> None:
    async with operated() as one:
        stranger = await one.world.customer(account=False)
        for method, path, body in (
            ("GET", "", None),
            ("POST", "/suspend", {"reason": "x"}),
            ("POST", "/adjust", {"credits": -5, "reason": "x"}),
        ):
            answer = await one.ask(method, f"accounts/{stranger.text}{path}", body, idempotency_key="a")
            assert (answer.status_code, constant(answer)) == (404, "ACCOUNT_NOT_FOUND")
        assert (await one.ask("GET", "accounts/nobody")).status_code == 400
        no_key = await one.ask("POST", f"accounts/{stranger.text}/adjust", {"credits": 5, "reason": "x"})
        assert no_key.status_code == 400 and "Idempotency-Key" in no_key.text
        one.world.accounts.down = True
        assert (await one.ask("GET", "accounts")).status_code == 503
