"""Typed records take what the service writes, and have all of its fields; those of the TypeScript client do, too."""

import re
from typing import Any

import msgspec
import pytest

from actors.accounts.api import DepositConfirmation
from actors.documents.receipt_schemas import SCHEMAS
from actors.gateway.pages.account import confirmation_body, history_body
from bench.product import ROOT
from ledger_gateway import keys, receipts, records, signals
from ledger_gateway.records import Account, Confirmation, Quote, Usage, Webhook

# Each record, and the place of its object in the schemas of /openapi.json.
_OBJECTS = {
    "Account": "Account",
    "Bill": "Bill",
    "BillEnd": "Bill.opening",
    "Bulk": "Balances",
    "Chain": "Consistency",
    "Confirmation": "Confirmation",
    "CreditBatch": "Account.credit_batches",
    "Funding": "Account.funding",
    "LedgerEntry": "Ledger.entries",
    "LoggedCall": "LoggedCalls.calls",
    "NamedKey": "NamedKey.key",
    "NewKey": "NewNamedKey",
    "Quote": "Quote",
    "QuotedCall": "Quote.calls",
    "Receipt": "Receipts.receipts",
    "ReceiptEntry": "Receipts.receipts.entry",
    "Runway": "Account.runway",
    "Signal": "SignalEvent",
    "SignalPage": "RecentSignals",
    "Usage": "Usage",
    "UsageEntry": "History.entries",
    "UsageRow": "Usage.rows",
    "UsageTotals": "Usage.totals",
    "Webhook": "NewWebhook",
}
# Read as plain objects, or not at all.
_NOT_IN_PYTHON = {"Bill", "BillEnd", "Runway"}
_NOT_IN_TYPESCRIPT = {"UsageTotals"}
# `ok` says nothing beside HTTP 200; the rest of a new key is in its `key`, or a sentence for people.
_UNTYPED = {"ok"}, {"NewKey": {"id", "message"}}


def test_documents_of_the_contracts_are_records() -> None:
    """Usage and quote, by their documented forms; fields of later versions are left out."""
    usage = {"from": "a", "to": "b", "by": ["method"], "rows": [{"method": "m", "calls": 1, "credits": 5, "x": 1}]}
    found = msgspec.convert(usage | {"totals": {"calls": 1, "credits": 5}}, Usage)
    assert (found.from_, found.rows[0].hour, found.totals.credits) == ("a", None, 5)
    calls = [{"id": 0, "method": "getSlot", "credits": 1, "exact": True}, {"id": 1, "error": {"code": -32601}}]
    quote = msgspec.convert({"credits": 1, "exact": True, "calls": calls}, Quote)
    assert quote.calls[0].credits == 1 and quote.calls[1].error == {"code": -32601}


def test_a_webhook_hides_its_secret() -> None:
    """The secret is shown once by the service; a log of the record must not show it again."""
    assert "whsec" not in repr(Webhook("wh_1", "https://a", "signal", "active", secret="whsec_x"))


def test_pages_of_the_service_have_the_fields_that_records_need() -> None:
    """The service's own shaping functions, so that a renamed field breaks this test and no customer."""
    assert history_body(()) == {"entries": []}
    body = confirmation_body(DepositConfirmation(5, 10, False))
    assert msgspec.convert(body, Confirmation) == Confirmation(5, 10, False)
    assert {"balance", "funding", "credit_batches"} <= {field.name for field in msgspec.structs.fields(Account)}


def _schema(place: str) -> dict[str, Any]:
    name, *fields = place.split(".")
    found: dict[str, Any] = SCHEMAS[name]
    for field in fields:
        found = found["properties"][field]
        found = found.get("anyOf", [found])[0]
        found = found.get("items", found)
    return found


def _fields(schema: dict[str, Any]) -> set[str]:
    if "anyOf" in schema:
        return set().union(*map(_fields, schema["anyOf"]))
    if "$ref" in schema:
        return _fields(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    return set(schema["properties"])


def _of_typescript() -> dict[str, set[str]]:
    files = (ROOT / "clients" / "typescript" / "src").glob("*.ts")
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    found = re.finditer(r"^export interface (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    return {one[1]: set(re.findall(r"^  (\w+)\??:", one[2], re.MULTILINE)) for one in found}


def _of_python() -> dict[str, set[str]]:
    named = {name: kind for module in (records, keys, receipts, signals) for name, kind in vars(module).items()}
    structs = {
        name: kind for name, kind in named.items() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    }
    return {name: {field.encode_name for field in msgspec.structs.fields(kind)} for name, kind in structs.items()}


@pytest.mark.parametrize(
    ("client", "without"),
    [(_of_python, _NOT_IN_PYTHON), (_of_typescript, _NOT_IN_TYPESCRIPT)],
    ids=["Python", "TypeScript"],
)
def test_clients_know_every_field_of_the_document(client: Any, without: set[str]) -> None:
    """A field that is told by the service and missing in a client's types is one that nobody finds; one that the
    document lacks is found by this client's users alone."""
    of_all, of_one = _UNTYPED
    differs = {}
    for name in _OBJECTS.keys() - without:
        told = _fields(_schema(_OBJECTS[name])) - of_all - of_one.get(name, set())
        if client()[name] != told:
            differs[name] = sorted(client()[name] ^ told)
    assert differs == {}


def test_each_record_of_answers_is_compared() -> None:
    """Else the types of the next page are compared with nothing. SendOutcome and SignalGap are not in the document;
    limits are what clients write."""
    written = {"KeyLimits", "ChildLimits", "SendOutcome", "SignalGap"}
    in_records = re.findall(r"^export interface (\w+)", _records_text(), re.MULTILINE)
    assert {*in_records, *_of_python()} - written <= _OBJECTS.keys()


def _records_text() -> str:
    return (ROOT / "clients" / "typescript" / "src" / "records.ts").read_text(encoding="utf-8")
