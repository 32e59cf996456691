import json
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from actors.receipts.checks import SeriesEnd
from actors.receipts.root_keys import KeySeal, ProvenKey
from actors.receipts.roots_file import BrokenRoots, RootsFile, read_roots
from actors.receipts.statements import NO_STATEMENT, SignedStatement, Statement, leaf_of, root_of

SEAL = KeySeal(b"secret")
FIRST_ROW = SEAL.make(b"k" * 32, b"k" * 12, 0)
LATER_KEY, KEY = SEAL.proven([FIRST_ROW, SEAL.make(b"l" * 32, b"l" * 12, 4, SEAL.proven([FIRST_ROW]).keys)]).keys
SEEDS = {KEY.id: b"k" * 32, LATER_KEY.id: b"l" * 32}
PINNED = {KEY.id: KEY, LATER_KEY.id: LATER_KEY}


def statements(
    count: int, key: ProvenKey = KEY, first: int = 1, previous: bytes = NO_STATEMENT, at_ms: int = 0
) -> list[SignedStatement]:
    """at_ms: of all of them; 0: their numbers."""
    made = []
    for number in range(first, first + count):
        leaves = leaf_of(b"a" * 32, number, [bytes([number]) * 32]).packed()
        text = Statement(3, number, at_ms or number, previous, 1, 1, root_of(leaves)).text()
        signature = SigningKey(SEEDS[key.id]).sign(text.encode()).signature
        made.append(SignedStatement(text, key.id, signature, leaves))
        previous = made[-1].digest
    return made


def numbers(path: Path) -> list[int]:
    return [written.statement.number for written in read_roots(path)]


def test_a_file_has_the_statements_in_their_order_with_their_keys(tmp_path: Path) -> None:
    file, made = RootsFile(tmp_path / "new", 3), statements(3)
    assert file.newest() is None
    file.append(KEY, made[:2])
    again = RootsFile(tmp_path / "new", 3)
    assert again.newest() == SeriesEnd(2, made[1].digest)
    again.append(KEY, made[2:])
    again.append(LATER_KEY, statements(1, LATER_KEY, 4, made[2].digest))
    assert numbers(file.path) == [1, 2, 3, 4]
    assert [written.statement.number for written in read_roots(file.path, PINNED)] == [1, 2, 3, 4]
    assert file.path.read_text().count("public_key") == 2


def test_a_line_that_a_crash_cut_is_written_anew(tmp_path: Path) -> None:
    file, made = RootsFile(tmp_path, 3), statements(2)
    file.append(KEY, made)
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-9])
    assert numbers(file.path) == [1]
    again = RootsFile(tmp_path, 3)
    assert again.newest() == SeriesEnd(1, made[0].digest)
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


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("public_key", "zz", "has another public half"),
        ("signature", "zz", "no hexadecimal numbers"),
        ("leaves", "zz", "no hexadecimal numbers"),
        ("statement", "x", "another form"),
        ("statement", 5, "a line is no statement"),
    ],
)
def test_a_part_of_another_form_is_named(tmp_path: Path, part: str, value: object, said: str) -> None:
    """Whoever reads a file of somebody else's gets one sentence, whatever is in it."""
    file = RootsFile(tmp_path, 3)
    file.append(KEY, statements(1))
    lines = [json.loads(line) for line in file.path.read_text().splitlines()]
    changed = [line | {part: value} if line.get(part) else line for line in lines]
    assert changed != lines
    file.path.write_text("".join(json.dumps(line) + "\n" for line in changed))
    with pytest.raises(BrokenRoots, match=said):
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


def test_a_key_that_was_not_published_proves_nothing(tmp_path: Path) -> None:
    """The file's own line may be by somebody who could make the service write it."""
    file = RootsFile(tmp_path, 3)
    made = statements(2)
    file.append(KEY, made)
    file.append(LATER_KEY, statements(1, LATER_KEY, 3, made[1].digest))
    with pytest.raises(BrokenRoots, match="not among the keys"):
        list(read_roots(file.path, {KEY.id: KEY}))


@pytest.mark.parametrize("pinned", [PINNED, None], ids=["published", "of the file"])
def test_a_retired_key_signs_nothing_more(tmp_path: Path, pinned: dict[str, ProvenKey] | None) -> None:
    """As whoever it leaked to would have it sign. A minute is for owners that take the change over."""
    file, made = RootsFile(tmp_path, 3), statements(2)
    made += statements(1, LATER_KEY, 3, made[1].digest, 4)
    made += statements(1, KEY, 4, made[2].digest, 60_004)
    for one in made:
        file.append(PINNED[one.key_id], [one])
    assert len(list(read_roots(file.path, pinned))) == 4
    file.append(KEY, statements(1, KEY, 5, made[3].digest, 60_005))
    with pytest.raises(BrokenRoots, match="statement 5 of series 3 is of a time at which its key"):
        list(read_roots(file.path, pinned))


def test_a_line_names_a_key_by_its_hash(tmp_path: Path) -> None:
    file = RootsFile(tmp_path, 3)
    file.append(KEY._replace(public=LATER_KEY.public), statements(1))
    with pytest.raises(BrokenRoots, match="another public half"):
        numbers(file.path)
