"""The project's own files, parsed once for all tidiness tests."""

import ast
import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
_NOT_OURS = {"node_modules", "__pycache__", "build", "results"}


Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class Source:
    path: str  # From the project's root, with slashes: "actors/accounts/core.py".
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def stem(self) -> str:
        return Path(self.path).stem

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""


def files(*patterns: str) -> Iterator[Path]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            inside = path.relative_to(ROOT).parts
            if path.is_file() and not any(part in _NOT_OURS or part.startswith(".") for part in inside):
                yield path


@cache
def sources(*patterns: str) -> tuple[Source, ...]:
    """The trees are millions of objects that stay to the end: no pass of the garbage collector looks at them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return tuple(_parse(path) for path in files(*patterns))
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@cache  # The lists of files overlap.
def _parse(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    return Source(path.relative_to(ROOT).as_posix(), text, ast.parse(text))


def product() -> tuple[Source, ...]:
    return sources("actors/**/*.py", "serve_app.py")


def embedded_chain() -> tuple[Source, ...]:
    """devnode: a program of its own, which the product starts as a process."""
    return sources("devnode/**/*.py")


def client() -> tuple[Source, ...]:
    """The Python client: a program of its own, which shares no code with the product."""
    return sources("ledger_gateway/**/*.py")


def everything() -> tuple[Source, ...]:
    places = ("actors", "devnode", "bench", "tests", "ledger_gateway")
    return sources(*(f"{place}/**/*.py" for place in places), "serve_app.py")


def imports(source: Source) -> Iterator[str]:
    """Full names of the modules that a file imports, anywhere in it: `from actors import units` is actors.units."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source.path}: relative import; write the full name"
            assert node.module is not None
            for alias in node.names:
                yield f"{node.module}.{alias.name}" if _is_module(node.module, alias.name) else node.module


@cache
def _is_module(package: str, name: str) -> bool:
    folder = ROOT.joinpath(*package.split("."))
    return (folder / f"{name}.py").exists() or (folder / name).is_dir()


def over(subjects: Iterable[Subject]) -> Callable[[Callable[[Subject], None]], Callable[[], None]]:
    """Make one test of a rule about many subjects; it names every subject that breaks the rule.

    One test for each file would be four thousand of them, and pytest's own work for a test takes longer than a rule.
    """

    def decorate(rule: Callable[[Subject], None]) -> Callable[[], None]:
        def test() -> None:
            broken = []
            for subject in subjects:
                try:
                    rule(subject)
                except AssertionError as error:
                    broken.append(f"{getattr(subject, 'path', subject)}: {error}")
            assert broken == [], "\n".join(broken)

        test.__name__, test.__doc__, test.__module__ = rule.__name__, rule.__doc__, rule.__module__
        return test

    return decorate
