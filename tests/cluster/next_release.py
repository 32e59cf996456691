"""The release after this one, as far as a cluster that goes on running can notice: made of this tree.

It has another number, a longer hold and a longer reply over the hot link, a migration that adds a column and a table,
and another functions.sql. The folder that it is made in is the caller's.
"""

import ast
import shutil
from collections.abc import Callable
from pathlib import Path

from actors.release import RELEASE, parts
from tests.cluster.machines import ROOT

_NOT_COPIED = (".git", ".venv", "__pycache__", "node_modules")
_FIELD = '    of_the_next_release: str = "nothing"\n'
_LONGER = ("HoldRequest", "HoldReply", "SettleRequest", "SettleReply")
_MIGRATION = """
ALTER TABLE shard_owner ADD COLUMN of_the_next_release text;
CREATE TABLE table_of_the_next_release (id bigint PRIMARY KEY);
"""
_FUNCTION = """
CREATE OR REPLACE FUNCTION accounts_of_the_next_release() RETURNS boolean LANGUAGE sql AS 'SELECT true';
"""


def next_release(tree: Path, linked: bool = True) -> str:
    """Make the tree in this new folder, and return its number.

    linked: folders that stay as they are may be links to this tree's. Ray's launcher needs folders: its rsync cannot
    put a link where a machine has the folder of the release before.
    """
    tree.mkdir()
    for entry in ROOT.iterdir():
        if linked and entry.name not in (".git", "actors") and entry.is_dir():
            (tree / entry.name).symlink_to(entry)
        elif entry.is_file():
            shutil.copy(entry, tree)
        elif entry.is_dir() and entry.name not in _NOT_COPIED:
            shutil.copytree(entry, tree / entry.name, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    major, minor, _ = parts(RELEASE)
    number = f"{major}.{minor + 1}.0"
    _edit(tree / "actors/release.py", lambda text: text.replace(f'RELEASE = "{RELEASE}"', f'RELEASE = "{number}"', 1))
    _edit(tree / "cluster.yaml", lambda text: text.replace(f"release={RELEASE}\n", f"release={number}\n", 1))
    _edit(tree / "actors/calls.py", _with_longer_messages)
    accounts = tree / "actors/accounts"
    _edit(accounts / "schema.sql", lambda text: text + _MIGRATION)
    _edit(accounts / "functions.sql", lambda text: text + _FUNCTION)
    last = max(int(path.name[:4]) for path in (accounts / "migrations").glob("*.sql"))
    migration = accounts / "migrations" / f"{last + 1:04}_next.sql"
    migration.write_text(f"-- Expand: what the next release adds\n{_MIGRATION}", encoding="utf-8")
    return number


def _edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text(encoding="utf-8")
    after = change(before)
    assert after != before, path
    path.write_text(after, encoding="utf-8")


def _with_longer_messages(text: str) -> str:
    """Give each of these messages one more field, last and with a default, as hotlink/README.md wants it."""
    ends = {
        node.name: max(field.end_lineno or 0 for field in node.body if isinstance(field, ast.AnnAssign))
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name in _LONGER
    }
    assert ends.keys() == set(_LONGER), ends
    lines = text.splitlines(keepends=True)
    for end in sorted(ends.values(), reverse=True):
        lines.insert(end, _FIELD)
    return "".join(lines)
