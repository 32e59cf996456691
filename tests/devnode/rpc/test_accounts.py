import base64

import base58
import pytest
from solders.account import Account
from solders.pubkey import Pubkey
from solders.rpc import responses

from devnode.encoding.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM, USDC_MINT
from tests.devnode.local_node import LocalNode

ABSENT = "1nc1nerator11111111111111111111111111111111"


def test_balance(local: LocalNode) -> None:
    """An address without funds has 0 lamports, which is no error, neither for the node nor for a typed client."""
    wallet = local.wallet(5 * 10**8)
    assert local.call("getBalance", str(wallet.pubkey()))["value"] == 5 * 10**8
    assert local.call("getBalance", ABSENT)["value"] == 0
    assert responses.GetBalanceResp.from_json(local.raw_reply("getBalance", ABSENT)).value == 0


def test_balance_at_each_commitment(local: LocalNode) -> None:
    wallet = Pubkey.new_unique()
    local.faucet.airdrop(wallet, 10**9)
    seen = [
        local.call("getBalance", str(wallet), {"commitment": level})["value"]
        for level in ("processed", "confirmed", "finalized")
    ]
    assert seen == [10**9, 0, 0]
    assert local.call("getBalance", str(wallet))["value"] == 0


def test_account_info_in_every_encoding(local: LocalNode) -> None:
    mint = str(USDC_MINT)
    data = local.chain.vm.account(USDC_MINT).data  # type: ignore[union-attr]
    shown = local.call("getAccountInfo", mint, {"encoding": "base64"})["value"]
    assert base64.b64decode(shown["data"][0]) == data
    assert shown["owner"] == str(TOKEN_PROGRAM) and shown["space"] == 82 and shown["rentEpoch"] == 2**64 - 1
    assert base58.b58decode(local.call("getAccountInfo", mint)["value"]["data"]) == data
    parsed = local.call("getAccountInfo", mint, {"encoding": "jsonParsed"})["value"]["data"]
    assert parsed["parsed"]["info"]["decimals"] == 6
    sliced = local.call("getAccountInfo", mint, {"encoding": "base64", "dataSlice": {"offset": 4, "length": 32}})
    assert base64.b64decode(sliced["value"]["data"][0]) == data[4:36]
    assert local.call("getAccountInfo", ABSENT)["value"] is None
    raw = local.raw_reply("getAccountInfo", mint, {"encoding": "base64"})
    assert responses.GetAccountInfoResp.from_json(raw).value.data == data  # type: ignore[union-attr]


def test_base58_refuses_long_data(local: LocalNode) -> None:
    local.chain.vm.put(Pubkey.from_string(ABSENT), Account(1, bytes(200), SYSTEM_PROGRAM, False, 0))
    assert local.error("getAccountInfo", ABSENT, {"encoding": "base58"}) == (
        -32600,
        "Encoded binary (base 58) data should be less than 128 bytes, please use Base64 encoding.",
    )


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"encoding": "utf8"}, "unknown variant `utf8`"),
        ({"commitment": "max"}, "unknown variant `max`"),
        ({"dataSlice": {"offset": 1}}, "missing field `length`"),
        ({"dataSlice": {"offset": -1, "length": 1}}, "invalid value"),
        ("base64", "expected struct RpcAccountInfoConfig"),
    ],
)
def test_bad_configuration(local: LocalNode, config: object, text: str) -> None:
    """A bad configuration is error -32602, which names the field; it never falls back to a default."""
    code, message = local.error("getAccountInfo", ABSENT, config)
    assert code == -32602 and text in message


def test_multiple_accounts(local: LocalNode) -> None:
    """Values have the order of the request, with null for an absent account; at most 100, all with valid keys."""
    value = local.call("getMultipleAccounts", [str(USDC_MINT), ABSENT])["value"]
    assert value[0]["data"][1] == "base64" and value[1] is None
    assert local.error("getMultipleAccounts", [ABSENT] * 101) == (-32602, "Too many inputs provided; max 100")
    assert local.error("getMultipleAccounts", ["x"])[0] == -32602
    raw = local.raw_reply("getMultipleAccounts", [str(USDC_MINT), ABSENT])
    assert responses.GetMultipleAccountsResp.from_json(raw).value[1] is None


