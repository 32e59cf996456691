"""Guards what a refused call costs its caller: nothing, as long as there are not too many in one second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.calls import Figures, HoldReply, KeyProof, ProvenProof, SessionProof, WalletProof
from actors.errors import Err
from actors.gateway.calls import refusal_limits
from actors.gateway.calls.refusal_limits import COUNTED, RefusalLimits, Wait
from actors.gateway.calls.requests import AsgiClient
from actors.identity.client_addresses import UNKNOWN
from actors.units import routing_bytes

NOW = 1_700_000_000
WALLET = b"w" * 32
KEY = KeyProof(b"k" * 32, routing_bytes(WALLET))
OTHER_KEY = KeyProof(b"o" * 32, routing_bytes(b"x" * 32))
FIGURES = Figures(7, 2, 1, NOW + 1)
HERE, THERE, NOWHERE = AsgiClient([], "192.0.2.1"), AsgiClient([], "192.0.2.2"), AsgiClient([], None)


def limits_of(per_account: int = 3, per_address: int = 2) -> RefusalLimits:
    return RefusalLimits(per_account, per_address, lambda client: client.peer or UNKNOWN)


def refuse(limits: RefusalLimits, proof, client=HERE, *errs: Err, figures=None, now: int = NOW) -> None:
    limits.count(proof, client, errs, figures, 0 if figures is None else figures.credits_remaining, now)


def test_an_account_waits_after_its_last_refusal_until_the_second_ends():
    """Decisions, "rate limit shape": fixed windows of one second. The wait tells the account's own figures."""
    limits = limits_of()
    for _ in range(3):
        assert limits.wait(KEY, HERE, NOW) is None
        refuse(limits, KEY, HERE, Err.INSUFFICIENT_CREDITS, figures=FIGURES)
    told = Figures(7, 2, 0, NOW + 1)
    assert limits.wait(KEY, HERE, NOW) == Wait(told, 7)
    assert limits.wait(KEY, HERE, NOW + 1) is None
    assert not limits.waiting


def test_each_refused_item_of_a_batch_is_counted():
    """A batch is no way to have a hundred times as many refused."""
    limits = limits_of()
    refuse(limits, KEY, HERE, Err.METHOD_NOT_FOUND, Err.TIMEOUT, Err.INVALID_PARAMS, figures=FIGURES)
    assert limits.wait(KEY, HERE, NOW) is None
    refuse(limits, KEY, HERE, Err.RATE_LIMITED, figures=FIGURES)
    assert limits.wait(KEY, HERE, NOW) is not None


@pytest.mark.parametrize("figures", [FIGURES, None], ids=["of an account", "of a stranger"])
def test_a_refused_request_counts_by_its_cost_where_that_is_more_than_its_refusals(figures):
    """Threat 61: one dear body is worth many small ones, and a cheap one still counts each refusal."""
    for cost, errs, counted in ((5, 1, 5), (1, 3, 3), (0, 2, 2)):
        limits = limits_of(counted, counted)
        limits.count(KEY, HERE, [Err.INVALID_REQUEST] * errs, figures, None, NOW, cost)
        assert limits.wait(KEY if figures else None, HERE, NOW) is not None
        limits = limits_of(counted + 1, counted + 1)
        limits.count(KEY, HERE, [Err.INVALID_REQUEST] * errs, figures, None, NOW, cost)
        assert limits.wait(KEY if figures else None, HERE, NOW) is None


def test_work_on_a_request_that_is_not_refused_is_not_counted():
    """Rule: admitted calls pay by credits, and failures of this service are nobody's fault."""
    limits = limits_of()
    for errs in ((), (Err.TIMEOUT,)):
        limits.count(KEY, HERE, errs, FIGURES, None, NOW, cost=1_000)
    assert not limits.waiting


@pytest.mark.parametrize("err", [err for err in Err if err not in COUNTED], ids=lambda err: err.name)
def test_what_is_not_the_callers_fault_is_not_counted(err):
    """A node or an owner that is away must not make honest clients wait."""
    limits = limits_of()
    for _ in range(10):
        refuse(limits, KEY, HERE, err, figures=FIGURES)
        refuse(limits, None, HERE, err)
    assert not limits.waiting


@pytest.mark.parametrize("err", sorted(COUNTED, key=lambda err: err.name), ids=lambda err: err.name)
def test_what_a_caller_can_avoid_is_counted(err):
    """Each refusal that is free for its caller, of a known account or of a stranger."""
    limits = limits_of()
    for _ in range(3):
        refuse(limits, None, HERE, err)
    assert limits.wait(None, HERE, NOW) is not None


