"""Bills in their four forms: the same sums in each, and what other programs make of them."""

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actors.accounts.bills import Bill, BillEnd, BillLine, bill_of, month_ms
from actors.accounts.ledger import EntryType
from actors.gateway.pages.bills import BillPages, bill_beancount, bill_csv, bill_page
from tests.gateway.pages.test_receipts import get
from tests.gateway.world import World, a_world, call


class Pages(BillPages):
    def __init__(self) -> None:
        self.ready = False

    def open(self, world: World) -> None:
        super().__init__(world.accounts)


def a_bill(*lines: BillLine, opening: int = 1_000) -> Bill:
    closing = opening + sum(line.credits for line in lines)
    entries = sum(line.entries for line in lines)
    ends = BillEnd(opening, 3, 5, b"o" * 32), BillEnd(closing, 3 + entries, 9, b"c" * 32)
    return bill_of(b"a" * 32, month_ms(2026, 11), *ends, list(lines))


def a_line(kind: EntryType, method: str, credits: int, day: int = 0, entries: int = 2) -> BillLine:
    return BillLine(day, kind, method, entries, credits, 4, 9, b"d" * 32)


BILL = a_bill(
    a_line(EntryType.DEPOSIT, "", 100_000),
    a_line(EntryType.BONUS, "", 500),
    a_line(EntryType.DEBIT, "getSlot", -30),
    a_line(EntryType.DEBIT, "signals/stream", -7),
    a_line(EntryType.REFUND, "getSlot", 5),
    a_line(EntryType.ADJUSTMENT, "", -9),
    a_line(EntryType.EXPIRY, "", -400),
)


async def test_a_month_adds_up_to_what_the_account_has() -> None:
    """Of a running account, in every form; the closing balance is the present one."""
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        customer = await world.customer(1_000)
        await world.rpc(customer, [call(), call("getBlock", 5), call()])
        month = f"{_month_of(world)}"
        body = (await get(world, customer, f"/account/bills/{month}")).json()
        balance = await world.balance(customer)
        assert body["opening"] == {"balance": 0, "number": 0, "hash": None, "receipt": None}
        assert body["closing"]["balance"] == balance == sum(line["credits"] for line in body["lines"])
        assert [(line["type"], line["method"], line["entries"]) for line in body["lines"]] == [
            ("adjustment", None, 1),
            ("debit", "getSlot", 2),
            ("debit", "getBlock", 1),
        ]
        daily = (await get(world, customer, f"/account/bills/{month}?by=day")).json()
        assert all(line["day"].startswith(month) for line in daily["lines"])
        for kind, content in (("csv", "text/csv"), ("beancount", "text/plain"), ("html", "text/html")):
            answer = await get(world, customer, f"/account/bills/{month}?format={kind}")
            assert answer.headers["content-type"].startswith(content) and str(balance) in answer.text.replace(",", "")
            assert ("attachment" in answer.headers.get("content-disposition", "")) == (kind != "html")
        assert (await world.http.get(f"/account/bills/{month}")).status_code == 402


def _month_of(world: World) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(world.clock.now(), UTC):%Y-%m}"


@pytest.mark.parametrize(
    "path",
    ["2026-13", "2026-1", "1999-01", "x", "2026-11?by=hour", "2026-11?format=pdf", "2026-11?x=1", "2026-11?opening=1"],
)
async def test_what_is_no_month_is_refused_for_its_reason(path: str) -> None:
    pages = Pages()
    async with a_world(pages=pages.pages()) as world:
        pages.open(world)
        answer = await get(world, await world.customer(10), f"/account/bills/{path}")
        assert (answer.status_code == 400 and "must" in answer.text) or "named" in answer.text or "are" in answer.text


def test_the_table_carries_the_balance_along() -> None:
    rows = list(csv.DictReader(io.StringIO(bill_csv(BILL))))
    assert (rows[0]["type"], rows[-1]["type"]) == ("opening", "closing")
    balance = int(rows[0]["balance"])
    for row in rows[1:-1]:
        balance += int(row["credits"])
        assert int(row["balance"]) == balance
    assert balance == int(rows[-1]["balance"]) == BILL.closing.balance


def test_a_page_shows_text_as_text() -> None:
    """Names of methods are this service's own; a page must not depend on that."""
    page = bill_page(a_bill(a_line(EntryType.DEBIT, "<script>", -1)))
    assert "<script>" not in page and "&lt;script&gt;" in page


def beans(tmp_path: Path, text: str) -> Any:
    """What beancount's own checker says."""
    pytest.importorskip("beancount", reason="beancount is not installed here")
    file = tmp_path / "bill.beancount"
    file.write_text(text)
    checker = "import sys; from beancount.scripts.check import main; main()"
    return subprocess.run(
        [sys.executable, "-c", checker, str(file)], capture_output=True, text=True, check=False, timeout=60
    )


def test_beancount_takes_a_bill_and_two_months_in_one_file(tmp_path: Path) -> None:
    """Its balances are assertions, so a sum that is off by one is refused."""
    following = bill_of(
        BILL.pubkey,
        month_ms(2026, 12),
        BILL.closing,
        BillEnd(BILL.closing.balance - 8, BILL.closing.number + 2, 9, b"e" * 32),
        [a_line(EntryType.DEBIT, "getSlot", -8, day=31)],
    )
    whole = bill_beancount(BILL, True) + bill_beancount(following, False)
    done = beans(tmp_path, whole)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
    wrong = beans(
        tmp_path, whole.replace("balance Assets:LedgerGateway:Credits 10", "balance Assets:LedgerGateway:Credits 20")
    )
    assert wrong.returncode != 0
    assert beans(tmp_path, bill_beancount(a_bill(opening=0), True)).returncode == 0
