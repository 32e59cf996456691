"""Threat 23, on transactions that real token programs executed."""

from typing import Any

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair

from actors.addresses import TOKEN_PROGRAM
from actors.deposits.usdc.transfers import (
    Transfer,
    Unreadable,
    deposit_account,
    failure_of,
    place_of,
    read,
    transfer_index,
)
from tests.deposits.token_making import (
    MINT,
    TOKEN_2022,
    Shop,
    batch,
    mint_to,
    open_associated,
    open_fee_mint,
    pay,
    pay_checked,
    token_2022_account,
    token_account,
)


def test_a_plain_transfer_names_its_authority(shop: Shop) -> None:
    """Interface: attributed to the wallet that sent it."""
    for number, instruction in enumerate(
        (shop.pay(10_000), pay_checked(20_000, shop.purse, shop.till, shop.wallet)), start=1
    ):
        executed = shop.read(shop.run([instruction]))
        amount = number * 10_000
        assert executed.transfers == (Transfer(0, amount, str(shop.purse), str(shop.wallet), True),)
        assert (executed.delta, executed.moved_out) == (amount, 0)


def test_each_transfer_of_a_transaction_is_found_at_its_place(shop: Shop) -> None:
    """Several authorities in one transaction: each transfer has its own authority and a stable index."""
    friend = shop.node.wallet(10**9, 10**6)
    theirs = pay(7_000, token_account(friend.pubkey()), shop.till, friend.pubkey())
    executed = shop.read(shop.run([shop.pay(1_000), theirs, shop.pay(2_000)], friend))
    found = [(place_of(each.index), each.amount, each.authority) for each in executed.transfers]
    customer = str(shop.wallet)
    assert found == [("0", 1_000, customer), ("1", 7_000, str(friend.pubkey())), ("2", 2_000, customer)]
    assert executed.delta == 10_000


def test_transfers_of_a_batch_are_found(shop: Shop) -> None:
    """A batch runs without inner calls and log lines, so a parser must know it."""
    elsewhere = shop.node.wallet(10**6, 1)
    other = pay(5, shop.purse, token_account(elsewhere.pubkey()), shop.wallet)
    executed = shop.read(shop.run([batch(shop.pay(3_000), other, shop.pay(4_000))]))
    assert [(place_of(each.index), each.amount) for each in executed.transfers] == [("0", 3_000), ("0[2]", 4_000)]
    assert executed.delta == 7_000


def test_reference_keys_do_not_make_a_multisig(shop: Shop) -> None:
    """Point-of-sale clients append keys; the signer is still the authority."""
    reference = Keypair().pubkey()
    instruction = pay(10_000, shop.purse, shop.till, shop.wallet, references=(reference,))
    (found,) = shop.read(shop.run([instruction])).transfers
    assert (found.authority, found.is_wallet) == (str(shop.wallet), True)


def test_a_token_2022_mint_with_a_transfer_fee_earns_nothing(shop: Shop) -> None:
    """Its associated account of the deposit wallet is another account, whatever the token calls itself."""
    mint = Keypair()
    shop.run(open_fee_mint(shop.wallet, mint.pubkey(), shop.wallet), mint)
    mine, theirs = (token_2022_account(owner, mint.pubkey()) for owner in (shop.wallet, shop.keeper.pubkey()))
    opened = [
        open_associated(shop.wallet, owner, mint.pubkey(), TOKEN_2022) for owner in (shop.wallet, shop.keeper.pubkey())
    ]
    shop.run([*opened, mint_to(10**9, mint.pubkey(), mine, shop.wallet, TOKEN_2022)])
    signature = shop.run([pay_checked(10**9, mine, theirs, shop.wallet, mint.pubkey(), TOKEN_2022)])
    assert failure_of(shop.fetch(signature)) is None
    executed = shop.read(signature)
    assert (executed.transfers, executed.delta) == ((), None)


def test_a_failed_transaction_is_told_as_failed(shop: Shop) -> None:
    transaction = shop.signed([shop.pay(10**12)])
    shop.node.land(transaction)
    shop.node.finalize()
    found = shop.fetch(str(transaction.signatures[0]))
    assert failure_of(found) is not None
    assert read(found, shop.account).delta == 0


