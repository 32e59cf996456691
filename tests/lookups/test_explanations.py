"""Summaries and explanations: exact amounts, and nothing that is not known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.lookups.explanations import decimal_text, explanation, short, summary
from actors.lookups.transfers import SolTransfer, TokenTransfer

ANNA, BERT, CARL = "Anna" + "1" * 36 + "anna", "Bert" + "1" * 36 + "bert", "Carl" + "1" * 36 + "carl"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


def token(giver, taker, amount, mint=USDC, decimals=6, kind="transfer"):
    accounts = (giver and "account-of-giver", taker and "account-of-taker")
    return TokenTransfer(kind, mint, decimals, giver, accounts[0], taker, accounts[1], amount)


def said(sol=(), tokens=(), programs=(), failed=False, address=ANNA):
    return explanation(address, ANNA, 5_000, sol, tokens, programs, failed)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sol": [SolTransfer(ANNA, BERT, 1_500_000_000)]}, "Anna..anna sent 1.5 SOL to Bert..bert."),
        ({"sol": [SolTransfer(BERT, ANNA, 1)]}, "Anna..anna received 0.000000001 SOL from Bert..bert."),
        (
            {"sol": [SolTransfer(ANNA, BERT, 10**9), SolTransfer(ANNA, CARL, 10**9)]},
            "Anna..anna sent 2 SOL to 2 accounts.",
        ),
        ({"tokens": [token(ANNA, BERT, 2_000_000)]}, "Anna..anna sent 2 USDC to Bert..bert."),
        (
            {"sol": [SolTransfer(ANNA, CARL, 10**9)], "tokens": [token(CARL, ANNA, 150_000)]},
            "Anna..anna gave 1 SOL and got 0.15 USDC.",
        ),
        (
            {"tokens": [token(None, ANNA, 5, mint="M" * 40, decimals=0, kind="mint")]},
            "Anna..anna received 5 MMMM..MMMM.",
        ),
        (
            {"tokens": [token(None, ANNA, 5, mint=None, decimals=None)]},
            "Anna..anna received 5 base units of an unknown token.",
        ),
        ({"programs": ["spl-memo"]}, "Anna..anna called spl-memo; neither SOL nor tokens of its own moved."),
        ({"failed": True}, "It failed: nothing moved but the fee of 0.000005 SOL, paid by Anna..anna."),
        (
            {"sol": [SolTransfer(ANNA, BERT, 5)], "address": BERT},
            "Bert..bert received 0.000000005 SOL from Anna..anna.",
        ),
        ({"sol": [SolTransfer(ANNA, BERT, 5)], "address": CARL}, "Anna..anna sent 0.000000005 SOL to Bert..bert."),
        (
            {"sol": [SolTransfer(ANNA, BERT, 5), SolTransfer(BERT, ANNA, 5)], "programs": ["system"]},
            "Anna..anna called system; neither SOL nor tokens of its own moved.",
        ),
    ],
)
def test_a_sentence_says_what_moved_for_whom(given, sentence):
    """About the requested address, or about the payer of the fee where nothing of it moved."""
    assert said(**given) == sentence


def test_a_summary_counts():
    """Numbers of transfers, then programs."""
    sol = [SolTransfer(ANNA, BERT, 5)]
    assert summary(sol, [token(ANNA, BERT, 1)] * 2, ["system", "spl-token"], False) == (
        "2 token transfers, 1 SOL transfer, programs: system, spl-token"
    )
    assert summary([], [], ["system"], True) == "failed; programs: system"
    assert summary([], [], [], False) == "no transfers"


@given(amount=st.integers(0, (1 << 64) - 1), decimals=st.integers(0, 255))
def test_amounts_lose_nothing(amount, decimals):
    """By integer arithmetic alone (money rule 7), and back again."""
    whole, _, part = decimal_text(amount, decimals).partition(".")
    assert int(whole) * 10**decimals + int(part.ljust(decimals, "0") or 0) == amount
    assert not part.endswith("0")


def test_addresses_are_short():
    """Four letters from each end, as wallets show them."""
    assert short(ANNA) == "Anna..anna"
