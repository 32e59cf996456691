"""Clients of the Digital Asset Standard, unmodified, with nothing but their base URL changed."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from solders.transaction import VersionedTransaction
from spl.token import instructions as spl
from spl.token import models
from spl.token.constants import TOKEN_PROGRAM_ID

from bench.product import Product
from tests.conformance import people
from tests.npm import Npm

_HERE = Path(__file__).parent / "das"
_MINT_BYTES, _MINT_RENT = 82, 1_461_600
_SECONDS_MAX = 60
_NO_INDEX = "needs an index over the whole chain, which this service has not"


def _node(product: Product, method: str, *params: Any) -> Any:
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    return httpx.post(str(product.ready["node_url"]), json=asked, timeout=30).json()["result"]


def _minted(product: Product, sender: Keypair) -> str:
    """A mint without decimals, of which the demo wallet holds the only one; final."""
    mint = Keypair()
    owner, program = sender.pubkey(), TOKEN_PROGRAM_ID
    account = spl.get_associated_token_address(owner, mint.pubkey())
    steps: list[Instruction] = [
        create_account(
            CreateAccountParams(
                from_pubkey=owner, to_pubkey=mint.pubkey(), lamports=_MINT_RENT, space=_MINT_BYTES, owner=program
            )
        ),
        spl.initialize_mint(
            models.InitializeMintParams(program_id=program, mint=mint.pubkey(), decimals=0, mint_authority=owner)
        ),
        spl.create_associated_token_account(owner, owner, mint.pubkey()),
        spl.mint_to(
            models.MintToParams(program_id=program, mint=mint.pubkey(), dest=account, mint_authority=owner, amount=1)
        ),
    ]
    blockhash = Hash.from_string(_node(product, "getLatestBlockhash")["value"]["blockhash"])
    signed = VersionedTransaction(MessageV0.try_compile(owner, steps, [], blockhash), [sender, mint])
    signature = _node(product, "sendTransaction", people.text(signed), {"encoding": "base64", "skipPreflight": True})
    deadline = time.monotonic() + _SECONDS_MAX
    while (_node(product, "getSignatureStatuses", [signature])["value"][0] or {}).get(
        "confirmationStatus"
    ) != "finalized":
        assert time.monotonic() < deadline, "the token was not minted"
        time.sleep(0.1)
    return str(mint.pubkey())


@pytest.fixture(scope="module")
def tokens(product: Product) -> dict[str, str]:
    """A token that is one of a kind, USDC, and a coin with metadata; all final."""
    sender = Keypair.from_base58_string(str(product.ready["secret_key"]))
    asked = {"kind": "classic", "name": "Classic coin", "symbol": "CLS", "uri": "https://x/c.json", "trades": 0}
    coin = httpx.post(f"{product.ready['node_url']}/admin/launch", json=asked, timeout=30).json()
    nft = _minted(product, sender)
    return {
        "OWNER": str(sender.pubkey()),
        "HOLDER": coin["bonding_curve"],
        "COIN": coin["mint"],
        "MINT": nft,
        "NOBODY": str(Pubkey.new_unique()),
    }


def _fits(asset: Mapping[str, Any]) -> None:
    """What the clients' own types say of an asset."""
    assert {"interface", "id", "content", "authorities", "compression", "grouping", "royalty", "creators"} <= set(asset)
    assert {"ownership", "mutable", "burnt", "token_info"} <= set(asset)
    assert isinstance(asset["content"]["metadata"]["name"], str) and isinstance(asset["content"]["json_uri"], str)
    assert asset["ownership"]["ownership_model"] in ("single", "token")


