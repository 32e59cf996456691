"""The comparison of two trees: pairs of one round, and nothing left behind."""

import subprocess

import pytest

from bench.calls import Row
from bench.figures import Load
from bench.pair import OTHER, THIS, compared, scatter, worktree
from bench.product import ROOT


def row(per_second: int, cpu_seconds: float = 1.0) -> Row:
    return Row("", Load("python", 8, 1.0, per_second, 0, 1.0, 2.0), {"all": cpu_seconds}, 0, None)


def test_a_ratio_is_of_two_steps_of_one_round() -> None:
    """A machine that becomes slower between two rounds changes no ratio."""
    found = compared({THIS: [row(200), row(100), row(20)], OTHER: [row(100), row(50), row(10)]})
    assert (found["ratio of calls/s"], found["scatter of calls/s"]) == (2.0, 0.0)
    assert (found["ratio of CPU"], found["this tree, calls/s"]) == (0.5, 100)
    assert scatter([1.0]) == 0.0 and scatter([1.0, 2.0, 3.0]) == 0.5


def test_another_tree_is_there_and_gone() -> None:
    """Also from git's own list of worktrees, and after a failure."""

    def listed() -> str:
        return subprocess.run(["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    with pytest.raises(KeyError), worktree("HEAD") as tree:
        assert (tree / "serve_app.py").exists() and str(tree) in listed()
        raise KeyError
    assert not tree.parent.exists() and str(tree) not in listed()
    with pytest.raises(ChildProcessError, match="nothing-like-this"), worktree("nothing-like-this"):
        pass
