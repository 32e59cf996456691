"""The exact shape of an entry."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

from actors.lookups.endpoints import _MALFORMED
from actors.lookups.history_entry import entry, missing_entry, program_interactions

from .scene import Scene


def listed(scene: Scene):
    return scene.local.call("getSignaturesForAddress", str(scene.anna.pubkey()))[0]


def a_gift(giver: Keypair, taker: Pubkey, lamports: int):
    return transfer(TransferParams(from_pubkey=giver.pubkey(), to_pubkey=taker, lamports=lamports))


def test_an_entry_has_the_interfaces_fields(scene: Scene):
    """Interface, "getTransactionHistory result"."""
    record = scene.land(scene.anna, a_gift(scene.anna, scene.bert.pubkey(), 2_000_000))
    transaction = scene.transaction(record)
    anna, bert = str(scene.anna.pubkey()), str(scene.bert.pubkey())
    assert entry(anna, listed(scene), transaction) == {
        "signature": str(record.signature),
        "found": True,
        "slot": record.slot,
        "block_time": transaction["blockTime"],
        "fee": 5_000,
        "error": None,
        "enriched": {
            "token_transfers": [],
            "sol_transfers": [{"from": anna, "to": bert, "lamports": 2_000_000}],
            "program_interactions": [
                {
                    "program_id": "11111111111111111111111111111111",
                    "name": "system",
                    "instructions": ["transfer"],
                    "instruction_count": 1,
                }
            ],
            "summary": "1 SOL transfer, programs: system",
        },
        "explanation": f"{anna[:4]}..{anna[-4:]} sent 0.002 SOL to {bert[:4]}..{bert[-4:]}.",
    }


def test_a_failed_entry_carries_its_error(scene: Scene):
    """The error is the node's, and no transfer is listed."""
    record = scene.land(scene.anna, a_gift(scene.anna, scene.bert.pubkey(), 10**15))
    made = entry(str(scene.anna.pubkey()), listed(scene), scene.transaction(record))
    assert made["error"] == {"InstructionError": [0, {"Custom": 1}]}
    assert made["enriched"]["summary"].startswith("failed; ")
    assert made["enriched"]["sol_transfers"] == []


def test_a_missing_entry_has_the_same_fields(scene: Scene):
    """Interface: entries not found included."""
    record = scene.land(scene.anna, a_gift(scene.anna, scene.bert.pubkey(), 1))
    found = entry(str(scene.anna.pubkey()), listed(scene), scene.transaction(record))
    missing = missing_entry(listed(scene))
    assert missing.keys() == found.keys()
    assert missing["enriched"].keys() == found["enriched"].keys()
    assert (missing["found"], missing["fee"], missing["slot"]) == (False, None, record.slot)


def test_token_transfers_are_named_in_full(scene: Scene):
    """Amounts as text of base units, beside the decimal form."""
    mint = scene.mint(6)
    scene.holds(scene.anna, mint, 1_500_000)
    record = scene.land(
        scene.anna, scene.opened(scene.bert, mint), scene.given(scene.anna, scene.bert, mint, 250_000, 6)
    )
    made = entry(str(scene.bert.pubkey()), {"signature": str(record.signature)}, scene.transaction(record))
    assert made["enriched"]["token_transfers"] == [
        {
            "type": "transfer",
            "mint": str(mint),
            "from": str(scene.anna.pubkey()),
            "from_token_account": str(scene.account_of(scene.anna, mint)),
            "to": str(scene.bert.pubkey()),
            "to_token_account": str(scene.account_of(scene.bert, mint)),
            "amount": "250000",
            "decimals": 6,
            "ui_amount_string": "0.25",
        }
    ]
    assert made["explanation"].startswith(f"{str(scene.bert.pubkey())[:4]}..")
    assert " received 0.25 " in made["explanation"]


def test_programs_come_once_in_the_order_of_their_first_call(scene: Scene):
    """Inner calls included, with the instructions that the node could name."""
    mint = scene.mint(6)
    record = scene.land(scene.anna, scene.opened(scene.bert, mint))
    programs = program_interactions(scene.transaction(record))
    assert [row["name"] for row in programs] == ["spl-associated-token-account", "spl-token", "system"]
    assert programs[0]["instructions"] == ["createIdempotent"]
    assert programs[1]["instruction_count"] >= 3


NAMES = """
transaction message accountKeys pubkey instructions innerInstructions index programId program parsed info type
meta err fee preBalances postBalances preTokenBalances postTokenBalances accountIndex mint owner uiTokenAmount amount
decimals source destination lamports slot
"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=8),
    max_leaves=40,
)


def spoiled(value, draw):
    """The same transaction with one value replaced by an arbitrary one."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(value)))
        return value | {key: spoiled(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 9)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], spoiled(value[index], draw), *value[index + 1 :]]
    return draw(JSON)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    scene = Scene(tmp_path_factory.mktemp("chain"))
    mint = scene.mint(6)
    scene.holds(scene.anna, mint, 1_000)
    record = scene.land(scene.anna, scene.opened(scene.bert, mint), scene.given(scene.anna, scene.bert, mint, 5, 6))
    transaction = scene.transaction(record)
    scene.local.close()
    return transaction


@given(data=st.data())
def test_no_transaction_raises_anything_unexpected(whole, data):
    """Threat 33: an entry, or one of the errors that the caller treats as garbage."""
    try:
        orjson.dumps(entry("a", {"signature": "s"}, spoiled(whole, data.draw)))
    except _MALFORMED:
        pass
