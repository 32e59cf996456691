"""Guards that restarts do not pile up files, and that only our own are removed."""

import os
from pathlib import Path

import pytest

from actors.launch import leftovers


def test_of_the_replicas_logs_the_newest_stay(tmp_path: Path) -> None:
    """Rule: each start makes log files of new names; they are bounded, and no other log is touched."""
    names = [f"gateway-{number}.jsonl{suffix}" for number in range(100, 110) for suffix in ("", ".1")]
    for age, name in enumerate(names):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    others = {"account-shard-0.jsonl", "postgres.log", "gateway.txt"}
    for name in others:
        (tmp_path / name).write_text("x")
    leftovers.remove_old_logs(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == others | set(names[:8])


def test_the_scratch_folder_of_a_killed_run_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: kill -9 leaves a folder, the next start removes it; one that was tidied up already is no obstacle."""
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(leftovers.tempfile, "tempdir", str(tmp_path))
    first = leftovers.make_scratch(tmp_path / "run")
    (first / "admin.sock").write_text("")
    second = leftovers.make_scratch(tmp_path / "run")
    assert not first.exists()
    second.rmdir()
    assert leftovers.make_scratch(tmp_path / "run").is_dir()


@pytest.mark.parametrize("kind", ["link", "file", "another name"])
def test_what_somebody_else_made_is_not_removed(tmp_path: Path, kind: str) -> None:
    """Rule: below /tmp anybody may have taken the name since."""
    (tmp_path / "run").mkdir()
    precious = tmp_path / "precious"
    precious.mkdir()
    recorded = precious if kind == "another name" else tmp_path / "ledger-gateway-x"
    if kind == "link":
        recorded.symlink_to(precious)
    if kind == "file":
        recorded.write_text("x")
    (tmp_path / "run" / "scratch").write_text(str(recorded))
    os.rmdir(leftovers.make_scratch(tmp_path / "run"))
    assert precious.exists()
    assert recorded.exists()
