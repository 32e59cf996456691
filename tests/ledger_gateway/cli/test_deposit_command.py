"""`deposit` asks before it pays, and pays nobody whom it should not."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ledger_gateway.cli import deposit_command
from ledger_gateway.cli.shell import Refused

from ..world import http, raw_server
from .conftest import Done, Site

TERMS = {
    "deposit_address": "So11111111111111111111111111111111111111112",
    "usdc_mint": "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
    "minimum_deposit_usdc": "0.01",
    "network": "devnet",
}


@pytest.mark.parametrize(
    ("change", "units", "mint", "word"),
    [
        ({}, 9_999, None, "least amount"),
        ({"usdc_mint": TERMS["deposit_address"]}, 10_000, None, "not USDC"),
        ({"usdc_mint": TERMS["deposit_address"]}, 10_000, "other", "not USDC"),
        ({"minimum_deposit_usdc": "nan"}, 10_000, None, "no number"),
    ],
)
def test_terms_of_a_wrong_gateway_are_refused(change: dict[str, str], units: int, mint: str | None, word: str) -> None:
    """A hostile URL cannot have another token sent, nor an amount that is none be accepted."""
    with pytest.raises(Refused, match=word):
        deposit_command._check({**TERMS, **change}, units, mint)
    deposit_command._check(TERMS, 10_000, None)


def test_nothing_is_paid_without_a_yes(cli: Callable[..., Done]) -> None:
    """Amounts that are none are usage; a wallet is needed; without a terminal, --yes is."""
    assert cli("deposit", "x").code == 2 and "--keypair" in cli("deposit", "1", "--yes").err
    cli("wallet", "new")
    asked: Any = cli("deposit", "1")
    assert asked.code == 1 and "--yes" in asked.err and "1 USDC" in asked.err
    poor = cli("deposit", "1", "--yes")
    assert poor.code == 1 and "--node-url" in poor.err and "devnode fund" in poor.err
    keyed = cli("deposit", "1", "--yes", "--node-url", "https://node.example/?api-key=secret")
    assert keyed.code == 1 and "secret" not in keyed.err + keyed.out


@pytest.mark.parametrize(
    ("answer", "reason", "advice"),
    [
        ({"result": {"value": [None, None]}}, "has 0 SOL and 0 USDC; the deposit needs 1.5 USDC", "--usdc 1.5 --url"),
        ({"error": {"code": -32005, "message": "Node is behind"}}, "Node is behind", "nothing was paid"),
        ({"result": "ok"}, "cannot be built", "node's URL"),
        (None, "no connection", "name a Solana node that answers"),
    ],
)
def test_a_node_of_the_users_own_is_looked_at_before_it_is_paid_by(
    cli: Callable[..., Done], site: Site, answer: dict[str, Any] | None, reason: str, advice: str
) -> None:
    """Too little money and a node that does not serve are told before anything is sent; nothing is called charged."""
    cli("wallet", "new")
    opened = raw_server(http(200, json.dumps({"jsonrpc": "2.0", "id": 0, **(answer or {})}).encode()))
    url, _ = site.run(opened.__aenter__())
    try:
        done = cli("deposit", "1.5", "--yes", "--node-url", url if answer is not None else "http://127.0.0.1:9")
    finally:
        site.run(opened.__aexit__(None, None, None))
    assert done.code == 1 and reason in done.err and advice in done.err and "charged" not in done.err


def test_a_transfer_whose_answer_is_lost_is_not_paid_twice(cli: Callable[..., Done], site: Site) -> None:
    """The node took the transfer, or did not: its signature is told, and how to find out before paying again."""
    cli("wallet", "new")
    token = {"lamports": 1, "data": {"parsed": {"info": {"tokenAmount": {"amount": "1000000"}}}}}
    results = ([{"lamports": 10_000}, token], {"blockhash": "1" * 32})
    answers = [
        http(200, json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"value": each}}).encode()) for each in results
    ]
    opened = raw_server(*answers, http(502, b"<html>"))
    url, heads = site.run(opened.__aenter__())
    try:
        done = cli("deposit", "1", "--yes", "--node-url", url)
    finally:
        site.run(opened.__aexit__(None, None, None))
    assert done.code == 1 and "may have been sent" in done.err and "before you pay again" in done.err, done
    assert len(heads) == 3
