"""One name, one thing; one fact, one place."""

import ast
from collections import defaultdict
from collections.abc import Iterable

from actors.units import parse_pubkey
from tests.tidy.sources import Source, embedded_chain, product


def outside() -> list[Source]:
    return [s for s in product() if not s.stem.endswith("_pb2")]


def several(sources: Iterable[Source]) -> dict[str, list[str]]:
    """Public names that more than one class has, each with the files of those classes."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(source.path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_a_class_name_stands_for_one_thing() -> None:
    """Style, "Names": one word, one meaning. A reader who searches for a name finds one class."""
    assert several(outside()) == {}


def test_a_class_name_stands_for_one_thing_in_devnode() -> None:
    """devnode is a program of its own, so its names may be those of the product, and once within it."""
    assert several(embedded_chain()) == {}


def test_an_address_of_the_chain_is_written_once() -> None:
    """An address in two files is one day changed in one of them. devnode shares no code, so it has its own."""
    places = defaultdict(set)
    for source in outside():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and parse_pubkey(node.value):
                places[node.value].add(source.path)
    assert {address: paths for address, paths in places.items() if len(paths) > 1} == {}
