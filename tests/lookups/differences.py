"""What differs from each provider that a client may come from: the rows of docs/differences.md, each with a proof.

`python -m tests.lookups.differences` writes the tables anew. What others do is as their documentation has it; what this
service does is exercised by test_differences.py, row by row.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from actors.gateway.calls.admission import admit
from actors.gateway.calls.jsonrpc import Call
from actors.lookups.asset_methods import AssetMethods
from actors.lookups.fan_out import Asker
from actors.methods.rules import check
from actors.upstream.replies import NodeAnswer
from tests.methods.asking import asked, refused
from tests.ported_node import PortedNode

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
BEGIN, END = "<!-- differences: begin -->", "<!-- differences: end -->"
HELIUS, ALCHEMY, QUICKNODE, AGAVE = "Helius", "Alchemy", "QuickNode", "An Agave node"


@dataclass(frozen=True, slots=True)
class Wallet:
    """On the chain of the test: an owner of a fungible token and of one that is one of a kind."""

    node: PortedNode
    owner: str
    nft: str
    fungible: str
    nobody: str

    async def answer(self, method: str, params: Any) -> NodeAnswer:
        sent = check(method, params, orjson.dumps(params))
        assert isinstance(sent, bytes), sent
        return await AssetMethods(Asker(self.node, 100)).handlers()[method](sent, 30_000)

    async def result(self, method: str, params: Any) -> Any:
        return orjson.loads((await self.answer(method, params)).value())


Proof = Callable[[Wallet], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Row:
    provider: str
    method: str
    what: str
    theirs: str
    ours: str
    proof: Proof

    def __str__(self) -> str:
        return f"| {self.method} | {self.what} | {self.theirs} | {self.ours} |"


def tables() -> str:
    parts = []
    for provider in (HELIUS, ALCHEMY, QUICKNODE, AGAVE):
        parts.append(f"## {provider}\n\n| Method | What | {provider} | Here |\n|---|---|---|---|")
        parts[-1] += "".join(f"\n{row}" for row in ROWS if row.provider == provider)
    return "\n\n".join(parts)


def written(text: str) -> str:
    """The page with the tables of today."""
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{tables()}\n{END}{rest.split(END)[1]}"


def _refuses(method: str, params: dict[str, Any], words: str) -> Proof:
    async def proof(wallet: Wallet) -> None:
        assert words in refused(method, **{"ownerAddress": wallet.owner, **params})

    return proof


def _has_not(*methods: str) -> Proof:
    async def proof(wallet: Wallet) -> None:
        for method in methods:
            refusal = admit(Call(b"1", method, b"[]", []))
            assert getattr(refusal, "err", None) is not None and refusal.err.row.code == -32601, method
            assert method in refusal.detail

    return proof


async def _fungible_by_name(wallet: Wallet) -> None:
    by_name = await wallet.result("getAssetsByOwner", {"ownerAddress": wallet.owner})
    assert [item["id"] for item in by_name["items"]] == [wallet.nft]
    by_position = await wallet.result("getAssetsByOwner", [{"ownerAddress": wallet.owner}])
    assert {item["id"] for item in by_position["items"]} == {wallet.nft, wallet.fungible}


async def _total(wallet: Wallet) -> None:
    given = {"ownerAddress": wallet.owner, "limit": 1, "options": {"showFungible": True, "showGrandTotal": True}}
    by_name = await wallet.result("getAssetsByOwner", given)
    assert (by_name["total"], by_name["grand_total"]) == (1, 2)
    assert (await wallet.result("getAssetsByOwner", [given]))["total"] == 2


async def _off_chain(wallet: Wallet) -> None:
    asset = await wallet.result("getAsset", {"id": wallet.nft})
    content = asset["content"]
    assert (content["files"], content["links"]) == ([], {}) and "description" not in content["metadata"]
    assert content["json_uri"] == "https://x/1.json"


async def _prices(wallet: Wallet) -> None:
    options = {"showFungible": True, "showNativeBalance": True}
    found = await wallet.result("getAssetsByOwner", {"ownerAddress": wallet.owner, "options": options})
    assert all(item["token_info"]["price_info"] is None for item in found["items"])
    assert found["nativeBalance"]["price_per_sol"] is None and found["nativeBalance"]["lamports"] > 0


async def _plain_only(wallet: Wallet) -> None:
    found = await wallet.result("getAssetsByOwner", [wallet.owner])
    assert found["items"] and not any(item["compression"]["compressed"] for item in found["items"])


async def _owner(wallet: Wallet) -> None:
    asset = await wallet.result("getAsset", {"id": wallet.nft})
    assert asset["ownership"]["owner"] is None and asset["supply"] is None


async def _missing(wallet: Wallet) -> None:
    missing = await wallet.answer("getAsset", {"id": wallet.nobody})
    assert (missing.error_code, missing.error_message) == (-32602, f"invalid params: Asset Not Found: {wallet.nobody}")
    assert await wallet.result("getAssetBatch", {"ids": [wallet.nobody]}) == [None]


async def _holders(wallet: Wallet) -> None:
    assert "holders of a mint need an index" in refused("getTokenAccounts", mint=wallet.nft)
    found = await wallet.result("getTokenAccounts", {"owner": wallet.owner, "mint": wallet.nft})
    assert [account["mint"] for account in found["token_accounts"]] == [wallet.nft]


async def _positions(wallet: Wallet) -> None:
    assert "at most 1" in refused("getAssetsByOwner", wallet.owner, 1, 50)


async def _both_names(wallet: Wallet) -> None:
    named = asked("getTokenAccounts", ownerAddress=wallet.owner, mintAddress=wallet.nft)
    assert named == asked("getTokenAccounts", owner=wallet.owner, mint=wallet.nft)


async def _cursor(wallet: Wallet) -> None:
    given = {"ownerAddress": wallet.owner, "limit": 1, "options": {"showFungible": True}}
    first = await wallet.result("getAssetsByOwner", given)
    second = await wallet.result("getAssetsByOwner", given | {"cursor": first["cursor"]})
    third = await wallet.result("getAssetsByOwner", given | {"cursor": second["cursor"]})
    assert first["items"] and second["items"] and (third["items"], third["cursor"]) == ([], None)


async def _by_name(wallet: Wallet) -> None:
    assert asked("suggestPriorityFee", urgency="high") == asked("suggestPriorityFee", {"urgency": "high"})
    assert "takes its parameters by position, as [pubkey, configuration]" in refused("getBalance", pubkey=wallet.owner)


async def _encoding(wallet: Wallet) -> None:
    by_program = {"programId": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"}
    assert asked("getTokenAccountsByOwner", wallet.owner, by_program)[2] == {"encoding": "base64"}


async def _version(wallet: Wallet) -> None:
    assert asked("getTransaction", "5" * 87)[1] == {"maxSupportedTransactionVersion": 0}


_NEED_AN_INDEX = (
    *("searchAssets", "getAssetsByGroup", "getAssetsByCreator", "getAssetsByAuthority", "getAssetProof"),
    *("getAssetProofBatch", "getSignaturesForAsset", "getNftEditions"),
)
_SORT = {"sortBy": {"sortBy": "created", "sortDirection": "asc"}}
_OWN_V2 = ("getProgramAccountsV2", "getTokenAccountsByOwnerV2", "getTransactionsForAddress")
_DENIED = ("getProgramAccounts", "getSupply", "getTokenLargestAccounts", "getLargestAccounts", "getInflationReward")
_LIST = "`getAssetsByOwner`"
_OPTION = "refused by its name, free"
ROWS = (
    Row(
        HELIUS,
        _LIST,
        "`showFungible` left out",
        "false: NFTs only",
        "the same by name; by position, the older form here, all tokens",
        _fungible_by_name,
    ),
    Row(
        HELIUS,
        _LIST,
        "`total`",
        "of this page; `grand_total` of all on request",
        "the same by name; by position of all pages",
        _total,
    ),
    Row(
        HELIUS,
        "all of DAS",
        "`content.files`, `links`, `metadata.description`, `attributes`",
        "from the JSON behind the URI",
        "empty or missing: a URI from the chain is never fetched; `json_uri` names it",
        _off_chain,
    ),
    Row(
        HELIUS,
        "all of DAS",
        "`token_info.price_info`, `nativeBalance.price_per_sol`, `total_price`",
        "in USD",
        "null",
        _prices,
    ),
    Row(HELIUS, "all of DAS", "compressed assets, MPL Core", "listed", "not listed: they need an index", _plain_only),
    Row(
        HELIUS,
        "`getAsset`, `getAssetBatch`",
        "`ownership.owner`, `supply` of editions",
        "known",
        "null: they need an index",
        _owner,
    ),
    Row(
        HELIUS,
        "`getAsset`, `getAssetBatch`",
        "an id that is no mint",
        "an error; null in a batch",
        "-32602 with `Asset Not Found`; null in a batch; both are charged",
        _missing,
    ),
    Row(
        HELIUS,
        _LIST,
        "`sortBy` created, updated, recent_action",
        "sorted so",
        "refused, free; `id` (the bytes of the key) and `none` are taken",
        _refuses("getAssetsByOwner", _SORT, "created needs an index"),
    ),
    Row(
        HELIUS,
        _LIST,
        "`showCollectionMetadata`",
        "shown",
        _OPTION,
        _refuses("getAssetsByOwner", {"options": {"showCollectionMetadata": True}}, "showCollectionMetadata"),
    ),
    Row(
        HELIUS,
        _LIST,
        "`showInscription`, `showClosedAccounts`, `requireFullIndex`, `showSystemMetadata`, `showRawData`",
        "shown",
        _OPTION,
        _refuses("getAssetsByOwner", {"displayOptions": {"showInscription": True}}, "showInscription"),
    ),
    Row(
        HELIUS,
        "`getTokenAccounts`",
        "`mint` without `owner`",
        "the holders of a mint",
        "refused, free; with `owner`, the owner's accounts of the mint",
        _holders,
    ),
    Row(
        HELIUS,
        ", ".join(f"`{name}`" for name in _NEED_AN_INDEX),
        "the method",
        "answered",
        "-32601 that says why, free",
        _has_not(*_NEED_AN_INDEX),
    ),
    Row(
        HELIUS,
        ", ".join(f"`{name}`" for name in _OWN_V2),
        "the method",
        "answered",
        "-32601, free; `getTokenAccounts` and `getTransactionHistory` come near",
        _has_not(*_OWN_V2),
    ),
    Row(
        ALCHEMY,
        _LIST,
        "parameters in an array",
        "one position for each",
        "one parameter: the owner, or the object; or the object by name",
        _positions,
    ),
    Row(
        ALCHEMY,
        "`getTokenAccounts`",
        "`ownerAddress`, `mintAddress`",
        "the names of its parameters",
        "taken, beside `owner` and `mint`",
        _both_names,
    ),
    Row(
        ALCHEMY,
        _LIST,
        "a parameter that is not known",
        "refused",
        "refused by its name, free",
        _refuses("getAssetsByOwner", {"tokenType": "all"}, "tokenType is none of"),
    ),
    Row(
        ALCHEMY,
        _LIST,
        "`before`, `after`",
        "with `sortBy` id only",
        "the same, as there is no other order",
        _refuses("getAssetsByOwner", _SORT, "this service sorts by id"),
    ),
    Row(QUICKNODE, "all of DAS", "how one gets it", "an add-on", "part of the service, paid by the call", _plain_only),
    Row(
        QUICKNODE,
        _LIST,
        "`cursor`",
        "continues a list",
        "the same: the last id of a page; null behind the last",
        _cursor,
    ),
    Row(
        QUICKNODE,
        _LIST,
        "`sortBy` created, updated, recentAction",
        "sorted so",
        "refused, free",
        _refuses("getAssetsByOwner", {"sortBy": {"sortBy": "recentAction"}}, "recentAction needs an index"),
    ),
    Row(
        QUICKNODE,
        _LIST,
        "`showCollectionMetadata`",
        "shown",
        _OPTION,
        _refuses("getAssetsByOwner", {"options": {"showCollectionMetadata": True}}, "outside the chain"),
    ),
    Row(AGAVE, "`getAsset`, `getAssetsByOwner` and others", "the method", "not found", "answered", _owner),
    Row(
        AGAVE,
        "all",
        "`params` as an object",
        "refused",
        "taken by the methods that have one object; elsewhere refused, free, with the names of the positions",
        _by_name,
    ),
    Row(
        AGAVE,
        ", ".join(f"`{name}`" for name in _DENIED),
        "the method",
        "answered",
        "-32601, free",
        _has_not(*_DENIED),
    ),
    Row(
        AGAVE,
        "`getTokenAccountsByOwner`",
        "no encoding",
        "base58, which fails above 128 bytes",
        "base64",
        _encoding,
    ),
    Row(
        AGAVE,
        "`getTransaction`, `getBlock`",
        "no `maxSupportedTransactionVersion`",
        "legacy transactions only",
        "0",
        _version,
    ),
)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
