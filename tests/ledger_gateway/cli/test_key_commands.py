"""`keys`: a wallet's named keys, from the first to the last command."""

from collections.abc import Callable

import httpx

from .conftest import Done, Site

CALL = {"jsonrpc": "2.0", "id": 1, "method": "getSlot"}


def status(site: Site, key: str) -> int:
    return httpx.post(site.served.url, json=CALL, headers={"x-api-key": key}).status_code


def test_a_key_is_made_used_changed_and_ended(cli: Callable[..., Done], site: Site) -> None:
    cli("wallet", "new")
    own = cli("key", "new", "--show", "--json").json["api_key"]
    assert "no named keys" in cli("keys", "list").out
    made = cli("keys", "new", "agent", "--credits-a-day", "5", "--method", "READ_CHEAP", "--json").json
    key, number = made["api_key"], str(made["id"])
    assert (made["credits_a_day"], made["methods"], made["status"]) == (5, ["READ_CHEAP"], "active")
    assert status(site, key) == 402  # The account has no credits yet.
    shown = cli("keys", "new", "other")
    assert "srpc_live_" in shown.out and "only time" in shown.err and max(map(len, shown.out.splitlines())) <= 80
    listed = cli("keys", "list")
    assert listed.code == 0 and "agent" in listed.out and "no limit" in listed.out
    assert [row["name"] for row in cli("keys", "list", "--json", key=key).json] == ["agent"]
    changed = cli("keys", "change", number, "--name", "bot", "--no", "credits-a-day", "--credits-total", "9", "--json")
    assert (changed.json["name"], changed.json["credits_a_day"], changed.json["credits_total"]) == ("bot", None, 9)
    assert cli("keys", "change", number).code == 1
    assert cli("keys", "freeze", number).code == 0 and status(site, key) == 401
    assert cli("keys", "unfreeze", number).code == 0 and status(site, key) == 402
    rotated = cli("keys", "rotate", number, "--grace", "60", "--json").json
    assert (status(site, key), status(site, rotated["api_key"])) == (402, 402)
    assert cli("keys", "delete", number).code == 0 and status(site, rotated["api_key"]) == 401
    gone = cli("keys", "delete", number)
    assert gone.code == 1 and gone.err
    assert cli("usage", "--by", "key,method", key=own).code == 0


def test_a_limit_that_means_nothing_is_told(cli: Callable[..., Done]) -> None:
    cli("wallet", "new")
    cli("key", "new")
    refused = cli("keys", "new", "bot", "--method", "everything")
    assert refused.code == 1 and "everything" in refused.err


def test_a_key_is_narrowed_without_a_gateway(cli: Callable[..., Done], site: Site) -> None:
    cli("wallet", "new")
    cli("key", "new")
    site.grant(cli("wallet", "show", "--pubkey").out.strip(), 100)
    named = cli("keys", "new", "agent", "--json").json
    narrowed = cli("keys", "narrow", "task", "--credits-total", "5", "--seconds", "60", "--json", key=named["api_key"])
    assert narrowed.code == 0 and narrowed.json["expires_at"]
    alone = cli("keys", "narrow", "--url", "http://127.0.0.1:1", "--json", key=narrowed.json["api_key"])
    assert alone.code == 0
    assert [status(site, each.json["api_key"]) for each in (narrowed, alone)] == [200, 200]
    shown = cli("keys", "list", "--parent", str(named["id"]), "--json", key=named["api_key"]).json
    assert [(key["name"], key["credits_total"]) for key in shown] == [("task", 5)]
    assert cli("keys", "narrow", key="f" * 64).code == 1
