"""Transfers in transactions that a chain executed, and in made-up ones."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.token import instructions as spl
from spl.token import models

from actors.lookups.transfers import SolTransfer, TokenTransfer, account_keys, sol_transfers, token_transfers
from devnode.encoding.addresses import NATIVE_MINT

from .scene import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID, Scene


def given_sol(giver: Keypair, taker: Pubkey, lamports: int):
    return transfer(TransferParams(from_pubkey=giver.pubkey(), to_pubkey=taker, lamports=lamports))


def explained(transaction):
    """Both lists, after a check that they add up to the changes of balances."""
    sol, tokens = sol_transfers(transaction), token_transfers(transaction)
    assert_sol_adds_up(transaction, sol)
    assert_tokens_add_up(transaction, tokens)
    return sol, tokens


def assert_sol_adds_up(transaction, sol):
    meta, keys = transaction["meta"], account_keys(transaction)
    change = Counter({keys[0]: -meta["fee"]})
    for move in sol:
        assert move.lamports > 0
        change[move.source] -= move.lamports
        change[move.destination] += move.lamports
    for key, before, after in zip(keys, meta["preBalances"], meta["postBalances"], strict=True):
        assert change[key] == after - before, key


def assert_tokens_add_up(transaction, tokens):
    """Unwrapped SOL is among the SOL transfers."""
    meta, keys = transaction["meta"], account_keys(transaction)
    shown = Counter()
    for move in tokens:
        shown[move.source_account] -= move.amount
        shown[move.destination_account] += move.amount
    real = Counter()
    for sign, name in ((-1, "preTokenBalances"), (1, "postTokenBalances")):
        for entry in meta[name]:
            if entry["mint"] != str(NATIVE_MINT):
                real[keys[entry["accountIndex"]]] += sign * int(entry["uiTokenAmount"]["amount"])
    for address, change in real.items():
        assert shown[address] == change, address


def test_a_gift_of_sol(scene: Scene):
    """Two transfers in one transaction stay two, and the fee is not listed."""
    record = scene.land(
        scene.anna, given_sol(scene.anna, scene.bert.pubkey(), 7), given_sol(scene.anna, scene.bert.pubkey(), 8)
    )
    sol, tokens = explained(scene.transaction(record))
    anna, bert = str(scene.anna.pubkey()), str(scene.bert.pubkey())
    assert sol == [SolTransfer(anna, bert, 7), SolTransfer(anna, bert, 8)]
    assert tokens == []


def test_a_gift_of_tokens_names_owners_and_accounts(scene: Scene):
    """The first transfer also pays for the receiver's account, by an inner instruction."""
    mint = scene.mint(6)
    scene.holds(scene.anna, mint, 1_000)
    record = scene.land(scene.anna, scene.opened(scene.bert, mint), scene.given(scene.anna, scene.bert, mint, 250, 6))
    sol, tokens = explained(scene.transaction(record))
    assert tokens == [
        TokenTransfer(
            "transfer",
            str(mint),
            6,
            str(scene.anna.pubkey()),
            str(scene.account_of(scene.anna, mint)),
            str(scene.bert.pubkey()),
            str(scene.account_of(scene.bert, mint)),
            250,
        )
    ]
    assert [(move.source, move.destination) for move in sol] == [
        (str(scene.anna.pubkey()), str(scene.account_of(scene.bert, mint)))
    ]


def test_minting_and_burning_have_one_side(scene: Scene):
    """A mint has no source and a burn has no destination."""
    mint = scene.mint(0)
    scene.holds(scene.anna, mint, 5)
    burn = models.BurnParams(
        program_id=TOKEN_PROGRAM_ID,
        account=scene.account_of(scene.anna, mint),
        mint=mint,
        owner=scene.anna.pubkey(),
        amount=2,
    )
    record = scene.land(scene.anna, scene.minted(scene.anna, mint, 3), spl.burn(burn))
    _, tokens = explained(scene.transaction(record))
    anna = str(scene.anna.pubkey())
    assert [(move.kind, move.source, move.destination, move.amount) for move in tokens] == [
        ("mint", None, anna, 3),
        ("burn", anna, None, 2),
    ]


def test_sol_wrapped_used_and_unwrapped_in_one_transaction(scene: Scene):
    """The account is created and closed in one transaction, so the balances do not list it."""
    anna = scene.anna.pubkey()
    wrapped = scene.account_of(scene.anna, NATIVE_MINT)
    close = models.CloseAccountParams(program_id=TOKEN_PROGRAM_ID, account=wrapped, dest=anna, owner=anna)
    record = scene.land(
        scene.anna,
        scene.opened(scene.anna, NATIVE_MINT),
        given_sol(scene.anna, wrapped, 1_000),
        spl.sync_native(models.SyncNativeParams(program_id=TOKEN_PROGRAM_ID, account=wrapped)),
        spl.close_account(close),
    )
    transaction = scene.transaction(record)
    assert transaction["meta"]["err"] is None, transaction["meta"]["logMessages"]
    sol, tokens = explained(transaction)
    assert sol[-1] == SolTransfer(str(wrapped), str(anna), sum(move.lamports for move in sol[:-1]))
    assert tokens == []


