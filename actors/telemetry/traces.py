"""Opens the tracing of a process if the settings ask for it, and reports missing packages.

Implements: actors/launch/README.md, "Traces". Not here: the traces (tracing.py), which only a process that traces
imports, because OpenTelemetry's SDK and exporter are an extra of this distribution.
"""

import secrets
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from actors.clock import SystemClock
from actors.config import TelemetryConfig

if TYPE_CHECKING:
    from actors.telemetry.tracing import Tracing

_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter", "requests")


def open_tracing(config: TelemetryConfig, process: str) -> "Tracing | None":
    """process: as the log has it. None: traces are off."""
    if config.traces_url is None:
        return None
    from actors.telemetry.tracing import Tracing

    return Tracing(config, process, SystemClock().monotonic, secrets.SystemRandom().random)


def tracing_mistake(config: TelemetryConfig, needed: tuple[str, ...] = _NEEDED) -> str | None:
    """Return why traces cannot be sent as the settings have it. needed: modules."""
    url = config.traces_url
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_http = False
    if not is_http:
        return "telemetry.traces_url: wanted the collector's OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces"
    if all(map(_is_installed, needed)):
        return None
    return (
        "telemetry.traces_url: traces need OpenTelemetry's SDK and its OTLP exporter, which are not installed: "
        "pip install 'ledger-gateway[tracing]' (in a clone: pip install -c constraints.txt -e '.[tracing]'), on every "
        "machine; or leave the setting out"
    )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # Of a parent package.
        return False
