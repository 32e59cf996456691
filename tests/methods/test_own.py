"""Parameters of composed methods: every form that clients may choose becomes one question, and the rest is refused."""

import base64

import base58
import msgspec
import orjson
import pytest
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.system_program import TransferParams, transfer
from solders.transaction import Transaction

from actors.errors import Err, Refusal
from actors.fees import core
from actors.methods import own as params_own
from actors.methods.questions import AssetsQuestion, EstimateQuestion, FeeQuestion, HistoryQuestion
from actors.methods.rules import check

KEY = "So11111111111111111111111111111111111111112"
OTHER = "SysvarC1ock11111111111111111111111111111111"
SIGNATURE = "5" * 87
PAYER = Keypair.from_seed(bytes(31) + b"\x01")
QUESTIONS = {
    "suggestPriorityFee": FeeQuestion,
    "getPriorityFeeEstimate": EstimateQuestion,
    "getAssetsByOwner": AssetsQuestion,
    "getTransactionHistory": HistoryQuestion,
}


def asked(method, *arguments):
    sent = check(method, list(arguments), orjson.dumps(list(arguments)))
    assert not isinstance(sent, Refusal), sent.detail
    return msgspec.json.decode(sent, type=QUESTIONS[method]) if method in QUESTIONS else orjson.loads(sent)


def refused(method, *arguments):
    verdict = check(method, list(arguments), orjson.dumps(list(arguments)))
    assert isinstance(verdict, Refusal), verdict
    assert verdict.err is Err.INVALID_PARAMS
    return verdict.detail


def a_transfer(number=1):
    instruction = transfer(TransferParams(from_pubkey=PAYER.pubkey(), to_pubkey=Keypair().pubkey(), lamports=number))
    return Transaction([PAYER], Message([instruction], PAYER.pubkey()), Hash.default())


def text(transaction):
    return base64.b64encode(bytes(transaction)).decode()


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
    assert list(core.URGENCIES) == list(params_own._URGENCIES)
    assert core.WINDOW_SLOTS == params_own.WINDOW_SLOTS
    named = {name.lower(): percent for name, percent in params_own._PRIORITIES.items() if name != "Default"}
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
        ([{"options": {"priorityLevel": "VeryHigh"}}], estimated(percent=95)),
        ([{"options": {"priorityLevel": "Default", "includeVote": False}}], estimated()),
        ([{"options": {"recommended": True}}], estimated()),
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("Medium", "must be an object"),
        ({"accountKeys": [KEY], "transaction": "x"}, "not both"),
        ({"accountKeys": [KEY] * 129}, "at most 128"),
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


# --- getAssetsByOwner


@pytest.mark.parametrize(
    "given", [KEY, {"ownerAddress": KEY}, {"owner_address": KEY}, {"owner": KEY}, {"owner": KEY, "ownerAddress": None}]
)
def test_an_owner_is_named_in_any_of_its_forms(given):
    """Interface, rule 5."""
    assert asked("getAssetsByOwner", given) == AssetsQuestion(KEY, 1, 1_000)


def test_assets_come_in_pages():
    """Of 1,000 at most."""
    assert asked("getAssetsByOwner", {"owner": KEY, "page": 2, "limit": 5}) == AssetsQuestion(KEY, 2, 5)
    recent = asked("getAssetsByOwner", {"owner": KEY, "commitment": "confirmed"})
    assert recent == AssetsQuestion(KEY, 1, 1_000, "confirmed")
    refused("getAssetsByOwner", {"owner": KEY, "commitment": "soon"})


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [None],
        [5],
        [[KEY]],
        [{}],
        ["x"],
        [{"owner": "x"}],
        [{"address": KEY}],
        [{"owner": KEY, "limit": 1_001}],
        [{"owner": KEY, "page": 0}],
        [{"owner": KEY, "ownerAddress": OTHER}],
        [KEY, {}],
    ],
)
def test_an_owner_that_cannot_be_told_is_refused(arguments):
    """Two names for two owners leave it open whose assets were wanted."""
    refused("getAssetsByOwner", *arguments)


# --- getTransactionHistory


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        ([KEY], HistoryQuestion(KEY, 10, "confirmed")),
        ([KEY, None], HistoryQuestion(KEY, 10, "confirmed")),
        ([KEY, {"limit": 100}], HistoryQuestion(KEY, 100, "confirmed")),
        ([KEY, {"limit": 1, "before": SIGNATURE}], HistoryQuestion(KEY, 1, "confirmed", SIGNATURE)),
        (
            [KEY, {"until": SIGNATURE, "commitment": "finalized"}],
            HistoryQuestion(KEY, 10, "finalized", None, SIGNATURE),
        ),
    ],
)
def test_history_is_ten_entries_unless_told_otherwise(arguments, question):
    """Interface: limit 10 by default, 100 at most."""
    assert asked("getTransactionHistory", *arguments) == question


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x"],
        [KEY, {"limit": 101}],
        [KEY, {"limit": 0}],
        [KEY, {"limit": "5"}],
        [KEY, 10],
        [KEY, {"before": "x"}],
        [KEY, {"commitment": "processed"}],
        [KEY, {}, {}],
    ],
)
def test_a_history_out_of_bounds_is_refused(arguments):
    """Before it costs 25 credits."""
    refused("getTransactionHistory", *arguments)


# --- simulateBundle


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