def test_a_fee_that_the_token_withholds_is_seen_as_a_change_of_balance(scene: Scene):
    """transferChecked says 1,000 and 950 arrive; no account has the rest as its balance."""
    mint = scene.mint(2, TOKEN_2022_PROGRAM_ID, fee_basis_points=500)
    scene.holds(scene.anna, mint, 10_000, TOKEN_2022_PROGRAM_ID)
    record = scene.land(
        scene.anna,
        scene.opened(scene.bert, mint, TOKEN_2022_PROGRAM_ID),
        scene.given(scene.anna, scene.bert, mint, 1_000, 2, TOKEN_2022_PROGRAM_ID),
    )
    _, tokens = explained(scene.transaction(record))
    bert = str(scene.bert.pubkey())
    assert [(move.kind, move.source, move.destination, move.amount) for move in tokens] == [
        ("transfer", str(scene.anna.pubkey()), bert, 1_000),
        ("balance_change", bert, None, 50),
    ]


def test_what_failed_moved_nothing_but_the_fee(scene: Scene):
    """The instructions of a failed transaction can be read, but none of them took effect."""
    record = scene.land(
        scene.anna, given_sol(scene.anna, scene.bert.pubkey(), 7), given_sol(scene.anna, scene.bert.pubkey(), 10**15)
    )
    transaction = scene.transaction(record)
    assert transaction["meta"]["err"] is not None
    assert explained(transaction) == ([], [])


KEYS = [str(Pubkey.from_bytes(bytes([number]) * 32)) for number in range(1, 6)]
MINTS = [str(Pubkey.from_bytes(bytes([number]) * 32)) for number in range(11, 13)]
amounts = st.integers(0, 1_000)


def balance_of(index: int, mint: str, amount: int):
    shown = {"amount": str(amount), "decimals": 2}
    return {"accountIndex": index, "mint": mint, "owner": KEYS[-index], "uiTokenAmount": shown}


@st.composite
def made_up(draw):
    """Instructions and balances that need not match, because programs may move tokens themselves."""
    key, fee = st.sampled_from(KEYS), draw(amounts)
    steps = [
        {
            "program": "system",
            "programId": "11111111111111111111111111111111",
            "parsed": {"type": "transfer", "info": {"source": s, "destination": d, "lamports": lamports}},
        }
        for s, d, lamports in draw(st.lists(st.tuples(key, key, amounts), max_size=4))
    ]
    steps += [
        {
            "program": "spl-token",
            "programId": str(TOKEN_PROGRAM_ID),
            "parsed": {"type": "transfer", "info": {"source": s, "destination": d, "amount": str(amount)}},
        }
        for s, d, amount in draw(st.lists(st.tuples(key, key, amounts), max_size=4))
    ]
    steps += [{"programId": MINTS[0], "accounts": [], "data": ""}, {"programId": MINTS[1], "parsed": "a memo"}]
    before, after = draw(st.tuples(*[st.lists(amounts, min_size=5, max_size=5)] * 2))
    tokens = draw(st.lists(st.tuples(st.integers(0, 4), amounts, amounts), max_size=5, unique_by=lambda row: row[0]))
    return {
        "transaction": {"message": {"accountKeys": [{"pubkey": k} for k in KEYS], "instructions": steps[:3]}},
        "meta": {
            "err": draw(st.sampled_from([None, {"InstructionError": [0, "x"]}])),
            "fee": fee,
            "preBalances": before,
            "postBalances": after,
            "innerInstructions": [{"index": 0, "instructions": steps[3:]}],
            "preTokenBalances": [balance_of(index, MINTS[index % 2], amount) for index, amount, _ in tokens],
            "postTokenBalances": [balance_of(index, MINTS[index % 2], amount) for index, _, amount in tokens],
        },
    }


@given(transaction=made_up())
def test_whatever_happened_the_lists_add_up(transaction):
    """Every change of a balance is in the listed transfers exactly once."""
    explained(transaction)


@pytest.mark.parametrize("missing", ["meta", "transaction"])
def test_what_is_no_transaction_raises_what_its_reader_expects(missing):
    """An error is better than an incomplete answer."""
    with pytest.raises((KeyError, TypeError)):
        sol_transfers({"meta": {}, "transaction": {}} | {missing: None})
