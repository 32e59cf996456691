"""Checkpoint files: written whole, read in order, refused when anything in them was changed."""

import stat
from pathlib import Path

import pytest

from actors.accounts.checkpoint import Checkpoint, CheckpointError, CheckpointWriter, load_key
from actors.accounts.facts import ChainLink

KEY = b"k" * 32
ONE, TWO, THREE = (bytes([number]) * 32 for number in (1, 2, 3))


def written(path: Path, key: bytes = KEY) -> Path:
    writer = CheckpointWriter(path, key, 1_700_000_000)
    writer.account(ONE, ChainLink(5, b"one"))
    writer.account(THREE, ChainLink(0, b"three"))
    writer.shard(-1, ChainLink(1, b"codes"))
    writer.shard(7, ChainLink(9, b"seven"))
    writer.finish()
    return path


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    read = Checkpoint(written(tmp_path / "file"), KEY)
    assert read.at == 1_700_000_000
    assert read.shards == {-1: ChainLink(1, b"codes"), 7: ChainLink(9, b"seven")}
    assert read.link_of(ONE) == (ChainLink(5, b"one"), [])
    assert read.link_of(TWO) == (None, [])
    assert read.link_of(THREE) == (ChainLink(0, b"three"), [])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_accounts_that_are_passed_over_are_told(tmp_path: Path) -> None:
    """An account that the checkpoint has and the tables have not."""
    read = Checkpoint(written(tmp_path / "file"), KEY)
    assert read.link_of(b"\xff" * 33) == (None, [ONE, THREE])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b" 5 ", b" 6 "),
        (b"account " + ONE.hex().encode(), b"account " + TWO.hex().encode()),
        (b"shard 7 9", b"shard 8 9"),
        (b"1700000000", b"1700000001"),
        (b"hmac-sha256 ", b"hmac-sha256 00"),
        (b"hmac-sha256", b"none"),
        (b"ledger-gateway checkpoint 1 ", b"another file "),
    ],
)
def test_a_checkpoint_that_was_changed_is_refused(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = written(tmp_path / "file")
    raw = path.read_bytes()
    assert raw.count(before) == 1
    path.write_bytes(raw.replace(before, after))
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        Checkpoint(path, KEY)


def test_a_checkpoint_that_was_cut_or_continued_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "file")
    raw = path.read_bytes()
    for other in (b"", raw[: raw.index(b"shard")], raw + b"shard 9 1 00\n", b"\xff\n"):
        path.write_bytes(other)
        with pytest.raises(CheckpointError):
            Checkpoint(path, KEY)
    with pytest.raises(CheckpointError):
        Checkpoint(tmp_path / "absent", KEY)


def test_a_checkpoint_of_another_key_is_refused(tmp_path: Path) -> None:
    """A person with the database cannot make one that passes."""
    with pytest.raises(CheckpointError, match="signature"):
        Checkpoint(written(tmp_path / "file", b"x" * 32), KEY)


def test_one_that_is_not_finished_leaves_the_earlier_one(tmp_path: Path) -> None:
    path = written(tmp_path / "file")
    before = path.read_bytes()
    writer = CheckpointWriter(path, KEY, 2)
    writer.account(ONE, ChainLink(6, b"one"))
    writer.discard()
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["file"]
    with pytest.raises(CheckpointError, match="cannot be written"):
        CheckpointWriter(tmp_path / "no" / "folder", KEY, 2)


def test_the_key_is_made_once_and_kept_to_its_owner(tmp_path: Path) -> None:
    """Only when a checkpoint is written for the first time: a comparison with a new key could never pass."""
    path = tmp_path / "key"
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_key(path, make=False)
    key = load_key(path, make=True)
    assert len(key) == 32 and load_key(path, make=True) == load_key(path, make=False) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("00")
    with pytest.raises(CheckpointError, match="wanted 32"):
        load_key(path, make=True)
