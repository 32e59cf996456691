"""deploy/: manifests that KubeRay and Serve accept, with the settings of cluster.yaml, and an image with all parts."""

import gzip
import re
import subprocess
from typing import Any

import jsonschema
import pytest
import yaml
from ray.serve.schema import ServeDeploySchema

from tests.tidy.sources import ROOT
from tests.tidy.test_cluster_yaml import CLUSTER, settings, written

DEPLOY = ROOT / "deploy"
DEFINITION = ROOT / "tests/fixtures/kuberay/ray.io_rayservices.yaml.gz"
FRONT = "/front/f"


def manifest(name: str) -> dict[str, Any]:
    (found,) = yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def closed(schema: Any) -> Any:
    """The schema as an API server applies it: a field that it does not know is an error."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {}
    made = {name: closed(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict):
        made["properties"] = {name: closed(part) for name, part in schema["properties"].items()}
        made.setdefault("additionalProperties", False)
    return made


@pytest.fixture(scope="module")
def rayservice() -> jsonschema.Draft202012Validator:
    if not DEFINITION.exists():
        pytest.skip(f"KubeRay's definition is not there: {DEFINITION}")
    parts = yaml.load_all(gzip.decompress(DEFINITION.read_bytes()), Loader=yaml.CSafeLoader)
    definition = next(part for part in parts if part)
    (version,) = (found for found in definition["spec"]["versions"] if found["name"] == "v1")
    schema = closed(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(schema)


def test_kuberay_accepts_the_service(rayservice: jsonschema.Draft202012Validator) -> None:
    """By KubeRay's own definition, and a misspelt field is found."""
    service = manifest("rayservice.yaml")
    assert [error.message for error in rayservice.iter_errors(service)] == []
    service["spec"]["upgradeStrategi"] = {}
    assert [error.message for error in rayservice.iter_errors(service)] != []


def test_a_change_starts_no_second_cluster() -> None:
    """Money rule 5: two clusters would be two owners of each account, until the database fences one."""
    assert manifest("rayservice.yaml")["spec"]["upgradeStrategy"] == {"type": "None"}


def test_serve_is_deployed_as_by_rays_launcher() -> None:
    """One application, told in one way."""
    here = yaml.safe_load(manifest("rayservice.yaml")["spec"]["serveConfigV2"])
    ServeDeploySchema.model_validate(here)
    assert here == yaml.safe_load(written(CLUSTER["head_setup_commands"], "serve.yaml"))


def test_pods_have_the_environment_of_rays_launcher() -> None:
    """All but the limit for a lost head, which KubeRay sets on workers itself, and the autoscaler's version, which it
    chooses."""
    wanted = {name: value.replace("$HOME/.lg-front", FRONT) for name, value in settings().items()}
    del wanted["RAY_gcs_rpc_server_reconnect_timeout_s"], wanted["RAY_enable_autoscaler_v2"]
    assert manifest("ray-environment.yaml")["data"] == wanted


def test_every_pod_has_the_front_before_ray_starts() -> None:
    """And runs as a user without rights, on the ports that the network's rules leave open."""
    cluster = manifest("rayservice.yaml")["spec"]["rayClusterConfig"]
    (rule, public, _) = manifest("network-policy.yaml")["spec"]["ingress"]
    assert "from" in rule
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (front,), (ray,) = pod["initContainers"], pod["containers"]
        assert front["command"][-3:] == ["-m", "actors.launch.front", FRONT]
        assert front["envFrom"] == ray["envFrom"]
        assert front["volumeMounts"] == ray["volumeMounts"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert [{"port": port["containerPort"]} for port in ray["ports"]] == public["ports"]


def test_the_image_copies_what_is_there_and_every_package() -> None:
    """A folder that is missing in the image would be noticed on the cluster only."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    copied = [name for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {"actors", "devnode", "ledger_gateway", "serve_app.py", "deploy"} <= set(copied)
    assert re.search(r"^USER \d+$", text, re.MULTILINE)
    pinned = re.search(r"^ray==([0-9.]+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    assert manifest("rayservice.yaml")["spec"]["rayClusterConfig"]["rayVersion"] == pinned[1]


@pytest.mark.parametrize("prepares", [False, True])
def test_the_entry_point_prepares_the_front_and_becomes_the_command(prepares: bool) -> None:
    """A stand-in for python says how it was called; the command gets its own arguments."""
    environment = {"PATH": "/usr/bin:/bin", **({"LEDGER_FRONT_FOLDER": "/tmp/none"} if prepares else {})}
    script = f'python() {{ echo prepared "$@"; }}; . {DEPLOY / "entrypoint.sh"}'
    command = ["sh", "-c", script, "entrypoint", "echo", "ran"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=20)
    lines = ["prepared -m actors.launch.front /tmp/none"] * prepares + ["ran"]
    assert done.stdout.splitlines() == lines
