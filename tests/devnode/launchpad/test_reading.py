import pytest
from solders.account import Account
from solders.pubkey import Pubkey

from actors.launch_programs import addresses
from actors.launch_programs.accounts import Slot
from devnode.launchpad.faults import Fault
from devnode.launchpad.genesis import global_config
from devnode.launchpad.reading import (
    Passed,
    coin_of,
    fee_config_of,
    global_of,
    quote_control_of,
    quote_mint_of,
    require_addresses,
)
from devnode.launchpad.stage import Ref, Stage, Whole
from tests.devnode.pad import Pad

A, B = (Pubkey.from_bytes(bytes([number]) * 32) for number in (1, 2))
SLOTS = (Slot("user", writable=True, signer=True), Slot("mint"), Slot("buyback", writable=True))


def stage_of(pad: Pad, *refs: Ref) -> Stage:
    return Stage(pad.local.chain.vm, Whole((), {}, A, 32_768), refs, b"", 1_000)


def refused(code: int, pad: Pad, *refs: Ref) -> bool:
    with pytest.raises(Fault) as found:
        Passed.of(stage_of(pad, *refs), SLOTS)
    return bool(found.value.cause == {"Custom": code})


def test_the_number_is_checked_before_signers_and_flags(pad: Pad) -> None:
    """A missing trailing account has a special error."""
    user, mint, buyback = Ref(A, True, True), Ref(B, False, False), Ref(A, False, True)
    assert Passed.of(stage_of(pad, user, mint, buyback, mint), SLOTS).keys == {"user": A, "mint": B, "buyback": A}
    assert refused(6062, pad, user, mint)
    assert refused(3005, pad)
    assert refused(3010, pad, Ref(A, False, True), mint, buyback)
    assert refused(2000, pad, user, mint, Ref(A, False, False))


def test_only_expected_names_are_compared() -> None:
    require_addresses(Passed({"mint": A, "user": B}), {"mint": A, "other": B})
    with pytest.raises(Fault) as wrong:
        require_addresses(Passed({"program": A}), {"program": B})
    assert wrong.value.cause == {"Custom": 3008}


def test_configuration_is_read_from_the_chain(pad: Pad) -> None:
    """A missing account, or one with another owner, is an error."""
    stage, chain = stage_of(pad), pad.local.chain
    assert global_of(stage) == global_config() and fee_config_of(stage) is not None
    assert quote_control_of(stage, addresses.QUOTE_CONTROL).mints
    with pytest.raises(Fault):
        quote_control_of(stage, A)
    chain.vm.put(addresses.CURVE_FEE_CONFIG, None)
    assert fee_config_of(stage) is None
    for account, code in (
        (None, 3012),
        (Account(1, b"", A, False, 0), 3007),
        (Account(1, b"", addresses.PUMP, False, 0), 3012),
    ):
        chain.vm.put(addresses.GLOBAL, account)
        with pytest.raises(Fault) as missing:
            global_of(stage)
        assert missing.value.cause == {"Custom": code}


def test_a_coin_is_a_mint_and_its_curve(pad: Pad) -> None:
    mint = pad.launch()
    stage = stage_of(pad)
    coin = coin_of(stage, mint)
    assert (coin.program, coin.decimals, coin.supply) == (addresses.TOKEN_2022_PROGRAM, 6, 10**15)
    assert coin.curve == pad.curve(mint) and coin.curve_bytes == 166
    for wrong in (A, pad.user.pubkey(), addresses.WSOL_MINT):
        with pytest.raises(Fault):
            coin_of(stage, wrong)
    assert quote_mint_of(stage, addresses.WSOL_MINT) == (addresses.TOKEN_PROGRAM, 9)
    with pytest.raises(Fault):
        quote_mint_of(stage, A)
