"""GET /account/bills/{month}: one month of an account, as JSON, CSV, beancount's double entry, or a page that prints.

Implements: actors/accounts/README.md, "Bills". A shell only where it asks the account's owner. The sums are
accounts/bills.py's; here they only change their form.
"""

import html
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import orjson

from actors.accounts.api import OwnersClient
from actors.accounts.bills import Bill, BillEnd, BillLine, ReadBill
from actors.accounts.ledger import EntryType
from actors.errors import Err, Refusal
from actors.gateway.pages.callers import owners_answer
from actors.gateway.pages.usage import cell
from actors.pages import JSON, Page, PageAnswer, PageRequest
from actors.units import base58_text

_MONTH = re.compile(r"(20[0-9]{2}|21[0-9]{2})-(0[1-9]|1[0-2])", re.ASCII)
_COLUMNS = ("day", "type", "method", "entries", "credits", "balance", "first", "last", "digest")
_KINDS = {
    "json": JSON,
    "csv": "text/csv",
    "beancount": "text/plain; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
_CREDITS = "Assets:LedgerGateway:Credits"
_OPENED = "Equity:LedgerGateway:Opening"
_PAGE_STYLE = (
    "body{font:14px/1.4 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;width:100%}th,td{padding:.3em .6em;border-bottom:1px solid #ccc;text-align:left}"
    ".n{text-align:right;font-variant-numeric:tabular-nums}code{font-size:11px;word-break:break-all}"
    "td:first-child{white-space:nowrap}@media print{body{margin:0}tr{break-inside:avoid}}"
)


class BillPages:
    def __init__(self, accounts: OwnersClient) -> None:
        self._accounts = accounts

    def pages(self) -> list[Page]:
        return [Page("GET", "/account/bills/{month}", self._bill)]

    async def _bill(self, request: PageRequest) -> PageAnswer | Refusal:
        named = _MONTH.fullmatch(request.parameters["month"])
        if named is None:
            return _bad("a month is named as 2026-11, in UTC")
        if not set(request.query) <= {"by", "format", "opening"}:
            return _bad("parameters are by, format and opening")
        by, kind, opening = (request.query.get(name) for name in ("by", "format", "opening"))
        if by not in (None, "month", "day") or opening not in (None, "true", "false"):
            return _bad("by must be month or day, opening must be true or false")
        if kind is not None and kind not in _KINDS:
            return _bad(f"format must be one of {', '.join(_KINDS)}")
        asked = ReadBill(request.account, int(named[1]), int(named[2]), by == "day")
        bill = await owners_answer(self._accounts, asked)
        return bill if isinstance(bill, Refusal) else _answer(bill, kind or "json", opening != "false")


def _answer(bill: Bill, kind: str, opens: bool) -> PageAnswer:
    if kind == "json":
        return PageAnswer(orjson.dumps(bill_body(bill)))
    text = bill_csv(bill) if kind == "csv" else bill_beancount(bill, opens) if kind == "beancount" else bill_page(bill)
    ending = {"csv": "csv", "beancount": "beancount"}.get(kind)
    saved = [("content-disposition", f'attachment; filename="bill-{_month(bill)}.{ending}"')] if ending else []
    return PageAnswer(text.encode(), content_type=_KINDS[kind], headers=saved)


def bill_body(bill: Bill) -> dict[str, object]:
    """ends: with the place of their entries, by which /account/receipts/{id} proves them."""
    lines = [
        {
            "day": _day(bill, line) if line.day else None,
            "type": _type(line),
            "method": line.method or None,
            "entries": line.entries,
            "credits": line.credits,
            "first": line.first,
            "last": line.last,
            "digest": line.digest.hex(),
        }
        for line in bill.lines
    ]
    return {
        "account": base58_text(bill.pubkey),
        "month": _month(bill),
        "opening": _end_body(bill.opening),
        "lines": lines,
        "closing": _end_body(bill.closing),
    }


def bill_csv(bill: Bill) -> str:
    """Make the CSV: a line of names, with the opening and closing balance as first and last line (RFC 4180)."""
    first, last = _first_day(bill), _last_day(bill)
    rows: list[tuple[object, ...]] = [_COLUMNS]
    rows.append((first, "opening", "", "", "", bill.opening.balance, "", bill.opening.number, bill.opening.hash.hex()))
    balance = bill.opening.balance
    for line in bill.lines:
        balance += line.credits
        named = (_day(bill, line) if line.day else "", _type(line), line.method)
        rows.append((*named, line.entries, line.credits, balance, line.first, line.last, line.digest.hex()))
    rows.append((last, "closing", "", "", "", bill.closing.balance, "", bill.closing.number, bill.closing.hash.hex()))
    return "".join(f"{','.join(map(_cell, row))}\r\n" for row in rows)


def bill_beancount(bill: Bill, opens: bool) -> str:
    """Make the bill in beancount's double entry. opens: with the opening balance, for the first of several months in
    one file; the others only assert theirs."""
    first, last = _first_day(bill), _last_day(bill)
    parts: list[str] = []
    if opens:
        parts.append(f'option "title" "Ledger Gateway, {base58_text(bill.pubkey)}"')
        parts.append('plugin "beancount.plugins.auto_accounts"')
        if bill.opening.balance:
            parts.append(_entry(first, "brought forward", _OPENED, bill.opening.balance, ()))
    else:
        parts.append(f"{first} balance {_CREDITS} {bill.opening.balance} CREDIT")
    for line in bill.lines:
        note = f"{line.entries} x {line.method or _type(line)}"
        told = (("first", line.first), ("last", line.last), ("digest", line.digest.hex()))
        day = _day(bill, line) if line.day else last
        parts.append(_entry(day, note, _account(line), line.credits, told))
    parts.append(f"{last + timedelta(days=1)} balance {_CREDITS} {bill.closing.balance} CREDIT")
    return "\n".join(parts) + "\n"


def bill_page(bill: Bill) -> str:
    """Make a page for printing, without scripts and remote parts."""

    def rows() -> Iterator[str]:
        yield _row("", "brought forward", "", "", bill.opening.balance, "")
        balance = bill.opening.balance
        for line in bill.lines:
            balance += line.credits
            day = _day(bill, line).isoformat() if line.day else ""
            yield _row(
                day,
                f"{_type(line)} {line.method}",
                f"{line.entries:,}",
                f"{line.credits:,}",
                balance,
                line.digest.hex(),
            )
        yield _row("", "carried forward", "", "", bill.closing.balance, bill.closing.hash.hex())

    title = f"Bill of {_month(bill)}"
    heads = "".join(f"<th>{name}</th>" for name in ("day", "what", "entries", "credits", "balance", "digest"))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_PAGE_STYLE}</style>'
        f"</head><body><h1>{title}</h1><p>Account <code>{base58_text(bill.pubkey)}</code>, credits, times in UTC."
        " A digest is the SHA-256 of the hashes after its entries, in their order; their receipts prove it.</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows())}</tbody></table></body></html>"
    )


