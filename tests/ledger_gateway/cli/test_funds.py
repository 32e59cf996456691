"""Whether a wallet can pay a deposit."""

from typing import Any

import pytest

from ledger_gateway.cli.funds import EMBEDDED_NODE, FEE_LAMPORTS, faucet_advice, require, sol_text
from ledger_gateway.cli.shell import Refused


def accounts(lamports: int, units: int) -> dict[str, Any]:
    """The form in which a node gives a wallet and its token account."""
    token = {"parsed": {"info": {"tokenAmount": {"amount": str(units)}}}}
    return {"context": {"slot": 1}, "value": [{"lamports": lamports}, {"lamports": 1, "data": token}]}


def test_a_wallet_pays_with_exactly_what_it_has() -> None:
    """The amount and one signature's fee are enough; one unit less of either is refused, with both balances."""
    require(accounts(FEE_LAMPORTS, 5), "W", 5, "")
    for lamports, units, word in ((FEE_LAMPORTS - 1, 5, "0.000004999 SOL"), (FEE_LAMPORTS, 4, "0.000004 USDC")):
        with pytest.raises(Refused, match=word):
            require(accounts(lamports, units), "W", 5, "")
    assert sol_text(0) == "0" and sol_text(10 * 10**9) == "10"


def test_the_faucet_is_named_on_this_machine_alone() -> None:
    assert faucet_advice("W", 5, "https://node.example", "https://node.example") == ""
    assert "--url" not in faucet_advice("W", 5, EMBEDDED_NODE, EMBEDDED_NODE)
    assert "--url http://localhost:1" in faucet_advice("W", 5, "http://localhost:1", "http://localhost:1")
