"""Guards the line that a newcomer copies."""

import shlex

from actors.launch.screen import first_call


def test_the_first_call_survives_a_shell() -> None:
    """Rule: the printed curl line works as printed."""
    words = shlex.split(first_call("http://127.0.0.1:8080", "srpc_live_k"))
    assert words[0] == "curl"
    assert "X-Api-Key: srpc_live_k" in words
    assert words[-1] == '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