def _row(day: str, what: str, entries: str, credits: str, balance: int, digest: str) -> str:
    words = f"<td>{html.escape(day)}</td><td>{html.escape(what)}</td>"
    return (
        f'<tr>{words}<td class="n">{entries}</td><td class="n">{credits}</td><td class="n">{balance:,}</td>'
        f"<td><code>{digest}</code></td></tr>"
    )


def _entry(day: date, note: str, other: str, credits: int, told: tuple[tuple[str, object], ...]) -> str:
    """credits: amount of the credits account; the other account balances it."""
    metas = "".join(f'\n  {name}: "{value}"' for name, value in told)
    return f'{day} * "{_quoted(note)}"{metas}\n  {_CREDITS}  {credits} CREDIT\n  {other}  {-credits} CREDIT'


def _account(line: BillLine) -> str:
    """Return a beancount name: it begins with a capital and has letters, digits and dashes."""
    match line.type:
        case EntryType.DEBIT | EntryType.REFUND:
            name = (
                "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in line.method) or "Other"
            )
            return f"Expenses:LedgerGateway:{name[0].upper() if name[0].isalnum() else 'X' + name[0]}{name[1:]}"
        case EntryType.EXPIRY:
            return "Expenses:LedgerGateway:Expired"
        case EntryType.DEPOSIT:
            return "Equity:LedgerGateway:Deposits"
    return "Income:LedgerGateway:Bonuses" if line.type == EntryType.BONUS else "Income:LedgerGateway:Adjustments"


def _type(line: BillLine) -> str:
    return EntryType(line.type).name.lower()


def _end_body(end: BillEnd) -> dict[str, object]:
    """receipt: the id of the receipt that proves the balance; null before the first entry."""
    place = f"{end.at_ms}-{end.number}" if end.number else None
    return {"balance": end.balance, "number": end.number, "hash": end.hash.hex() or None, "receipt": place}


def _first_day(bill: Bill) -> date:
    return datetime.fromtimestamp(bill.from_ms // 1000, UTC).date()


def _last_day(bill: Bill) -> date:
    return datetime.fromtimestamp(bill.to_ms // 1000, UTC).date() - timedelta(days=1)


def _day(bill: Bill, line: BillLine) -> date:
    return _first_day(bill) + timedelta(days=line.day - 1)


def _month(bill: Bill) -> str:
    return f"{_first_day(bill):%Y-%m}"


def _cell(value: object) -> str:
    return cell(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _bad(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)
