"""Guards the line that a newcomer copies."""

import shlex
from pathlib import Path

import pytest

from actors.launch.screen import Ready, Screen, first_call


def test_the_first_call_survives_a_shell() -> None:
    """Rule: the printed curl line works as printed."""
    words = shlex.split(first_call("http://127.0.0.1:8080", "srpc_live_k"))
    assert words[0] == "curl"
    assert "X-Api-Key: srpc_live_k" in words
    assert words[-1] == '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'


def test_the_screen_says_where_grpc_is_and_how_to_trust_a_certificate_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rule: with TLS, the URL and a curl line; for a given certificate the URL alone; without TLS neither. The address
    of gRPC where the node has it."""
    ready = ("http://127.0.0.1:8080", "node", "wallet", "key", 5, Path("/data"), 1.0)
    shown = []
    for more in (
        (),
        ("https://127.0.0.1:8443", None),
        ("https://127.0.0.1:8443", Path("/data/tls/ca.pem"), "127.0.0.1:8082"),
    ):
        screen = Screen()
        screen.console.width = 200
        screen.ready(Ready(*ready, *more))
        shown.append(capsys.readouterr().out)
    assert ["https://127.0.0.1:8443" in text for text in shown] == [False, True, True]
    assert ["--cacert /data/tls/ca.pem https://127.0.0.1:8443/health" in text for text in shown] == [False, False, True]
    assert ["127.0.0.1:8082" in text for text in shown] == [False, False, True]
