"""The conformance checks for x402 of PyPI (x402-conformance), unmodified, at the running product: every paid GET.

Its rules for settlement need a facilitator in whose place it can stand, and this service settles by itself; a HEAD is
looked at here (its R16a), what a payment does with one in tests/gateway/doors/test_relay.py (R16, R17, R24).
"""

import base64
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from bench.product import Product

conformance = pytest.importorskip(
    "x402conf.harness", reason="x402-conformance is not installed: the registry was out of reach when the others were"
)
PATHS = ("/relay/getTipAccounts", "/relay/tipFloor", "/account/info")
CHECKS = {"P1", "P2", "P3", "P4", "P5", "P6", "P7"}


@pytest.mark.parametrize("path", PATHS)
def test_an_unpaid_get_is_told_all_that_a_client_needs_to_pay(product: Product, path: str) -> None:
    """Warnings count too."""
    report = conformance.run_resource(product.http_url + path)
    assert {check["check"].split()[0] for check in report["checks"]} == CHECKS, report
    assert [check for check in report["checks"] if not check["pass"]] == []


@pytest.mark.parametrize("path", PATHS)
def test_an_unpaid_head_is_the_refusal_of_its_get(product: Product, path: str) -> None:
    """R16a: the same status and the same offers, without a body."""
    got, head = (_refused(product.http_url + path, method) for method in ("GET", "HEAD"))
    assert got["status"] == head["status"] == 402 and head["body"] == b"" != got["body"]
    assert got["offers"] == head["offers"] and len(got["offers"]) > 0


def _refused(url: str, method: str) -> dict[str, Any]:
    try:
        urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30)
    except urllib.error.HTTPError as told:
        terms = json.loads(base64.b64decode(told.headers["PAYMENT-REQUIRED"]))
        offers = [{**one, "extra": None} for one in terms["accepts"]]  # Where a blockhash may be of another moment.
        return {"status": told.code, "body": told.read(), "offers": offers}
    raise AssertionError(f"{method} {url} was served without a payment")
