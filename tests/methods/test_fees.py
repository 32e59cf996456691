"""What a fee is asked for."""

import base58
import pytest
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.fees import core
from actors.methods import fees, forms
from actors.methods.fees import EstimateQuestion, FeeQuestion
from tests.methods.asking import KEY, OTHER, a_transfer, asked, refused, text

# --- suggestPriorityFee


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        ([], FeeQuestion("medium", ())),
        ([None], FeeQuestion("medium", ())),
        (["low"], FeeQuestion("low", ())),
        ([{}], FeeQuestion("medium", ())),
        ([{"urgency": "critical"}], FeeQuestion("critical", ())),
        ([{"accounts": []}], FeeQuestion("medium", ())),
        ([{"accounts": [KEY], "urgency": None}], FeeQuestion("medium", (KEY,))),
        ([{"accounts": [KEY] * 128, "urgency": "high"}], FeeQuestion("high", (KEY,) * 128)),
    ],
)
def test_both_forms_of_a_suggestion_are_one_question(arguments, question):
    """Interface: `[<urgency>]` or `[{urgency?, accounts?}]`, medium by default."""
    assert asked("suggestPriorityFee", *arguments) == question


@pytest.mark.parametrize(
    "arguments",
    [
        ["veryHigh"],
        ["LOW"],
        [5],
        [[]],
        [{"urgency": "now"}],
        [{"urgency": 1}],
        [{"accounts": KEY}],
        ["low", {}],
        [{"accounts": [KEY] * 129}],
        [{"accounts": ["x"]}],
    ],
)
def test_a_suggestion_nobody_can_make_is_free(arguments):
    """At most 128 accounts, and one of four urgencies."""
    refused("suggestPriorityFee", *arguments)


def test_the_doors_and_the_rules_know_the_same_urgencies_and_window():
    """They may not import each other, so this holds their two lists together."""
    assert list(core.URGENCIES) == forms.URGENCY.schema["enum"]
    assert core.WINDOW_SLOTS == fees.WINDOW_SLOTS
    named = {name.lower(): percent for name, percent in fees._PRIORITIES.items() if name != "Default"}
    assert {name.lower(): percent for name, percent in core.ESTIMATE_LEVELS.items()} == named


# --- getPriorityFeeEstimate


def estimated(**changes):
    usual = {"accounts": (), "percent": 50, "with_levels": False, "empty_as_zero": False, "lookback_slots": 150}
    return EstimateQuestion(**(usual | changes))


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        ([], estimated()),
        ([{}], estimated()),
        ([{"accountKeys": [KEY, OTHER]}], estimated(accounts=(KEY, OTHER))),
        ([{"accountKeys": [KEY, OTHER] * 250}], estimated(accounts=(KEY, OTHER))),
        ([{"options": {"priorityLevel": "VeryHigh"}}], estimated(percent=95)),
        ([{"options": {"priorityLevel": "Default", "includeVote": False}}], estimated()),
        ([{"options": {"recommended": True}}], estimated(recommended=True)),
        (
            [{"options": {"lookbackSlots": 10, "includeAllPriorityFeeLevels": True}}],
            estimated(lookback_slots=10, with_levels=True),
        ),
        ([{"options": {"lookbackSlots": 300}}], estimated()),
        (
            [{"accountKeys": [KEY], "options": {"evaluateEmptySlotAsZero": True}}],
            estimated(accounts=(KEY,), empty_as_zero=True),
        ),
    ],
)
def test_an_estimate_is_asked_for_as_elsewhere(arguments, question):
    """The request that wallets already send."""
    assert asked("getPriorityFeeEstimate", *arguments) == question


def test_of_a_transaction_the_accounts_count_that_it_writes_to():
    """Its program is read only, so nobody fights over it."""
    transaction = a_transfer()
    keys = [str(key) for key in transaction.message.account_keys]
    in_base64 = {"transaction": text(transaction), "options": {"transactionEncoding": "base64"}}
    in_base58 = {"transaction": base58.b58encode(bytes(transaction)).decode()}
    for given in (in_base64, in_base58):
        assert asked("getPriorityFeeEstimate", given).accounts == tuple(keys[:2])


def test_of_a_transaction_the_places_in_lookup_tables_count_that_it_writes_to():
    """The node is asked for what stands there; a table of accounts that are only read is not."""
    used, read = (AddressLookupTableAccount(Pubkey.new_unique(), [Pubkey.new_unique() for _ in range(9)]) for _ in "ab")
    metas = [AccountMeta(used.addresses[index], False, index > 3) for index in (3, 5, 8)]
    metas.append(AccountMeta(read.addresses[1], False, False))
    payer = Keypair()
    message = MessageV0.try_compile(
        payer.pubkey(), [Instruction(Pubkey.new_unique(), b"", metas)], [used, read], Hash.default()
    )
    given = {"transaction": text(VersionedTransaction(message, [payer])), "options": {"transactionEncoding": "base64"}}
    question = asked("getPriorityFeeEstimate", given)
    assert question.accounts == (str(payer.pubkey()),)
    assert question.tables == ((str(used.key), bytes([5, 8])),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("Medium", "must be an object"),
        ({"accountKeys": [KEY], "transaction": "x"}, "not both"),
        ({"accountKeys": [KEY] * 501}, "at most 500"),
        ({"accounts": [KEY]}, "accounts is none of"),
        ({"transaction": "0OIl"}, "not valid base58"),
        ({"transaction": 5}, "wanted a string"),
        ({"options": {"priorityLevel": "medium"}}, "medium is none of"),
        ({"options": {"lookbackSlots": 0}}, "from 1 to 300"),
        ({"options": {"lookbackSlots": 301}}, "from 1 to 300"),
        ({"options": {"includeVote": True}}, "not offered"),
        ({"options": {"recommended": True, "priorityLevel": "Low"}}, "recommended"),
        ({"options": {"percentile": 3}}, "percentile is none of"),
        ({"options": []}, "options must be an object"),
    ],
)
def test_an_estimate_that_would_mislead_is_refused(given, said):
    """An option that was passed over would show in what its caller pays."""
    assert said in refused("getPriorityFeeEstimate", given)
