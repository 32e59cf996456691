"""Guards what a deployment on a cluster takes over: the settings of now, or none of them, with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve.exceptions import RayServeException

from actors.clock import ManualClock
from actors.config import Config, ConfigError
from actors.config_loader import load
from actors.launch.front import installation as front
from actors.launch.operator import deployment
from actors.launch.operator.deployment import cluster_config, deploy, described, outcome, refusals_for_serve
from actors.storage.connections import StoreUnreachable
from tests.tidy.sources import ROOT
from tests.tidy.test_cluster_yaml import CLUSTER, VALUES, written

SETTINGS = {
    "DATABASE_URL": "postgresql://product:p@127.0.0.1:1/ledger",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "LEDGER_STORAGE__CLUSTER_SECRET": "s" * 40,
    "LEDGER_UPSTREAM__NODE_URL": "http://127.0.0.1:2",
    "LEDGER_PAYMENTS__DEPOSIT_WALLET": "So11111111111111111111111111111111111111112",
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Machine":
    """A machine whose Ray was started with SETTINGS, and whose stores answer."""

    async def answering(config: Config, seconds: float) -> None:
        assert config.storage.postgres_url is not None and seconds > 0

    monkeypatch.setattr(deployment, "require_own_stores", answering)
    return Machine(tmp_path)


class Machine:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "ledger-gateway.env"
        installed = front.settings_of(load(SETTINGS).config, folder / "pages", None, None, has_spare=False)
        fields = {name: getattr(installed, name) for name in installed.__dataclass_fields__}
        (folder / "front.json").write_text(json.dumps(fields, default=str), encoding="utf-8")
        self.environ = SETTINGS | {"RAY_SERVE_HAPROXY_BINARY_PATH": str(folder / "haproxy"), "PATH": "/bin"}

    def deployed(self, **changed: str) -> Config:
        self.file.write_text("".join(f"{name}={value}\n" for name, value in (SETTINGS | changed).items()))
        return cluster_config({"environment": str(self.file)}, self.environ)


def test_settings_are_those_of_the_file_as_it_is_now(machine: Machine) -> None:
    """Ray's processes keep the environment of their start: a deployment took over nothing, and said it had."""
    assert machine.deployed().pricing.base_credits == 2
    assert machine.deployed(LEDGER_PRICING__BASE_CREDITS="7").pricing.base_credits == 7
    machine.environ["LEDGER_PRICING__BASE_CREDITS"] = "9"
    assert machine.deployed().pricing.base_credits == 2, "a line that was removed from the file holds no more"
    assert cluster_config({}, machine.environ).pricing.base_credits == 9, "without a file, as on Kubernetes"


def test_a_file_is_read_as_the_shell_reads_it(tmp_path: Path) -> None:
    """As deploy/environment.sh, which a test of cluster.yaml compares with the same values."""
    lines = ["# a comment", "", "not a setting", 'QUOTED="two words"']
    lines += [f"{name}={value}" for name, value in VALUES.items() if name != "QUOTED"]
    (tmp_path / "file").write_text("\n".join(lines), encoding="utf-8")
    found = deployment._of_file(tmp_path / "file", {"DATABASE_URL": "old", "LEDGER_X__Y": "old", "PATH": "/bin"})
    assert found == VALUES | {"PATH": "/bin"}


def test_a_missing_file_is_named(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.env: cannot be read .*every machine"):
        cluster_config({"environment": str(tmp_path / "none.env")}, machine.environ)


def test_another_secret_of_the_cluster_is_refused_with_what_to_do(machine: Machine) -> None:
    """Its replicas, owners and HAProxies prove it to each other, and the secrets of webhooks are sealed with it."""
    with pytest.raises(ConfigError, match=r"storage\.cluster_secret: .*stop Ray on all machines.*rotate"):
        machine.deployed(LEDGER_STORAGE__CLUSTER_SECRET="t" * 40)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LEDGER_SERVE__CONNECTIONS_MAX", "4096"),
        ("LEDGER_SERVE__REQUEST_SECONDS_MAX", "9"),
        ("LEDGER_SERVE__TLS", "true"),
        ("LEDGER_IDENTITY__TRUSTED_PROXIES", "10.0.0.0/8"),
    ],
)
def test_settings_of_the_front_are_refused_until_it_has_them(machine: Machine, variable: str, value: str) -> None:
    """A deployment reaches no HAProxy: the new value would be told nowhere, or by the replicas alone."""
    setting = variable.removeprefix("LEDGER_").lower().replace("__", ".")
    with pytest.raises(ConfigError, match=rf"{setting}: the front .*actors\.launch\.front"):
        machine.deployed(**{variable: value})


