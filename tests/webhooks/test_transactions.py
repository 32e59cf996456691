"""Both forms of one transaction are read alike, and nothing that a node sends raises."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.geyser_proto import geyser_pb2
from actors.units import base58_text
from actors.webhooks.transactions import from_block, from_stream

KEYS = [bytes([number]) * 32 for number in range(1, 6)]
NAMES = [base58_text(key) for key in KEYS]
SIGNATURE = b"s" * 64


def streamed(failed: bool = False, vote: bool = False) -> geyser_pb2.SubscribeUpdateTransaction:
    update = geyser_pb2.SubscribeUpdateTransaction(slot=9)
    info = update.transaction
    info.signature, info.is_vote = SIGNATURE, vote
    info.transaction.signatures.append(SIGNATURE)
    info.transaction.message.account_keys.extend(KEYS[:3])
    info.transaction.message.instructions.add(program_id_index=2)
    meta = info.meta
    if failed:
        meta.err.err = b"x"
    meta.fee = 5_000
    meta.loaded_writable_addresses.append(KEYS[3])
    meta.loaded_readonly_addresses.append(KEYS[4])
    meta.inner_instructions.add().instructions.add(program_id_index=4)
    meta.pre_balances.extend([10, 0, 1, 1, 1])
    meta.post_balances.extend([3, 7, 1, 1, 1])
    meta.log_messages.append("log")
    balance = meta.post_token_balances.add(account_index=1, mint="m", owner="o")
    balance.ui_token_amount.amount, balance.ui_token_amount.decimals = "25", 6
    return update


ROW: dict[str, Any] = {
    "transaction": {
        "signatures": [base58_text(SIGNATURE)],
        "message": {"accountKeys": NAMES[:3], "instructions": [{"programIdIndex": 2}]},
    },
    "meta": {
        "err": None,
        "fee": 5_000,
        "loadedAddresses": {"writable": [NAMES[3]], "readonly": [NAMES[4]]},
        "innerInstructions": [{"index": 0, "instructions": [{"programIdIndex": 4}]}],
        "preBalances": [10, 0, 1, 1, 1],
        "postBalances": [3, 7, 1, 1, 1],
        "logMessages": ["log"],
        "preTokenBalances": [],
        "postTokenBalances": [
            {"accountIndex": 1, "mint": "m", "owner": "o", "uiTokenAmount": {"amount": "25", "decimals": 6}}
        ],
    },
}


def test_stream_and_block_give_the_same() -> None:
    """So an event that is seen by both is one event."""
    by_stream = from_stream(streamed(), 1_700_000_000)
    (by_block,) = from_block(9, {"blockTime": 1_700_000_000, "transactions": [ROW]})
    assert by_stream == by_block
    assert by_block.accounts == tuple(NAMES)
    assert by_block.programs == {NAMES[2], NAMES[4]}
    assert by_block.sol_transfers == ({"account": NAMES[0], "lamports": -7}, {"account": NAMES[1], "lamports": 7})
    assert by_block.token_transfers == (
        {"mint": "m", "owner": "o", "token_account": NAMES[1], "amount": "25", "decimals": 6},
    )


def test_failed_transactions_and_votes_are_none() -> None:
    """Interface, rule 1: failed transactions never fire."""
    assert from_stream(streamed(failed=True), None) is None
    assert from_stream(streamed(vote=True), None) is None
    failed = copy.deepcopy(ROW)
    failed["meta"]["err"] = {"InstructionError": [0, "Custom"]}
    assert from_block(9, {"transactions": [failed]}) == []


@pytest.mark.parametrize("block", [{}, {"transactions": None}, {"transactions": [None, 7, {}, {"meta": None}]}])
def test_blocks_that_are_none_are_empty(block: dict[str, Any]) -> None:
    assert from_block(9, block) == []


@given(st.sampled_from(list(ROW["meta"])), st.none() | st.integers() | st.lists(st.none() | st.integers(), max_size=2))
def test_a_row_with_nonsense_in_it_does_not_raise(name: str, nonsense: Any) -> None:
    """What a node sends is not trusted; the others of the block are read."""
    row = copy.deepcopy(ROW)
    row["meta"][name] = nonsense
    assert len(from_block(9, {"transactions": [row, ROW]})) >= 1
