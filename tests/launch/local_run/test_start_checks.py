"""Guards what a start finds out before it starts or deletes anything."""

from pathlib import Path

import pytest

from actors.clock import SystemClock
from actors.config import ConfigError, environment_name
from actors.config_loader import load
from actors.launch.local_run import start_checks, stores
from actors.local_servers import ports
from actors.local_servers.certificates import own_certificate

WALLET = "So11111111111111111111111111111111111111112"
NODE = {"LEDGER_UPSTREAM__NODE_URL": "http://node.example"}


def mistakes(settings: dict[str, str]) -> list[str]:
    try:
        start_checks.require_startable(load(settings).config)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def test_a_usual_run_has_no_mistake() -> None:
    assert mistakes({}) == []
    both = {"LEDGER_SERVE__HOST": "10.0.0.5", "LEDGER_SERVE__TLS": "true", "LEDGER_SERVE__TLS_PORT": "8080"}
    assert mistakes(both) == [], "the same port on two addresses: without TLS all is on loopback"


@pytest.mark.parametrize(
    ("variable", "setting", "wanted", "urls"),
    [
        (
            *("DATABASE_URL", "storage.postgres_url: ", "DATABASE_URL"),
            ["foo", "http://h", "postgresql://h:port/x", "postgresql://[h/x", "redis://h"],
        ),
        ("REDIS_URL", "storage.redis_url: ", "rediss://", ["foo", "http://h", "redis://h:port/0", "postgresql://h"]),
    ],
)
def test_the_form_of_a_stores_url_is_checked(variable: str, setting: str, wanted: str, urls: list[str]) -> None:
    """Rule: told before anything starts, with the variable's name; nothing of the URL, which may hold a password."""
    for url in urls:
        (told,) = mistakes({variable: url})
        assert told.startswith(setting) and wanted in told and "h:port" not in told, url


def test_every_form_that_the_libraries_take_is_taken() -> None:
    for url in ("postgres://u:p@h:5432/x", "postgresql:///x?host=/run/postgresql", "postgresql://a:1,b:2/x"):
        assert mistakes({"DATABASE_URL": url}) == []
    for url in ("redis://h", "rediss://:p@h:6380/1", "unix:///run/redis.sock", "redis://[::1]:6379/0"):
        assert mistakes({"REDIS_URL": url}) == []


@pytest.mark.parametrize(
    "settings", [NODE, {"LEDGER_UPSTREAM__NODES": "http://a,http://b"}, {"LEDGER_PAYMENTS__NETWORK": "mainnet"}]
)
def test_real_money_needs_a_wallet_of_the_operators_own(settings: dict[str, str]) -> None:
    """Rule (SECURITY.md): the key of deposits is nowhere here, except for play money."""
    (told,) = mistakes(settings)
    assert told.startswith("payments.deposit_wallet: ") and "LEDGER_PAYMENTS__DEPOSIT_WALLET" in told
    assert mistakes(settings | {"LEDGER_PAYMENTS__DEPOSIT_WALLET": WALLET}) == []
    assert mistakes(settings | {"LEDGER_PAYMENTS__NETWORK": "devnet"}) == []


def test_a_certificate_must_be_there_and_whole(tmp_path: Path) -> None:
    """Rule: chain and key that belong together, readable, before HAProxy is asked."""
    one, other = (own_certificate(tmp_path / name, [], "Test", 30, SystemClock().now()) for name in ("one", "other"))
    for content, reason in (
        (None, "cannot be read (No such file or directory)"),
        (b"", "does not hold both"),
        (one.chain, "does not hold both"),
        (one.key, "does not hold both"),
        (one.chain + other.key, "belongs to another certificate"),
        (one.chain + one.key, None),
    ):
        path = tmp_path / "given[1].pem"
        if content is not None:
            path.write_bytes(content)
        found = mistakes({"LEDGER_SERVE__TLS_CERTIFICATE_FILE": str(path)})
        if reason is None:
            assert found == []
        else:
            assert len(found) == 1 and reason in found[0] and "LEDGER_SERVE__TLS_CERTIFICATE_FILE" in found[0]


