"""Each criterion of the filters of accounts, blocks and transactions, alone and combined."""

import base64

import base58
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
from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM, VOTE_PROGRAM
from devnode.geyser.messages import AccountUpdate, TransactionUpdate
from devnode.geyser.settings import NO_LIMITS, AccountLimits, BadFilter, BlockLimits, TransactionLimits
from devnode.geyser.update_filters import read_account_filters, read_block_filters, read_transaction_filters

from .samples import (
    CREATED_MS,
    KEYS,
    PAYER,
    SIGNATURE,
    account_update,
    balance,
    closed_update,
    meta,
    record,
    transaction_update,
)

Accounts = geyser_pb2.SubscribeRequestFilterAccounts
State = geyser_pb2.SubscribeRequestFilterAccountsFilter
Memcmp = geyser_pb2.SubscribeRequestFilterAccountsFilterMemcmp
Lamports = geyser_pb2.SubscribeRequestFilterAccountsFilterLamports
TOKEN_ACCOUNT = bytes(108) + b"\x01" + bytes(56)


def account_matches(asked: Accounts, update: AccountUpdate) -> bool:
    (read,) = read_account_filters({"it": asked}, NO_LIMITS.accounts)
    return read.matches(update)


@pytest.mark.parametrize(
    ("asked", "update", "matches_update"),
    [
        (Accounts(), account_update(), True),
        (Accounts(account=[str(KEYS[0]), str(KEYS[1])]), account_update(KEYS[1]), True),
        (Accounts(account=[str(KEYS[0])]), account_update(KEYS[1]), False),
        (Accounts(owner=[str(KEYS[5]), str(KEYS[6])]), account_update(owner=KEYS[6]), True),
        (Accounts(owner=[str(KEYS[5])]), account_update(owner=KEYS[6]), False),
        (Accounts(account=[str(KEYS[0])], owner=[str(KEYS[5])]), account_update(KEYS[0], KEYS[6]), False),
        (Accounts(nonempty_txn_signature=True), account_update(), True),
        (Accounts(nonempty_txn_signature=True), account_update(signature=None), False),
        (Accounts(nonempty_txn_signature=False), account_update(), False),
        (Accounts(nonempty_txn_signature=False), account_update(signature=None), True),
        (Accounts(filters=[State(datasize=3)]), account_update(data=b"abc"), True),
        (Accounts(filters=[State(datasize=3)]), account_update(data=b"abcd"), False),
        (Accounts(filters=[State(datasize=0)]), account_update(), True),
        (Accounts(filters=[State(token_account_state=True)]), account_update(data=TOKEN_ACCOUNT), True),
        (Accounts(filters=[State(token_account_state=True)]), account_update(data=bytes(165)), False),
        (Accounts(filters=[State(token_account_state=True)]), account_update(data=b"\x01" * 82), False),
        # A closed account is an empty one of the system program.
        (Accounts(owner=[str(TOKEN_PROGRAM)]), closed_update(), False),
        (Accounts(owner=[str(SYSTEM_PROGRAM)]), closed_update(), True),
        (Accounts(filters=[State(lamports=Lamports(eq=0))]), closed_update(), True),
        (Accounts(account=[str(KEYS[0])]), closed_update(KEYS[0]), True),
    ],
)
def test_each_criterion_alone(asked: Accounts, update: AccountUpdate, matches_update: bool) -> None:
    """A list holds if one member matches; all criteria must hold."""
    assert account_matches(asked, update) is matches_update


@pytest.mark.parametrize(
    ("comparisons", "holds"),
    [
        ([{"eq": 5}], {5}),
        ([{"ne": 5}], {4, 6, 7}),
        ([{"lt": 5}], {4}),
        ([{"gt": 5}], {6, 7}),
        ([{"gt": 4}, {"lt": 7}], {5, 6}),
    ],
)
def test_lamports_are_compared_with_the_value(comparisons: list[dict[str, int]], holds: set[int]) -> None:
    """Each operator compares the account's lamports with the value; comparisons of one filter must all hold."""
    asked = Accounts(filters=[State(lamports=Lamports(**one)) for one in comparisons])
    assert {value for value in range(4, 8) if account_matches(asked, account_update(lamports=value))} == holds


@given(data=st.binary(max_size=40), offset=st.integers(0, 45), wanted=st.binary(max_size=8))
def test_memcmp_compares_the_bytes_at_the_offset(data: bytes, offset: int, wanted: bytes) -> None:
    """All three encodings work; bytes beyond the end never match, and an empty comparison matches only inside."""
    expected = offset + len(wanted) <= len(data) and data[offset:].startswith(wanted)
    for memcmp in (
        Memcmp(offset=offset, bytes=wanted),
        Memcmp(offset=offset, base58=base58.b58encode(wanted).decode()),
        Memcmp(offset=offset, base64=base64.b64encode(wanted).decode()),
    ):
        assert account_matches(Accounts(filters=[State(memcmp=memcmp)]), account_update(data=data)) is expected


