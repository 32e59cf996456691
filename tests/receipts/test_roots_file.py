from pathlib import Path

import pytest

from actors.receipts.root_keys import KeySeal, RootKey
from actors.receipts.roots_file import BrokenRoots, RootsFile, read_roots
from actors.receipts.statements import NO_STATEMENT, SignedStatement, Statement, leaf_of, root_of

SEAL = KeySeal(b"secret")
KEY, LATER_KEY = (SEAL.make(name * 32, name * 12, 0) for name in (b"k", b"l"))


def statements(count: int, key: RootKey = KEY, first: int = 1, previous: bytes = NO_STATEMENT) -> list[SignedStatement]:
    made = []
    for number in range(first, first + count):
        leaves = leaf_of(b"a" * 32, number, [bytes([number]) * 32]).packed()
        text = Statement(3, number, number, previous, 1, 1, root_of(leaves)).text()
        made.append(SignedStatement(text, key.id, SEAL.open(key).sign(text.encode()).signature, leaves))
        previous = made[-1].digest
    return made


def numbers(path: Path) -> list[int]:
    return [written.statement.number for written in read_roots(path)]


def test_a_file_has_the_statements_in_their_order_with_their_keys(tmp_path: Path) -> None:
    file, made = RootsFile(tmp_path / "new", 3), statements(3)
    assert file.newest() is None
    file.append(KEY, made[:2])
    again = RootsFile(tmp_path / "new", 3)
    assert again.newest() == 2
    again.append(KEY, made[2:])
    again.append(LATER_KEY, statements(1, LATER_KEY, 4, made[2].digest))
    assert numbers(file.path) == [1, 2, 3, 4]
    assert file.path.read_text().count("public_key") == 2


def test_a_line_that_a_crash_cut_is_written_anew(tmp_path: Path) -> None:
    file, made = RootsFile(tmp_path, 3), statements(2)
    file.append(KEY, made)
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-9])
    assert numbers(file.path) == [1]
    again = RootsFile(tmp_path, 3)
    assert again.newest() == 1
    again.append(KEY, made[1:])
    assert file.path.read_bytes() == whole
    file.path.write_bytes(whole[:20])
    assert RootsFile(tmp_path, 3).newest() is None and file.path.read_bytes() == b""


@pytest.mark.parametrize("part", ["statement", "signature", "leaves", "key"])
def test_what_was_changed_in_a_file_is_noticed(tmp_path: Path, part: str) -> None:
    file = RootsFile(tmp_path, 3)
    file.append(KEY, statements(2))
    lines = file.path.read_text().splitlines()
    at = lines[1].index(f'"{part}":"') + len(part) + 5
    changed = lines[1][: at + 40] + ("1" if lines[1][at + 40] == "0" else "0") + lines[1][at + 41 :]
    file.path.write_text("\n".join([lines[0], changed, *lines[2:]]) + "\n")
    with pytest.raises(BrokenRoots):
        numbers(file.path)


def test_a_statement_that_was_written_twice_counts_once(tmp_path: Path) -> None:
    """An owner and the one that replaced it may both have caught the file up."""
    file, made = RootsFile(tmp_path, 3), statements(3)
    file.append(KEY, made[:2])
    RootsFile(tmp_path, 3).append(KEY, made[1:])
    assert numbers(file.path) == [1, 2, 3]


def test_a_statement_that_was_taken_out_is_noticed(tmp_path: Path) -> None:
    file = RootsFile(tmp_path, 3)
    file.append(KEY, statements(3))
    lines = file.path.read_text().splitlines()
    file.path.write_text("\n".join([lines[0], lines[1], lines[3]]) + "\n")
    with pytest.raises(BrokenRoots, match="does not follow"):
        numbers(file.path)