def test_calls_of_strangers_that_were_shed_count_for_their_address():
    """Rule: who is shed and comes again at once is told to wait; customers of that address and others go on."""
    limits = limits_of()
    limits.confirmed(KEY)
    limits.count_shed(HERE, 1, NOW)
    assert limits.wait(OTHER_KEY, HERE, NOW) is None
    limits.count_shed(HERE, 1, NOW)
    assert limits.wait(OTHER_KEY, HERE, NOW) is not None
    assert limits.wait(KEY, HERE, NOW) is None
    assert limits.wait(OTHER_KEY, THERE, NOW) is None
    limits.count_shed(NOWHERE, 100, NOW)
    assert limits.wait(OTHER_KEY, NOWHERE, NOW) is None


def test_an_account_of_many_requests_may_have_as_many_refused():
    """Rule: a client that is allowed 10,000 requests a second has more trouble in one second than others."""
    limits, figures = limits_of(), Figures(0, 5, 5, NOW + 1)
    for _ in range(4):
        refuse(limits, KEY, HERE, Err.INSUFFICIENT_CREDITS, figures=figures)
    assert limits.wait(KEY, HERE, NOW) is None
    refuse(limits, KEY, HERE, Err.INSUFFICIENT_CREDITS, figures=figures)
    assert limits.wait(KEY, HERE, NOW) is not None


def test_an_accounts_other_credentials_wait_too_and_other_accounts_do_not():
    """Rule: one of an account's keys does not use up the limit of its other credentials; all of them together have
    four times as much."""
    limits = limits_of()
    session, signed = SessionProof(b"t" * 32, KEY.routing), WalletProof(WALLET, "n", NOW)
    for proof in (session, OTHER_KEY):
        limits.confirmed(proof)
    for _ in range(11):
        refuse(limits, KEY, HERE, Err.INVALID_PARAMS, figures=FIGURES)
    assert limits.wait(KEY, HERE, NOW) is not None
    assert limits.wait(session, HERE, NOW) is limits.wait(signed, HERE, NOW) is None
    refuse(limits, KEY, HERE, Err.INVALID_PARAMS, figures=FIGURES)
    assert limits.wait(session, HERE, NOW) is not None
    assert limits.wait(signed, HERE, NOW) is not None
    assert limits.wait(OTHER_KEY, HERE, NOW) is None


def test_nobody_can_use_up_another_accounts_limit():
    """A stranger's key may begin with anybody's routing bytes, and a message may be somebody else's that was sent
    again: such refusals count for the sender's address alone."""
    limits = limits_of(3, 100)
    forged = KeyProof(b"f" * 32, KEY.routing)
    limits.confirmed(KEY)
    for _ in range(10):
        refuse(limits, forged, HERE, Err.AUTH_FAILED)
        refuse(limits, WalletProof(WALLET, "n", NOW), HERE, Err.NONCE_REUSED, figures=FIGURES)
    assert limits.wait(KEY, HERE, NOW) is None
    assert limits.wait(WalletProof(WALLET, "m", NOW), HERE, NOW) is None


def test_a_stranger_learns_nothing_of_an_account_that_waits():
    """The figures of a wait go to credentials that the owner has confirmed."""
    limits = limits_of()
    for _ in range(3):
        refuse(limits, KEY, HERE, Err.INVALID_PARAMS, figures=FIGURES)
    assert limits.wait(KeyProof(b"f" * 32, KEY.routing), HERE, NOW) is None


def test_an_address_that_waits_still_gets_its_customers_through():
    """Rule: one bad neighbour behind the same address does not stop those whose credentials are known to be good."""
    limits = limits_of()
    limits.confirmed(KEY)
    for _ in range(2):
        refuse(limits, OTHER_KEY, HERE, Err.AUTH_FAILED)
    assert limits.wait(KEY, HERE, NOW) is None
    assert limits.wait(OTHER_KEY, HERE, NOW) == Wait(Figures(0, 2, 0, NOW + 1), None)
    assert limits.wait(None, HERE, NOW) is not None
    assert limits.wait(None, THERE, NOW) is None


@pytest.mark.parametrize("err", [Err.AUTH_FAILED, Err.NONCE_REUSED, Err.PAYMENT_REQUIRED])
def test_a_credential_that_turned_out_bad_is_no_longer_let_through(err):
    """A key that was replaced, a message that is sent again and again: they wait with their address."""
    limits, signed = limits_of(100, 2), WalletProof(WALLET, "n", NOW)
    limits.confirmed(signed)
    for _ in range(2):
        refuse(limits, signed, HERE, err, figures=FIGURES if err is Err.NONCE_REUSED else None)
    assert limits.wait(signed, HERE, NOW) is not None


def test_a_customer_stays_known_while_the_owner_is_away():
    """A call that is refused for free without figures says nothing against its credential."""
    limits = limits_of()
    limits.confirmed(KEY)
    for _ in range(2):
        refuse(limits, KEY, HERE, Err.METHOD_NOT_FOUND)
    assert limits.wait(KEY, HERE, NOW) is None
    assert limits.wait(OTHER_KEY, HERE, NOW) is not None