@pytest.mark.parametrize(
    ("settings", "both"),
    [
        ({"LEDGER_SERVE__GRPC_PORT": "8080"}, ("LEDGER_SERVE__GRPC_PORT", "--http-port")),
        ({"LEDGER_TELEMETRY__METRICS_PORT": "8899"}, ("METRICS_PORT", "LEDGER_DEVNODE__HTTP_PORT")),
        ({"LEDGER_TELEMETRY__METRICS_PORT": "21003"}, ("METRICS_PORT", "INTERNAL_PORT_FIRST")),
        ({"LEDGER_DEVNODE__HTTP_PORT": "8079"}, ("LEDGER_DEVNODE__HTTP_PORT", "--http-port")),
        (
            {"LEDGER_SERVE__TLS": "true", "LEDGER_SERVE__TLS_PORT": "8082", "LEDGER_SERVE__HOST": "0.0.0.0"},
            ("LEDGER_SERVE__TLS_PORT", "LEDGER_SERVE__GRPC_PORT"),
        ),
    ],
)
def test_the_ports_of_a_run_are_compared_with_each_other(settings: dict[str, str], both: tuple[str, str]) -> None:
    """Rule: two parts that want one port are told at once, with both settings."""
    found = mistakes(settings)
    assert found and all(any(name in line for line in found) for name in both), found


def test_a_port_that_nothing_listens_on_is_not_compared() -> None:
    settings = NODE | {"LEDGER_PAYMENTS__DEPOSIT_WALLET": WALLET, "LEDGER_SERVE__GRPC_PORT": "8080"}
    assert mistakes(settings) == [], "this node has no gRPC"


def test_a_cluster_is_told_of_malformed_urls_too() -> None:
    given = {"DATABASE_URL": "foo", "REDIS_URL": "redis://h", "LEDGER_STORAGE__CLUSTER_SECRET": "s" * 32}
    with pytest.raises(ConfigError, match=r"storage\.postgres_url: wanted postgresql"):
        stores.require_cluster_settings(load(given | NODE | {"LEDGER_PAYMENTS__DEPOSIT_WALLET": WALLET}).config)


def test_what_an_actor_or_a_replica_could_not_start_with_is_told_before(tmp_path: Path) -> None:
    """Rule: told before anything is started or replaced. The dispatcher would end again and again with such a file or
    address, and a replica with such a proxy."""
    lines = mistakes(
        {
            "LEDGER_WEBHOOKS__CA_FILE": str(tmp_path / "none.pem"),
            "LEDGER_WEBHOOKS__NAME_SERVERS": "10.0.0.2:53,dns.example,10.0.0.3:x",
            "LEDGER_IDENTITY__TRUSTED_PROXIES": "10.0.0.0/8,proxy",
        }
    )
    wanted = ("none.pem cannot be used", "'dns.example'", "'10.0.0.3:x'", "'proxy' is neither")
    assert [part in line for part, line in zip(wanted, lines, strict=True)] == [True] * 4, lines
    (tmp_path / "empty.pem").write_text("")
    (told,) = mistakes({"LEDGER_WEBHOOKS__CA_FILE": str(tmp_path / "empty.pem")})
    assert "webhooks.ca_file" in told
    made = own_certificate(tmp_path, [], "Test", 30, SystemClock().now()).ca_file
    assert mistakes({"LEDGER_WEBHOOKS__CA_FILE": str(made)}) == []


def test_urls_without_the_one_that_they_belong_to_are_refused() -> None:
    """Rule: a setting that is passed over is a mistake. The embedded servers have URLs and roles of their own."""
    (told,) = mistakes({"LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL": "postgresql://owner@db/ledger"})
    assert told.startswith("storage.postgres_migrations_url: ") and "set DATABASE_URL too" in told
    (told,) = mistakes({"LEDGER_UPSTREAM__NODE_WS_URL": "ws://node.example"})
    assert told.startswith("upstream.node_ws_url: ") and "LEDGER_UPSTREAM__NODE_URL" in told


@pytest.mark.parametrize("name", ["serve.host", "telemetry.metrics_host"])
@pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "a" * 64])
def test_an_address_that_this_machine_does_not_have_names_its_own_setting(name: str, host: str) -> None:
    """Rule: what to correct is the address, and not the port."""
    config = load({environment_name(name): host}).config
    wanted = [one for one in start_checks.needed_ports(config) if one.host == host]
    with pytest.raises(ports.PortTaken) as refused:
        ports.require_free_ports(wanted)
    lines = str(refused.value).splitlines()
    assert lines and all(f"see {environment_name(name)}" in line for line in lines), lines


@pytest.mark.parametrize("name", ["telemetry.log_dir", "accounts.roots_dir"])
def test_a_folder_that_cannot_be_written_is_refused(name: str, tmp_path: Path) -> None:
    """Rule: told before anything starts; each process would end at its start, or write no statements."""
    file = tmp_path / "file"
    file.write_text("not a folder")
    for path in (file, file / "logs", tmp_path / ("n" * 300)):
        (told,) = mistakes({environment_name(name): str(path)})
        assert told.startswith(f"{name}: {path} ") and environment_name(name) in told
    assert mistakes({environment_name(name): str(tmp_path / "new" / "logs")}) == []


