"""Guards what a new deployment replaces: every actor that uses a changed setting, and no other."""

import pickle

import pytest
from pydantic import SecretStr

from actors.accounts import host as accounts
from actors.actor_settings import differences, fingerprint, part_of
from actors.config import Config, StorageConfig
from actors.deposits.usdc import host as deposits
from actors.memos import host as memos
from actors.sends import host as sends
from actors.signals import host as signals
from actors.streams.hub import host as hub
from actors.webhooks import host as webhooks

ACTORS = {
    "account owner": accounts.USES,
    "deposit watcher": deposits.USES,
    "memo sender": memos.USES,
    "racer": sends.USES,
    "classifier": signals.USES,
    "stream hub": hub.USES,
    "webhook dispatcher": webhooks.USES,
}
PASSWORD = "correct-horse"
SETTINGS = Config(
    storage=StorageConfig(
        postgres_url=SecretStr(f"postgresql://product:{PASSWORD}@db/ledger"),
        redis_url=SecretStr("redis://store"),
        cluster_secret=SecretStr("s" * 32),
    )
)


def changed(branch: str, **fields: object) -> Config:
    """The same settings but for these fields of one branch."""
    return SETTINGS.model_copy(update={branch: getattr(SETTINGS, branch).model_copy(update=fields)})


@pytest.mark.parametrize(
    ("settings", "replaced"),
    [
        pytest.param(changed("pricing", base_credits=3), set(), id="a price of a call"),
        pytest.param(changed("gateway", replicas=5, body_bytes_max=1_024), set(), id="settings of replicas"),
        pytest.param(
            changed("storage", postgres_migrations_url=SecretStr("postgresql://o@db/x")), set(), id="owner role"
        ),
        pytest.param(changed("payments", sponsor_key=SecretStr("another")), set(), id="sponsor's key"),
        pytest.param(changed("payments", credits_per_usdc=1), {"account owner"}, id="price of credits"),
        pytest.param(changed("accounts", concurrency=1), {"account owner"}, id="limits of accounts"),
        pytest.param(
            changed("storage", postgres_url=SecretStr("postgresql://product:battery-staple@db/ledger")),
            set(ACTORS),  # Each reads there which nodes an operator has changed.
            id="DATABASE_URL, of which only the password changed",
        ),
        pytest.param(
            changed("storage", redis_url=SecretStr("redis://other")),
            {"account owner", "classifier", "webhook dispatcher"},
            id="REDIS_URL",
        ),
        pytest.param(changed("memos", key=SecretStr("another")), {"memo sender"}, id="key of memos"),
        pytest.param(changed("upstream", node_url="http://other"), set(ACTORS) - {"account owner"}, id="node"),
        pytest.param(changed("storage", cluster_secret=SecretStr("t" * 32)), set(ACTORS), id="the cluster's secret"),
        pytest.param(changed("telemetry", log_level="DEBUG"), set(ACTORS), id="level of logs"),
    ],
)
@pytest.mark.threat(70)
def test_a_changed_setting_replaces_the_actors_that_use_it(settings: Config, replaced: set[str]) -> None:
    found = {name for name, uses in ACTORS.items() if fingerprint(settings, uses) != fingerprint(SETTINGS, uses)}
    assert found == replaced


@pytest.mark.parametrize("uses", ACTORS.values(), ids=ACTORS)
def test_a_fingerprint_reveals_no_secret(uses: tuple[str, ...]) -> None:
    """Not in clear, and not by trying values either: whoever tries them needs the cluster's secret as well."""
    found = fingerprint(SETTINGS, uses)
    assert not any(text in found for text in (PASSWORD, "s" * 8, "postgresql", "redis"))
    branches = {word.partition(":")[0] for word in found.split(" ")[1:]}
    other = fingerprint(changed("storage", cluster_secret=SecretStr("t" * 32)), uses)
    assert set(differences(found, other).split(", ")) == branches, "every hash is keyed"


def test_an_actor_cannot_read_a_setting_that_it_does_not_name() -> None:
    """Otherwise a setting could be used and not be in the fingerprint."""
    part = pickle.loads(pickle.dumps(part_of(SETTINGS, ("telemetry", "storage.redis_url"))))
    assert part.storage.redis_url == SETTINGS.storage.redis_url and part.telemetry == SETTINGS.telemetry
    for model, name in ((part.storage, "postgres_url"), (part, "pricing")):
        with pytest.raises(AttributeError):
            getattr(model, name)
    assert SETTINGS.storage.postgres_url is not None, "the whole settings keep theirs"


def made_by(release: str, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The same settings, as code of this release makes them."""
    with monkeypatch.context() as patch:
        patch.setattr(Config.__private_attributes__["_release"], "default", release)
        return Config(**{name: getattr(SETTINGS, name) for name in Config.model_fields})


def test_a_deployment_by_code_of_another_release_replaces_every_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the code was put in place of the one before and not installed: the package's files then say the
    release before, and new replicas would share the actors of old code."""
    later = made_by("9.9.9", monkeypatch)
    for uses in ACTORS.values():
        assert differences(fingerprint(SETTINGS, uses), fingerprint(later, uses)) == "release"


def test_replicas_of_one_deployment_on_machines_with_different_code_replace_nobodys_actors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else those of the machine with old code would replace the actors of the others, and these theirs again: at each
    start of a replica. The settings have the release of the code that was deployed, and keep it on their way."""
    travelling = pickle.dumps(made_by("9.9.9", monkeypatch))
    for uses in ACTORS.values():
        there = pickle.loads(travelling)
        assert fingerprint(there, uses).startswith("9.9.9 ")
        assert fingerprint(part_of(there, uses), uses).startswith("9.9.9 ")
        assert fingerprint(there.model_copy(update={"accounts": there.accounts}), uses).startswith("9.9.9 ")


def test_what_differs_is_named_for_the_log() -> None:
    one, other = (
        fingerprint(SETTINGS, ("storage", "signals")),
        fingerprint(changed("signals", classifiers=2), ("storage", "signals")),
    )
    assert differences(one, other) == "signals"
    assert differences(one, one.replace(one.split(" ")[0], "9.9.9")) == "release"
