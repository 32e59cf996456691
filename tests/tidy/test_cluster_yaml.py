"""cluster.yaml is a file that Ray's own tools accept, with the environment that a local run has."""

import json
import os
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from actors.config import ServeConfig
from actors.launch.front.installation import GRPC_SERVICES
from actors.launch.local_run.cluster import APPLICATION, ray_environment
from actors.release import RELEASE
from tests.tidy.sources import ROOT

CLUSTER: dict[str, Any] = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))


# How soon a machine is given up, and who brings machines up: a local run has one machine alone.
BETWEEN_MACHINES = ("RAY_health_check_", "RAY_gcs_rpc_server_reconnect_timeout_s", "RAY_enable_autoscaler_v2")


def written(commands: list[str], file: str) -> str:
    """What a here-document among the commands writes into the file."""
    (command,) = (command for command in commands if f"cat > ~/ledger-gateway/{file} <<'END'\n" in command)
    return command.partition("<<'END'\n")[2].partition("END\n")[0]


def settings() -> dict[str, str]:
    lines = written(CLUSTER["setup_commands"], "ray.env").splitlines()
    pairs = (line.partition("=") for line in lines if not line.startswith("#"))
    return {name: value.strip('"') for name, equals, value in pairs if equals}


def test_rays_launcher_accepts_it() -> None:
    """The schema of the Ray that is installed."""
    schema = json.loads(resources.files("ray.autoscaler").joinpath("ray-schema.json").read_text())
    jsonschema.validate(CLUSTER, schema)


def test_it_names_the_release_that_it_installs(tmp_path: Path) -> None:
    """Ray passes new code on to the workers only where this file has changed, so an installation of other code ends."""
    install = CLUSTER["setup_commands"][0]
    assert f"release={RELEASE}\n" in install
    code = tmp_path / "ledger-gateway" / "actors"
    code.mkdir(parents=True)
    (code / "release.py").write_text(f'RELEASE = "{RELEASE}.1"\n', encoding="utf-8")
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["bash", "-c", install], env=environment, capture_output=True, text=True, check=False, timeout=20
    )
    assert done.returncode == 1
    assert done.stderr == (
        f'cluster.yaml says release={RELEASE}, but the code has RELEASE = "{RELEASE}.1": correct cluster.yaml\n'
    )
    assert not (tmp_path / "ledger-gateway" / ".venv").exists()


def test_serve_accepts_its_part() -> None:
    """One application (design, "Measured facts"), built by a function that exists."""
    deploy = ServeDeploySchema.model_validate(yaml.safe_load(written(CLUSTER["head_setup_commands"], "serve.yaml")))
    (application,) = deploy.applications
    assert application.name == APPLICATION
    module, function = str(application.import_path).split(":")
    assert f"def {function}(" in (ROOT / f"{module}.py").read_text(encoding="utf-8")
    assert deploy.http_options.port == ServeConfig().http_port
    assert deploy.grpc_options.port == ServeConfig().grpc_port
    assert deploy.grpc_options.grpc_servicer_functions == [GRPC_SERVICES]
    assert deploy.logging_config is not None
    assert not deploy.logging_config.enable_access_log


def test_the_measured_settings_are_there_before_ray_starts() -> None:
    """Design, "Measured facts": without them the cluster serves a twentieth of the rate."""
    found = settings()
    assert found["RAY_SERVE_ENABLE_HA_PROXY"] == "1"
    assert found["RAY_SERVE_THROUGHPUT_OPTIMIZED"] == "1"
    assert found["RAY_SERVE_HAPROXY_METRICS_ENABLED"] == "0"
    assert found["RAY_worker_niceness"] == "0"
    for role in ("head", "worker"):
        start = CLUSTER[f"{role}_start_ray_commands"][-1]
        assert start.index("ray.env") < start.index("ray start")


def test_a_cluster_and_a_local_run_do_not_drift_apart() -> None:
    """What both set, both set alike; the files of the front are the same ones in another folder."""
    local = ray_environment(ServeConfig(), Path("$HOME/.lg-front"))
    for name, value in settings().items():
        if not name.startswith(BETWEEN_MACHINES):
            assert local[name] == value, name


def test_every_machine_has_the_front_before_ray_starts() -> None:
    """Without it HAProxy would tell no addresses, and open its figures to the network; a start without it fails."""
    program = settings()["RAY_SERVE_HAPROXY_BINARY_PATH"]
    for role in ("head", "worker"):
        start = CLUSTER[f"{role}_start_ray_commands"][-1]
        prepare = "-m actors.launch.front ~/.lg-front && "
        assert prepare in start.replace("&&\n", "&& ")
        assert start.index(prepare.strip(" &")) < start.index("ray start")
    assert Path(program).parent == Path("$HOME/.lg-front")
    node_id, home = "n" * 56, "/home/ledger"
    assert len(program.replace("$HOME", home).replace("haproxy", f"{node_id}/admin.sock")) <= 97


def test_a_lost_machine_is_given_up_within_six_seconds() -> None:
    """actors/launch/README.md, "A new deployment": the owners of accounts that start elsewhere then serve within ten
    seconds. Ray's own settings are 65 s for a silent machine."""
    found = {name: int(value) for name, value in settings().items() if name.startswith("RAY_health_check_")}
    period, timeout = found["RAY_health_check_period_ms"], found["RAY_health_check_timeout_ms"]
    assert found["RAY_health_check_failure_threshold"] * (period + timeout) <= 6_000
    assert int(settings()["RAY_gcs_rpc_server_reconnect_timeout_s"]) == 600


VALUES = {
    "DATABASE_URL": "postgresql://u:p@h/db?a=b&c=d",
    "SECRET": "$HOME `id` ; x \\ # '",
    "QUOTED": "two words",
    "EMPTY": "",
    "LAST": "z",
}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_shared_settings_may_have_any_character(tmp_path: Path, shell: str) -> None:
    """A line of the file is a value and no command: an & in a URL made the URL empty."""
    lines = ["# a comment", "", *(f"{name}={value}" for name, value in VALUES.items() if name != "QUOTED")]
    lines.insert(2, 'QUOTED="two words"')
    file = tmp_path / "ledger-gateway.env"
    file.write_text("\n".join(lines), encoding="utf-8")  # No end of line after the last one.
    script = f". {ROOT / 'deploy/environment.sh'} && exec env -0"
    done = subprocess.run(
        [shell, "-c", f"set -- {file}; {script}"], capture_output=True, check=True, timeout=20, env={}
    )
    found = dict(line.split("=", 1) for line in done.stdout.decode().split("\0") if line)
    assert {name: found.get(name) for name in VALUES} == VALUES


def test_a_missing_file_of_settings_is_named(tmp_path: Path) -> None:
    """A machine must not start without the settings that all machines share."""
    script = f"set -- {tmp_path / 'none'}; . {ROOT / 'deploy/environment.sh'} && echo started"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout) == (1, "")
    assert str(tmp_path / "none") in done.stderr