def test_keys_that_cannot_be_used_are_told_before_anything_is_deleted(tmp_path: Path) -> None:
    """Rule: `--fresh` deletes nothing where the start is refused, and `config` tells of it. All are told together."""
    lines = mistakes(
        {
            "LEDGER_PAYMENTS__SPONSOR_KEY": "abc",
            "LEDGER_SENDS__TPU_IDENTITY_FILE": str(tmp_path / "none.json"),
            "LEDGER_MEMOS__ENABLED": "true",
            "LEDGER_MEMOS__KEY": "abc",
        }
    )
    assert [line.partition(":")[0] for line in lines] == [
        "sends.tpu_identity_file",
        "memos.key",
        "payments.sponsor_key",
    ]
    for path in (tmp_path, tmp_path / ("n" * 300)):
        settings = {"LEDGER_PAYMENTS__SPONSOR_KEY_FILE": str(path), "LEDGER_PAYMENTS__SPONSOR_PASSPHRASE": "x"}
        (told,) = mistakes(settings)
        assert told.startswith("payments.sponsor_key_file: ") and "cannot be read" in told
    sealed = tmp_path / "data" / "secrets"
    sealed.mkdir(parents=True)
    (sealed / "sponsor.json").write_text("sealed")
    with pytest.raises(ConfigError, match=r"payments\.sponsor_passphrase"):
        start_checks.require_startable(load({}).config, sealed)


def test_more_replicas_than_ray_has_room_for_are_refused() -> None:
    """Rule: a start ends, ready or with a reason; Serve waits for room for ever."""
    for count, cores in ((20, 2), (1, 1)):
        start_checks.require_room(load({"LEDGER_GATEWAY__REPLICAS": str(count)}).config, cores)
    start_checks.require_room(load({}).config, 1)
    with pytest.raises(ConfigError, match=r"gateway\.replicas: 21, .* 2 cores .* room for 20; .*GATEWAY__REPLICAS"):
        start_checks.require_room(load({"LEDGER_GATEWAY__REPLICAS": "21"}).config, 2)


def test_more_owners_than_a_machine_can_have_are_refused() -> None:
    """Rule: a start ends, ready or with a reason. 256 owners take 25 GB of memory and too many connections."""
    own = {"DATABASE_URL": "postgresql://me@db/ledger"}

    def room(count: int, cores: int, **settings: str) -> None:
        owners = {"LEDGER_ACCOUNTS__SHARD_ACTORS": str(count)}
        start_checks.require_room(load(owners | settings).config, cores)

    room(16, 2)
    room(26, 64)
    room(256, 64, **own)
    for count, cores in ((17, 2), (9, 1), (256, 2)):
        with pytest.raises(
            ConfigError, match=rf"accounts\.shard_actors: {count}, .* cores .* room for {cores * 8}; .*_ACTORS"
        ):
            room(count, cores, **own)
    with pytest.raises(
        ConfigError, match=r"accounts\.shard_actors: 27, .*embedded PostgreSQL has connections for 26 .*_ACTORS"
    ):
        room(27, 64)
    with pytest.raises(ConfigError, match=r"connections for 2 with this storage\.postgres_pool_size"):
        room(3, 64, LEDGER_STORAGE__POSTGRES_POOL_SIZE="64")


def test_a_price_that_is_too_old_before_the_next_look_is_refused() -> None:
    """Rule: two settings that contradict each other are told; trades would be refused most of the time."""
    (told,) = mistakes({"LEDGER_TRADES__SOL_USD_AGE_SECONDS_MAX": "5"})
    assert told.startswith("trades.sol_usd_age_seconds_max: 5, wanted at least 10") and "sol_usd_poll_seconds" in told
    assert mistakes({"LEDGER_TRADES__SOL_USD_AGE_SECONDS_MAX": "5", "LEDGER_TRADES__SOL_USD_POLL_SECONDS": "2.5"}) == []


def test_slots_longer_than_a_node_may_be_silent_are_refused() -> None:
    """Rule: two settings that contradict each other are told; every subscription would have a gap at each slot."""
    (told,) = mistakes({"LEDGER_DEVNODE__SLOT_MS": "60000"})
    assert told.startswith("streams.silent_seconds_max: 10, wanted at least 120") and "devnode.slot_ms" in told
    assert mistakes({"LEDGER_DEVNODE__SLOT_MS": "60000", "LEDGER_STREAMS__SILENT_SECONDS_MAX": "120"}) == []
    own = NODE | {"LEDGER_PAYMENTS__DEPOSIT_WALLET": WALLET, "LEDGER_DEVNODE__SLOT_MS": "60000"}
    assert mistakes(own) == [], "the embedded chain is not started"
