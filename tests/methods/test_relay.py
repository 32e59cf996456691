"""What the block engine is asked: signed transactions, at most five, and ids of bundles."""

import base64

import base58
import msgspec
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import Transaction

from actors.methods.questions import BundleQuestion, BundleStatusQuestion, RelayedSendQuestion
from actors.methods.relay import RULES
from actors.methods.values import InvalidError

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
