"""The number of classifiers changes while they run and from start to start, under signals: none lost, none twice."""

import contextlib
import json
import os
import threading
import urllib.request
from typing import Any

import pytest

from actors.signals.classify import PROGRAMS, observe
from actors.signals.from_json import read_json
from actors.signals.observations import What
from actors.signals.transaction import key_text
from bench.product import Product
from tests.cluster.test_faults import eventually
from tests.product import StaffedProduct, processes_of
from tests.signals import chain_calls

pytestmark = [
    pytest.mark.stops,
    pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes minutes: set LONG_TESTS=1"),
]
# The product of the tests has one before.
_LIVE_COUNTS, _COUNT_OF_A_START = (4, 2), 3
_PAGE = 500
_WAIT_SECONDS = 90


class Launches:
    """Makes coins until it is stopped; what fails while the chain is away is left out."""

    def __init__(self, chain: str) -> None:
        self._chain, self._is_over = chain, threading.Event()
        self.known: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(OSError, ValueError, AssertionError):
                self.known.append(chain_calls.launch(self._chain)["mint"])
            self._is_over.wait(0.2)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def _created(chain: str) -> set[str]:
    """The chain's own list: the coins and pools that its confirmed transactions have made."""
    found: set[str] = set()
    for program in PROGRAMS:
        for row in _signatures(chain, program):
            options = {"encoding": "json", "maxSupportedTransactionVersion": 0, "commitment": "confirmed"}
            answer = chain_calls.rpc(chain, "getTransaction", row["signature"], options)
            transaction = read_json(answer["slot"], answer)
            assert transaction is not None
            found |= {
                key_text(seen.mint)
                for seen in observe(transaction)
                if seen.what is What.CREATED and seen.mint is not None
            }
    return found


def _signatures(chain: str, program: str) -> list[Any]:
    """All successful ones, page by page, the newest first."""
    found, before = list[Any](), dict[str, str]()
    while page := chain_calls.rpc(chain, "getSignaturesForAddress", program, {"commitment": "confirmed"} | before):
        found += page
        before = {"before": page[-1]["signature"]}
    return [row for row in found if row["err"] is None]


def _answer(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.loads(answer.read())


def _health(product: Product) -> Any:
    return _answer(f"{product.http_url}/health")


def _told(product: Product) -> list[str]:
    return [each["mint"] for each in _pairs(product)]


def _pairs(product: Product) -> list[Any]:
    """Every newPair since the first one, oldest first, page by page."""
    found, cursor = list[Any](), "0-0"
    while True:
        page = _answer(f"{product.http_url}/signals/recent?kinds=newPair&limit={_PAGE}&since={cursor}")
        found += page["events"]
        if page["next_cursor"] is None or page["next_cursor"] == cursor or not page["events"]:
            return found
        cursor = page["next_cursor"]


def test_other_numbers_of_classifiers_tell_each_coin_once(product: Product) -> None:
    """Threat 69: from one to four to two under those that run, and to three by a start: work is taken over from where
    it was, the log stays in the order of slots, and health tells the truth meanwhile."""
    chain, before = product.ready["node_url"], product._settings
    launches = Launches(chain)
    try:
        assert eventually(lambda: len(launches.known) > 3, _WAIT_SECONDS)
        for count in (*_LIVE_COUNTS, _COUNT_OF_A_START):
            known = len(launches.known)
            if count == _COUNT_OF_A_START:
                product.stop()
                product._settings = {**before, "LEDGER_SIGNALS__CLASSIFIERS": str(count)}
                product.start()
            else:
                assert isinstance(product, StaffedProduct)
                product.command("cluster", "scale", "classifiers", str(count))
            assert eventually(lambda known=known: len(launches.known) > known + 3, _WAIT_SECONDS)
            newest = launches.known[-1]
            assert eventually(lambda newest=newest: newest in _told(product), _WAIT_SECONDS), count
            assert len(processes_of(product, "SignalClassifierActor")) == count
            # Blocks while it catches up; none for moments, while it goes over to the stream.
            assert eventually(lambda: _health(product)["signals"]["source"] != "none", _WAIT_SECONDS)
            health = _health(product)
            assert health["status"] == "ok" and "gap" not in health["signals"], health
    finally:
        launches.stop()
        product._settings = before
    assert eventually(lambda: set(launches.known) <= _created(chain), _WAIT_SECONDS) and len(launches.known) > 12
    expected = _created(chain)
    assert eventually(lambda: expected <= set(_told(product)), _WAIT_SECONDS), expected - set(_told(product))
    told = _told(product)
    assert len(told) == len(set(told)) and set(told) == expected
    slots = [event["slot"] for event in _pairs(product)]
    assert slots == sorted(slots)