def test_a_store_that_does_not_answer_is_refused() -> None:
    """Otherwise each owner would be replaced by one that cannot begin."""
    with pytest.raises(StoreUnreachable, match=r"(?s)DATABASE_URL.*REDIS_URL"):
        cluster_config({}, SETTINGS)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "_STORES_SECONDS", 0.01)


@pytest.mark.parametrize("error", [ConfigError("do this"), StoreUnreachable("do this")])
def test_serve_shows_a_refusal_without_a_traceback(error: Exception) -> None:
    """Of any other exception it shows the traceback, and builds three times more."""
    with pytest.raises(RayServeException, match=r"^do this$"), refusals_for_serve():
        raise error


class Dashboard:
    """Serve's own client, in place of a running Serve: what it answers, one after the other. overtaken: by a deployment
    which somebody else makes before the first answer."""

    def __init__(self, *answers: Any, overtaken: Any = None) -> None:
        self.answers, self.overtaken = list(answers), overtaken
        self.deployed: Any = None

    def deploy_applications(self, description: Any) -> None:
        self.deployed = description

    def get_serve_details(self) -> Any:
        (application,) = (self.overtaken or self.deployed)["applications"]
        return {"applications": {"ledger-gateway": self.answers.pop(0) | {"deployed_app_config": application}}}


WORKING = {"status": "DEPLOYING", "message": ""}
DESCRIPTION = {"applications": [{"args": {"environment": "/etc/x.env", "release": "1"}}]}


def test_each_deployment_is_a_new_one_for_serve() -> None:
    """Serve builds again only where the description differs, and the file of settings is not in it."""
    text = written(CLUSTER["head_setup_commands"], "serve.yaml")
    one, other = (described(text, release, "/etc/x.env") for release in ("1", "2"))
    assert one["applications"][0].pop("args") == {"environment": "/etc/x.env", "release": "1"}
    assert other["applications"][0].pop("args")["release"] == "2"
    assert one == other
    unchanged = yaml.safe_load(text)
    del unchanged["applications"][0]["args"]
    assert one == unchanged


async def test_the_outcome_is_waited_for_and_told() -> None:
    clock = ManualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    good = Dashboard(WORKING, WORKING, {"status": "RUNNING", "message": ""})
    assert await deploy(good, DESCRIPTION, clock, sleep) == (True, "")
    assert good.deployed == DESCRIPTION and good.answers == []
    bad = Dashboard(WORKING, {"status": "DEPLOY_FAILED", "message": "do this\n"})
    assert await deploy(bad, DESCRIPTION, clock, sleep) == (False, "do this")
    slow = Dashboard(*[WORKING] * 10_000)
    taken_over, why = await deploy(slow, DESCRIPTION, clock, sleep)
    assert not taken_over and "serve status" in why


def test_an_application_that_serve_does_not_list_yet_is_waited_for() -> None:
    assert outcome({"applications": {}}, DESCRIPTION) is None


@pytest.mark.parametrize("status", ["RUNNING", "DEPLOYING", "DEPLOY_FAILED"])
async def test_a_deployment_that_another_one_overtakes_is_not_told_to_have_succeeded(status: str) -> None:
    """Serve tells the state of the last one alone: the first said that it was deployed, and had taken over nothing."""

    async def sleep(_: float) -> None:
        pass

    other = described(yaml.safe_dump(DESCRIPTION), "2", "/etc/x.env")
    dashboard = Dashboard({"status": status, "message": ""}, overtaken=other)
    is_taken_over, why_not = await deploy(dashboard, DESCRIPTION, ManualClock(), sleep)
    assert not is_taken_over and "the last one counts" in why_not


def test_cluster_yaml_deploys_by_this_command() -> None:
    """`serve deploy` alone takes over no setting."""
    text = (ROOT / "cluster.yaml").read_text(encoding="utf-8")
    assert "-m actors.launch.operator.deployment serve.yaml /etc/ledger-gateway.env" in text
    assert "bin/serve deploy" not in text
