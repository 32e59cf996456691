"""X-Max-Credits by the prices of the caller's account. Through the door: test_account_prices.py.

Rule: COSTS.md; decisions, "Price lists".
"""

import pytest

from actors.calls import WalletProof
from actors.gateway.calls.account_prices import AccountPrices
from actors.gateway.calls.jsonrpc import BadCall
from actors.gateway.calls.limited_calls import Limited, LimitedCalls
from actors.gateway.calls.outcomes import Replies
from actors.gateway.calls.proven_callers import ProvenCallers
from actors.pricing_config import PriceListConfig, PricingConfig
from tests.gateway.doubles import PROOF, OneAccount, ScriptedNode, a_call, pipeline_of

LISTS = {"cheap": PriceListConfig(percent=40), "dear": PriceListConfig(percent=200)}


def limited_by(account: OneAccount, lists: dict[str, PriceListConfig] = LISTS) -> LimitedCalls:
    pipeline = pipeline_of(account, ScriptedNode())
    return LimitedCalls(AccountPrices(PricingConfig(lists=lists)), ProvenCallers(account, pipeline))


@pytest.mark.parametrize(("name", "limit", "is_let", "asked"), [("cheap", b"10", True, 1), ("cheap", b"9", False, 1)])
async def test_the_owner_is_asked_where_the_guess_says_no(name: str, limit: bytes, is_let: bool, asked: int) -> None:
    account = OneAccount(100)
    account.price_list = name
    found = await limited_by(account).within(PROOF, a_call("getBlock", 5), limit, None)
    assert isinstance(found, Limited) and isinstance(found.calls, BadCall) is not is_let
    assert len(account.holds) == asked and not account.holds[0].items


async def test_who_passes_or_has_no_limit_asks_nobody() -> None:
    """And nobody is asked where the settings have no list: the public prices are everybody's."""
    for limit, lists in ((b"25", LISTS), (None, LISTS), (b"24", {})):
        account = OneAccount(100)
        found = await limited_by(account, lists).within(PROOF, a_call("getBlock", 5), limit, None)
        assert isinstance(found, Limited) and not account.holds
        assert isinstance(found.calls, BadCall) is (limit == b"24")


async def test_the_limit_goes_with_the_call_so_a_dearer_list_is_judged_when_it_is_told() -> None:
    """What the guess lets pass carries the most that it may cost; a batch gives what is left to one of its calls."""
    limited = limited_by(OneAccount(100))
    one = await limited.within(PROOF, a_call("getBlock", 5), b"30", None)
    assert isinstance(one, Limited) and one.calls.cost_max == 30  # type: ignore[union-attr]
    two = await limited.within(PROOF, [a_call("getBlock", 5), a_call("getSlot")], b"30", None)
    assert isinstance(two, Limited) and sum(call.cost_max for call in two.calls) == 30  # type: ignore[union-attr]


async def test_a_refused_credential_is_refused_and_a_nonce_is_used_once() -> None:
    """Money rule 11."""
    account = OneAccount(100)
    account.refusal = "AUTH_FAILED"
    refused = await limited_by(account).within(PROOF, a_call("getBlock", 5), b"1", None)
    assert isinstance(refused, Replies) and refused.refusal is not None
    account.refusal, account.price_list = None, "cheap"
    signed = await limited_by(account).one(WalletProof(b"p" * 32, "n", 0), a_call("getBlock", 5), None, None, b"10")
    assert isinstance(signed, Limited) and type(signed.proof).__name__ == "ProvenProof"