some_accounts = st.lists(st.sampled_from(KEYS), max_size=3)


@given(
    accounts=some_accounts,
    owners=some_accounts,
    signature=st.none() | st.booleans(),
    size=st.none() | st.integers(0, 3),
    least=st.none() | st.integers(0, 3),
    pubkey=st.sampled_from(KEYS),
    owner=st.sampled_from(KEYS),
    data=st.binary(max_size=3),
    lamports=st.integers(0, 4),
    is_signed=st.booleans(),
)
def test_all_criteria_together(
    accounts: list[Pubkey],
    owners: list[Pubkey],
    signature: bool | None,
    size: int | None,
    least: int | None,
    pubkey: Pubkey,
    owner: Pubkey,
    data: bytes,
    lamports: int,
    is_signed: bool,
) -> None:
    """An update matches a combined filter exactly if it matches each of its criteria alone."""
    asked = Accounts(account=list(map(str, accounts)), owner=list(map(str, owners)), nonempty_txn_signature=signature)
    if size is not None:
        asked.filters.add(datasize=size)
    if least is not None:
        asked.filters.add(lamports=Lamports(gt=least))
    update = account_update(pubkey, owner, lamports, data, "1" * 64 if is_signed else None)
    wanted = (
        (not accounts or pubkey in accounts)
        and (not owners or owner in owners)
        and signature in (None, is_signed)
        and size in (None, len(data))
        and (least is None or lamports > least)
    )
    assert account_matches(asked, update) is wanted


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Accounts(account=["no key"]), "Invalid Base58 string"),
        (Accounts(owner=["1111"]), "String is the wrong size"),
        (Accounts(filters=[State(datasize=1)] * 5), "Too many filters provided; max 4"),
        (Accounts(filters=[State(datasize=1)] * 2), "datasize used more than once"),
        (Accounts(filters=[State(token_account_state=False)]), "token_account_state only allowed to be true"),
        (Accounts(filters=[State()]), "filter should be defined"),
        (Accounts(filters=[State(memcmp=Memcmp(offset=1))]), "data for memcmp should be defined"),
        (Accounts(filters=[State(memcmp=Memcmp(bytes=bytes(129)))]), "data too large"),
        (Accounts(filters=[State(memcmp=Memcmp(base58="1" * 176))]), "data too large"),
        (Accounts(filters=[State(memcmp=Memcmp(base64="A" * 173))]), "data too large"),
        (Accounts(filters=[State(memcmp=Memcmp(base58="0OIl"))]), "invalid base58"),
        (Accounts(filters=[State(memcmp=Memcmp(base64="*"))]), "invalid base64"),
        (Accounts(filters=[State(lamports=Lamports())]), "cmp for lamports should be defined"),
    ],
)
def test_invalid_filters_are_refused(asked: Accounts, text: str) -> None:
    """The texts are Yellowstone's, because clients show them."""
    with pytest.raises(BadFilter, match=text):
        read_account_filters({"it": asked}, NO_LIMITS.accounts)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (AccountLimits(max=0), "Max amount of filters/data_slices reached, only 0 allowed"),
        (AccountLimits(account_max=1), "Max amount of Pubkeys reached, only 1 allowed"),
        (AccountLimits(owner_max=0), "Max amount of Pubkeys reached, only 0 allowed"),
        (AccountLimits(account_reject=frozenset({str(KEYS[0])})), f"Pubkey {KEYS[0]} in filters is not allowed"),
        (AccountLimits(owner_reject=frozenset({str(KEYS[2])})), f"Pubkey {KEYS[2]} in filters is not allowed"),
    ],
)
def test_limits_of_account_filters_are_enforced(limits: AccountLimits, text: str) -> None:
    """A filter above a limit is refused."""
    asked = Accounts(account=[str(KEYS[0]), str(KEYS[1])], owner=[str(KEYS[2])])
    with pytest.raises(BadFilter, match=text):
        read_account_filters({"it": asked}, limits)


def test_a_full_stream_can_be_forbidden() -> None:
    """Criteria on the contents alone count as a full stream, because they look at every account."""
    asked = Accounts(filters=[State(datasize=1)])
    with pytest.raises(BadFilter, match="at least one filter required"):
        read_account_filters({"it": asked}, AccountLimits(any=False))


Blocks = geyser_pb2.SubscribeRequestFilterBlocks


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        (Blocks(), (True, False, False)),
        (Blocks(include_transactions=False), (False, False, False)),
        (Blocks(include_transactions=True, include_accounts=True), (True, True, False)),
        (Blocks(include_accounts=False, include_entries=True), (True, False, True)),
    ],
)
def test_transactions_are_the_default(asked: Blocks, parts: tuple[bool, bool, bool]) -> None:
    """Accounts and entries are only sent on request."""
    ((name, shape),) = ((one.name, one.shape) for one in read_block_filters({"it": asked}, NO_LIMITS.blocks, ((1, 2),)))
    assert (shape.has_transactions, shape.has_accounts, shape.has_entries) == parts
    assert name == "it" and shape.slices == ((1, 2),)


