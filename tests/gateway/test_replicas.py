"""Guards how many replicas a machine runs."""

from actors.config import GatewayConfig
from actors.gateway.replicas import has_spare_on, replicas_on


def test_replicas_follow_the_cores_unless_they_are_set() -> None:
    """Rule: a default that suits the machine, and with which no killed replica was the only one; the operator's number
    wins. Where the machine has room for one, the second is a spare."""
    assert [replicas_on(cores, GatewayConfig()) for cores in (1, 2, 4, 16)] == [2, 2, 2, 8]
    assert [has_spare_on(cores, GatewayConfig()) for cores in (1, 2, 4, 16)] == [True, True, False, False]
    assert replicas_on(2, GatewayConfig(replicas=3)) == 3 and replicas_on(2, GatewayConfig(replicas=1)) == 1
    assert not has_spare_on(2, GatewayConfig(replicas=2)), "the operator wants both to work"
