"""Which lists are taken, what they cost at most, and what of a bad one the client is told."""

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Err, Refusal
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.doors.bulk import ROWS, admit
from actors.methods.accounts import BulkQuestion
from actors.methods.prices import BULK

KEY = "So11111111111111111111111111111111111111112"
OTHER = "SysvarC1ock11111111111111111111111111111111"
SIGNATURE = "5" * 87
BALANCES, TOKENS, TRANSACTIONS = BULK


def one_of(row):
    return SIGNATURE if row.item == "signature" else KEY


def body(row, items):
    return orjson.dumps({row.items: items})


@pytest.mark.parametrize("row", BULK, ids=lambda row: row.name)
def test_a_list_is_one_hold_of_its_items_prices(row):
    """Interface: 1, 5 and 5 credits an item; one hold for all."""
    admitted = admit(body(row, [one_of(row)]), row)
    assert isinstance(admitted, AdmittedCall)
    assert admitted.plan.ceiling == row.credits_per_item
    (item,) = admitted.plan.items
    assert (item.method, item.ceiling) == (row.name, row.credits_per_item)
    wanted = BulkQuestion((one_of(row),), row.commitments[0])
    assert msgspec.json.decode(admitted.params, type=BulkQuestion) == wanted


@pytest.mark.parametrize("row", BULK, ids=lambda row: row.name)
def test_a_list_may_name_its_commitment(row):
    """Each that its question to the node can have; any other word, type or second name is refused for free."""
    for commitment in row.commitments:
        admitted = admit(orjson.dumps({"commitment": commitment, row.items: [one_of(row)]}), row)
        assert isinstance(admitted, AdmittedCall) and admitted.plan.ceiling == row.credits_per_item
        assert msgspec.json.decode(admitted.params, type=BulkQuestion).commitment == commitment
    for wrong in ["recent", "", None, 1, ["confirmed"], {}] + ["processed"] * (row is TRANSACTIONS):
        refusal = admit(orjson.dumps({row.items: [one_of(row)], "commitment": wrong}), row)
        assert isinstance(refusal, Refusal) and refusal.detail.startswith("commitment: "), wrong
    twice = b'{"%b":["%b"],"commitment":"finalized","commitment":"confirmed"}'
    refusal = admit(twice % (row.items.encode(), one_of(row).encode()), row)
    assert isinstance(refusal, Refusal) and "twice" in refusal.detail


def test_the_paths_and_prices_are_the_published_ones():
    """Interface, "Bulk endpoints"; decisions, bulk list length."""
    assert {path.decode(): (row.items, row.credits_per_item, row.items_max) for path, row in ROWS.items()} == {
        "/bulk/getBalances": ("addresses", 1, 1_000),
        "/bulk/getTokenBalances": ("owners", 5, 100),
        "/bulk/getTransactions": ("signatures", 5, 100),
    }


def test_an_item_that_occurs_twice_is_held_once():
    """It is answered once as well."""
    admitted = admit(body(TOKENS, [OTHER, KEY, OTHER]), TOKENS)
    assert isinstance(admitted, AdmittedCall)
    assert admitted.plan.ceiling == 10
    assert msgspec.json.decode(admitted.params, type=BulkQuestion).items == (OTHER, KEY)


@pytest.mark.parametrize("row", BULK, ids=lambda row: row.name)
def test_a_list_has_its_length(row):
    """Longer is refused before billing, and so is empty."""
    assert isinstance(admit(body(row, [one_of(row)] * row.items_max), row), AdmittedCall)
    for length in (0, row.items_max + 1):
        refusal = admit(body(row, [one_of(row)] * length), row)
        assert isinstance(refusal, Refusal)
        assert refusal.err is Err.INVALID_REQUEST
        assert f"{length} entries" in refusal.detail


def test_a_bad_entry_is_named_by_its_index():
    """The first of them."""
    refusal = admit(body(BALANCES, [KEY, "x", "y"]), BALANCES)
    assert refusal == Refusal(Err.INVALID_REQUEST, "addresses[1]: x is not a base58 public key of 32 bytes")
    refusal = admit(body(TRANSACTIONS, [KEY]), TRANSACTIONS)
    assert isinstance(refusal, Refusal)
    assert refusal.detail.startswith("signatures[0]: ")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"addresses":"x"}',
        b'{"owners":[]}',
        b'{"addresses":null}',
        b'{"addresses":["%b"],"commitment":"x"}' % KEY.encode(),
        b'{"addresses":["%b"],"addresses":["%b"]}' % (KEY.encode(), KEY.encode()),
        b'{"addresses":["%b"]}\xff' % KEY.encode(),
        b'{"addresses":' + b"[" * 100_000,
    ],
)
def test_a_body_that_is_no_list_is_refused(sent):
    """Also one with an option that would be passed over, and one whose list comes twice."""
    refusal = admit(sent, BALANCES)
    assert isinstance(refusal, Refusal)
    assert refusal.err is Err.INVALID_REQUEST


@given(sent=st.binary(max_size=200), row=st.sampled_from(BULK))
def test_no_body_raises(sent, row):
    """Whatever is sent is a list or a refusal."""
    assert isinstance(admit(sent, row), AdmittedCall | Refusal)
