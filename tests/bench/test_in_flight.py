"""The measurement of very many sends: which calls it repeats, and which figures make its run wrong."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from bench import in_flight
from bench.in_flight import Watched, is_refused, until_taken, wrong_figures
from bench.sends import Sent

_BUSY = "refused: {'code': -32003, 'data': {'constant': 'SERVICE_TEMPORARILY_UNAVAILABLE'}}"


class _Sender:
    """Refuses the first request for what is in it twice."""

    def __init__(self) -> None:
        self.requests: list[list[bytes]] = []

    async def race_together(self, raws: Sequence[bytes]) -> list[Sent]:
        self.requests.append(list(raws))
        return [
            Sent(raw.hex(), 0.0, status=_BUSY if raw == b"b" and len(self.requests) < 3 else "confirmed")
            for raw in raws
        ]


async def test_only_what_was_refused_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a transaction would have two calls."""
    monkeypatch.setattr(in_flight, "_AGAIN_SECONDS", 0.0)
    sender: Any = _Sender()
    refusals: Counter[str] = Counter()
    sends = await until_taken(sender, [b"a", b"b", b"c"], refusals)
    assert sender.requests == [[b"a", b"b", b"c"], [b"b"], [b"b"]] and refusals.total() == 2
    assert sorted(sent.signature for sent in sends) == ["61", "62", "63"]
    assert not is_refused("unknown") and not is_refused("refused: {'constant': 'CONCURRENCY_LIMITED'}")


def test_a_send_that_was_not_taken_or_not_charged_once_is_wrong() -> None:
    found = {"landed": 3, "never_taken": 0, "tickets_off_by": 0, "audit_exit_code": 0}
    assert wrong_figures(found) == []
    assert wrong_figures(found | {"never_taken": 1, "audit_exit_code": 1}) == ["never_taken", "audit_exit_code"]


def test_the_time_until_all_are_stored_is_of_the_first_look_that_saw_them() -> None:
    watched = Watched(stored=[(0.2, 5), (0.4, 10), (0.6, 10)])
    assert watched.seconds_until(10) == 0.4 and watched.seconds_until(11) == 0.0