def test_metaplex(product: Product, npm_of_das: Npm, tokens: Mapping[str, str]) -> None:
    """umi with the DAS plugin: what exists is as its types say, and what does not exist is an error."""
    url = f"{product.http_url}/?api-key={product.api_key}"
    before = product.account()["total_consumed_credits"]
    found = npm_of_das.run(_HERE / "metaplex.mjs", {"RPC_URL": url, **tokens})
    assert [item["id"] for item in found["nfts"]["items"]] == [tokens["MINT"]] and found["nfts"]["total"] == 1
    ids = [item["id"] for item in found["all"]["items"]]
    assert tokens["MINT"] in ids and len(ids) >= 2 and found["walked"] == ids
    assert found["all"]["nativeBalance"]["lamports"] > 0
    (coin,) = [item for item in found["coins"]["items"] if item["id"] == tokens["COIN"]]
    assert coin["content"]["metadata"] | {"token_standard": ""} == {
        "name": "Classic coin",
        "symbol": "CLS",
        "token_standard": "",
    }
    assert coin["content"]["json_uri"] == "https://x/c.json" and coin["interface"] == "FungibleToken"
    assert found["one"]["id"] == tokens["MINT"] and found["one"]["interface"] == "V1_NFT"
    assert found["several"][0]["id"] == tokens["MINT"] and found["several"][1] is None
    for asset in (*found["all"]["items"], coin, found["one"]):
        _fits(asset)
    # umi throws away the words of an error and says its own; the reasons are seen by helius-sdk below.
    assert found["missing"] == f"Asset not found: {tokens['NOBODY']}"
    assert len(found["refused"]) == 8
    assert all(told.startswith("No ") and " found for " in told for told in found["refused"].values()), found["refused"]
    # 25 for each list, and one more for each page of the walk; 5 for one asset, or for the answer that there is none,
    # and 25 for several. Refusals are free.
    charged = product.account()["total_consumed_credits"] - before
    assert charged == 3 * 25 + (len(ids) + 1) * 25 + 2 * 5 + 25


def test_helius(product: Product, npm_of_das: Npm, tokens: Mapping[str, str]) -> None:
    """Base URL and key in the client's own options."""
    settings = {"BASE_URL": f"{product.http_url}/", "API_KEY": product.api_key, **tokens}
    found = npm_of_das.run(_HERE / "helius.mjs", settings)
    assert int(found["balance"]) > 0 and found["fee"]["priorityFeeEstimate"] >= 0
    assert [item["id"] for item in found["nfts"]["items"]] == [tokens["MINT"]]
    everything = found["all"]
    assert everything["grand_total"] == everything["total"] == len(everything["items"]) >= 2
    assert everything["nativeBalance"]["lamports"] > 0 and everything["last_indexed_slot"] > 0
    for asset in (*everything["items"], found["one"]):
        _fits(asset)
    assert found["several"][0]["id"] == tokens["MINT"] and found["several"][1] is None
    (account,) = [one for one in found["accounts"]["token_accounts"] if one["mint"] == tokens["MINT"]]
    assert (account["amount"], account["owner"], account["frozen"]) == (1, tokens["OWNER"], False)
    assert "Asset Not Found" in found["missing"]
    refused = found["refused"]
    assert "the holders of a mint need an index" in refused.pop("holders")
    for method in ("getTransactionsForAddress", "getTokenAccountsByOwnerV2"):
        assert f"method not found: {method}" in refused.pop(method)
    for method, told in refused.items():
        assert method in told and _NO_INDEX in told


def test_both_ends_of_a_wallet_agree(product: Product, tokens: Mapping[str, str]) -> None:
    """By name and by position, over HTTP: the same tokens, each in its own form."""

    def asked(params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": "getAssetsByOwner", "params": params}
        headers = {"x-api-key": product.api_key}
        return json.loads(httpx.post(product.http_url, json=body, headers=headers, timeout=30).content)["result"]

    by_name = asked({"ownerAddress": tokens["OWNER"], "options": {"showFungible": True}})
    by_position = asked([tokens["OWNER"]])
    assert [item["id"] for item in by_name["items"]] == [item["id"] for item in by_position["items"]]
    assert all("kind" in item and "interface" in item for item in by_position["items"])
    assert not any("kind" in item for item in by_name["items"])
