"""The comparison of two trees: pairs of one round, and nothing left behind."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import pair
from bench.calls import Row
from bench.figures import Load
from bench.pair import OTHER, THIS, compared, scatter, worktree


def row(per_second: int, cpu_seconds: float = 1.0) -> Row:
    return Row("", Load("python", 8, 1.0, per_second, 0, 1.0, 2.0), {"all": cpu_seconds}, 0, None)


def test_a_ratio_is_of_two_steps_of_one_round() -> None:
    """A machine that becomes slower between two rounds changes no ratio."""
    one = {THIS: [row(200), row(100), row(20)], OTHER: [row(100), row(50), row(10)]}
    found = compared([one])
    assert (found["ratio of calls/s"], found["scatter of calls/s"]) == (2.0, 0.0)
    assert (found["ratio of CPU"], found["this tree, calls/s"]) == (0.5, 100)
    found = compared([one, {THIS: [row(30)], OTHER: [row(10)]}, {THIS: [row(40), row(80)], OTHER: [row(10), row(20)]}])
    assert (found["ratio of calls/s"], found["scatter of calls/s"]) == (3.0, 0.5), "of pairs, not of their rounds"
    assert scatter([1.0]) == 0.0 and scatter([1.0, 2.0, 3.0]) == 0.5


def test_another_tree_is_there_and_gone(tmp_path: Path) -> None:
    """Also from git's own list of worktrees, and after a failure."""

    def git(*arguments: str) -> str:
        settings = ("-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *settings, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    (tmp_path / "file").write_text("text")
    git("init", "--quiet")
    git("add", "file")
    git("commit", "--quiet", "--message", "one")
    with pytest.raises(KeyError), worktree("HEAD", tmp_path) as tree:
        assert (tree / "file").read_text() == "text" and str(tree) in git("worktree", "list")
        raise KeyError
    assert not tree.parent.exists() and str(tree) not in git("worktree", "list")
    with pytest.raises(ChildProcessError, match="nothing-like-this"), worktree("nothing-like-this", tmp_path):
        pass


def test_together_both_are_loaded_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the other when its measured part begins; one after the other would wait for ever."""

    def step(system: Any, connections: int, seconds: float, warm_up: float, ready: Any = None) -> Any:
        if ready is not None:
            ready()
        return system, ready is not None

    monkeypatch.setattr(pair, "step", step)
    both: Any = ["a", "b"]
    assert pair.loaded(both, 8, 1.0, together=True) == [("a", True), ("b", True)]
    assert pair.loaded(both, 8, 1.0, together=False) == [("a", False), ("b", False)]
