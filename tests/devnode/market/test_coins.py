from dataclasses import replace

import pytest
from solders.account import Account

from actors.launch_programs import addresses, pdas
from actors.launch_programs.configs import encode_global
from devnode.chain.submissions import Source
from devnode.encoding.addresses import USDC_MINT
from devnode.encoding.wire import Decoded
from devnode.launchpad.genesis import global_config, program_account
from devnode.market.coins import LaunchError, Wanted, launch_coin
from tests.devnode.pad import Pad

ALL = [("classic", "SOL"), ("v2", "SOL"), ("v2", "WSOL"), ("v2", "USDC"), ("mayhem", "SOL")]


@pytest.mark.parametrize(("kind", "quote"), ALL)
def test_a_coin_of_every_kind_is_launched_and_traded(pad: Pad, kind: str, quote: str) -> None:
    """The transactions launch, buy, buy and sell all land."""
    made = launch_coin(pad.local.chain, pad.local.faucet, Wanted(kind, quote))
    assert len(made.signatures) == 4
    landed = {record.signature: record.meta.err for record in pad.local.chain.open_transactions()}
    assert all(landed[signature] is None for signature in made.signatures)
    curve = made.curve
    assert curve == pad.curve(made.mint) and made.bonding_curve == pdas.bonding_curve(made.mint)
    stored = {"SOL": addresses.ZERO_KEY, "WSOL": addresses.WSOL_MINT, "USDC": USDC_MINT}[quote]
    assert curve.quote_mint == stored and curve.is_mayhem_mode == (kind == "mayhem")
    assert curve.curve_type == ("classic" if quote == "SOL" else "v2")
    assert curve.real_quote_reserves > 0 and curve.creator == made.creator
    assert made.token_program == (addresses.TOKEN_PROGRAM if kind == "classic" else addresses.TOKEN_2022_PROGRAM)


def test_keys_of_coins_are_derived_from_the_chains_state(pad: Pad) -> None:
    """Chains of one seed have the same coins; a second coin has other keys."""
    first = launch_coin(pad.local.chain, pad.local.faucet, Wanted(trades=0))
    assert launch_coin(pad.local.chain, pad.local.faucet, Wanted(trades=0)).mint != first.mint
    assert len(first.signatures) == 1


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted("other"),
        Wanted(quote="EUR"),
        Wanted("classic", "USDC"),
        Wanted(trades=21),
        Wanted(trades=-1),
        Wanted(name="n" * 33),
    ],
)
def test_invalid_requests_are_refused_with_a_reason(pad: Pad, wanted: Wanted) -> None:
    with pytest.raises(LaunchError):
        launch_coin(pad.local.chain, pad.local.faucet, wanted)


def test_a_lost_transaction_and_a_missing_program_are_errors(pad: Pad) -> None:
    chain = pad.local.chain

    def swallow(decoded: Decoded, source: Source) -> bool:
        return decoded.keys[0] == pad.local.faucet.pubkey

    chain.gates.append(swallow)
    with pytest.raises(LaunchError, match="dropped"):
        launch_coin(chain, pad.local.faucet, Wanted())
    chain.gates.remove(swallow)
    chain.place(addresses.PUMP, program_account(addresses.TOKEN_METADATA_PROGRAM))
    chain.vm.put(addresses.PUMP, None)
    with pytest.raises(LaunchError):
        launch_coin(chain, pad.local.faucet, Wanted())


def test_fees_go_to_the_recipients_in_global(pad: Pad) -> None:
    """A loaded dump may have other recipients; an invalid one is an error, not a crash."""
    chain, other = pad.local.chain, pad.local.wallet(10**9).pubkey()
    account = chain.vm.account(addresses.GLOBAL)
    assert account is not None
    config = replace(global_config(), fee_recipient=other)
    chain.place(addresses.GLOBAL, Account(account.lamports, encode_global(config), account.owner, False, 0))
    assert launch_coin(chain, pad.local.faucet, Wanted(trades=1))
    assert pad.lamports(other) > 10**9
    chain.place(addresses.GLOBAL, Account(account.lamports, b"broken", account.owner, False, 0))
    with pytest.raises(LaunchError):
        launch_coin(chain, pad.local.faucet, Wanted())