@pytest.mark.parametrize(
    ("asked", "limits", "text"),
    [
        (Blocks(), BlockLimits(include_transactions=False), "`include_transactions` is not allowed"),
        (Blocks(include_accounts=True), BlockLimits(include_accounts=False), "`include_accounts` is not allowed"),
        (Blocks(include_entries=True), BlockLimits(include_entries=False), "`include_entries` is not allowed"),
        (Blocks(), BlockLimits(account_include_any=False), "at least one filter required"),
        (Blocks(account_include=[str(KEYS[0])]), BlockLimits(account_include_max=0), "only 0 allowed"),
        (Blocks(), BlockLimits(max=0), "filters/data_slices reached, only 0 allowed"),
    ],
)
def test_limits_of_block_filters_are_enforced(asked: Blocks, limits: BlockLimits, text: str) -> None:
    """A forbidden part is an error, not left out."""
    with pytest.raises(BadFilter, match=text):
        read_block_filters({"it": asked}, limits, ())


def test_a_forbidden_part_does_not_affect_other_filters() -> None:
    """A limit applies only to filters that ask for the part."""
    limits = BlockLimits(include_transactions=False, include_accounts=False, include_entries=False)
    assert len(read_block_filters({"it": Blocks(include_transactions=False)}, limits, ())) == 1


Transactions = geyser_pb2.SubscribeRequestFilterTransactions
FAILED = {"InstructionError": [0, {"Custom": 1}]}


def matches(asked: Transactions, update: TransactionUpdate) -> bool:
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
    assert matches(Transactions(vote=wanted), vote_update()) is (wanted in (None, True))
    assert matches(Transactions(vote=wanted), transaction_update()) is (wanted in (None, False))


@pytest.mark.parametrize("wanted", [None, True, False])
def test_failures_can_be_selected(wanted: bool | None) -> None:
    """failed true: only with an error; false: only without; missing: all."""
    assert matches(Transactions(failed=wanted), transaction_update(what=meta(FAILED))) is (wanted in (None, True))
    assert matches(Transactions(failed=wanted), transaction_update()) is (wanted in (None, False))


def test_one_signature_finds_one_transaction() -> None:
    """The filter compares the first signature."""
    update = transaction_update()
    assert matches(Transactions(signature=update.record.signature), update)
    assert not matches(Transactions(signature=SIGNATURE), update)


some_keys = st.lists(st.sampled_from(KEYS[1:]), max_size=3)


@given(included=some_keys, excluded=some_keys, required=some_keys, touched=some_keys)
def test_include_exclude_and_required(
    included: list[Pubkey], excluded: list[Pubkey], required: list[Pubkey], touched: list[Pubkey]
) -> None:
    """A match has any key of include (if given), no key of exclude, and all keys of required."""
    asked = Transactions(
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
        assert matches(Transactions(account_include=[str(OWNER)], token_accounts=mode), update) is counts
        assert matches(Transactions(account_required=[str(OWNER)], token_accounts=mode), update) is counts
        assert matches(Transactions(account_exclude=[str(OWNER)], token_accounts=mode), update) is not counts


@pytest.mark.parametrize(
    ("asked", "limits", "text"),
    [
        (Transactions(signature="x"), TransactionLimits(), "string decoded to wrong size"),
        (Transactions(account_include=["x"]), TransactionLimits(), "String is the wrong size"),
        (Transactions(account_include=[str(KEYS[0])] * 3), TransactionLimits(account_include_max=2), "only 2 allowed"),
        (Transactions(account_exclude=[str(KEYS[0])]), TransactionLimits(account_exclude_max=0), "only 0 allowed"),
        (Transactions(account_required=[str(KEYS[0])]), TransactionLimits(account_required_max=0), "only 0 allowed"),
        (
            Transactions(account_include=[str(KEYS[0])]),
            TransactionLimits(account_include_reject=frozenset({str(KEYS[0])})),
            "is not allowed",
        ),
        (Transactions(signature=SIGNATURE), TransactionLimits(any=False), "at least one filter required"),
        (Transactions(), TransactionLimits(max=0), "filters/data_slices reached, only 0 allowed"),
    ],
)
def test_invalid_and_forbidden_filters_are_refused(asked: Transactions, limits: TransactionLimits, text: str) -> None:
    """The texts are Yellowstone's; as there, a filter by signature alone counts as a full stream."""
    with pytest.raises(BadFilter, match=text):
        read_transaction_filters({"it": asked}, limits)


def test_an_unknown_mode_is_refused() -> None:
    """An unknown number of the enum is refused."""
    asked = Transactions.FromString(b"\xf0\x01\x07")  # Field 30, value 7.
    with pytest.raises(BadFilter, match="invalid token_accounts mode value 7"):
        read_transaction_filters({"it": asked}, NO_LIMITS.transactions)
