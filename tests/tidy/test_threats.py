"""docs/threats.md says what the tests show."""

import re

from tests.tidy.threats import PAGE, columns, rewritten


def test_the_page_of_threats_is_up_to_date() -> None:
    """`python -m tests.tidy.threats` writes it anew."""
    page = PAGE.read_text(encoding="utf-8")
    assert rewritten(page) == page, "run: python -m tests.tidy.threats"


# Rows that no test shows yet. They may only become fewer: a threat without a test is a wish.
NOT_SHOWN = {
    71,  # A node that was cut off: no test starts a second Ray node.
    72,  # The head of a cluster: likewise.
    74,  # Text from the chain in tool results is not marked as data yet.
}


def test_each_threat_is_shown_by_a_test() -> None:
    """The page lists what the service must survive, so each row has a test, or is named here."""
    listed = {int(number) for number in re.findall(r"^\| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)}
    assert listed - columns().keys() == NOT_SHOWN