def test_what_leaves_the_deposit_account_is_counted(shop: Shop) -> None:
    """A transfer from the account to itself moves nothing, however large its amount is."""
    shop.run([shop.pay(100_000)])
    turned = pay(100_000, shop.till, shop.till, shop.keeper.pubkey())
    executed = shop.read(shop.run([turned, shop.pay(1_000)], shop.keeper))
    assert [each.amount for each in executed.transfers] == [100_000, 1_000]
    assert (executed.moved_out, executed.delta) == (100_000, 1_000)


def told(outer: list[Any], inner: list[Any] | None, keys: list[str], **meta: Any) -> dict[str, Any]:
    """The getTransaction result of a made-up transaction."""
    return {
        "slot": 9,
        "blockTime": None,
        "meta": {"err": None, "innerInstructions": inner, **meta},
        "transaction": {
            "message": {"accountKeys": keys, "header": {"numRequiredSignatures": 1}, "instructions": outer}
        },
    }


ACCOUNT = deposit_account("4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM", str(MINT))
KEYS = ["Payer", "Program", "Source", "Vault"]
LOADED = {"writable": [ACCOUNT.address], "readonly": [TOKEN_PROGRAM, str(MINT)]}


def instruction(data: bytes, *accounts: int, program: int = 5) -> dict[str, Any]:
    return {"programIdIndex": program, "accounts": list(accounts), "data": base58.b58encode(data).decode()}


def test_what_a_program_called_is_found_with_looked_up_accounts() -> None:
    """An inner transfer out of a program's vault, every account but the payer's from a lookup table."""
    data = b"\x03" + (5_000).to_bytes(8, "little")
    inner = [{"index": 1, "instructions": [instruction(b"\x02", 0), instruction(data, 2, 4, 3)]}]
    outer = [instruction(b"", 0, program=1), instruction(b"", 0, program=1)]
    balances = [{"accountIndex": 4, "mint": str(MINT), "owner": ACCOUNT.wallet, "uiTokenAmount": {"amount": "5000"}}]
    executed = read(told(outer, inner, KEYS, loadedAddresses=LOADED, postTokenBalances=balances), ACCOUNT)
    (found,) = executed.transfers
    assert (place_of(found.index), found.authority, found.is_wallet) == ("1.2", "Vault", False)
    assert executed.delta == 5_000


def test_an_account_that_was_given_away_is_not_ours() -> None:
    """The owner of a token account can change; later transfers into it are no deposits."""
    balances = [{"accountIndex": 4, "mint": str(MINT), "owner": "Thief", "uiTokenAmount": {"amount": "5000"}}]
    executed = read(told([], None, KEYS, loadedAddresses=LOADED, postTokenBalances=balances), ACCOUNT)
    assert executed.delta is None


@pytest.mark.parametrize("data", [b"\xff", b"\xff\x03", b"\xff\x03\x09\x03", b"\x03\x01", b"", b"\x0c" + bytes(8)])
def test_instructions_that_cannot_be_are_passed_over_or_refused(data: bytes) -> None:
    """The chain would not have executed them, so nothing is credited even if a node shows them."""
    try:
        executed = read(told([instruction(data, 2, 4, 3)], None, KEYS, loadedAddresses=LOADED), ACCOUNT)
    except Unreadable:
        return
    assert executed.transfers == ()


@pytest.mark.parametrize("broken", [{}, {"meta": None}, {"meta": {}, "transaction": {}}, {"meta": 3}])
def test_an_answer_that_is_none_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        read(broken, ACCOUNT)


@given(st.integers(0, 254), st.integers(0, 4095), st.integers(0, 4095))
def test_places_never_share_an_index(outer: int, inner: int, item: int) -> None:
    """Money rule 4: the index is part of a deposit's identity and must never change."""
    index = transfer_index(outer, inner, item)
    assert 0 <= index < 2**32 - 1
    assert (index >> 24, (index >> 12) & 4095, index & 4095) == (outer, inner, item)
    assert place_of(index).startswith(str(outer))


def test_places_beyond_a_transaction_are_refused() -> None:
    for place in ((255, 0, 0), (0, 4096, 0), (0, 0, 4096), (-1, 0, 0)):
        with pytest.raises(Unreadable):
            transfer_index(*place)
