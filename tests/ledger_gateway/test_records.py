"""Typed records take what the service writes."""

import msgspec

from actors.accounts.api import DepositConfirmation
from actors.gateway.pages.account import confirmation_body, history_body
from ledger_gateway.records import Account, Confirmation, Quote, Usage, Webhook


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
