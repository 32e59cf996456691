"""Requests are sent again only where the error table allows it, and never a send without its key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err
from actors.methods.catalog import METHODS
from actors.methods.prices import MethodClass
from ledger_gateway.errors import BadAnswer, GatewayError, LedgerGatewayError, NodeError, Unreachable, class_of
from ledger_gateway.retries import SENDS, WAIT_SECONDS, Repeatable, RetryPolicy, repeatable

WAITS = st.none() | st.floats(0, 100_000)
ERRORS: st.SearchStrategy[LedgerGatewayError] = st.one_of(
    st.builds(
        lambda err, wait: class_of(err.name, err.row.http)(err.name, err.row.http, "x", retry_after=wait),
        st.sampled_from(Err),
        WAITS,
    ),
    st.builds(
        lambda http, wait: class_of("", http)("", http, "x", retry_after=wait), st.sampled_from([400, 503]), WAITS
    ),
    st.builds(lambda code: NodeError(code, "x"), st.integers(-32_100, 0)),
    st.builds(lambda sent: Unreachable("x", sent), st.booleans()),
    st.just(BadAnswer("x", 200)),
)


def test_the_table_is_the_gateways_own() -> None:
    """Each constant that passes by itself is retried, with the gateway's wait at least; no other is."""
    passing = {err.name: err.row.retry_seconds for err in Err if err.row.retry_seconds is not None}
    known = {name: WAIT_SECONDS.get(name) for name in passing}
    assert known == passing and set(WAIT_SECONDS) - {"UPSTREAM_ERROR"} == set(passing)


def test_sends_are_the_methods_that_move_money() -> None:
    """Every method of the classes that send, and the builders of trades, is on the list."""
    sending = {MethodClass.SEND, MethodClass.SEND_AND_CONFIRM, MethodClass.SEND_BUNDLE}
    methods = {name for name, row in METHODS.items() if row.method_class in sending}
    assert methods <= SENDS and {"executeSnipe", "executeSell"} <= SENDS


@given(error=ERRORS, attempts=st.integers(1, 9), jitter=st.floats(0, 1), key=st.none() | st.text(min_size=1))
def test_a_send_without_a_key_is_never_repeated(
    error: LedgerGatewayError, attempts: int, jitter: float, key: str | None
) -> None:
    """Whatever went wrong: without an Idempotency-Key a second send could act twice."""
    for method in SENDS:
        wait = RetryPolicy(attempts_max=9).wait_seconds(error, attempts, repeatable(method, key), jitter)
        assert wait is None or key is not None


@given(
    error=ERRORS,
    attempts=st.integers(1, 50),
    jitter=st.floats(0, 1),
    again=st.sampled_from(Repeatable),
    attempts_max=st.integers(1, 10),
)
def test_retries_are_bounded_and_wait_as_long_as_they_are_told(
    error: LedgerGatewayError, attempts: int, jitter: float, again: Repeatable, attempts_max: int
) -> None:
    """At most attempts_max requests; each wait is what the gateway asked for at least, and has an upper bound."""
    policy = RetryPolicy(attempts_max=attempts_max)
    wait = policy.wait_seconds(error, attempts, again, jitter)
    if wait is None:
        return
    assert attempts < attempts_max and 0 < wait <= policy.wait_seconds_max * (1 + policy.jitter_part)
    assert isinstance(error, GatewayError | Unreachable)
    if isinstance(error, GatewayError):
        assert wait >= (error.retry_after or 0) and (
            error.constant in WAIT_SECONDS or error.http == 503 or error.retry_after
        )
    else:
        assert not error.was_sent or again is Repeatable.HARMLESS


@pytest.mark.parametrize("again", [Repeatable.CHARGED, Repeatable.HARMLESS])
def test_waits_grow_and_jitter_spreads_them(again: Repeatable) -> None:
    """Interface: "yes, 2 s plus exponential backoff"."""
    error, policy = class_of("BACKEND_UNAVAILABLE", 502)("BACKEND_UNAVAILABLE", 502, "x"), RetryPolicy()
    waits = [policy.wait_seconds(error, attempt, again, 0.0) for attempt in (1, 2, 3, 4)]
    assert waits == [2.0, 4.0, 8.0, None] and policy.wait_seconds(error, 1, again, 1.0) == 3.0
