"""Each test file runs alone: the fixtures that it uses are its own, or those of the folders in which it lies.

Run with others, a file also finds the fixtures of plugins that another folder registers.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath

from tests.tidy.sources import Source, over, sources

TESTS = {source.path: source for source in sources("tests/**/*.py")}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@over([source for source in TESTS.values() if source.stem.startswith("test_") or source.stem == "conftest"])
def test_a_file_run_alone_finds_its_fixtures(source: Source) -> None:
    found = _found_by(source)
    missing = {name for name in _wanted(source) if name in _shared_fixtures() and name not in found}
    assert missing == set(), f"no conftest.py of its folders has, or registers a plugin with, {sorted(missing)}"


def _wanted(source: Source) -> Iterator[str]:
    """Names of what tests and fixtures take, without those that `parametrize`, and Hypothesis by name, give."""
    for function in _functions(source):
        if function.name.startswith("test_") or _is_fixture(function):
            marks = [node for mark in function.decorator_list for node in ast.walk(mark)]
            given = {node.arg for node in marks if isinstance(node, ast.keyword)}
            given |= {
                name.strip() for mark in function.decorator_list for text in _texts(mark) for name in text.split(",")
            }
            names = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
            yield from (name for name in names[: len(names) - _given_by_place(function)] if name not in given)


def _given_by_place(function: Function) -> int:
    """How many of the last parameters Hypothesis gives without naming them."""
    given = 0
    for mark in function.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "given":
            given += len(mark.args)
    return given


def _found_by(source: Source) -> set[str]:
    """The file's own fixtures, imported ones included, and those of every conftest.py above it and of its plugins."""
    folders = (folder.as_posix() for folder in PurePath(source.path).parents)
    above = [TESTS[path] for folder in folders if (path := f"{folder}/conftest.py") in TESTS]
    plugins = [TESTS[path] for one in above for path in _plugins(one.path)]
    return {name for one in (source, *above, *plugins) for name in (*_fixtures(one), *_imported(one))}


@cache
def _plugins(path: str) -> tuple[str, ...]:
    """Files of the plugins that a conftest.py names."""
    named = (f"{text.replace('.', '/')}.py" for text in _texts(TESTS[path].tree))
    return tuple(name for name in named if name in TESTS)


@cache
def _shared_fixtures() -> frozenset[str]:
    """Fixtures of conftest.py files and of plugins; others belong to one test file."""
    shared = (source for source in TESTS.values() if not source.stem.startswith("test_"))
    return frozenset(name for source in shared for name in _fixtures(source))


@cache
def _fixtures(source: Source) -> frozenset[str]:
    return frozenset(function.name for function in _functions(source) if _is_fixture(function))


def _imported(source: Source) -> Iterator[str]:
    for node in source.tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def _functions(source: Source) -> list[Function]:
    """Functions of the module and of its classes; those inside of functions are neither tests nor fixtures."""
    body = source.tree.body
    inside = [part for node in body if isinstance(node, ast.ClassDef) for part in node.body]
    return [node for node in (*body, *inside) if isinstance(node, Function)]


def _is_fixture(function: Function) -> bool:
    named = (mark.func if isinstance(mark, ast.Call) else mark for mark in function.decorator_list)
    return any(isinstance(name, ast.Attribute) and name.attr == "fixture" for name in named)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
