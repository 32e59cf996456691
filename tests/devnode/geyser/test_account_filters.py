"""Each criterion of an account filter, alone and combined."""

import base64

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from actors.geyser_proto import geyser_pb2
from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM
from devnode.geyser.account_filters import read_account_filters
from devnode.geyser.limits import NO_LIMITS, AccountLimits, BadFilter
from devnode.geyser.messages import AccountUpdate

from .samples import KEYS, account_update, closed_update

Asked = geyser_pb2.SubscribeRequestFilterAccounts
State = geyser_pb2.SubscribeRequestFilterAccountsFilter
Memcmp = geyser_pb2.SubscribeRequestFilterAccountsFilterMemcmp
Lamports = geyser_pb2.SubscribeRequestFilterAccountsFilterLamports
TOKEN_ACCOUNT = bytes(108) + b"\x01" + bytes(56)


def matches(asked: Asked, update: AccountUpdate) -> bool:
    (read,) = read_account_filters({"it": asked}, NO_LIMITS.accounts)
    return read.matches(update)


@pytest.mark.parametrize(
    ("asked", "update", "matches_update"),
    [
        (Asked(), account_update(), True),
        (Asked(account=[str(KEYS[0]), str(KEYS[1])]), account_update(KEYS[1]), True),
        (Asked(account=[str(KEYS[0])]), account_update(KEYS[1]), False),
        (Asked(owner=[str(KEYS[5]), str(KEYS[6])]), account_update(owner=KEYS[6]), True),
        (Asked(owner=[str(KEYS[5])]), account_update(owner=KEYS[6]), False),
        (Asked(account=[str(KEYS[0])], owner=[str(KEYS[5])]), account_update(KEYS[0], KEYS[6]), False),
        (Asked(nonempty_txn_signature=True), account_update(), True),
        (Asked(nonempty_txn_signature=True), account_update(signature=None), False),
        (Asked(nonempty_txn_signature=False), account_update(), False),
        (Asked(nonempty_txn_signature=False), account_update(signature=None), True),
        (Asked(filters=[State(datasize=3)]), account_update(data=b"abc"), True),
        (Asked(filters=[State(datasize=3)]), account_update(data=b"abcd"), False),
        (Asked(filters=[State(datasize=0)]), account_update(), True),
        (Asked(filters=[State(token_account_state=True)]), account_update(data=TOKEN_ACCOUNT), True),
        (Asked(filters=[State(token_account_state=True)]), account_update(data=bytes(165)), False),
        (Asked(filters=[State(token_account_state=True)]), account_update(data=b"\x01" * 82), False),
        # A closed account is an empty one of the system program.
        (Asked(owner=[str(TOKEN_PROGRAM)]), closed_update(), False),
        (Asked(owner=[str(SYSTEM_PROGRAM)]), closed_update(), True),
        (Asked(filters=[State(lamports=Lamports(eq=0))]), closed_update(), True),
        (Asked(account=[str(KEYS[0])]), closed_update(KEYS[0]), True),
    ],
)
def test_each_criterion_alone(asked: Asked, update: AccountUpdate, matches_update: bool) -> None:
    """A list holds if one member matches; all criteria must hold."""
    assert matches(asked, update) is matches_update


@pytest.mark.parametrize(("how", "holds"), [("eq", (5,)), ("ne", (4, 6)), ("lt", (4,)), ("gt", (6,))])
def test_lamports_are_compared_with_the_value(how: str, holds: tuple[int, ...]) -> None:
    """Each operator compares the account's lamports with the value: `lt 5` means fewer than 5."""
    asked = Asked(filters=[State(lamports=Lamports(**{how: 5}))])
    assert [value for value in (4, 5, 6) if matches(asked, account_update(lamports=value))] == list(holds)


def test_two_comparisons_make_a_range() -> None:
    """Comparisons of one filter must all hold."""
    asked = Asked(filters=[State(lamports=Lamports(gt=4)), State(lamports=Lamports(lt=7))])
    assert [value for value in range(10) if matches(asked, account_update(lamports=value))] == [5, 6]


@given(data=st.binary(max_size=40), offset=st.integers(0, 45), wanted=st.binary(max_size=8))
def test_memcmp_compares_the_bytes_at_the_offset(data: bytes, offset: int, wanted: bytes) -> None:
    """All three encodings work; bytes beyond the end never match, and an empty comparison matches only inside."""
    expected = offset + len(wanted) <= len(data) and data[offset:].startswith(wanted)
    for memcmp in (
        Memcmp(offset=offset, bytes=wanted),
        Memcmp(offset=offset, base58=base58.b58encode(wanted).decode()),
        Memcmp(offset=offset, base64=base64.b64encode(wanted).decode()),
    ):
        assert matches(Asked(filters=[State(memcmp=memcmp)]), account_update(data=data)) is expected


some_keys = st.lists(st.sampled_from(KEYS), max_size=3)


@given(
    accounts=some_keys,
    owners=some_keys,
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
    asked = Asked(account=list(map(str, accounts)), owner=list(map(str, owners)), nonempty_txn_signature=signature)
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
    assert matches(asked, update) is wanted


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Asked(account=["no key"]), "Invalid Base58 string"),
        (Asked(owner=["1111"]), "String is the wrong size"),
        (Asked(filters=[State(datasize=1)] * 5), "Too many filters provided; max 4"),
        (Asked(filters=[State(datasize=1)] * 2), "datasize used more than once"),
        (Asked(filters=[State(token_account_state=False)]), "token_account_state only allowed to be true"),
        (Asked(filters=[State()]), "filter should be defined"),
        (Asked(filters=[State(memcmp=Memcmp(offset=1))]), "data for memcmp should be defined"),
        (Asked(filters=[State(memcmp=Memcmp(bytes=bytes(129)))]), "data too large"),
        (Asked(filters=[State(memcmp=Memcmp(base58="1" * 176))]), "data too large"),
        (Asked(filters=[State(memcmp=Memcmp(base64="A" * 173))]), "data too large"),
        (Asked(filters=[State(memcmp=Memcmp(base58="0OIl"))]), "invalid base58"),
        (Asked(filters=[State(memcmp=Memcmp(base64="*"))]), "invalid base64"),
        (Asked(filters=[State(lamports=Lamports())]), "cmp for lamports should be defined"),
    ],
)
def test_invalid_filters_are_refused(asked: Asked, text: str) -> None:
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
def test_limits_are_enforced(limits: AccountLimits, text: str) -> None:
    """A filter above a limit is refused."""
    asked = Asked(account=[str(KEYS[0]), str(KEYS[1])], owner=[str(KEYS[2])])
    with pytest.raises(BadFilter, match=text):
        read_account_filters({"it": asked}, limits)


def test_a_full_stream_can_be_forbidden() -> None:
    """Criteria on the contents alone count as a full stream, because they look at every account."""
    asked = Asked(filters=[State(datasize=1)])
    with pytest.raises(BadFilter, match="at least one filter required"):
        read_account_filters({"it": asked}, AccountLimits(any=False))
