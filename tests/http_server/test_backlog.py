"""The bytes that wait in full WebSockets: bounded in all, and whoever takes least pays for it."""

from actors.http_server.backlog import Backlog


class Full:
    def __init__(self) -> None:
        self.is_dropped = False

    def drop(self) -> None:
        self.is_dropped = True


def test_the_connection_with_the_most_bytes_is_dropped() -> None:
    """Whoever made the room overflow: others that take their answers go on."""
    backlog, small, large, last = Backlog(100), Full(), Full(), Full()
    backlog.holds(small, 30)
    backlog.holds(large, 60)
    backlog.holds(small, 40)
    assert not (small.is_dropped or large.is_dropped), "a size replaces the one before"
    backlog.holds(last, 1)
    assert large.is_dropped and not small.is_dropped and not last.is_dropped


def test_room_that_was_let_go_of_is_there_for_others() -> None:
    backlog, one, other = Backlog(100), Full(), Full()
    backlog.holds(one, 90)
    backlog.let_go(one)
    backlog.let_go(one)
    backlog.holds(other, 90)
    assert not (one.is_dropped or other.is_dropped)
