"""The text for language models has the form of llmstxt.org, and everything that is offered."""

from actors.documents import llms

from .service import served, the_offer

TEXT = llms.text(the_offer())


def test_it_has_the_form() -> None:
    """One title, then a quoted summary, then sections of links."""
    lines = TEXT.splitlines()
    assert lines[0] == "# Ledger Gateway" and lines[2].startswith("> ")
    assert [line for line in lines if line.startswith("# ")] == lines[:1]
    assert "- [OpenRPC](https://gateway.test/openrpc.json): " in TEXT


def test_it_names_every_path_and_every_method() -> None:
    """A line for each, with its price."""
    assert "Costs free" not in TEXT and "of the same account. Free.\n" in TEXT
    assert [endpoint for endpoint in served() if f"- {endpoint}: " not in TEXT] == []
    assert [method.row.name for method in the_offer().methods if f"\n- {method.row.name}(" not in TEXT] == []
