"""Guards what the screen shows: the lines that a newcomer copies, and errors."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from actors.launch.local_run.screen import Demo, Ready, Screen, fail, first_call


def test_the_first_call_survives_a_shell() -> None:
    """Rule: the printed curl line works as printed."""
    words = shlex.split(first_call("http://127.0.0.1:8080", "srpc_live_k"))
    assert words[0] == "curl"
    assert "X-Api-Key: srpc_live_k" in words
    assert words[-1] == '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'


def shown(capsys: pytest.CaptureFixture[str], demo: Demo | None, *more: Any, width: int = 200) -> str:
    screen = Screen()
    screen.console.width = width
    screen.ready(Ready("http://127.0.0.1:8080", "node", demo, Path("/data[1]"), 1.0, *more))
    return capsys.readouterr().out


def test_the_screen_says_where_grpc_is_and_how_to_trust_a_certificate_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rule: with TLS, the URL and a curl line that can be copied; for a given certificate the URL alone; without TLS
    neither. The address of gRPC where the node has it."""
    demo, url = Demo("wallet", "key", 5), "https://127.0.0.1:8443"
    own = (url, Path("/data/of somebody/" + "a" * 80 + "/ca.pem"), "127.0.0.1:8082")
    texts = [shown(capsys, demo, *more, width=100) for more in ((), (url, None), own)]
    assert [url in text for text in texts] == [False, True, True]
    copied = f"\n  curl --cacert '{own[1]}' {url}/health\n"
    assert [copied in text for text in texts] == [False, False, True]
    assert ["127.0.0.1:8082" in text for text in texts] == [False, False, True]


def test_the_screen_names_what_there_is_to_open(capsys: pytest.CaptureFixture[str]) -> None:
    """Rule: console, documents, figures, and where the demo wallet's key is; a path is shown as it is."""
    demo = Demo("wallet", "key", 1_000_000)
    text = shown(capsys, demo, None, None, None, "http://127.0.0.1:21004/metrics", Path("/run/ready.json"))
    for named in ("8080/console", "8080/docs", "21004/metrics", "/run/ready.json", "1,000,000", "/data[1]"):
        assert named in text
    assert "--ready-file" in shown(capsys, demo)


def test_where_money_is_real_the_screen_tells_how_to_make_the_first_account(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rule: nobody is given credits that are worth money; each command prints the next step."""
    text = shown(capsys, None)
    assert "X-Api-Key" not in text and "Demo wallet" not in text
    for line in text.splitlines():
        if "ledger-gateway" in line:
            assert shlex.split(line)[0] == "ledger-gateway"
    assert "ledger-gateway key new --url http://127.0.0.1:8080" in text and "accounts grant PUBKEY" in text


def test_text_from_outside_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Rule: an error text with brackets is printed as it is; once it ended the printer itself."""
    text = "bind [::1]:8443: '[/red]' [bold]x"
    Screen().failed(text)
    Screen().ended(text)
    with pytest.raises(SystemExit):
        fail(text)
    assert [line.endswith(text) for line in capsys.readouterr().err.splitlines()] == [True] * 3
