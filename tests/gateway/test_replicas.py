"""Guards how many replicas a machine runs."""

import pytest

from actors.config import GatewayConfig
from actors.gateway.replicas import has_spare_on, range_on, replicas_on


def test_replicas_follow_the_cores_unless_they_are_set() -> None:
    """Rule: a default that suits the machine, and with which no killed replica was the only one; the operator's number
    wins. Where the machine has room for one, the second is a spare."""
    assert [replicas_on(cores, GatewayConfig()) for cores in (1, 2, 4, 16)] == [2, 2, 2, 8]
    assert [has_spare_on(cores, GatewayConfig()) for cores in (1, 2, 4, 16)] == [True, True, False, False]
    assert replicas_on(2, GatewayConfig(replicas=3)) == 3 and replicas_on(2, GatewayConfig(replicas=1)) == 1
    assert not has_spare_on(2, GatewayConfig(replicas=2)), "the operator wants both to work"


def test_the_number_follows_the_load_only_where_a_largest_one_is_set() -> None:
    """Off by default. Then every replica works, and none is a spare."""
    assert range_on(2, GatewayConfig()) is None and range_on(2, GatewayConfig(replicas=3)) is None
    assert range_on(2, GatewayConfig(replicas_max=6)) == (2, 6)
    assert range_on(16, GatewayConfig(replicas_max=6)) == (6, 6)
    assert range_on(2, GatewayConfig(replicas=1, replicas_max=4)) == (1, 4)
    assert not has_spare_on(2, GatewayConfig(replicas_max=6))
    with pytest.raises(ValueError, match="replicas_max"):
        GatewayConfig(replicas=3, replicas_max=2)
