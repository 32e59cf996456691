"""Guards what a local run has Ray start and load: no more than it needs, and all as before where Ray has changed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ray._private import node, ray_constants, services

from actors.launch.local_run import ray_helpers
from actors.launch.local_run.ray_helpers import set_up_workers, use, with_stand_ins, without_helpers
from bench.product import ROOT

STARTERS = ("start_log_monitor", "start_monitor", "start_api_server")
NODE = "ab" * 28
AGENTS = ["--dashboard_agent_command=python agent.py", "--runtime_env_agent_command=python main.py"]


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
    for name in STARTERS:
        with pytest.raises(Started):
            getattr(ray_node, name)()


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


def test_the_raylet_has_programs_that_wait_in_place_of_its_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the ports of its agents, and ends with one of them."""
    asked: list[list[str]] = []
    monkeypatch.setattr(services, "start_ray_process", lambda command, *_, **__: asked.append(command))
    head = ["raylet", f"--session_dir={tmp_path}", f"--node_id={NODE}"]
    with without_helpers():
        services.start_ray_process([*head, *AGENTS], "raylet")
        services.start_ray_process(["gcs_server", f"--session_dir={tmp_path}"], "gcs_server")
    (*kept, dashboard, environments), other = asked
    assert kept == head and other == ["gcs_server", f"--session_dir={tmp_path}"]
    told = {path.name.removesuffix(f"_{NODE}"): path.read_text() for path in tmp_path.iterdir()}
    names = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
    assert told == dict.fromkeys(names, "-1")
    for argument in (dashboard, environments):
        assert argument.endswith("agent_stand_in.py")


@pytest.mark.parametrize("lacks", ["--session_dir", "--node_id", "persist_port", "the known version"])
def test_a_raylet_with_other_options_has_its_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    if lacks == "persist_port":
        monkeypatch.delattr("ray._raylet.persist_port")
    if lacks == "the known version":
        monkeypatch.setattr("ray.__version__", "2.61.0")
    command = ["raylet", f"--session_dir={tmp_path}", f"--node_id={NODE}", *AGENTS]
    command = [argument for argument in command if not argument.startswith(lacks)]
    assert with_stand_ins(command) == command and not [*tmp_path.iterdir()]


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


_ASKED = """
import os, sys
from ray._private import worker
from ray._private.runtime_env import uv_runtime_env_hook
uv_runtime_env_hook._get_uv_run_cmdline = lambda: ["uv", "run", "serve_app.py"]
print(worker._maybe_modify_runtime_env(None, False), os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR"))
"""


def test_nobody_asks_a_local_run_for_a_runtime_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under `uv run`, with a hook of the user's, or within a job: its raylet would end, and a command of an
    operator would take the whole run down."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    os.environ.update(RAY_RUNTIME_ENV_HOOK="of.the.user", RAY_JOB_CONFIG_JSON_ENV_VAR="{}")
    use({"RAY_AUTH_MODE": "token"})
    told = subprocess.run([sys.executable, "-c", _ASKED], env=os.environ, capture_output=True, text=True, check=True)
    assert told.stdout == "None None\n"
