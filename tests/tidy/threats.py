"""Writes the last two columns of docs/threats.md: in which ring each threat is shown, and by which tests.

    python -m tests.tidy.threats

A test shows a threat when it has the mark `threat(number)`, or when its docstring or that of its module cites its
number.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from tests.tidy.sources import ROOT, Source, sources

PAGE = ROOT / "docs/threats.md"
_ROW = re.compile(r"^\| (\d+) \| ((?:[^|]|\\\|)*) \| ((?:[^|]|\\\|)*) \|(?:.*\|)?$", re.MULTILINE)
_CITED = re.compile(r"\b[Tt]hreats? (\d+(?:(?:,| and|, and| to)\s+\d+)*)")
_RINGS = ("unit", "in-process", "real cluster")
_TESTS_NAMED_MAX = 6  # Of one file and threat; the rest is counted.

Test = ast.FunctionDef | ast.AsyncFunctionDef


def ring_of(source: Source, test: Test) -> str:
    if source.path.startswith(("tests/cluster/", "tests/clients/")):
        return "real cluster"
    return "in-process" if isinstance(test, ast.AsyncFunctionDef) else "unit"


def cited(text: str | None) -> set[int]:
    return {int(number) for found in _CITED.findall(text or "") for number in re.findall(r"\d+", found)}


def marked(test: Test) -> set[int]:
    marks = [node for node in test.decorator_list if isinstance(node, ast.Call)]
    calls = [mark for mark in marks if isinstance(mark.func, ast.Attribute) and mark.func.attr == "threat"]
    return {one.value for mark in calls for one in mark.args if isinstance(one, ast.Constant)}


def shown(source: Source) -> Iterator[tuple[int, str, str]]:
    """The threats that a file shows: number, ring, name of the test."""
    of_module = cited(source.docstring)
    classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
    for node in (node for scope in (source.tree, *classes) for node in scope.body):
        if isinstance(node, Test) and node.name.startswith("test_"):
            own = marked(node) | cited(ast.get_docstring(node))
            for number in own or of_module:
                yield number, ring_of(source, node), node.name


@cache
def columns() -> dict[int, tuple[str, str]]:
    """The two columns of each threat that some test shows."""
    rings: dict[int, set[str]] = defaultdict(set)
    names: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for source in sources("tests/**/test_*.py"):
        for number, ring, name in shown(source):
            rings[number].add(ring)
            names[number][source.path].append(name.removeprefix("test_"))
    told = {}
    for number, places in names.items():
        parts = []
        for path, tests in sorted(places.items()):
            named = sorted(set(tests))
            more = f" and {len(named) - _TESTS_NAMED_MAX} more" if len(named) > _TESTS_NAMED_MAX else ""
            parts.append(f"`{path}`: {', '.join(named[:_TESTS_NAMED_MAX])}{more}")
        told[number] = (", ".join(ring for ring in _RINGS if ring in rings[number]), "<br>".join(parts))
    return told


def rewritten(page: str) -> str:
    told = columns()

    def row(found: re.Match[str]) -> str:
        ring, tests = told.get(int(found.group(1)), ("none", ""))
        return f"| {found.group(1)} | {found.group(2)} | {found.group(3)} | {ring} | {tests} |"

    return _ROW.sub(row, page)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
