import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.addresses import MEMO_PROGRAM
from actors.memos.core import (
    CHARGED_MAX,
    Look,
    Memo,
    MemoStep,
    Root,
    fee_lamports,
    make_transaction,
    next_step,
    read_root,
    roots_of,
)
from actors.upstream.signature_status import SignatureStatus

PAYER = Keypair.from_seed(b"p" * 32)
ROOT = Root(2, 77, b"\xab" * 32)
SENT = Memo(ROOT, 5, attempt=1, signature=b"s" * 64, transaction=b"t", valid_to=100)


def status(*, finalized: bool, error: str | None = None) -> Look:
    return Look(SignatureStatus(7, error, True, finalized), None)


@given(st.integers(0, 10**9 - 1), st.integers(0, 10**18 - 1), st.binary(min_size=32, max_size=32))
def test_a_memo_is_read_as_it_was_written(series: int, number: int, digest: bytes) -> None:
    root = Root(series, number, digest)
    assert read_root(root.text()) == root and root.text().isascii()
    for other in ("", root.text() + " ", root.text().upper(), root.text().replace("root", "leaf"), root.text()[:-1]):
        assert read_root(other) is None


def test_a_transaction_says_what_its_payer_has_signed() -> None:
    signature, raw = make_transaction(PAYER, ROOT, str(Hash.default()), 10_000)
    transaction = VersionedTransaction.from_bytes(raw)
    assert bytes(transaction.signatures[0]) == signature and len(transaction.signatures) == 1
    assert transaction.verify_with_results() == [True] and bytes(transaction) == raw
    assert roots_of(transaction, str(PAYER.pubkey())) == [ROOT]
    assert roots_of(transaction, str(Keypair().pubkey())) == []


def test_a_memo_that_somebody_else_pays_for_says_nothing_of_the_payer() -> None:
    """Everybody may name an address in a transaction, so that a node lists it for that address."""
    payer, stranger = PAYER.pubkey(), Keypair.from_seed(b"q" * 32)
    memo = Instruction(Pubkey.from_string(MEMO_PROGRAM), ROOT.text().encode(), [AccountMeta(payer, False, False)])
    message = MessageV0.try_compile(stranger.pubkey(), [memo], [], Hash.default())
    transaction = VersionedTransaction(message, [stranger])
    assert payer in transaction.message.account_keys
    assert roots_of(transaction, str(payer)) == [] and roots_of(transaction, str(stranger.pubkey())) == [ROOT]


@pytest.mark.parametrize(
    ("memo", "look", "is_over", "step"),
    [
        (Memo(ROOT, 5), None, False, MemoStep.SEND_NEW),
        (Memo(ROOT, 5), None, True, MemoStep.LOST),
        (Memo(ROOT, 5, charged=CHARGED_MAX), None, False, MemoStep.LOST),
        (SENT, Look(None, None), False, MemoStep.WAIT),
        (SENT, Look(None, None), True, MemoStep.WAIT),
        (SENT, Look(None, 100), False, MemoStep.SEND_AGAIN),
        (SENT, Look(None, 100), True, MemoStep.WAIT),
        (SENT, Look(None, 101), False, MemoStep.SEND_NEW),
        (SENT, Look(None, 101), True, MemoStep.LOST),
        (SENT._replace(charged=CHARGED_MAX), Look(None, 101), False, MemoStep.LOST),
        (SENT, status(finalized=False), False, MemoStep.WAIT),
        (SENT, status(finalized=False), True, MemoStep.WAIT),
        (SENT, status(finalized=True), False, MemoStep.LANDED),
        (SENT, status(finalized=True), True, MemoStep.LANDED),
        (SENT, status(finalized=True, error="x"), False, MemoStep.FAILED),
        (SENT, status(finalized=False, error="x"), False, MemoStep.WAIT),
    ],
)
def test_a_new_attempt_begins_only_when_none_can_land(
    memo: Memo, look: Look | None, is_over: bool, step: MemoStep
) -> None:
    assert next_step(memo, look, is_over=is_over) is step


def test_a_fee_is_whole_lamports_rounded_up() -> None:
    assert [fee_lamports(price) for price in (0, 1, 17, 10_000, 1_000_000)] == [5_000, 5_001, 5_002, 5_600, 65_000]
