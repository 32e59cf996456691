"""The status of signatures: rows of nodes old and new, and answers that say nothing."""

import orjson
import pytest

from actors.upstream import replies
from actors.upstream.signature_status import SignatureStatus, signature_statuses, surest
from tests.gateway.doubles import ScriptedNode

PROCESSED = SignatureStatus(5, None, confirmed=False, finalized=False, confirmations=1)
CONFIRMED = SignatureStatus(5, None, confirmed=True, finalized=False, confirmations=9)
FINAL = SignatureStatus(5, None, confirmed=True, finalized=True)


async def asked(result: object, count: int, history: bool = True) -> tuple[list[SignatureStatus | None] | None, object]:
    node = ScriptedNode(lambda method, params: replies.made(orjson.dumps(result)))
    told = await signature_statuses(node, [bytes([number]) * 64 for number in range(count)], history, 1_000)
    return told, orjson.loads(node.calls[0][1])[1]


@pytest.mark.parametrize("history", [False, True])
async def test_statuses_come_in_the_order_asked(history: bool) -> None:
    """Of nodes old and new; with history where a transaction may be minutes old, as not every node keeps any."""
    rows = [
        None,
        {"slot": 5, "confirmations": 1, "err": None, "confirmationStatus": "processed"},
        {"slot": 5, "confirmations": 9, "err": None, "confirmationStatus": "confirmed"},
        {"slot": 5, "confirmations": None, "err": {"x": 1}, "confirmationStatus": "finalized"},
        {"slot": 5, "confirmations": None, "err": None},
        {"slot": 5, "confirmations": 1, "err": None},
    ]
    failed = SignatureStatus(5, '{"x":1}', confirmed=True, finalized=True)
    told, config = await asked({"context": {"slot": 9}, "value": rows}, len(rows), history)
    assert told == [None, PROCESSED, CONFIRMED, failed, FINAL, PROCESSED]
    assert config == {"searchTransactionHistory": history}
    assert surest([None, CONFIRMED, FINAL, PROCESSED]) == FINAL and surest([None]) is None


@pytest.mark.parametrize(
    "row",
    [
        *("x", [], 7),
        {"err": None},
        {"slot": "7"},
        {"slot": 0},
        {"slot": -1},
        {"slot": True},
        {"slot": 1 << 63},
        {"slot": 7, "confirmationStatus": "confirmed", "confirmations": "many"},
    ],
    ids=str,
)
async def test_a_status_that_is_none_is_no_answer(row: object) -> None:
    """A racer that fell over it would follow no race any more, and the store has no column for it."""
    assert (await asked({"value": [row]}, 1))[0] is None


@pytest.mark.parametrize("result", [3, {}, {"value": []}, {"value": [None, None]}])
async def test_an_answer_without_a_row_for_each_is_none(result: object) -> None:
    assert (await asked(result, 1))[0] is None
