"""ledger_gateway is a customer's program: it knows the service by its published interface alone."""

import tomllib
from pathlib import Path

from tests.tidy.sources import ROOT, Source, client, imports, over

_PRODUCT = {"actors", "serve_app", "bench", "tests", "ray"}
PURE = {"errors", "answers", "retries", "records", "continuity", "webhooks"}
_ACTS = {"asyncio", "os", "time", "random", "secrets", "httpx", "websockets", "socket"}


def broken_rules(source: Source) -> list[str]:
    product = _PRODUCT - (
        {"ray"} if source.path == "ledger_gateway/ray.py" else set()
    )  # Its users have a Ray of their own.
    banned = product | (_ACTS if source.stem in PURE and source.path.count("/") == 1 else set())
    return [name for name in imports(source) if name.partition(".")[0] in banned]


@over(client())
def test_the_client_imports_nothing_of_the_product(source: Source) -> None:
    """It runs where no part of the service is installed; its pure files neither wait nor act."""
    assert broken_rules(source) == []


@over([source for source in client() if source.stem not in ("__init__", "__main__")])
def test_every_module_of_the_client_has_its_test(source: Source) -> None:
    """Style, "Tests": ledger_gateway/y.py has tests/ledger_gateway/test_y.py; and each says what it is."""
    inside = Path(source.path)
    assert (ROOT / "tests" / inside.with_name(f"test_{inside.name}")).exists() and source.docstring


def test_the_client_is_shipped_with_its_types() -> None:
    """PEP 561: without py.typed in the package data, users' mypy sees Any everywhere."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert settings["package-data"]["ledger_gateway"] == ["py.typed"] and (ROOT / "ledger_gateway/py.typed").exists()


def test_the_rule_of_the_client_finds_what_it_is_for() -> None:
    """A rule that never says no guards nothing."""
    (source,) = (source for source in client() if source.path == "ledger_gateway/transport.py")
    assert {each.stem for each in client()} >= PURE and _ACTS & {name.partition(".")[0] for name in imports(source)}
