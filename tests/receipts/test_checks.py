"""A statement holds with its key, at its time, with its leaves and in its place, and not otherwise."""

import pytest

from actors.receipts.checks import SeriesEnd, Unproven, checked, followed
from actors.receipts.statements import NO_STATEMENT
from tests.receipts.test_roots_file import KEY, LATER_KEY, PINNED, statements

FIRST, SECOND = statements(2)
FOREIGN = statements(1, LATER_KEY, at_ms=5)[0]


def test_a_true_statement_holds() -> None:
    assert [checked(one, PINNED).number for one in (FIRST, SECOND)] == [1, 2]
    assert checked(FOREIGN, PINNED).at_ms == 5


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (FIRST._replace(text="x"), "another form"),
        (FIRST._replace(key_id="unknown"), "not known"),
        (FIRST._replace(key_id=LATER_KEY.id), "signature"),
        (FIRST._replace(signature=SECOND.signature), "signature"),
        (FIRST._replace(signature=b""), "signature"),
        (FIRST._replace(leaves=SECOND.leaves), "accounts"),
        (FIRST._replace(leaves=FIRST.leaves * 2), "accounts"),
        (FIRST._replace(leaves=FIRST.leaves[:-1]), "accounts"),
        (FIRST._replace(leaves=b""), "accounts"),
        (FIRST._replace(text=FIRST.text.replace("entries 1", "entries 2")), "signature"),
        (statements(1, KEY, at_ms=60_005)[0], "not in use"),
    ],
)
def test_a_statement_that_was_changed_is_named(changed: object, why: str) -> None:
    with pytest.raises(Unproven, match=why):
        checked(changed, PINNED)  # type: ignore[arg-type]


def test_a_key_signs_nothing_long_before_it_was_made() -> None:
    keys = {KEY.id: KEY._replace(made_ms=60_002, retired_ms=None)}
    assert checked(SECOND, keys).number == 2
    with pytest.raises(Unproven, match="not in use"):
        checked(FIRST, keys)


def test_each_statement_follows_the_one_before() -> None:
    assert followed(SeriesEnd(0, NO_STATEMENT), 3, [FIRST, SECOND]) == SeriesEnd(2, SECOND.digest)
    assert followed(SeriesEnd(1, None), 3, [SECOND]) == SeriesEnd(2, SECOND.digest)
    for place, series, given in (
        (SeriesEnd(0, NO_STATEMENT), 3, [SECOND]),
        (SeriesEnd(1, NO_STATEMENT), 3, [SECOND]),
        (SeriesEnd(0, NO_STATEMENT), 3, [FIRST, FIRST]),
        (SeriesEnd(0, NO_STATEMENT), 4, [FIRST]),
        (SeriesEnd(0, b"p" * 32), 3, [FIRST]),
    ):
        with pytest.raises(Unproven, match="does not follow it"):
            followed(place, series, given)
