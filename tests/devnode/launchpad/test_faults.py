from devnode.launchpad.faults import NAMES, Fault


def test_a_numbered_fault_reads_as_anchor_writes_it() -> None:
    fault = Fault.number(6002)
    assert fault.cause == {"Custom": 6002} and fault.whole is None
    assert fault.lines == (
        "Program log: AnchorError occurred. Error Code: TooMuchSolRequired. Error Number: 6002. "
        "Error Message: slippage: Too much SOL required to buy the given amount of tokens..",
    )


def test_the_wrong_account_is_named() -> None:
    (line,) = Fault.number(2006, "bonding_curve").lines
    assert "caused by account: bonding_curve" in line and "Error Code: ConstraintSeeds" in line


def test_the_platforms_own_numbers_start_at_six_thousand() -> None:
    """Smaller numbers are Anchor's, and no number is used twice."""
    assert all(code in (101, 102) or 2000 <= code < 4000 or 6000 <= code < 6100 for code in NAMES)
    assert len({name for name, _ in NAMES.values()}) == len(NAMES)
