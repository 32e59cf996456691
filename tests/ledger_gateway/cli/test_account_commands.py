"""`balance`, `status`, and what `usage` and `runway` make of their figures."""

from collections.abc import Callable

from ledger_gateway.cli.account_commands import _flat, csv_cell

from .conftest import Done, Site


def test_balance_and_status(cli: Callable[..., Done], site: Site) -> None:
    """Low credits are told; a gateway that starts is exit code 1, and its document is shown all the same."""
    done = cli("balance", key=site.key(1_234))
    assert done.code == 0 and "1,234" in done.out and max(map(len, done.out.splitlines())) <= 80
    assert "deposit AMOUNT" in cli("balance", key=site.key(5)).err
    status = cli("status")
    assert status.code == 1 and "starting" in status.out and "Next:" in status.err
    assert cli("usage", "--by", "weather", key="k").code == 2 and cli("runway", "--hours", "0", key="k").code == 2


def test_cells_cannot_be_formulas() -> None:
    """A method's name of a hostile server, opened in a spreadsheet."""
    assert [csv_cell(text) for text in ("=1+1", "@x", "getSlot", None, 5)] == ["'=1+1", "'@x", "getSlot", "", 5]


def test_documents_of_any_form_are_flat() -> None:
    assert _flat({"a": {"b": {"x": True, "y": False}, "c": 1}, "d": 2}) == {"a.b": ["x"], "a.c": 1, "d": "2"}
