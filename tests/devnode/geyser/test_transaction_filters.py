"""Each criterion of a transaction filter."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.geyser_proto import geyser_pb2
from devnode.encoding.addresses import VOTE_PROGRAM
from devnode.geyser.limits import NO_LIMITS, BadFilter, TransactionLimits
from devnode.geyser.messages import TransactionUpdate
from devnode.geyser.transaction_filters import read_transaction_filters

from .samples import CREATED_MS, KEYS, PAYER, SIGNATURE, balance, meta, record, transaction_update

Asked = geyser_pb2.SubscribeRequestFilterTransactions
FAILED = {"InstructionError": [0, {"Custom": 1}]}


def matches(asked: Asked, update: TransactionUpdate) -> bool:
    (read,) = read_transaction_filters({"it": asked}, NO_LIMITS.transactions)
    return read.matches(update)


def vote_update() -> TransactionUpdate:
    vote = Instruction(VOTE_PROGRAM, b"", [AccountMeta(PAYER.pubkey(), is_signer=True, is_writable=True)])
    message = Message.new_with_blockhash([vote], PAYER.pubkey(), Hash.default())
    transaction = VersionedTransaction(message, [PAYER])
    shape = record()
    return TransactionUpdate(msgspec.structs.replace(shape, raw=bytes(transaction)), CREATED_MS)


@pytest.mark.parametrize("wanted", [None, True, False])
def test_votes_can_be_selected(wanted: bool | None) -> None:
    """vote true: only votes; false: no votes; missing: all."""
    assert matches(Asked(vote=wanted), vote_update()) is (wanted in (None, True))
    assert matches(Asked(vote=wanted), transaction_update()) is (wanted in (None, False))


@pytest.mark.parametrize("wanted", [None, True, False])
def test_failures_can_be_selected(wanted: bool | None) -> None:
    """failed true: only with an error; false: only without; missing: all."""
    assert matches(Asked(failed=wanted), transaction_update(what=meta(FAILED))) is (wanted in (None, True))
    assert matches(Asked(failed=wanted), transaction_update()) is (wanted in (None, False))


def test_one_signature_finds_one_transaction() -> None:
    """The filter compares the first signature."""
    update = transaction_update()
    assert matches(Asked(signature=update.record.signature), update)
    assert not matches(Asked(signature=SIGNATURE), update)


some_keys = st.lists(st.sampled_from(KEYS[1:]), max_size=3)


@given(included=some_keys, excluded=some_keys, required=some_keys, touched=some_keys)
def test_include_exclude_and_required(
    included: list[Pubkey], excluded: list[Pubkey], required: list[Pubkey], touched: list[Pubkey]
) -> None:
    """A match has any key of include (if given), no key of exclude, and all keys of required."""
    asked = Asked(
        account_include=map(str, included), account_exclude=map(str, excluded), account_required=map(str, required)
    )
    wanted = (
        (not included or bool(set(included) & set(touched)))
        and not set(excluded) & set(touched)
        and set(required) <= set(touched)
    )
    assert matches(asked, transaction_update(tuple(touched))) is wanted


OWNER, OTHER = KEYS[2], KEYS[3]


@pytest.mark.parametrize(
    ("pre", "post", "counts_any", "counts_changed"),
    [
        ((balance(1, OWNER, 5),), (balance(1, OWNER, 5),), True, False),
        ((balance(1, OWNER, 5),), (balance(1, OWNER, 6),), True, True),
        ((), (balance(1, OWNER, 5),), True, True),
        ((balance(1, OWNER, 5),), (), True, True),
        ((balance(1, OTHER, 5),), (balance(1, OTHER, 6),), False, False),
        ((), (), False, False),
    ],
    ids=["untouched", "changed", "opened", "closed", "somebody else's", "none"],
)
def test_owners_of_token_balances_can_count(pre: tuple, post: tuple, counts_any: bool, counts_changed: bool) -> None:
    """token_accounts: the owner of a token account counts as an account, for include, exclude and required."""
    update = transaction_update(what=meta(pre=pre, post=post))
    for mode, counts in ((None, False), (geyser_pb2.ALL, counts_any), (geyser_pb2.BALANCE_CHANGED, counts_changed)):
        assert matches(Asked(account_include=[str(OWNER)], token_accounts=mode), update) is counts
        assert matches(Asked(account_required=[str(OWNER)], token_accounts=mode), update) is counts
        assert matches(Asked(account_exclude=[str(OWNER)], token_accounts=mode), update) is not counts


@pytest.mark.parametrize(
    ("asked", "limits", "text"),
    [
        (Asked(signature="x"), TransactionLimits(), "string decoded to wrong size"),
        (Asked(account_include=["x"]), TransactionLimits(), "String is the wrong size"),
        (Asked(account_include=[str(KEYS[0])] * 3), TransactionLimits(account_include_max=2), "only 2 allowed"),
        (Asked(account_exclude=[str(KEYS[0])]), TransactionLimits(account_exclude_max=0), "only 0 allowed"),
        (Asked(account_required=[str(KEYS[0])]), TransactionLimits(account_required_max=0), "only 0 allowed"),
        (
            Asked(account_include=[str(KEYS[0])]),
            TransactionLimits(account_include_reject=frozenset({str(KEYS[0])})),
            "is not allowed",
        ),
        (Asked(signature=SIGNATURE), TransactionLimits(any=False), "at least one filter required"),
        (Asked(), TransactionLimits(max=0), "filters/data_slices reached, only 0 allowed"),
    ],
)
def test_invalid_and_forbidden_filters_are_refused(asked: Asked, limits: TransactionLimits, text: str) -> None:
    """The texts are Yellowstone's; as there, a filter by signature alone counts as a full stream."""
    with pytest.raises(BadFilter, match=text):
        read_transaction_filters({"it": asked}, limits)


def test_an_unknown_mode_is_refused() -> None:
    """An unknown number of the enum is refused."""
    asked = Asked.FromString(b"\xf0\x01\x07")  # Field 30, value 7.
    with pytest.raises(BadFilter, match="invalid token_accounts mode value 7"):
        read_transaction_filters({"it": asked}, NO_LIMITS.transactions)
