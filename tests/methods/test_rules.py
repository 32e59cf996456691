import base64

import base58
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction, VersionedTransaction

from actors.errors import Err, Refusal
from actors.methods import own as params_own
from actors.methods import sends as params_sends
from actors.methods import trades as params_trades
from actors.methods.catalog import METHODS, Availability
from actors.methods.rules import RULES, check
from tests.gateway.boundaries import BOUNDARIES, OPTIONAL

KEY = "So11111111111111111111111111111111111111112"
SIGNATURE = "5" * 87
PAYER = Keypair.from_seed(bytes(31) + b"\x01")


def checked(method: str, *arguments: object, raw: bytes | None = None) -> bytes:
    raw = orjson.dumps(list(arguments)) if raw is None else raw
    result = check(method, orjson.loads(raw), raw)
    assert not isinstance(result, Refusal), result.detail
    return result


def refused(method: str, *arguments: object) -> str:
    result = check(method, list(arguments), orjson.dumps(list(arguments)))
    assert isinstance(result, Refusal), result
    assert result.err is Err.INVALID_PARAMS
    return result.detail


def a_transaction(size: int = 0) -> bytes:
    """A signed transfer, or a parsable transaction that has at least `size` bytes."""
    instruction = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=PAYER.pubkey(), lamports=1))
    message = MessageV0.try_compile(PAYER.pubkey(), [instruction] * max(1, size // 15), [], Hash.default())
    return bytes(VersionedTransaction(message, [PAYER]))


BUILT = {row.name for row in METHODS.values() if row.availability in (Availability.NODE, Availability.COMPOSED)}


def test_every_method_of_a_node_has_a_rule_and_no_other_has():
    """A method without a rule would sell certain failures; a rule under a misspelt name would check nothing."""
    assert {row.name for row in METHODS.values() if row.availability is Availability.NODE} <= set(RULES)
    assert set(RULES) <= BUILT | {"getAssetsByOwner", "getTransactionHistory", "sendBundle"}


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


OWN = {*params_own.RULES, *params_sends.RULES, *params_trades.RULES, "sendBundle", "rpc.discover"}


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


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (b'["%b",{"mint":"%b"}]', b'["%b",{"mint":"%b"},{"encoding":"base64"}]'),
        (b'[ "%b" , {"mint": "%b"} ]\n', b'[ "%b" , {"mint": "%b"} ,{"encoding":"base64"}]'),
        (b'["%b", {"mint" :"%b"},null]', b'["%b",{"mint" :"%b"},{"encoding":"base64"}]'),
        (b'["%b",{"mint":"%b"},{"encoding":"jsonParsed"}]', b'["%b",{"mint":"%b"},{"encoding":"jsonParsed"}]'),
        (b'["%b",{"mint":"%b"},{}]', b'["%b",{"mint":"%b"},{}]'),
    ],
)
def test_token_accounts_by_owner_gets_base64_when_no_configuration_is_given(raw, sent):
    """Interface rule 4: only where the third parameter is omitted; everything else keeps its bytes."""
    keys = (KEY.encode(), KEY.encode())
    assert checked("getTokenAccountsByOwner", raw=raw % keys) == sent % keys


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (b"[5]", b'[5,{"maxSupportedTransactionVersion":0}]'),
        (b"[ 5\n]", b'[ 5\n,{"maxSupportedTransactionVersion":0}]'),
        (b"[5,null]", b'[5,{"maxSupportedTransactionVersion":0}]'),
        (b'[5,"base64"]', b'[5,{"encoding":"base64","maxSupportedTransactionVersion":0}]'),
        (b"[5,{}]", b'[5,{"maxSupportedTransactionVersion":0}]'),
        (b'[5,{"rewards":false}]', b'[5,{"rewards":false,"maxSupportedTransactionVersion":0}]'),
        (b'[5,{"maxSupportedTransactionVersion":null}]', b'[5,{"maxSupportedTransactionVersion":0}]'),
        (b'[5, {"maxSupportedTransactionVersion":1} ]', b'[5, {"maxSupportedTransactionVersion":1} ]'),
        (b'[5,{"maxSupportedTransactionVersion":0}]', b'[5,{"maxSupportedTransactionVersion":0}]'),
    ],
)
def test_transaction_version_zero_is_put_in_where_it_is_left_out(raw, sent):
    """Decisions, "maxSupportedTransactionVersion": to the node, leaving it out means legacy only; the interface's
    default is 0."""
    assert checked("getBlock", raw=raw) == sent
    quoted = b'"' + SIGNATURE.encode() + b'"'
    assert checked("getTransaction", raw=raw.replace(b"5", quoted, 1)) == sent.replace(b"5", quoted, 1)


@pytest.mark.parametrize("version", [-1, 256, "0", 0.0, True, [0]])
def test_a_transaction_version_is_a_small_whole_number(version):
    """Anything else would be refused by the node, for money."""
    assert "maxSupportedTransactionVersion" in refused("getBlock", 5, {"maxSupportedTransactionVersion": version})


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@given(method=st.sampled_from(sorted(RULES)), arguments=st.lists(JSON, max_size=4))
def test_no_parameters_raise(method, arguments):
    """Every rule answers every JSON array with bytes or a refusal; bytes are JSON again."""
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
