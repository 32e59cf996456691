"""Where settings come from: defaults, a file, the environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from actors import config
from actors.config import Config, ConfigError, environment_name
from actors.config_loader import load
from ledger_gateway.cli.arguments import VARIABLES

ROOT = Path(config.__file__).parents[1]
NODES = '[{"name": "a", "url": "https://u:secret@a.example/key1?api-key=key2", "weight": 3}, {"url": "http://b:1"}]'


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
    ("name", "value", "told"),
    [
        ("LEDGER_SERVE__HTTP_PORT", "99999", "serve.http_port: 99999, wanted 1 to 65,535 (from "),
        (
            "LEDGER_UPSTREAM__NODES",
            '[{"url": "http://a:1", "weight": -1}]',
            "upstream.nodes.0.weight: -1, wanted 0 to 1,000",
        ),
        ("LEDGER_UPSTREAM__NODES", '[{"url": "http://a:1", "roles": ["reed"]}]', "upstream.nodes.0.roles.0: Input sh"),
        ("LEDGER_UPSTREAM__NODES", '[{"url": "http://a:1", "roles": []}]', "upstream.nodes.0.roles: Tuple should have"),
        ("LEDGER_PAYMENTS__DEPOSIT_WALLET", "x", "payments.deposit_wallet: wanted a base58 public key of 32 bytes ("),
        ("LEDGER_WEBHOOKS__PORTS", "443,99999", "webhooks.ports.1: 99999, wanted 1 to 65,535 (from "),
    ],
)
def test_one_mistake_is_one_sentence(name: str, value: str, told: str) -> None:
    """A second sentence about a result of the first mistake leads the reader astray."""
    (text,) = mistakes({name: value})
    assert text.startswith(told) and text.endswith(f"(from environment {name})")


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


def test_lists_are_separated_by_commas() -> None:
    """As people write them in an environment variable."""
    loaded = load({"LEDGER_IDENTITY__TRUSTED_PROXIES": "10.0.0.0/8, 192.168.1.1,"})
    assert loaded.config.identity.trusted_proxies == ("10.0.0.0/8", "192.168.1.1")
    assert load({"LEDGER_WEBHOOKS__PORTS": "443, 9443"}).config.webhooks.ports == (443, 9443)


def test_a_field_has_one_environment_name() -> None:
    """The inverse of what load reads."""
    assert environment_name("accounts.shard_actors") == "LEDGER_ACCOUNTS__SHARD_ACTORS"
    assert load({environment_name("serve.http_port"): "81"}).config.serve.http_port == 81


@pytest.mark.parametrize("how", [["-O"], ["-OO"]])
def test_without_assertions_it_does_not_start(how: list[str]) -> None:
    """Threat 42: its assertions are part of it."""
    script = "from actors.config_loader import load; load({})"
    done = subprocess.run([sys.executable, *how, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "ConfigError" in done.stderr
    assert "-O" in done.stderr


def test_several_nodes_come_from_a_file_or_the_environment(tmp_path: Path) -> None:
    """TOML tables, a JSON array, or plain URLs; nodes without a name are numbered; the simple form is one of them."""
    path = tmp_path / "gateway.toml"
    path.write_text('[[upstream.nodes]]\nurl = "http://a:1"\nroles = ["read", "send", "archive"]\n')
    (node,) = load({}, path).config.upstream.named_nodes
    assert (node.name, node.weight, node.roles) == ("node-1", 1, ("read", "send", "archive"))
    upstream = load({"LEDGER_UPSTREAM__NODES": NODES}).config.upstream
    assert [(node.name, node.weight) for node in upstream.named_nodes] == [("a", 3), ("node-2", 1)]
    assert upstream.node_url == "https://u:secret@a.example/key1?api-key=key2"
    plain = load({"LEDGER_UPSTREAM__NODES": "http://a:1, http://b:1"}).config.upstream
    assert [node.url.get_secret_value() for node in plain.named_nodes] == ["http://a:1", "http://b:1"]
    simple = load({"LEDGER_UPSTREAM__NODE_URL": "http://a:1"}).config.upstream
    assert [node.url.get_secret_value() for node in simple.named_nodes] == ["http://a:1"]
    assert load({}).config.upstream.named_nodes == ()


def test_variables_of_clients_are_no_settings() -> None:
    """Whoever has set them for `ledger-gateway balance` can start the product as well; a misspelt setting is told."""
    loaded = load(dict.fromkeys(VARIABLES, "x"))
    assert all(name not in source for source in loaded.sources.values() for name in VARIABLES)
    with pytest.raises(ConfigError, match="LEDGER_GATEWAY_REPLICAS"):
        load({"LEDGER_GATEWAY_REPLICAS": "2"})


def test_block_engines_are_one_or_several(tmp_path: Path) -> None:
    """TOML tables, a JSON array, or plain URLs; the simple form is a list of one, with its rate and its secret."""
    path = tmp_path / "settings.toml"
    path.write_text('[[sends.block_engines]]\nurl = "https://a"\nrequests_per_second = 5\nauth = "uuid"\n')
    (engine,) = load({}, path).config.sends.engines
    assert (engine.url.get_secret_value(), engine.requests_per_second) == ("https://a", 5.0)
    several = load({"LEDGER_SENDS__BLOCK_ENGINES": '[{"url": "https://a"}, {"url": "https://b"}]'}).config.sends
    plain = load({"LEDGER_SENDS__BLOCK_ENGINES": "https://a, https://b"}).config.sends
    assert several.engines == plain.engines and len(plain.engines) == 2
    simple = {"LEDGER_SENDS__BLOCK_ENGINE_URL": "https://a", "LEDGER_SENDS__BLOCK_ENGINE_AUTH": "uuid"}
    one = load(simple | {"LEDGER_SENDS__BLOCK_ENGINE_REQUESTS_PER_SECOND": "5"}).config.sends
    assert one.engines == (engine,)
    assert load({}).config.sends.engines == ()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"LEDGER_SENDS__BLOCK_ENGINE_URL": "https://c"}, "give either block_engine_url or block_engines"),
        ({"LEDGER_SENDS__BLOCK_ENGINE_AUTH": "uuid"}, "block_engine_auth is of block_engine_url; give it in each"),
        ({"LEDGER_SENDS__BLOCK_ENGINES": "https://a, https://a/"}, "the same URL"),
        ({"LEDGER_SENDS__BLOCK_ENGINES": "a"}, "wanted a URL"),
        (
            {"LEDGER_SENDS__TPU_IDENTITY_KEY": "k", "LEDGER_SENDS__TPU_IDENTITY_FILE": "f"},
            "give either tpu_identity_key or tpu_identity_file",
        ),
        ({"LEDGER_SENDS__RACERS": "17"}, "wanted 1 to 16"),
    ],
)
def test_settings_of_sends_that_contradict_each_other_are_refused(more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load({"LEDGER_SENDS__BLOCK_ENGINES": "https://a"} | more)
