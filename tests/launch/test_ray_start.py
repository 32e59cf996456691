"""Ray's start on a machine that is busy."""

from typing import Any

import pytest
import ray

from actors.launch.local_run import cluster

_SLOW = "The current node timed out during startup. This could happen because ..."


@pytest.mark.parametrize(("words", "attempts"), [(_SLOW, 2), ("another reason", 1)])
def test_a_start_that_took_too_long_is_tried_once_more(
    monkeypatch: pytest.MonkeyPatch, words: str, attempts: int
) -> None:
    """Ray gives its own processes 30 s, and has no setting for it. What fails for another reason, or twice, is told."""
    asked: list[dict[str, Any]] = []
    set_up: list[bool] = []

    def init(**given: Any) -> None:
        assert set_up == [True]
        asked.append(given)
        raise RuntimeError(words)

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(cluster, "set_up_workers", lambda: set_up.append(True))  # It changes this process.
    with pytest.raises(cluster.StartFailed, match=r"Ray did not start: .* try again"):
        cluster.start_ray({})
    assert len(asked) == attempts
