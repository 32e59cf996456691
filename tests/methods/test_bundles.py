"""What the block engine is asked: signed transactions, at most five, and ids of bundles."""

import base64

import base58
import msgspec
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import Transaction

from actors.methods.bundles import RULES, BundleQuestion, BundleStatusQuestion, RelayedSendQuestion
from actors.methods.values import InvalidError
from tests.methods.asking import a_transfer, asked, refused, text

PAYER = Keypair.from_seed(bytes(31) + b"\x01")
RAW = bytes(Transaction([PAYER], Message([], PAYER.pubkey()), Hash.default()))
UNSIGNED = RAW[:1] + bytes(64) + RAW[65:]
BASE64, BASE58 = base64.b64encode(RAW).decode(), base58.b58encode(RAW).decode()


@pytest.mark.parametrize("config", [[], [None], [{}], [{"encoding": None}]])
def test_either_encoding_becomes_base64(config):
    """The interface names none; the engine's default is base58, which it calls deprecated."""
    sent = RULES["sendBundle"]([[BASE64, BASE58], *config], False)
    assert msgspec.json.decode(sent, type=BundleQuestion) == BundleQuestion((BASE64, BASE64))


def test_an_encoding_that_is_named_is_the_one():
    assert RULES["sendBundle"]([[BASE58], {"encoding": "base58"}], False)
    with pytest.raises(InvalidError, match="transaction 1"):
        RULES["sendBundle"]([[BASE64], {"encoding": "base58"}], False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "missing"),
        ([BASE64], "list of 1 to 5"),
        ([[]], "list of 1 to 5"),
        ([[BASE64] * 6], "list of 1 to 5"),
        ([[BASE64, 7]], "transaction 2"),
        ([[base64.b64encode(UNSIGNED).decode()]], "signature 1 of 1 is missing"),
        ([[BASE64], {"encoding": "hex"}], "encoding"),
        ([[BASE64], {}, 1], "at most 2"),
    ],
)
def test_a_bundle_that_cannot_land_is_refused(arguments, said):
    """Before anything is held."""
    with pytest.raises(InvalidError, match=said):
        RULES["sendBundle"](arguments, False)


@pytest.mark.parametrize("bundle_only", [False, True])
def test_a_transaction_may_have_to_land_as_a_bundle(bundle_only):
    sent = RULES["sendTransaction"]([BASE64, {"encoding": "base64"}], bundle_only)
    assert msgspec.json.decode(sent, type=RelayedSendQuestion) == RelayedSendQuestion(BASE64, bundle_only)


@pytest.mark.parametrize("method", ["getBundleStatuses", "getInflightBundleStatuses"])
def test_states_are_asked_for_up_to_five_bundles(method):
    """The form of an id is the engine's matter."""
    sent = RULES[method]([["a" * 64, "b"]], False)
    assert msgspec.json.decode(sent, type=BundleStatusQuestion) == BundleStatusQuestion(("a" * 64, "b"))
    for wrong in ([], [[]], [["a"] * 6], ["a"], [[1]], [["é"]], [["a" * 129]], [["a"], 1]):
        with pytest.raises(InvalidError):
            RULES[method](wrong, False)


def test_tip_accounts_take_nothing():
    """Or one null, as jito-py-rpc sends it."""
    assert RULES["getTipAccounts"]([], False) == RULES["getTipAccounts"]([None], False)
    with pytest.raises(InvalidError):
        RULES["getTipAccounts"](["a"], False)


def test_a_bundle_is_sent_under_the_nodes_own_name():
    """Decisions, "Parameters of simulateBundle": `transactions` becomes `encodedTransactions`; the configuration is
    passed on."""
    texts = [text(a_transfer(1)), text(a_transfer(2))]
    config = {"preExecutionAccountsConfigs": [None, None], "postExecutionAccountsConfigs": [None, None]}
    assert asked("simulateBundle", {"transactions": texts}) == [{"encodedTransactions": texts}]
    assert asked("simulateBundle", {"encodedTransactions": texts}) == [{"encodedTransactions": texts}]
    assert asked("simulateBundle", {"transactions": texts}, config) == [{"encodedTransactions": texts}, config]
    assert asked("simulateBundle", {"transactions": texts}, None) == [{"encodedTransactions": texts}]


def test_a_bundle_ends_at_twenty_transactions():
    """The node's limit."""
    texts = [text(a_transfer(number)) for number in range(1, 22)]
    asked("simulateBundle", {"transactions": texts[:20]})
    assert "at most 20" in refused("simulateBundle", {"transactions": texts})


_ONE = text(a_transfer())
_CONFIGS = {"preExecutionAccountsConfigs": [None], "postExecutionAccountsConfigs": [None]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "missing"),
        ([[_ONE]], "bare array"),
        ([_ONE], "must be"),
        ([{}], "must be"),
        ([{"transactions": []}], "at least 1"),
        ([{"transactions": [_ONE], "encodedTransactions": [_ONE]}], "must be"),
        ([{"transactions": [_ONE, _ONE]}], "twice"),
        ([{"transactions": ["AAAA"]}], "not one transaction"),
        ([{"transactions": ["?"]}], "not valid base64"),
        ([{"transactions": [5]}], "wanted a string"),
        ([{"transactions": [_ONE]}, {}], "preExecutionAccountsConfigs is missing"),
        ([{"transactions": [_ONE]}, {**_CONFIGS, "preExecutionAccountsConfigs": []}], "one entry for each"),
        ([{"transactions": [_ONE]}, {**_CONFIGS, "transactionEncoding": "base58"}], "none of base64"),
        ([{"transactions": [_ONE]}, {**_CONFIGS, "replaceRecentBlockhash": True}], "skipSigVerify"),
    ],
)
def test_a_bundle_that_the_node_would_refuse_is_refused_free_of_charge(arguments, said):
    """Interface, rule 6, and the node's own rules."""
    assert said in refused("simulateBundle", *arguments)
