"""One tree of settings, checked whole."""

import re
from collections.abc import Iterator
from types import UnionType
from typing import get_args

import pytest
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from actors.config import Config, environment_name
from actors.config_loader import load
from tests.test_config_loader import NODES, mistakes


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
    """Threat 37 and plain slips: the text names the setting."""
    told = mistakes({name: value})
    assert len(told) == 1
    assert name in told[0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"GATEWAY__REPLICAS": "5", "GATEWAY__REPLICAS_MAX": "4"}, "below replicas"),
        ({"GATEWAY__LOGGED_CALLS_MAX": "100", "GATEWAY__LOGGED_CALLS_OF_ACCOUNT_MAX": "60"}, "below twice"),
        ({"UPSTREAM__ANSWER_BYTES_MAX": str(600 << 20)}, "must be at least answer_bytes_max"),
        ({"TRADES__SOL_USD_ACCOUNT": "nonsense"}, "base58 public key"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str], said: str) -> None:
    told = mistakes({f"LEDGER_{name}": value for name, value in settings.items()})
    assert len(told) == 1 and said in told[0]


def _numbers() -> Iterator[tuple[str, FieldInfo]]:
    for branch, info in Config.model_fields.items():
        assert info.annotation is not None
        for field, row in info.annotation.model_fields.items():
            kinds = get_args(row.annotation) if isinstance(row.annotation, UnionType) else (row.annotation,)
            if int in kinds or float in kinds:
                yield f"{branch}.{field}", row


def test_every_number_has_a_least_and_a_greatest_value() -> None:
    """Style, "Configuration": one that JSON, PostgreSQL or Redis cannot hold would fail calls, not the start."""
    named = dict(_numbers())
    assert len(named) > 100
    for name, row in named.items():
        text = repr(row.metadata)
        assert "Ge(" in text and "Le(" in text, name
        for beyond in (str(-1), str(10**30)):
            (told,) = mistakes({environment_name(name): beyond})
            assert re.match(rf"{re.escape(name)}: {beyond}, wanted [\d.,]+ to [\d,]+ \(from", told), told


@pytest.mark.parametrize(
    ("name", "useless"),
    [
        ("geyser.end_seconds", 0.001),
        ("geyser.connect_seconds", 0.001),
        ("geyser.resume_seconds", 0.001),
        ("geyser.queue_updates_max", 1),
        ("upstream.probe_seconds", 0.001),
        ("payments.deposit_poll_seconds", 0.001),
        ("trades.sol_usd_poll_seconds", 0.001),
        ("sends.block_engine_requests_per_second", 0.001),
    ],
)
def test_a_time_in_which_nothing_can_happen_is_refused(name: str, useless: float) -> None:
    """A look a thousand times a second takes a core and a node's whole rate; a limit that nobody can keep ends every
    stream; a bundle every quarter of an hour is none."""
    (told,) = mistakes({environment_name(name): str(useless)})
    assert told.startswith(f"{name}: {useless}, wanted ")


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize(
    "name", ["storage.cluster_secret", "storage.data_dir", "serve.host", "upstream.node_url", "sends.tip_floor_url"]
)
def test_a_blank_value_is_refused(name: str, blank: str) -> None:
    """What a line `NAME=` leaves: a secret that everybody knows, the folder of today, all addresses."""
    (told,) = mistakes({environment_name(name): blank})
    assert name in told and "it is empty" in told and environment_name(name) in told


@pytest.mark.parametrize("field", ["upstream.node_url", "upstream.yellowstone_url", "sends.block_engine_url"])
@pytest.mark.parametrize("url", ["node.example", "ftp://a", "http://", "http://a b:99", "http://a:99999"])
def test_a_url_without_host_or_scheme_is_refused_by_its_own_name(field: str, url: str) -> None:
    (told,) = mistakes({environment_name(field): url})
    assert told.startswith(f"{field}: wanted a URL")
    (told,) = mistakes({"LEDGER_UPSTREAM__NODE_WS_URL": "http://a"})
    assert told.startswith("upstream.node_ws_url: wanted a URL that begins with ws://")


def test_json_that_is_nested_too_deep_is_told_as_malformed() -> None:
    (told,) = mistakes({"LEDGER_UPSTREAM__NODES": "[" * 100_000})
    assert told.startswith("LEDGER_UPSTREAM__NODES: not valid JSON")


def test_no_part_listens_on_any_port() -> None:
    """Port 0 would be another one at each start, and the URLs that a run shows would lead nowhere."""
    for name in ("serve.http_port", "serve.grpc_port", "serve.tls_port", "devnode.http_port", "webhooks.ports"):
        (told,) = mistakes({environment_name(name): "0"})
        assert name in told


def test_secrets_are_not_shown() -> None:
    """The tree is logged and printed; passwords are not."""
    loaded = load({"DATABASE_URL": "postgresql://me:geheim@db/ledger", "LEDGER_STORAGE__CLUSTER_SECRET": "geheim" * 4})
    assert "geheim" not in repr(loaded)
    assert "geheim" not in loaded.config.model_dump_json()


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


def test_urls_of_nodes_are_not_in_representations() -> None:
    """They end up in tracebacks."""
    shown = repr(load({"LEDGER_UPSTREAM__NODES": NODES}).config)
    assert not any(secret in shown for secret in (":secret", "key1", "key2"))
