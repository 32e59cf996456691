"""One tree of settings, checked whole."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from actors import config
from actors.config import Config, ConfigError, environment_name, load

ROOT = Path(config.__file__).parents[1]


def mistakes(environ: dict[str, str], toml_path: Path | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(environ, toml_path)
    return str(caught.value).splitlines()


def test_nothing_needs_to_be_set() -> None:
    """The defaults run with no outside service; and every field says where it came from."""
    loaded = load({})
    assert loaded.config == Config()
    assert set(loaded.sources.values()) == {"default"}
    assert loaded.sources["accounts.shard_actors"] == "default"
    fields = {
        f"{branch}.{field}" for branch, info in Config.model_fields.items() for field in info.annotation.model_fields
    }  # type: ignore[union-attr]
    assert set(loaded.sources) == fields


def test_the_environment_wins_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    """And the sources tell which it was."""
    path = tmp_path / "gateway.toml"
    path.write_text("[accounts]\nshard_actors = 4\nconcurrency = 10\n")
    loaded = load({"LEDGER_ACCOUNTS__CONCURRENCY": "20"}, path)
    accounts = loaded.config.accounts
    assert (accounts.shard_actors, accounts.concurrency, accounts.requests_per_second) == (4, 20, 100)
    assert loaded.sources["accounts.shard_actors"] == "file gateway.toml"
    assert loaded.sources["accounts.concurrency"] == "environment LEDGER_ACCOUNTS__CONCURRENCY"
    assert loaded.sources["accounts.requests_per_second"] == "default"


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    """Correcting settings one start at a time is no fun."""
    path = tmp_path / "gateway.toml"
    path.write_text("[accounts]\nshard_actors = 0\n[nonsense]\na = 1\n[serve]\nhttp_port = 70000\n")
    text = "\n".join(mistakes({"LEDGER_ACCOUNTS__CONCURENCY": "1"}, path))
    assert "accounts.shard_actors" in text
    assert "(from file gateway.toml)" in text
    assert "serve.http_port" in text
    assert "nonsense: no such setting" in text
    assert "accounts.concurency: no such setting (from environment LEDGER_ACCOUNTS__CONCURENCY)" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LEDGER_ACCOUNTS__CONCURRENCY", "many"),
        ("LEDGER_ACCOUNTS__CONCURRENCY", "1.5"),
        ("LEDGER_ACCOUNTS__CONCURRENCY", ""),
        ("LEDGER_PRICING__BASE_CREDITS", "0"),
        ("LEDGER_PRICING__LANDING_CREDITS", "-1"),
        ("LEDGER_PAYMENTS__NETWORK", "moonnet"),
        ("LEDGER_UPSTREAM__PROBE_SECONDS", "nan"),
        ("LEDGER_IDENTITY__TIMESTAMP_WINDOW_SECONDS", "61"),
        ("LEDGER_ACCOUNTS", "1"),
        ("LEDGER_ACCOUNTS__", "1"),
    ],
)
def test_values_out_of_range_are_refused(name: str, value: str) -> None:
    """Hostile input 37 and plain slips: the text names the setting."""
    told = mistakes({name: value})
    assert len(told) == 1
    assert name in told[0]


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """Absent, not TOML, not text, not tables."""
    assert "cannot be read" in mistakes({}, tmp_path / "absent.toml")[0]
    path = tmp_path / "gateway.toml"
    for content in (b"[accounts", b"\xff\xfe", b"shard_actors = 1"):
        path.write_bytes(content)
        assert str(path) in mistakes({}, path)[0]


def test_well_known_names_work() -> None:
    """Operators have them in their environment already."""
    storage = load({"DATABASE_URL": "postgresql://me:geheim@db/ledger", "REDIS_URL": "redis://cache"}).config.storage
    assert storage.postgres_url is not None
    assert storage.postgres_url.get_secret_value() == "postgresql://me:geheim@db/ledger"
    assert storage.redis_url is not None


def test_secrets_are_not_shown() -> None:
    """The tree is logged and printed; passwords are not."""
    loaded = load({"DATABASE_URL": "postgresql://me:geheim@db/ledger", "LEDGER_STORAGE__CLUSTER_SECRET": "geheim"})
    assert "geheim" not in repr(loaded)
    assert "geheim" not in loaded.config.model_dump_json()


def test_lists_are_separated_by_commas() -> None:
    """As people write them in an environment variable."""
    loaded = load({"LEDGER_IDENTITY__TRUSTED_PROXIES": "10.0.0.0/8, 192.168.1.1,"})
    assert loaded.config.identity.trusted_proxies == ("10.0.0.0/8", "192.168.1.1")


def test_the_tree_does_not_change() -> None:
    """Read once; what runs is what was read."""
    with pytest.raises(ValidationError):
        Config().accounts.concurrency = 5


def test_every_field_has_a_unit_or_says_what_it_is() -> None:
    """`config --show` prints these lines."""
    for branch, info in Config.model_fields.items():
        assert info.annotation is not None
        for field, row in info.annotation.model_fields.items():
            assert row.description, f"{branch}.{field}"


def test_a_field_has_one_environment_name() -> None:
    """The inverse of what load reads."""
    assert environment_name("accounts.shard_actors") == "LEDGER_ACCOUNTS__SHARD_ACTORS"
    assert load({environment_name("serve.http_port"): "81"}).config.serve.http_port == 81


@pytest.mark.parametrize("how", [["-O"], ["-OO"]])
def test_without_assertions_it_does_not_start(how: list[str]) -> None:
    """Hostile input 42: its assertions are part of it."""
    script = "from actors.config import load; load({})"
    done = subprocess.run([sys.executable, *how, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "ConfigError" in done.stderr
    assert "-O" in done.stderr
