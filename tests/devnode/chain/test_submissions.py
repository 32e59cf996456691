from devnode.chain.intake import LEGS
from devnode.chain.submissions import Source


def test_the_chain_s_own_transactions_have_no_leg() -> None:
    """Every door has a name in GET /admin/arrivals; the faucet and the crowd are not listed there."""
    assert set(Source) - LEGS.keys() == {Source.FAUCET, Source.CROWD}
