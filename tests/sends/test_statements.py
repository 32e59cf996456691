"""Columns of the statements are the fields of what is stored; what they do is tested with the store."""

from dataclasses import fields

from actors.sends import statements
from actors.sends.core import Race, Ticket
from actors.sends.store import LegReport


def test_the_columns_are_the_fields_in_their_order() -> None:
    assert [name for name, _ in statements.RACE] == [field.name for field in fields(Race)]
    assert [*(name for name, _ in statements.TICKET), "key"] == [field.name for field in fields(Ticket)]
    assert [field.name for field in fields(LegReport)] == list(statements.REPORT_COLUMNS)


def test_every_row_of_a_group_is_written_in_one_order() -> None:
    """Two groups that met the same races in different orders would wait for each other."""
    for statement in (statements.OPEN, statements.BROADCAST, statements.REPORT, statements.END, statements.END_TICKET):
        assert "ORDER BY my_epoch, signature" in statement