def test_program_accounts_with_filters(local: LocalNode) -> None:
    owner = local.wallet(10**9, 5_000_000).pubkey()
    local.wallet(10**9, 6_000_000)
    token = str(TOKEN_PROGRAM)
    of_owner = {"memcmp": {"offset": 32, "bytes": str(owner)}}
    found = local.call("getProgramAccounts", token, {"encoding": "base64", "filters": [{"dataSize": 165}, of_owner]})
    assert len(found) == 1 and base64.b64decode(found[0]["account"]["data"][0])[32:64] == bytes(owner)
    as_base64 = {"memcmp": {"offset": 32, "bytes": base64.b64encode(bytes(owner)).decode(), "encoding": "base64"}}
    assert len(local.call("getProgramAccounts", token, {"encoding": "base64", "filters": [as_base64]})) == 1
    states = local.call("getProgramAccounts", token, {"encoding": "base64", "filters": ["tokenAccountState"]})
    assert len(states) == 2
    whole = local.call("getProgramAccounts", token, {"encoding": "jsonParsed", "withContext": True})
    assert {one["account"]["data"]["parsed"]["type"] for one in whole["value"]} == {"account", "mint"}
    raw = local.raw_reply("getProgramAccounts", token, {"encoding": "base64"})
    assert len(responses.GetProgramAccountsResp.from_json(raw).value) == 4


def test_program_accounts_at_each_commitment(local: LocalNode) -> None:
    """An account that is not final yet is not in the finalized answer."""
    local.faucet.fund(Pubkey.new_unique(), 0, 1)
    config = {"encoding": "base64", "filters": [{"dataSize": 165}]}
    assert local.call("getProgramAccounts", str(TOKEN_PROGRAM), config) == []
    now = local.call("getProgramAccounts", str(TOKEN_PROGRAM), config | {"commitment": "processed"})
    assert len(now) == 1


@pytest.mark.parametrize(
    "filters",
    [
        [{"dataSize": 1}] * 5,
        [{}],
        ["other"],
        [{"memcmp": {"offset": 0}}],
        [{"memcmp": {"offset": 0, "bytes": "0OIl"}}],
        [{"memcmp": {"offset": 0, "bytes": "1" * 129}}],
        [{"memcmp": {"offset": 0, "bytes": "?", "encoding": "base64"}}],
        [{"memcmp": {"offset": 0, "bytes": "a", "encoding": "hex"}}],
        {"dataSize": 1},
    ],
)
def test_bad_filters(local: LocalNode, filters: object) -> None:
    """More than 4 filters or an invalid one is an error: ignoring a filter would return too many accounts."""
    assert local.error("getProgramAccounts", str(TOKEN_PROGRAM), {"filters": filters})[0] == -32602


def test_rent(local: LocalNode) -> None:
    """A token account needs 2,039,280 lamports, as on the real chain; oversized data is refused."""
    assert local.call("getMinimumBalanceForRentExemption", 165) == 2_039_280
    assert local.error("getMinimumBalanceForRentExemption", 10**9)[0] == -32602


def test_supply_adds_up(local: LocalNode) -> None:
    """Circulating and non-circulating add up to the total; a grant of the faucet moves lamports to circulating, as half
    of its fee to the leader does."""
    before = local.call("getSupply")["value"]
    local.wallet(10**9)
    after = local.call("getSupply")["value"]
    burned = before["total"] - after["total"]
    assert after["circulating"] == before["circulating"] + 10**9 + burned + 1, "and a lamport of priority fee"
    assert after["total"] == after["circulating"] + after["nonCirculating"]
    faucet = str(local.faucet.pubkey)
    assert after["nonCirculatingAccounts"] == [faucet]
    short = local.call("getSupply", {"excludeNonCirculatingAccountsList": True})["value"]
    assert short["nonCirculatingAccounts"] == []
    assert responses.GetSupplyResp.from_json(local.raw_reply("getSupply")).value.total == after["total"]


def test_largest_accounts(local: LocalNode) -> None:
    """Largest first, at most 20; the filters divide accounts into the faucet and all others."""
    largest = local.call("getLargestAccounts")["value"]
    assert largest[0]["address"] == str(local.faucet.pubkey) and len(largest) <= 20
    amounts = [one["lamports"] for one in largest]
    assert amounts == sorted(amounts, reverse=True)
    circulating = local.call("getLargestAccounts", {"filter": "circulating"})["value"]
    assert str(local.faucet.pubkey) not in [one["address"] for one in circulating]
    assert len(local.call("getLargestAccounts", {"filter": "nonCirculating"})["value"]) == 1
