"""Sizes, mirrors and words."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from actors.errors import Err
from tests.tidy.sources import ROOT, Source, embedded_chain, everything, files, over, product

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
# Ratchet: files that were longer when the rule came, with their length then. They may shrink, and nobody may join.
LONGER_MODULES: dict[str, int] = {}
LONGER_FUNCTIONS: dict[str, int] = {}
NAME_WORDS_MIN = 4  # test_expired_hashes_are_unknown says its rule; test_blocks does not.
# Files without a test of their own: nothing in them can be tested apart.
UNMIRRORED = {"__init__", "__main__"}
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
# Each with the reason why it may not be in the tree.
BANNED = {
    r"\b(TO[D]O|FI[X]ME|X[X]X|HA[C]K)\b": "do it, or write down the gap where users look",
    r"NotImplemented[E]rror": "what is not supported answers with a clear error",
    r"/wor[k]/|/tmp/ven[v]|/home/[a-z]+/|/Users/[A-Za-z]+/": "a path of somebody's machine",
    r"pytest\.mark\.xfai[l]|\.only\(": "a test that may fail tests nothing",
    r"<{7} |>{7} ": "left over from a merge",
}
TEXTS = (
    "*.py",
    "*.toml",
    "*.md",
    "*.yaml",
    "*.txt",
    "**/*.py",
    "**/*.md",
    "**/*.sql",
    "**/*.proto",
    "**/*.ipynb",
    "**/*.js",
    "**/*.mjs",
    "**/*.ts",
)


@over(everything())
def test_modules_are_read_in_one_sitting(source: Source) -> None:
    """Style, "Where things live": 400 lines at most."""
    assert source.text.count("\n") <= LONGER_MODULES.get(source.path, MODULE_LINES_MAX)


@over(everything())
def test_functions_fit_on_a_screen(source: Source) -> None:
    """Style, "Where things live": 60 lines at most."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            name = f"{source.path}:{node.name}"
            assert lines <= LONGER_FUNCTIONS.get(name, FUNCTION_LINES_MAX), f"{name}: {lines} lines"


def test_the_ratchet_only_tightens() -> None:
    """What has shrunk leaves the list."""
    by_path = {source.path: source for source in everything()}
    for path in LONGER_MODULES:
        assert by_path[path].text.count("\n") > MODULE_LINES_MAX, f"{path} is short enough now: take it off the list"


MIRRORED = tuple(
    source
    for source in (*product(), *embedded_chain())
    if source.path.count("/") and source.stem not in UNMIRRORED and not source.stem.endswith("_pb2")
)


@over(MIRRORED)
def test_every_module_has_its_test(source: Source) -> None:
    """Style, "Tests": actors/x/y.py has tests/x/test_y.py, and devnode/x/y.py has tests/devnode/x/test_y.py."""
    inside = Path(source.path.removeprefix("actors/"))
    mirror = ROOT / "tests" / inside.with_name(f"test_{inside.name}")
    assert mirror.exists(), mirror.relative_to(ROOT)


@over((*product(), *embedded_chain()))
def test_modules_say_what_they_are(source: Source) -> None:
    """Style, "Words in the code": what a module implements, and what may not live there; and no drawers for odds and
    ends."""
    assert source.stem not in FORBIDDEN_NAMES
    if source.text.strip():
        assert source.docstring, "no docstring"


@over([s for s in everything() if Path(s.path).name.startswith("test_")])
def test_tests_name_the_rule_they_guard(source: Source) -> None:
    """Whoever breaks a test reads why it was there: in its docstring, or in a name that is a whole sentence."""
    silent = [
        node.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
        and node.name.count("_") < NAME_WORDS_MIN
    ]
    assert silent == []


@over(sorted(set(files(*TEXTS))))
def test_no_banned_words(path: Path) -> None:
    """Nothing half done, and nothing of the machine it was written on."""
    text = path.read_text(encoding="utf-8")
    for pattern, reason in BANNED.items():
        found = re.search(pattern, text)
        assert found is None, f"{found.group()!r}: {reason}"


@pytest.mark.parametrize(
    ("title", "most"),
    [("One `getBalance`", 12), ("One deposit", 13), ("One `subscribeSignal`", 15), ("One `sendAndConfirm`", 15)],
)
def test_a_walk_names_files_that_are_there(title: str, most: int) -> None:
    """docs/walks.md: so many files at most to understand one request of a kind, and each can be opened."""
    walk = (ROOT / "docs/walks.md").read_text(encoding="utf-8").partition(f"## {title},")[2].partition("## ")[0]
    named = re.findall(r"^\|[^|]+\| `([^`]+)` \|", walk, re.MULTILINE)
    assert 8 <= len(named) <= most
    assert [name for name in named if not (ROOT / "actors" / name).exists()] == []


@over(Err)
def test_every_error_is_documented(err: Err) -> None:
    """A client that meets an error finds it in the README."""
    assert re.search(rf"\b{err.name}\b", (ROOT / "README.md").read_text(encoding="utf-8"))


def test_the_top_level_is_what_it_should_be() -> None:
    """Design, "Layout": what a visitor sees first."""
    wanted = {
        "pyproject.toml",
        "README.md",
        "SECURITY.md",
        "serve_app.py",
        "cluster.yaml",
        "constraints.txt",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "Makefile",
        "LICENSE",
    }
    wanted |= {"actors", "devnode", "deploy", "docs", "ledger_gateway", "clients", "tests", "notebooks", "bench"}
    ignored = {"build"}
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")} - ignored
    assert {name for name in found if not name.endswith(".egg-info")} <= wanted


def test_an_installed_package_has_every_folder() -> None:
    """setuptools takes what is listed: a folder or a schema that is missing there works only in a clone."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {
        path.parent for top in ("actors", "devnode", "ledger_gateway") for path in (ROOT / top).rglob("__init__.py")
    }
    assert set(settings["packages"]) == {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    for pattern in ("*.sql", "migrations/*.sql"):
        with_sql = {name for name in settings["packages"] if list((ROOT / name.replace(".", "/")).glob(pattern))}
        listed = {name for name, files in settings["package-data"].items() if pattern in files}
        assert listed == with_sql
