"""Guards that every wait of the launcher ends."""

import os
import signal
import threading

import pytest

from actors.launch.local_run.deadlines import GivenUp, Stop, within


def test_a_stop_is_heard_at_once_and_any_number_of_times() -> None:
    """Rule: a second Ctrl-C is harmless; `timeout` sends two signals within microseconds of each other."""
    stop = Stop()
    before = signal.signal(signal.SIGUSR1, lambda *_: stop.set())
    try:
        assert not stop.is_set()
        assert not stop.wait(0)
        threading.Timer(0, lambda: [os.kill(os.getpid(), signal.SIGUSR1) for _ in range(3)]).start()
        assert stop.wait(60)
        assert stop.is_set()
        assert stop.wait(60)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_work_that_ends_gives_its_result_or_its_error() -> None:
    """Rule: in a thread of its own, work behaves as if it were called."""
    assert within(lambda: 7, None) == 7
    for error in (ValueError, TimeoutError, SystemExit):

        def fail(error: type[BaseException] = error) -> None:
            raise error

        with pytest.raises(error):
            within(fail, None)


def test_work_that_hangs_is_given_up() -> None:
    """Rule: stopping ends: when the time is over, or at once when Ray has ended."""
    never = threading.Event()
    try:
        with pytest.raises(GivenUp, match=r"not done within 0.01 s"):
            within(never.wait, 0.01)
        with pytest.raises(GivenUp, match="have ended"):
            within(never.wait, None, lambda: False)
    finally:
        never.set()
