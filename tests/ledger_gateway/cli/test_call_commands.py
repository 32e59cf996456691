"""`call` and `send`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from actors.upstream import replies
from ledger_gateway.cli.call_commands import _transaction, _value
from ledger_gateway.cli.shell import Refused
from tests.gateway.doubles import TRANSACTION

from .conftest import Done, Site

ADDRESS = "So11111111111111111111111111111111111111112"


def test_a_call_prints_its_result_and_what_is_left(cli: Callable[..., Done], site: Site) -> None:
    """The result alone is on the standard output, so that it can be piped."""
    done = cli("call", "getBalance", ADDRESS, '{"commitment": "confirmed"}', key=site.key(10))
    assert (done.code, done.out) == (0, '"ok"\n') and "9 credits left" in done.err
    method, params, _ = site.served.world.node.calls[-1]
    assert (method, params) == ("getBalance", b'["%b",{"commitment":"confirmed"}]' % ADDRESS.encode())


def test_a_send_says_how_to_ask_again(cli: Callable[..., Done], site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed send names its Idempotency-Key: the same command with it sends nothing twice."""
    monkeypatch.setattr(site.served.world.node, "answer", lambda method, params: replies.UNREACHABLE)
    done = cli("send", TRANSACTION, "--no-wait", "--idempotency-key", "my-key", key=site.key(10))
    assert done.code == 1 and "--idempotency-key my-key" in done.err
    assert cli("send", "rubbish", key="k").code == 1


def test_arguments_are_json_or_text_and_transactions_come_from_anywhere(tmp_path: Path) -> None:
    assert [_value(text) for text in ("5", "true", ADDRESS, '["a"]', "{", "[" * 100_000)] == [
        *(5, True, ADDRESS, ["a"], "{", "[" * 100_000),
    ]
    path = tmp_path / "tx.b64"
    path.write_text(TRANSACTION + "\n")
    assert _transaction(TRANSACTION) == _transaction(str(path)) == TRANSACTION
    for wrong in ("", "!", "A" * 10_000):
        with pytest.raises(Refused):
            _transaction(wrong)
