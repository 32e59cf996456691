"""Deploys on a running cluster: reads the settings of now, refuses what cannot be taken over, tells the outcome.

Implements: launch/README.md, "A new deployment". Ray's processes keep the environment that they were started with, and
Serve builds an application again only where its file differs. So `serve deploy` alone would take over no setting, and
say that it succeeded. `python -m actors.launch.operator.deployment serve.yaml FILE` names FILE, with the settings of
/etc/ledger-gateway.env, to the build, and makes each deployment a new one.
"""

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from actors.clock import Clock, SystemClock
from actors.config import ENVIRONMENT_PREFIX, Config, ConfigError
from actors.config_loader import load
from actors.launch.front.installation import settings_that_differ
from actors.launch.local_run.cluster import APPLICATION
from actors.launch.local_run.memo_setup import with_memos
from actors.launch.local_run.sponsor_setup import with_sponsor
from actors.launch.local_run.start_checks import require_own_stores
from actors.launch.local_run.stores import require_cluster_settings
from actors.launch.local_run.tpu_identity import with_tpu_identity
from actors.storage.connections import StoreUnreachable
from actors.storage.schema_plan import SchemaMismatch

_LINE = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)=(.*)")
_ALIASES = ("DATABASE_URL", "REDIS_URL")
_DASHBOARD = "http://127.0.0.1:8265"  # Ray's own default.
_STORES_SECONDS = 5.0
_POLL_SECONDS, _OUTCOME_SECONDS = 0.5, 900.0
_OVERTAKEN = (
    "another deployment came after it, and the last one counts: `serve status` shows its outcome; where it was not "
    "meant, write the settings of this one into the file again, and deploy"
)
_USAGE = "usage: python -m actors.launch.operator.deployment serve.yaml /etc/ledger-gateway.env"


def cluster_config(arguments: Mapping[str, str], environ: Mapping[str, str]) -> Config:
    """Return the settings of a deployment on a cluster, all of which it can take over.

    arguments: of the application. `environment`: a file of lines NAME=value, whose settings replace all of the
    environment, which is that of Ray's start; `config`: a TOML file, below both. Raises ConfigError, and
    StoreUnreachable where a store does not answer.
    """
    file, lines = arguments.get("config"), arguments.get("environment")
    current = environ if lines is None else _of_file(Path(lines), environ)
    loaded = load(current, Path(file) if file else None).config
    config = with_sponsor(with_memos(with_tpu_identity(loaded), None), None, None)
    require_cluster_settings(config)
    _require_takeover(config, environ)
    asyncio.run(require_own_stores(config, _STORES_SECONDS))
    return config


@contextmanager
def refusals_for_serve() -> Iterator[None]:
    """Turn a refusal into Serve's own exception: its status then has the text alone, and no traceback, and Serve does
    not build three times more."""
    from ray.serve.exceptions import RayServeException  # Ray reads the environment while imported.

    try:
        yield
    except (ConfigError, StoreUnreachable, SchemaMismatch) as error:
        raise RayServeException(str(error)) from error


def _of_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return this environment with the file's settings in place of its own; read as deploy/environment.sh does."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); every machine of the cluster needs it") from None
    kept = {name: value for name, value in environ.items() if not _is_setting(name)}
    for line in text.split("\n"):
        if (found := _LINE.fullmatch(line)) is not None:
            name, value = found.groups()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            kept[name] = value[1:-1] if is_quoted else value
    return kept


def _is_setting(name: str) -> bool:
    return name.startswith(ENVIRONMENT_PREFIX) or name in _ALIASES


def _require_takeover(config: Config, environ: Mapping[str, str]) -> None:
    """Raise ConfigError for changed settings of the front, which a deployment does not reach."""
    changed = settings_that_differ(config, environ)
    mistakes = []
    if "storage.cluster_secret" in changed:
        mistakes.append(
            "storage.cluster_secret: a running cluster cannot change it, because its replicas, owners and HAProxies "
            "prove it to each other; stop Ray on all machines, start it with the new one, and deploy (what the old one "
            "sealed, the secrets of webhooks, cannot be read then: their owners rotate them); or write the old one back"
        )
    others = [name for name in changed if name != "storage.cluster_secret"]
    if others:
        mistakes.append(
            f"{', '.join(others)}: the front (HAProxy) has another value; run `. ./ray.env && .venv/bin/python -m "
            "actors.launch.front ~/.lg-front` on every machine first, and deploy again"
        )
    if mistakes:
        raise ConfigError("\n".join(mistakes))


# --- the command


def described(text: str, release: str, lines: str) -> Any:
    """Return Serve's description of the deployment: the file's, with the settings and the name of this release."""
    description = yaml.safe_load(text)
    (application,) = description["applications"]
    application["args"] = (application.get("args") or {}) | {"environment": lines, "release": release}
    return description


def outcome(details: Any, description: Any) -> tuple[bool, str] | None:
    """Return whether the deployment has been taken over, and why not; None: it is under way."""
    application = details["applications"].get(APPLICATION)
    if application is None:
        return None
    if _release_of(application["deployed_app_config"]) != _release_of(description["applications"][0]):
        return False, _OVERTAKEN  # Its status, and its message, are of the other one.
    if application["status"] in ("DEPLOYING", "NOT_STARTED"):
        return None
    if application["status"] == "RUNNING":
        return True, ""
    return False, str(application["message"] or application["status"]).strip()


def _release_of(application: Any) -> str | None:
    """Return the name of a deployment: of each, `described` makes another one."""
    release: str | None = ((application or {}).get("args") or {}).get("release")
    return release


async def deploy(
    client: Any, description: Any, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> tuple[bool, str]:
    """Deploy, and return whether it has been taken over, and why not. client: Serve's own of Ray's dashboard."""
    client.deploy_applications(description)
    deadline = clock.monotonic() + _OUTCOME_SECONDS
    while clock.monotonic() < deadline:
        await sleep(_POLL_SECONDS)
        if (found := outcome(client.get_serve_details(), description)) is not None:
            return found
    return False, f"it is still under way after {_OUTCOME_SECONDS:.0f} s; `serve status` tells more"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        sys.stderr.write(f"{_USAGE}\n")
        return 2
    from ray.dashboard.modules.serve.sdk import ServeSubmissionClient  # Ray reads the environment while imported.

    description_path, lines = Path(arguments[0]), Path(arguments[1]).absolute()
    clock = SystemClock()
    description = described(description_path.read_text(encoding="utf-8"), str(clock.now_ms()), str(lines))
    client = ServeSubmissionClient(os.environ.get("RAY_DASHBOARD_ADDRESS", _DASHBOARD))
    is_taken_over, why_not = asyncio.run(deploy(client, description, clock))
    if not is_taken_over:
        first = "" if why_not == _OVERTAKEN else "The deployment was refused; what was deployed before goes on.\n"
        sys.stderr.write(f"{first}{why_not}\n")
        return 1
    sys.stdout.write("Deployed.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
