"""Nodes of different lag over one history: a port answers from its own slot, and knows nothing that came after it."""

from bench.lagging_views import ChainHistory, LaggingView

KEY = "11111111111111111111111111111111"
CONFIRMED = {"commitment": "confirmed"}


def history() -> ChainHistory:
    found = ChainHistory([KEY])
    found.newest = {"processed": 110, "confirmed": 110, "finalized": 78}
    found.slots, found.balances = [100, 105, 110], [{KEY: 1}, {KEY: 2}, {KEY: 3}]
    return found


def test_a_port_answers_from_the_slot_that_it_has_reached() -> None:
    said = [LaggingView(history(), lag).answer("getBalance", [KEY, CONFIRMED]) for lag in (0, 5, 6, 40)]
    found = [(one["result"]["context"]["slot"], one["result"]["value"]) for one in said if one is not None]
    assert found == [(110, 3), (105, 2), (104, 1), (70, 1)]


def test_commitments_and_the_minimum_slot_are_heeded() -> None:
    view = LaggingView(history(), 5)
    assert view.answer("getSlot", []) == {"result": 73}
    assert view.answer("getSlot", [CONFIRMED | {"minContextSlot": 105}]) == {"result": 105}
    refused = view.answer("getSlot", [CONFIRMED | {"minContextSlot": 106}])
    assert refused is not None and refused["error"]["code"] == -32016
    assert view.answer("sendTransaction", ["AA=="]) is None, "the chain is asked"
    assert view.calls == 4


def test_a_signature_that_landed_later_is_not_known_yet() -> None:
    status = {"slot": 104, "confirmationStatus": "confirmed"}
    answer = {"result": {"context": {"slot": 110}, "value": [status, None]}}
    assert LaggingView(history(), 6).late("getSignatureStatuses", answer)["result"]["value"] == [status, None]
    assert LaggingView(history(), 7).late("getSignatureStatuses", answer)["result"] == {
        "context": {"slot": 103},
        "value": [None, None],
    }
