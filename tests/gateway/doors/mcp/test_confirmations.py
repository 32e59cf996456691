"""The state of a confirmation: for one account, one call and a short time; and what a person is asked."""

import base64
import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from actors.gateway.calls.admission import AdmittedCall, admit
from actors.gateway.calls.jsonrpc import Call, parse
from actors.gateway.doors.mcp import confirmations
from actors.gateway.doors.mcp.confirmations import NONCE_BYTES, SECONDS, Confirmed, States, Unasked

STATES = States(b"s" * 32)
NONCE = bytes(range(NONCE_BYTES))
PAYER = Keypair.from_seed(bytes(32))
MINT = "So11111111111111111111111111111111111111112"
YES = {"confirm": {"action": "accept", "content": {"confirm": True}}}


def sent(lamports: int = 1) -> str:
    give = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=Pubkey.new_unique(), lamports=lamports))
    message = MessageV0.try_compile(PAYER.pubkey(), [give], [], Hash.default())
    return base64.b64encode(bytes(VersionedTransaction(message, [PAYER]))).decode()


def admitted(method: str, *params: Any) -> AdmittedCall:
    call = parse(orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}))
    assert isinstance(call, Call)
    found = admit(call)
    assert isinstance(found, AdmittedCall), found
    return found


def test_a_state_is_good_for_its_own_subject_until_it_is_too_late() -> None:
    """MRTR, server requirements 4 and 5: principal, request and expiry are verified."""
    state = STATES.make(b"subject", 1_000, NONCE)
    assert STATES.decide(state, YES, b"subject", 1_000 + SECONDS) == Confirmed(NONCE)
    assert STATES.decide(state, YES, b"subject", 1_001 + SECONDS) is confirmations.TOO_LATE
    assert STATES.decide(state, YES, b"another", 1_000) is confirmations.FOREIGN_STATE
    assert States(b"t" * 32).decide(state, YES, b"subject", 1_000) is confirmations.FOREIGN_STATE
    assert STATES.decide(None, YES, b"subject", 1_000) == Unasked(), "an answer without its question is none"


@given(place=st.integers(0, 69), character=st.sampled_from("AZaz09-_="))
def test_no_changed_state_is_taken(place: int, character: str) -> None:
    """But for the spelling of the last character, whose lowest bits are no part of the bytes."""
    state = STATES.make(b"subject", 1_000, NONCE)
    changed = state[:place] + character + state[place + 1 :]
    if len(state) - 1 > place and changed != state:
        assert STATES.decide(changed, YES, b"subject", 1_000) is confirmations.FOREIGN_STATE


@pytest.mark.parametrize("state", ["", "=", "é", "a" * 70, "A" * 10_000, "AAAA"])
def test_what_is_no_state_is_refused(state: str) -> None:
    assert STATES.decide(state, YES, b"subject", 0) is confirmations.FOREIGN_STATE


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"action": "accept", "content": {"confirm": True}}, Confirmed(NONCE)),
        ({"action": "accept", "content": {"confirm": True, "more": 1}}, Confirmed(NONCE)),
        ({"action": "accept", "content": {"confirm": False}}, confirmations.DECLINED),
        ({"action": "decline"}, confirmations.DECLINED),
        ({"action": "cancel"}, confirmations.DECLINED),
        ({"action": "accept", "content": {"confirm": "true"}}, Unasked()),
        ({"action": "accept", "content": {"confirm": 1}}, Unasked()),
        ({"action": "accept", "content": {}}, Unasked()),
        ({"action": "accept"}, Unasked()),
        ({"action": "yes", "content": {"confirm": True}}, Unasked()),
        ({}, Unasked()),
        ("yes", Unasked()),
        (None, Unasked()),
    ],
)
def test_only_a_yes_confirms_and_what_is_missing_is_asked_for_again(answer: Any, verdict: Any) -> None:
    state = STATES.make(b"subject", 1_000, NONCE)
    assert STATES.decide(state, {"confirm": answer, "other": {"action": "accept"}}, b"subject", 1_000) == verdict


def test_a_subject_is_the_account_the_call_and_the_key() -> None:
    first, second = sent(1), sent(2)
    calls = [admitted("sendAndConfirm", one) for one in (first, second)]
    calls.append(admitted("sendTransaction", first, {"encoding": "base64"}))
    subjects = [
        confirmations.subject_of(account, call, key)
        for account, call, key in itertools.product(
            (b"a", b"ab"),
            (
                admitted("sendAndConfirm", first),
                admitted("sendAndConfirm", second),
                admitted("sendTransaction", first, {"encoding": "base64"}),
            ),
            (None, b"", b"k"),
        )
    ]
    assert len(set(subjects)) == len(subjects) == 18


@pytest.mark.parametrize(
    ("capabilities", "asks"),
    [
        ({}, False),
        ({"elicitation": {}}, True),
        ({"elicitation": {"form": {}}}, True),
        ({"elicitation": {"form": {}, "url": {}}}, True),
        ({"elicitation": {"url": {}}}, False),
        ({"elicitation": None}, False),
        ({"elicitation": []}, False),
        ({"sampling": {}}, False),
    ],
)
def test_nobody_is_asked_who_cannot_show_a_form(capabilities: Any, asks: bool) -> None:
    """Elicitation, "Capabilities": an empty one means form mode."""
    assert confirmations.can_ask(capabilities) is asks


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("sendAndConfirm", [sent()], ("Send transaction", str(PAYER.pubkey()), "1" * 32)),
        ("sendSmartTransaction", [sent()], ("Send transaction", str(PAYER.pubkey()))),
        ("sendTransaction", [sent(), {"encoding": "base64"}], ("Send transaction",)),
        ("sendBundle", [[sent(1), sent(2)], {"encoding": "base64"}], ("2 transactions", "1. Send", "2. Send")),
        (
            "executeSnipe",
            [{"mint": MINT, "amount_sol": 0.1, "slippage_bps": 250}],
            ("buys", MINT, "0.100000000 SOL", "2.5 %"),
        ),
        ("executeSell", [{"mint": MINT, "token_amount": 7}], ("sells 7 base units", MINT, "5 %")),
    ],
)
def test_the_question_says_what_is_done_and_what_it_costs(
    method: str, params: list[Any], words: tuple[str, ...]
) -> None:
    """In form mode, with one flat field, which has no default: the person has to say yes."""
    (request,) = confirmations.input_requests(admitted(method, *params), "2 credits").values()
    assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "form")
    message, schema = request["params"]["message"], request["params"]["requestedSchema"]
    assert message.endswith(" Costs 2 credits.")
    for word in words:
        assert word in message
    assert schema["type"] == "object" and schema["required"] == ["confirm"]
    assert schema["properties"]["confirm"]["type"] == "boolean" and "default" not in schema["properties"]["confirm"]
