"""Traces are off unless a collector is named, and a start says what is missing for them."""

import subprocess
import sys

import pytest

from actors.config import TelemetryConfig
from actors.telemetry.traces import open_tracing, tracing_mistake


def test_without_a_collector_nothing_of_tracing_is_loaded() -> None:
    """A process that traces nothing pays nothing: it does not even import OpenTelemetry."""
    assert open_tracing(TelemetryConfig(), "tests") is None
    program = (
        "import sys, actors.launch.assembly.replica, actors.accounts.host;"
        "print([name for name in sys.modules if name.startswith('actors.') and 'trac' in name.split('.')[-1]])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=120)
    assert done.stdout.decode().strip() == "['actors.telemetry.traces']"


@pytest.mark.parametrize(
    ("url", "needed", "told"),
    [
        (None, ("no_such_package",), None),
        ("http://127.0.0.1:4318/v1/traces", ("opentelemetry.sdk.trace",), None),
        ("127.0.0.1:4318", (), "such as http://127.0.0.1:4318/v1/traces"),
        ("grpc://127.0.0.1:4317", (), "wanted the collector's OTLP over HTTP"),
        ("http://[", (), "wanted the collector's OTLP over HTTP"),
        ("https://collector/v1/traces", ("json", "no_such_package.exporter"), "pip install 'ledger-gateway[tracing]'"),
        ("https://collector/v1/traces", ("json.no_such_module",), "or leave the setting out"),
    ],
)
def test_what_is_missing_is_told_with_its_remedy(url: str | None, needed: tuple[str, ...], told: str | None) -> None:
    mistake = tracing_mistake(TelemetryConfig(traces_url=url), needed)
    if told is None:
        assert mistake is None
    else:
        assert mistake is not None and mistake.startswith("telemetry.traces_url: ") and told in mistake


def test_the_packages_that_the_extra_installs_are_those_that_are_needed() -> None:
    assert tracing_mistake(TelemetryConfig(traces_url="http://127.0.0.1:4318/v1/traces")) is None
