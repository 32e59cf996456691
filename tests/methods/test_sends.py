"""What is asked of the methods that send: fully signed transactions, in either encoding, before anything is charged."""

import base64

import base58
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message, MessageV1
from solders.transaction import Transaction, VersionedTransaction

from actors.methods.sends import RaceQuestion, SendStatusQuestion, SmartSendQuestion
from tests.methods.asking import asked, refused

PAYER = Keypair.from_seed(bytes(31) + b"\x01")
RAW = bytes(Transaction([PAYER], Message([], PAYER.pubkey()), Hash.default()))
V1 = bytes(VersionedTransaction(MessageV1.try_compile(PAYER.pubkey(), [], Hash.default()), [PAYER]))
BASE64, BASE58 = base64.b64encode(RAW).decode(), base58.b58encode(RAW).decode()


@pytest.mark.parametrize("text", [BASE64, BASE58])
def test_either_encoding_is_taken_where_none_is_named(text):
    """The interface names none for sendSmartTransaction, and base64 for sendAndConfirm."""
    assert asked("sendAndConfirm", text) == RaceQuestion(BASE64, None)
    assert asked("sendSmartTransaction", text) == SmartSendQuestion(BASE64, False)


def test_an_encoding_that_is_named_is_the_one():
    assert asked("sendAndConfirm", BASE58, {"encoding": "base58"}) == RaceQuestion(BASE64, None)
    assert "transaction" in refused("sendAndConfirm", BASE58, {"encoding": "base64"})


def test_a_preflight_is_made_only_when_it_is_asked_for():
    """Interface: skipPreflight is true by default here."""
    for config, preflight in (
        ({"skipPreflight": True}, None),
        ({"skipPreflight": None}, None),
        ({"skipPreflight": False}, "confirmed"),
        ({"skipPreflight": False, "preflightCommitment": "processed"}, "processed"),
    ):
        assert asked("sendAndConfirm", BASE64, config).preflight == preflight


def test_a_smart_send_may_simulate_and_name_an_urgency():
    config = {"simulate": True, "priority_fee_urgency": "critical"}
    assert asked("sendSmartTransaction", BASE64, config) == SmartSendQuestion(BASE64, True)
    assert "priority_fee_urgency" in refused("sendSmartTransaction", BASE64, {"priority_fee_urgency": "fast"})


@pytest.mark.parametrize(
    ("method", "config", "said"),
    [
        ("sendSmartTransaction", {"simulat": True}, "simulat is none of simulate, priority_fee_urgency"),
        ("sendSmartTransaction", {"simulate": True, "skipPreflight": False}, "skipPreflight is none of"),
        ("sendSmartTransaction", {"x\ny" * 999: None}, "x?yx?y"),
        ("sendSmartTransaction", {"simulate": "true"}, "simulate: wanted true or false"),
        ("sendSmartTransaction", {"priority_fee_urgency": ["high"]}, "priority_fee_urgency"),
        ("sendSmartTransaction", ["simulate"], "must be an object"),
        ("sendAndConfirm", {"skipPrefligth": False}, "skipPrefligth is none of encoding, skipPreflight"),
        ("sendAndConfirm", {"skipPreflight": 0}, "skipPreflight: wanted true or false"),
        ("sendAndConfirm", {"preflightCommitment": {}}, "preflightCommitment"),
    ],
)
def test_an_option_that_is_unknown_or_of_a_wrong_type_is_refused_free(method, config, said):
    """A misspelt `simulate` would send, for ever, what its caller wanted to try: -32602 before anything is charged."""
    assert said in refused(method, BASE64, config)


@pytest.mark.parametrize("method", ["sendAndConfirm", "sendSmartTransaction"])
@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (RAW[:1] + bytes(64) + RAW[65:], "signature 1 of 1 is missing"),
        (RAW[:1] + bytes([RAW[1] ^ 1]) + RAW[2:], "signature 1 of 1 is not valid"),
        (b"\0" + RAW[65:], "0 signatures, its header asks for 1"),
        (V1[:-1] + bytes([V1[-1] ^ 1]), "signature 1 of 1 is not valid"),
        (RAW + b"\0", "not one transaction"),
        (b"\x01" + bytes(1_232), "at most 1232"),
    ],
)
def test_a_corrupt_or_missing_signature_is_refused_free(method, raw, said):
    """Interface: verified before billing; -32602, no charge."""
    assert said in refused(method, base64.b64encode(raw).decode())


@pytest.mark.parametrize("value", [5, None, ["x"], {}])
@pytest.mark.parametrize("method", ["sendAndConfirm", "sendSmartTransaction", "sendTransaction", "simulateTransaction"])
def test_a_transaction_that_is_no_string_is_refused_free(method, value):
    assert "transaction" in refused(method, value)


def test_more_signers_than_accounts_are_refused_free():
    """Its header and its signatures agree, and nobody could have signed."""
    header = 1 + 64
    forged = b"\x02" + RAW[1:header] + RAW[1:header] + b"\x02" + RAW[header + 1 :]
    assert "more signatures than it has accounts" in refused("sendAndConfirm", base64.b64encode(forged).decode())


def test_a_status_is_asked_by_signature():
    text = base58.b58encode(bytes(range(64))).decode()
    assert asked("getSendStatus", text) == SendStatusQuestion(text)
    assert "signature" in refused("getSendStatus", "x")
    assert "signature" in refused("getSendStatus")
