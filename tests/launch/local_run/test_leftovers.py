"""Guards that restarts do not pile up files, and that only our own are removed."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from actors.launch.local_run import leftovers


def test_of_the_replicas_logs_the_newest_stay(tmp_path: Path) -> None:
    """Rule: each start makes log files of new names; they are bounded, and no other log is touched."""
    names = [f"gateway-{number}.jsonl{suffix}" for number in range(100, 110) for suffix in ("", ".1")]
    for age, name in enumerate(names):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    others = {"account-shard-0.jsonl", "postgres.log", "gateway.txt", "gateway-99.jsonl.1.gz", "gateway-mine.jsonl"}
    for name in others:
        (tmp_path / name).write_text("x")
    leftovers.remove_old_logs(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == others | set(names[:8])


def test_the_scratch_folder_of_a_killed_run_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: kill -9 leaves a folder, the next start removes it; one that was tidied up already is no obstacle."""
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = leftovers.make_scratch(tmp_path / "run")
    (first / "admin.sock").write_text("")
    second = leftovers.make_scratch(tmp_path / "run")
    assert not first.exists()
    shutil.rmtree(second)
    assert leftovers.make_scratch(tmp_path / "run").is_dir()


def test_a_copy_of_a_data_folder_leaves_alone_what_the_original_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: the record of a running instance is copied along with its folder; its sockets are not the copy's."""
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    running = leftovers.make_scratch(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert leftovers.make_scratch(tmp_path / "copy") != running
    assert running.is_dir()


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"\xff"])
def test_a_spoilt_record_is_no_obstacle(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: after a power failure a file may hold anything; the product starts all the same."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "scratch").write_bytes(content)
    assert leftovers.make_scratch(tmp_path).is_dir()


@pytest.mark.parametrize("kind", ["link", "file", "another name"])
def test_what_somebody_else_made_is_not_removed(tmp_path: Path, kind: str) -> None:
    """Rule: below /tmp anybody may have taken the name since."""
    (tmp_path / "run").mkdir()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "owner").write_text(str((tmp_path / "run").resolve()))
    recorded = precious if kind == "another name" else tmp_path / "ledger-gateway-x"
    if kind == "link":
        recorded.symlink_to(precious)
    if kind == "file":
        recorded.write_text("x")
    (tmp_path / "run" / "scratch").write_text(str(recorded))
    shutil.rmtree(leftovers.make_scratch(tmp_path / "run"))
    assert precious.exists()
    assert recorded.exists()
