"""Assets as clients of the Digital Asset Standard (DAS) know them, made of token accounts, mints and metadata accounts.

Implements: getAssetsByOwner, getAsset and getAssetBatch with what a plain node has; docs/differences.md. Pure.

What takes an index or a look outside the chain is null: owners of single assets, editions, prices. The lists of files
and links are empty, as they are at other providers before they have fetched the URI, which this service never does.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from solders.pubkey import Pubkey

from actors.lookups.metadata import Metadata, MintAccount
from actors.lookups.token_accounts import TokenAccount

NON_FUNGIBLE, FUNGIBLE = "non_fungible", "fungible"
_PROGRAMMABLE = ("ProgrammableNonFungible", "ProgrammableNonFungibleEdition")
_UNCOMPRESSED = {
    "eligible": False,
    "compressed": False,
    "data_hash": "",
    "creator_hash": "",
    "asset_hash": "",
    "tree": "",
    "seq": 0,
    "leaf_id": 0,
}


@dataclass(frozen=True, slots=True)
class KnownMint:
    """What the node has of a mint. mint: None where there is none. metadata: of its Metaplex account."""

    mint: MintAccount | None
    metadata: Metadata | None

    def best(self, mint: str) -> Metadata | None:
        """Return the metadata that counts: the mint's own, unless its pointer names another account."""
        if self.mint is None or self.mint.metadata is None:
            return self.metadata
        pointer = self.mint.extensions.get("metadata_pointer", {}).get("metadata_address")
        return self.mint.metadata if pointer in (None, mint) else self.metadata


def page_of(
    keys: Sequence[bytes], page: int, limit: int, after: bytes = b"", before: bytes = b"", descending: bool = False
) -> list[bytes]:
    """Return the keys of a page. keys: in their order. page: 0 where after and before say it; they are exclusive, and
    may be empty. Before alone gives the keys next to it, in the same order."""
    if page:
        return list(keys[(page - 1) * limit : page * limit])
    first = _position(keys, after, descending, behind=True) if after else 0
    last = _position(keys, before, descending) if before else len(keys)
    within = keys[first:last]
    return list(within[-limit:] if before and not after else within[:limit])


def _position(keys: Sequence[bytes], bound: bytes, descending: bool, behind: bool = False) -> int:
    """Return the place of the first key that does not come before the bound; behind: of the first one behind it."""
    if descending:
        ends_before = bisect_left(keys, -int.from_bytes(bound), key=lambda key: -int.from_bytes(key))
    else:
        ends_before = bisect_left(keys, bound)
    return ends_before + (behind and ends_before < len(keys) and keys[ends_before] == bound)


def kind_of(decimals: int | None, supply: int | None) -> str | None:
    """Classify a mint. `non_fungible`: no decimals and a supply of one. None: not known."""
    if decimals is None:
        return None
    if decimals > 0:
        return FUNGIBLE
    if supply is None:
        return None
    return NON_FUNGIBLE if supply == 1 else FUNGIBLE


def interface_of(known: KnownMint, metadata: Metadata | None) -> str:
    """Return the `interface` of DAS. The mint decides, as its metadata may say anything."""
    if known.mint is None:
        return "Custom"
    if kind_of(known.mint.decimals, known.mint.supply) == FUNGIBLE:
        return "FungibleToken" if known.mint.decimals else "FungibleAsset"
    standard = metadata.standard if metadata is not None else None
    if standard in _PROGRAMMABLE:
        return "ProgrammableNFT"
    return "V1_PRINT" if standard == "NonFungibleEdition" else "V1_NFT"


def das_asset(
    mint: str, known: KnownMint, held: Sequence[TokenAccount], owner: str | None, unverified_collections: bool
) -> dict[str, Any]:
    """Build one asset. held: the owner's token accounts of the mint; none where no owner is known."""
    metadata = known.best(mint)
    shown = metadata or Metadata()
    found: dict[str, Any] = {
        "interface": interface_of(known, metadata),
        "id": mint,
        "content": {
            "$schema": "https://schema.metaplex.com/nft1.0.json",
            "json_uri": shown.uri or "",
            "files": [],
            "metadata": _texts(shown),
            "links": {},
        },
        "authorities": [] if shown.update_authority is None else [_authority(shown.update_authority)],
        "compression": _UNCOMPRESSED,
        "grouping": _grouping(shown, unverified_collections),
        "royalty": {
            "royalty_model": "creators",
            "target": None,
            "percent": shown.basis_points / 10_000,
            "basis_points": shown.basis_points,
            "primary_sale_happened": shown.primary_sale_happened,
            "locked": False,
        },
        "creators": [
            {"address": creator.address, "share": creator.share, "verified": creator.verified}
            for creator in shown.creators
        ],
        "ownership": _ownership(known, held, owner),
        "supply": None,
        "mutable": bool(shown.is_mutable),
        "burnt": known.mint is not None and owner is None and known.mint.supply == 0,
        "token_info": _token_info(known, held, shown.symbol),
    }
    if known.mint is not None and known.mint.extensions:
        found["mint_extensions"] = known.mint.extensions
    return found


