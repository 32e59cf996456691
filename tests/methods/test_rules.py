import base64

import base58
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.message import Message, MessageV0
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction, VersionedTransaction

from actors.methods.catalog import DOCUMENTS, METHODS
from actors.methods.prices import Availability
from actors.methods.rules import NAMED_RULES, RULES, check
from tests.gateway.boundaries import BOUNDARIES, OPTIONAL
from tests.methods.asking import KEY, PAYER, checked, refused


def a_transaction(size: int = 0) -> bytes:
    """A signed transfer, or a parsable transaction that has at least `size` bytes."""
    instruction = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=PAYER.pubkey(), lamports=1))
    message = MessageV0.try_compile(PAYER.pubkey(), [instruction] * max(1, size // 15), [], Hash.default())
    return bytes(VersionedTransaction(message, [PAYER]))


BUILT = {row.name for row in METHODS.values() if row.availability in (Availability.NODE, Availability.COMPOSED)}


def test_every_method_of_a_node_has_a_rule_and_no_other_has():
    """A method without a rule would sell certain failures; a rule under a misspelt name would check nothing."""
    assert {row.name for row in METHODS.values() if row.availability is Availability.NODE} <= set(RULES)
    assert set(RULES) <= BUILT | {"sendBundle"}


def test_bytes_go_to_the_node_as_they_came():
    """Spaces and order are the client's own."""
    assert checked("getSlot", raw=b'[ {"commitment" :"confirmed"} ]') == b'[ {"commitment" :"confirmed"} ]'


@pytest.mark.parametrize(
    "method", ["getAccountInfo", "getBalance", "getTokenAccountBalance", "getTokenSupply", "getSignaturesForAddress"]
)
@pytest.mark.parametrize("key", [None, 7, "", "1" * 31, "1" * 45, "O" * 32, KEY + " ", "é" * 32, [KEY], "1" * 100_000])
def test_a_first_parameter_that_is_no_public_key_is_refused(method, key):
    """A call that the node is bound to refuse costs nothing."""
    assert "public key" in refused(method, key)
    assert len(refused(method, key)) < 200
    assert checked(method, KEY, {"commitment": "confirmed"})


@pytest.mark.parametrize(
    ("method", "good", "bad"),
    [pytest.param(*boundary, id=f"{boundary[0]}-{number}") for number, boundary in enumerate(BOUNDARIES)],
)
def test_the_nodes_own_limits_are_checked_free_of_charge(method, good, bad):
    """Each limit lets its boundary pass and refuses what lies just beyond it."""
    checked(method, *good)
    refused(method, *bad)


OWN = {row.name for row in METHODS.values() if row.rule and row.availability is not Availability.NODE}
OWN.add("simulateBundle")


def test_every_method_of_a_node_has_a_boundary():
    """The list of boundaries is as long as the table of methods."""
    assert {boundary[0] for boundary in BOUNDARIES} == set(RULES) - OWN


@pytest.mark.parametrize("method", sorted(set(RULES) - OWN))
def test_one_parameter_more_than_the_node_takes_is_refused(method):
    """Nodes count them: "No parameters were expected", "Expected from 1 to 2 parameters"."""
    assert "parameters, " in refused(method, *[None] * 4)


@pytest.mark.parametrize(
    "method", sorted({boundary[0] for boundary in BOUNDARIES if boundary[1]} - set(OPTIONAL.split()))
)
def test_a_required_parameter_that_is_missing_is_named(method):
    """The refusal says which."""
    assert "is missing" in refused(method)


@pytest.mark.parametrize("method", sorted(OPTIONAL.split()))
def test_what_may_be_left_out_may_be_null(method):
    """As in the node's own optional parameters."""
    checked(method)
    checked(method, None)


@pytest.mark.parametrize("method", ["sendTransaction", "simulateTransaction"])
def test_a_transaction_goes_through_in_either_encoding_unchanged(method):
    """base58 is the node's default; base64 is named in the configuration."""
    raw = a_transaction()
    legacy = bytes(Transaction([PAYER], Message([], PAYER.pubkey()), Hash.default()))
    for transaction in (raw, legacy):
        checked(method, base58.b58encode(transaction).decode())
        checked(method, base58.b58encode(transaction).decode(), {"encoding": "binary"})
        checked(method, base64.b64encode(transaction).decode(), {"encoding": "base64", "skipPreflight": True})


@pytest.mark.parametrize(
    ("text", "config", "said"),
    [
        (7, {}, "wanted a string"),
        ("", {}, "not one transaction"),
        ("0OIl", {}, "not valid base58"),
        ("1" * 1_684, {}, "at most 1683"),
        ("A" * 5_465, {"encoding": "base64"}, "at most 5464"),
        ("AAA", {"encoding": "base64"}, "not valid base64"),
        ("AAAA", {"encoding": "base64"}, "not one transaction"),
        ("AAAA", {"encoding": "json"}, "must be base58 or base64"),
        ("AAAA", "base64", "must be an object"),
        (base64.b64encode(a_transaction() + b"\0").decode(), {"encoding": "base64"}, "not one transaction"),
        (base64.b64encode(a_transaction(1_300)).decode(), {"encoding": "base64"}, "at most 1232"),
        (base64.b64encode(b"\x81" + bytes(4_096)).decode(), {"encoding": "base64"}, "at most"),
        (base64.b64encode(b"\x81" + bytes(3_000)).decode(), {"encoding": "base64"}, "not one transaction"),
    ],
)
def test_what_is_no_transaction_is_refused_before_the_node_sees_it(text, config, said):
    """Size, encoding and form; legacy and v0 end at 1,232 bytes, v1 at 4,096."""
    assert said in refused("sendTransaction", text, config)


@pytest.mark.parametrize("config", [{}, {"skipPreflight": True}])
def test_a_send_that_is_not_fully_signed_is_refused_before_the_node_sees_it(config):
    """With skipPreflight the node would pass it on, and it could never land; a simulation may do without."""
    raw = a_transaction()
    for wrong in (raw[:1] + bytes(64) + raw[65:], raw[:1] + bytes([raw[1] ^ 1]) + raw[2:], b"\0" + raw[65:]):
        text = base64.b64encode(wrong).decode()
        assert "signature" in refused("sendTransaction", text, {"encoding": "base64", **config})
        checked("simulateTransaction", text, {"encoding": "base64"})


@pytest.mark.parametrize("method", sorted(set(RULES) - set(NAMED_RULES)))
def test_a_method_that_takes_positions_says_so(method):
    """Parameters by name are refused, with the names of the positions, and before any charge."""
    told = refused(method, commitment="confirmed")
    names = ", ".join(parameter.name for parameter in DOCUMENTS[method].parameters)
    assert told == f'"params" must be an array: {method} takes its parameters by position, as [{names}]'


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("suggestPriorityFee", {"urgency": "high", "accounts": [KEY]}),
        ("getPriorityFeeEstimate", {"accountKeys": [KEY], "options": {"priorityLevel": "High"}}),
        ("executeSnipe", {"mint": KEY, "amount_sol": 0.5}),
        ("executeSell", {"mint": KEY, "token_amount": 12345678901234567}),
        ("simulateBundle", {"transactions": [base64.b64encode(a_transaction()).decode()]}),
    ],
)
def test_an_object_means_the_same_by_name_and_by_position(method, given):
    """The exact digits of an amount too."""
    by_name = check(method, given, orjson.dumps(given))
    assert isinstance(by_name, bytes) and by_name == checked(method, given)
    assert refused(method, mint=7, urgency=7, accountKeys=7, transactions=7)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


NAMES = st.sampled_from(
    ("ownerAddress", "owner", "id", "ids", "mint", "options", "page", "cursor", "sortBy", "urgency")
)


@given(
    method=st.sampled_from(sorted(RULES)),
    arguments=st.lists(JSON, max_size=4) | st.dictionaries(NAMES | st.text(max_size=10), JSON, max_size=4),
)
def test_no_parameters_raise(method, arguments):
    """Every rule answers every JSON array or object with bytes or a refusal; bytes are JSON again."""
    raw = orjson.dumps(arguments, option=orjson.OPT_PASSTHROUGH_SUBCLASS) if _fits(arguments) else b"[]"
    result = check(method, orjson.loads(raw), raw)
    if isinstance(result, bytes):
        orjson.loads(result)


def _fits(arguments: object) -> bool:
    try:
        orjson.dumps(arguments)
    except TypeError:
        return False
    return True
