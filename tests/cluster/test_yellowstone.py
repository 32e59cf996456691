"""Yellowstone streams on the real product when a replica is killed."""

import pytest

from bench.product import Product
from tests.cluster.proofs import assert_the_script_proves, read_by_key
from tests.customers import Customer
from tests.stream_checks.yellowstone_kill import Kill

_STREAMS = 20


@pytest.mark.kills
@pytest.mark.threat(43)
def test_clients_that_come_back_with_from_slot_miss_nothing(product: Product) -> None:
    """Threat 43: a replica is killed under open streams; its clients subscribe again, and have every update of
    the chain; a stream costs its credit once. No other stream ends, also not as HAProxy starts anew without that
    replica. 500 streams: `python -m bench grpc-kill`."""
    customer = Customer(product)
    customer.grant(20_000)  # A minute of each stream costs 60.
    customer.limits(10_000, 1_000)
    told = Kill(product, customer.api_key, _STREAMS).run()
    assert told.broken > 0 and told.missing == told.extra == told.repeated == 0, told
    assert told.told <= told.credits <= told.begun, told
    assert told.untouched_ends == 0, told
    assert_the_script_proves(product, read_by_key(customer), "grpc")
