"""What is looked at before money moves."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err, Refusal
from actors.gateway.calls import jsonrpc
from actors.gateway.calls.admission import AdmittedCall, admit, plans
from actors.gateway.doors import bulk as door_bulk
from actors.gateway.payments.x402 import NOT_BOUGHT, refused_for_free, within
from actors.pricing_config import PricingConfig

from .doubles import TRANSACTION

CHEAP = b'{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
DEAR = b'{"jsonrpc":"2.0","id":2,"method":"getBlock","params":[7]}'
BAD = b'{"jsonrpc":"2.0","id":3,"method":"getBlock","params":["x"]}'  # Dear, and refused for free.
ROW = door_bulk.ROWS[b"/bulk/getTokenBalances"]


def parsed(body: bytes):
    found = jsonrpc.parse(body)
    assert not isinstance(found, Refusal)
    return found


def test_a_call_that_can_be_made_is_worth_a_payment():
    """Also one among many that cannot."""
    good = b'{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
    bad = b'{"jsonrpc":"2.0","id":2,"method":"nothing"}'
    assert refused_for_free(parsed(good)) is None
    assert refused_for_free(parsed(b"[" + bad + b"," + good + b"]")) is None


def test_what_would_be_refused_anyway_is_refused_first():
    """In order, with each call's own reason."""
    bad = b'{"jsonrpc":"2.0","id":2,"method":"nothing"}'
    found = refused_for_free(parsed(b"[" + bad + b",7]"))
    assert found is not None
    assert [reply.refusal.err for reply in found.items if reply.refusal] == [Err.METHOD_NOT_FOUND, Err.INVALID_REQUEST]
    assert [reply.id for reply in found.items] == [b"2", b"null"]


def bare(one):
    """Without the mark of what was bought: its price, which the payer's own price list does not change."""
    return one if isinstance(one, jsonrpc.BadCall) else msgspec.structs.replace(one, credits_max=None)


def test_a_payment_buys_calls_in_order_up_to_what_it_brought():
    """Threat 51: a dear call in the middle is refused, and a cheaper one behind it is bought."""
    calls = parsed(b"[%b]" % b",".join([CHEAP, DEAR, BAD, b"7", CHEAP]))
    bought = within(calls, 2)
    assert [bare(one) == bare(call) for one, call in zip(bought, calls, strict=True)] == [True, False, True, True, True]
    assert (bought[1].id, bought[1].refusal.err) == (calls[1].id, Err.INSUFFICIENT_CREDITS)
    assert list(map(bare, within(calls, 27))) == list(map(bare, calls))
    assert within([calls[0]], 0)[0].refusal.err is Err.INSUFFICIENT_CREDITS


def test_a_list_is_bought_whole_or_not():
    """Threat 51: its price is that of all its entries."""
    listed = door_bulk.admit(b'{"owners":["11111111111111111111111111111111"]}', ROW)
    assert list(map(bare, within([listed], 5))) == [listed]
    assert within([listed], 4) == [jsonrpc.BadCall(jsonrpc.NO_ID, NOT_BOUGHT, method=ROW.name)]


def test_what_is_not_offered_here_is_refused_and_what_is_costs_its_price_here():
    """Threat 51: a payment is judged by the operator's methods and prices, not by the usual ones."""
    here = plans(PricingConfig(landing_credits=500), ("sendAndConfirm",), relay=False)
    for method in (b"executeSnipe", b"sendBundle"):
        assert refused_for_free(parsed(b'{"jsonrpc":"2.0","id":1,"method":"%b","params":[]}' % method), here)
    send = AdmittedCall(b"1", here["sendAndConfirm"], b"[]")
    assert list(map(bare, within([send], 500))) == [send]
    sent = parsed(b'{"jsonrpc":"2.0","id":1,"method":"sendAndConfirm","params":["%b"]}' % TRANSACTION.encode())
    assert isinstance(admit(sent, here), AdmittedCall)
    assert within([sent], 499, here)[0].refusal.err is Err.INSUFFICIENT_CREDITS
    assert list(map(bare, within([sent], 500, here))) == [sent]


@given(credits=st.integers(0, 200), kinds=st.lists(st.sampled_from([CHEAP, DEAR, BAD, b"7"]), min_size=1, max_size=20))
def test_no_mixture_of_calls_costs_more_than_its_payment(credits, kinds):
    """Threat 51: whatever is admitted of what is left, its prices add up to at most the credits."""
    bought = within(parsed(b"[%b]" % b",".join(kinds)), credits)
    verdicts = [admit(call) for call in bought if isinstance(call, jsonrpc.Call)]
    assert sum(verdict.plan.ceiling for verdict in verdicts if isinstance(verdict, AdmittedCall)) <= credits
