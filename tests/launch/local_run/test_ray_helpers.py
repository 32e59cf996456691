"""Guards what a local run has Ray start and load: no more than it needs, and all as before where Ray has changed."""

import os
from typing import Any

import pytest
from ray._private import node, ray_constants, utils

from actors.launch.local_run import ray_helpers
from actors.launch.local_run.ray_helpers import set_up_workers, without_helpers
from bench.product import ROOT

STARTERS = ("start_log_monitor", "start_monitor", "start_api_server")


class Started(Exception):
    """Ray would start it now."""


def _starts(*_: Any, **__: Any) -> None:
    raise Started


@pytest.fixture
def starting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in STARTERS:
        assert hasattr(node.Node, name), f"Ray starts it in another way: {name}"
        monkeypatch.setattr(node.Node, name, _starts)


def test_ray_starts_no_helper_during_the_start_and_any_afterwards(starting: None) -> None:
    ray_node: Any = object.__new__(node.Node)
    with without_helpers():
        ray_node.start_log_monitor()
        ray_node.start_monitor()
        ray_node.start_api_server(include_dashboard=False, raise_on_failure=False)
        assert utils.get_dashboard_dependency_error()
    for name in STARTERS:
        with pytest.raises(Started):
            getattr(ray_node, name)()
    assert not utils.get_dashboard_dependency_error()


def test_a_start_that_fails_leaves_ray_as_it_was(starting: None) -> None:
    with pytest.raises(ValueError, match="no start"), without_helpers():
        raise ValueError("no start")
    with pytest.raises(Started):
        node.Node.start_monitor(object())


def test_a_ray_with_other_parts_starts_what_it_starts(starting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper too many is no reason not to run."""
    monkeypatch.delattr(node.Node, "start_monitor")
    with without_helpers():
        assert not hasattr(node.Node, "start_monitor")
        node.Node.start_log_monitor(object())


def test_workers_are_told_once_and_a_ray_without_the_hook_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    name = ray_constants.WORKER_PROCESS_SETUP_HOOK_ENV_VAR
    monkeypatch.setattr(ray_helpers.worker_setup, "leave_pandas_out", lambda: done.append("here"))
    monkeypatch.setitem(os.environ, name, "")
    monkeypatch.setitem(os.environ, "PYTHONPATH", "/of/the/user")
    set_up_workers()
    assert os.environ["PYTHONPATH"] == f"{ROOT}{os.pathsep}/of/the/user"  # The hook runs before Ray tells the path.
    assert done == ["here"] and os.environ[name] == "actors.launch.local_run.worker_setup.<lambda>"
    monkeypatch.setitem(os.environ, name, "")
    monkeypatch.delattr(ray_constants, "WORKER_PROCESS_SETUP_HOOK_ENV_VAR")
    set_up_workers()
    assert os.environ[name] == ""
