"""Errors of the client: each has a class, and tells what to do."""

import pytest

from actors.errors import Err
from ledger_gateway import errors
from ledger_gateway.errors import GatewayError, PaymentNeeded, class_of


@pytest.mark.parametrize("err", Err, ids=lambda err: err.name)
def test_every_refusal_has_a_class_and_a_next_step(err: Err) -> None:
    """A constant that joins the table falls to the class of its status; none is a bare GatewayError."""
    kind = class_of(err.name, err.row.http)
    assert kind is not GatewayError and kind("X", err.row.http, "text").next_step


def test_a_402_says_how_to_pay_with_terms_or_without() -> None:
    """A person who meets a 402 knows the address, the mint and the least amount."""
    terms = {"deposit_address": "Dep", "usdc_mint": "Mint", "minimum_deposit_usdc": "0.01", "network": "devnet", "x": 1}
    said = PaymentNeeded("INSUFFICIENT_CREDITS", 402, "insufficient credits", data=terms).next_step
    assert all(word in said for word in ("Dep", "Mint", "0.01", "devnet"))
    assert "GET /account/info" in PaymentNeeded("PAYMENT_REQUIRED", 402, "payment required").next_step


def test_all_errors_have_one_base() -> None:
    """One `except LedgerGatewayError` catches whatever a call can raise."""
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert len(classes) > 8 and all(issubclass(each, errors.LedgerGatewayError) for each in classes)
