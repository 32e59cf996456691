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
    missing = cli("send", "/none.tx", key="k")
    assert missing.code == 1 and "neither a file" in missing.err


def test_a_send_that_was_refused_needs_no_second_one(cli: Callable[..., Done], site: Site) -> None:
    """Nothing was sent, so no key could give its answer."""
    refused = cli("send", "AAAA", key=site.key(10))
    assert refused.code == 1 and "Refused: " in refused.err and "--idempotency-key" not in refused.err


def test_an_airdrop_is_refused_with_where_sol_comes_from(cli: Callable[..., Done], site: Site) -> None:
    """The constant is that of a suspended account, whose advice would mislead."""
    done = cli("call", "requestAirdrop", ADDRESS, "5", key=site.key(10))
    assert done.code == 1 and "devnode fund" in done.err and "balance" not in done.err


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
