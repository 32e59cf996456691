"""The transaction of a deposit."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID
from spl.token.instructions import get_associated_token_address, transfer_checked
from spl.token.models import TransferCheckedParams

from actors.addresses import USDC_DEVNET_MINT, USDC_MAINNET_MINT
from ledger_gateway.cli.transfer import USDC_MINTS, signed_transfer, usdc_text, usdc_units

SERVICE = Keypair.from_seed(bytes(31) + b"\x02").pubkey()


@given(units=st.integers(1, 2**64 - 1))
def test_the_instruction_is_that_of_the_official_library(units: int) -> None:
    """spl-token's own `transfer_checked`, between associated accounts, signed by the wallet that gets the credits."""
    wallet, mint = Keypair(), Pubkey.from_string(USDC_DEVNET_MINT)
    text, signature = signed_transfer(bytes(wallet), str(mint), str(SERVICE), units, str(Hash.default()))
    transaction = VersionedTransaction.from_bytes(base64.b64decode(text))
    transaction.verify_and_hash_message()
    (found,) = transaction.message.instructions
    keys = transaction.message.account_keys
    source, dest = (get_associated_token_address(owner, mint) for owner in (wallet.pubkey(), SERVICE))
    wanted = transfer_checked(
        TransferCheckedParams(
            program_id=TOKEN_PROGRAM_ID,
            source=source,
            mint=mint,
            dest=dest,
            owner=wallet.pubkey(),
            amount=units,
            decimals=6,
        )
    )
    assert keys[found.program_id_index] == wanted.program_id and bytes(found.data) == wanted.data
    assert [keys[index] for index in found.accounts] == [meta.pubkey for meta in wanted.accounts]
    assert [transaction.message.is_maybe_writable(index) for index in found.accounts][:3] == [True, False, True]
    assert str(transaction.signatures[0]) == signature


@given(units=st.integers(1, 2**64 - 1))
def test_amounts_are_whole_base_units(units: int) -> None:
    """No float touches money: text to units and back."""
    assert usdc_units(usdc_text(units)) == units


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "0.0000001", "1e400", "nan", "inf", "٣", "18446744073709.551616"])
def test_amounts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"amount|decimals"):
        usdc_units(text)


def test_the_known_tokens_are_usdc_and_nobody_pays_himself() -> None:
    assert {USDC_MAINNET_MINT, USDC_DEVNET_MINT} == USDC_MINTS
    wallet = Keypair()
    with pytest.raises(ValueError, match="deposit wallet itself"):
        signed_transfer(bytes(wallet), USDC_DEVNET_MINT, str(wallet.pubkey()), 1, str(Hash.default()))