def test_addresses_that_cannot_be_known_are_not_limited():
    """Rule: they share one name, and one of them must not lock out all the others."""
    limits = limits_of()
    for client in (NOWHERE, None):
        for _ in range(10):
            refuse(limits, None, client, Err.PAYMENT_REQUIRED)
        assert limits.wait(None, client, NOW) is None


def test_a_wallet_without_an_account_is_counted_by_itself_as_well():
    """Threat 50: also where its address is not known."""
    limits, signed = limits_of(), WalletProof(WALLET, "n", NOW)
    for _ in range(3):
        refuse(limits, signed, NOWHERE, Err.PAYMENT_REQUIRED)
    assert limits.wait(signed, NOWHERE, NOW) == Wait(Figures(0, 3, 0, NOW + 1), None)
    assert limits.wait(ProvenProof(b"x" * 32), NOWHERE, NOW) is None


def test_a_clock_that_was_set_back_locks_nobody_out():
    """Any other second is a fresh window."""
    limits = limits_of()
    for _ in range(3):
        refuse(limits, KEY, HERE, Err.INVALID_PARAMS, figures=FIGURES)
    assert limits.wait(KEY, HERE, NOW - 86_400) is None


def test_memory_is_bounded_whoever_asks(monkeypatch):
    """Names of one second, and credentials of all time."""
    monkeypatch.setattr(refusal_limits, "NAMES_MAX", 10)
    monkeypatch.setattr(refusal_limits, "CONFIRMED_MAX", 10)
    limits = limits_of(1, 1)
    for number in range(100):
        proof = KeyProof(bytes([number]) * 32, bytes([number]) * 8)
        refuse(limits, None, AsgiClient([], str(number)), Err.PAYMENT_REQUIRED)
        limits.confirmed(proof)
    assert len(limits._totals) == 10
    assert len(limits._confirmed) + len(limits._confirmed_before) <= 20
    assert limits._is_confirmed(proof.key_hash)


def told(refusal: str | None = None, key: int = 0) -> HoldReply:
    return HoldReply(WALLET, 1, refusal, (None,), FIGURES, key)


def test_a_key_is_the_accounts_own_once_its_owner_has_said_so_and_until_it_is_refused(monkeypatch):
    """An owner that is away or shuts an account out has not looked whose key it is, and names no number. A refusal of
    the credential ends what is known, so that the next call comes with address and origin again."""
    limits = limits_of(100, 100)
    limits.confirmed(KEY)
    for refusal in (Err.SERVICE_TEMPORARILY_UNAVAILABLE, Err.METHOD_NOT_ALLOWED):
        limits.confirmed(KEY, told(refusal.name))
        assert limits.knows(KEY) and not limits.is_own(KEY.key_hash) and not limits.is_named(KEY.key_hash)
    refuse(limits, KEY, HERE, Err.INSUFFICIENT_CREDITS, figures=FIGURES)
    assert not limits.is_own(KEY.key_hash) and not limits.is_named(KEY.key_hash)
    limits.confirmed(KEY, told())
    limits.confirmed(OTHER_KEY, told(key=1))
    assert limits.is_own(KEY.key_hash) and not limits.is_own(OTHER_KEY.key_hash)
    assert limits.is_named(OTHER_KEY.key_hash) and not limits.is_named(KEY.key_hash)
    refuse(limits, KEY, HERE, Err.INSUFFICIENT_CREDITS, figures=FIGURES)
    assert limits.is_own(KEY.key_hash)
    refuse(limits, KEY, HERE, Err.AUTH_FAILED)
    assert not limits.is_own(KEY.key_hash) and not limits.knows(KEY)
    limits.confirmed(SessionProof(b"s" * 32, KEY.routing), told())
    assert not limits.is_own(b"s" * 32)


def test_own_keys_are_forgotten_with_all_that_is_confirmed(monkeypatch):
    monkeypatch.setattr(refusal_limits, "CONFIRMED_MAX", 2)
    limits = limits_of()
    limits.confirmed(KEY, told())
    for number in range(2):
        limits.confirmed(KeyProof(bytes([number]) * 32, bytes(8)), told(key=1))
    assert limits.is_own(KEY.key_hash)  # In the older half.
    refuse(limits, KEY, HERE, Err.AUTH_FAILED)
    assert not limits.is_own(KEY.key_hash)


steps = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(1, 5)), max_size=60)


@given(steps=steps)
def test_a_caller_waits_exactly_when_its_own_refusals_of_this_second_have_reached_the_limit(steps):
    """Any order of callers, seconds and amounts: nobody's count is another's, and none outlives its second."""
    limits, totals, now = limits_of(4, 4), {}, NOW
    for name, turn, amount in steps:
        if turn:
            now, totals = now + turn, {}
        refuse(limits, None, AsgiClient([], name), *[Err.AUTH_FAILED] * amount, now=now)
        totals[name] = totals.get(name, 0) + amount
        for other in "abc":
            waits = limits.wait(None, AsgiClient([], other), now) is not None
            assert waits == (totals.get(other, 0) >= 4)
