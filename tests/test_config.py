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


NODES = '[{"name": "a", "url": "https://u:secret@a.example/key1?api-key=key2", "weight": 3}, {"url": "http://b:1"}]'


def test_several_nodes_come_from_a_file_or_the_environment(tmp_path: Path) -> None:
    """TOML tables, a JSON array, or plain URLs; nodes without a name are numbered; the simple form is one of them."""
    path = tmp_path / "gateway.toml"
    path.write_text('[[upstream.nodes]]\nurl = "http://a:1"\nroles = ["read", "send", "archive"]\n')
    (node,) = load({}, path).config.upstream.settled_nodes
    assert (node.name, node.weight, node.roles) == ("node-1", 1, ("read", "send", "archive"))
    upstream = load({"LEDGER_UPSTREAM__NODES": NODES}).config.upstream
    assert [(node.name, node.weight) for node in upstream.settled_nodes] == [("a", 3), ("node-2", 1)]
    assert upstream.node_url == "https://u:secret@a.example/key1?api-key=key2"
    plain = load({"LEDGER_UPSTREAM__NODES": "http://a:1, http://b:1"}).config.upstream
    assert [node.url.get_secret_value() for node in plain.settled_nodes] == ["http://a:1", "http://b:1"]
    simple = load({"LEDGER_UPSTREAM__NODE_URL": "http://a:1"}).config.upstream
    assert [node.url.get_secret_value() for node in simple.settled_nodes] == ["http://a:1"]
    assert load({}).config.upstream.settled_nodes == ()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[{", "not valid JSON"),
        ('[{"url": "ftp://a"}]', "http:// or https://"),
        ('[{"url": "http://a", "ws_url": "http://a"}]', "ws:// or wss://"),
        ('[{"url": "http://a", "name": "A b"}]', "name"),
        ('[{"url": "http://a", "name": "x"}, {"url": "http://b", "name": "x"}]', "the same name"),
        ('[{"url": "http://a", "name": "node-2"}, {"url": "http://b"}]', "the same name"),
        ('[{"url": "http://a", "roles": ["read"]}]', "role send"),
        ('[{"url": "http://a", "weight": 0}]', "weight above 0"),
        ('[{"url": "http://a", "roles": []}]', "roles"),
        ('[{"url": "http://a", "key": 1}]', "no such setting"),
    ],
)
def test_nodes_that_could_not_serve_are_refused(value: str, said: str) -> None:
    """A pool that nobody could be sent to is a mistake of the settings, not of every call."""
    assert any(said in line for line in mistakes({"LEDGER_UPSTREAM__NODES": value}))


def test_one_node_is_not_given_twice() -> None:
    """Which of the two was meant could only be guessed."""
    settings = {"LEDGER_UPSTREAM__NODES": "http://a", "LEDGER_UPSTREAM__NODE_URL": "http://b"}
    assert any("not both" in line for line in mistakes(settings))


def test_urls_of_nodes_are_shown_without_their_keys() -> None:
    """User, password, path and query may each be a provider's key; representations end up in tracebacks."""
    assert config.shown_url("https://u:secret@a.example:8443/key1?api-key=key2") == "https://a.example:8443/..."
    assert config.shown_url("http://127.0.0.1:8899/") == "http://127.0.0.1:8899"
    assert config.shown_url("http://[::1]:8899?x") == "http://[::1]:8899/..."
    assert config.shown_url("http://[::1") == "(not a URL)"
    shown = repr(load({"LEDGER_UPSTREAM__NODES": NODES}).config)
    assert not any(secret in shown for secret in (":secret", "key1", "key2"))