def former_fields(
    mint: str, known: KnownMint, held: Sequence[TokenAccount], token_accounts: orjson.Fragment
) -> dict[str, Any]:
    """Return the fields that an asset has where parameters are given by position. token_accounts: a JSON array."""
    decimals = known.mint.decimals if known.mint is not None else None
    supply = known.mint.supply if known.mint is not None else None
    return {
        "id": mint,
        "kind": kind_of(decimals, supply),
        "token_program": held[0].program,
        "amount": str(sum(account.amount for account in held)),
        "decimals": decimals,
        "supply": None if supply is None else str(supply),
        "token_accounts": token_accounts,
    }


def former_account(account: TokenAccount, known: KnownMint, ui_amounts: Mapping[str, str | None]) -> dict[str, Any]:
    """Build one of the `token_accounts` of an asset. ui_amounts: those that the node was asked for, by address."""
    decimals = known.mint.decimals if known.mint is not None else None
    shown = ui_amounts[account.address] if account.address in ui_amounts else ui_amount(account.amount, decimals)
    return {
        "address": account.address,
        "amount": str(account.amount),
        "ui_amount_string": shown,
        "frozen": account.frozen,
        "delegate": account.delegate,
    }


def ui_amount(amount: int, decimals: int | None) -> str | None:
    """Return an amount as a node writes it: by the decimals, without zeros at the end."""
    if not decimals:
        return None if decimals is None else str(amount)
    digits = str(amount).rjust(decimals + 1, "0")
    return f"{digits[:-decimals]}.{digits[-decimals:]}".rstrip("0").rstrip(".")


def token_account(account: TokenAccount) -> dict[str, Any]:
    """Build one element of the `token_accounts` of getTokenAccounts."""
    found = {
        "address": account.address,
        "mint": str(Pubkey(account.mint)),
        "owner": str(Pubkey(account.owner)),
        "amount": account.amount,
        "delegated_amount": account.delegated_amount,
        "frozen": account.frozen,
    }
    return found if account.delegate is None else found | {"delegate": account.delegate}


def _texts(shown: Metadata) -> dict[str, Any]:
    texts = {"name": shown.name or "", "symbol": shown.symbol or ""}
    return texts if shown.standard is None else texts | {"token_standard": shown.standard}


def _authority(address: str) -> dict[str, Any]:
    return {"address": address, "scopes": ["full"]}


def _grouping(shown: Metadata, unverified_collections: bool) -> list[dict[str, Any]]:
    if shown.collection is None or not (shown.collection_verified or unverified_collections):
        return []
    group: dict[str, Any] = {"group_key": "collection", "group_value": shown.collection}
    return [group | {"verified": shown.collection_verified} if unverified_collections else group]


def _ownership(known: KnownMint, held: Sequence[TokenAccount], owner: str | None) -> dict[str, Any]:
    """Of the account with most of it. owner: None where it takes an index."""
    first = _largest(held)
    single = known.mint is not None and kind_of(known.mint.decimals, known.mint.supply) == NON_FUNGIBLE
    return {
        "frozen": None if first is None else first.frozen,
        "delegated": None if first is None else first.delegate is not None,
        "delegate": None if first is None else first.delegate,
        "ownership_model": "single" if single else "token",
        "owner": owner,
    }


def _largest(held: Sequence[TokenAccount]) -> TokenAccount | None:
    return max(held, key=lambda account: account.amount, default=None)


def _token_info(known: KnownMint, held: Sequence[TokenAccount], symbol: str | None) -> dict[str, Any]:
    largest = _largest(held)
    found: dict[str, Any] = {"symbol": symbol} if symbol else {}
    if held:
        found["balance"] = sum(account.amount for account in held)
    mint = known.mint
    found["supply"] = None if mint is None else mint.supply
    found["decimals"] = None if mint is None else mint.decimals
    found["token_program"] = held[0].program if mint is None else mint.program
    if largest is not None:
        found["associated_token_address"] = largest.address
    if mint is not None and mint.mint_authority is not None:
        found["mint_authority"] = mint.mint_authority
    if mint is not None and mint.freeze_authority is not None:
        found["freeze_authority"] = mint.freeze_authority
    return found | {"price_info": None}
