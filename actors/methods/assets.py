"""Methods of the Digital Asset Standard (DAS): the tokens of an owner, single assets, and token accounts.

Implements: interface, JSON-RPC gateway rule 5; the requests that DAS clients send, as its largest provider documents
them (docs/differences.md). Pure.

An option that this service would have to ignore is refused by its name, as the caller would pay for another answer than
the one that was asked for. An option that asks for nothing (false, null) is taken, whichever it is.
"""

from typing import Any

from actors.methods import forms, results
from actors.methods.entries import Question, encoded, own
from actors.methods.forms import Form, Parameter, an_object, choice, documented, list_of, needed, up_to
from actors.methods.prices import MethodClass
from actors.methods.values import InvalidError, at, at_most, boolean, fields, items, pubkey, shown

ASSETS_LIMIT_MAX = 1_000  # Twenty calls to the node, each for fifty mints and their metadata accounts.
ASSETS_PAGE_MAX = 100_000
BATCH_MAX = 1_000
_OWNER_KEYS = ("ownerAddress", "owner_address", "owner")
_PAGE = {
    "page": up_to(ASSETS_PAGE_MAX, 1),
    "limit": up_to(ASSETS_LIMIT_MAX, 1),
    "cursor": forms.PUBKEY,
    "before": forms.PUBKEY,
    "after": forms.PUBKEY,
}
_SORT = an_object("order of the assets", (), sortBy=choice("id", "none"), sortDirection=choice("asc", "desc"))
# For each option: why this service does not offer it.
_NOT_OFFERED = {
    "showCollectionMetadata": "the metadata of a collection lies outside the chain",
    "showInscription": "inscriptions need an index",
    "showRawData": "getAccountInfo returns the data of an account",
    "requireFullIndex": "there is no index",
    "showSystemMetadata": "there is no index",
    "showClosedAccounts": "closed accounts need an index",
}
_NOT_SORTED_BY = ("created", "updated", "recent_action", "recentAction")
_NAMES_OF_ACCOUNTS = (("owner", "ownerAddress"), ("mint", "mintAddress"))  # Names that different providers use.
_OPTION_NAMES = ("options", "displayOptions")
_OF_ASSETS = ("showFungible", "showUnverifiedCollections")
_OF_LISTS = (*_OF_ASSETS, "showNativeBalance", "showZeroBalance", "showGrandTotal")


class AssetsQuestion(Question, frozen=True):
    """getAssetsByOwner. commitment: empty is the node's default, finalized.

    page: from 1, of `limit` mints each; 0: the page is found by after and before, both exclusive. by_name: the answer
    has the form of DAS; else it also has the fields that this method had before, and `total` counts all pages.
    """

    owner: str
    page: int
    limit: int
    commitment: str = ""
    by_name: bool = False
    after: str = ""
    before: str = ""
    descending: bool = False
    fungible: bool = True
    native_balance: bool = False
    zero_balance: bool = False
    grand_total: bool = False
    unverified_collections: bool = False


class AssetsByIdQuestion(Question, frozen=True):
    """getAsset, getAssetBatch, getAssets. alone: one asset is asked for, and answered without a list."""

    ids: tuple[str, ...]
    alone: bool = False
    unverified_collections: bool = False


class TokenAccountsQuestion(Question, frozen=True):
    """getTokenAccounts. mint: empty for all. page: as AssetsQuestion has it."""

    owner: str
    mint: str
    page: int
    limit: int
    after: str = ""
    before: str = ""
    zero_balance: bool = False


def _known(given: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in given:
        if name not in names:
            raise InvalidError(f"{where}: {shown(name)} is none of {', '.join(names)}")


def _options(given: dict[str, Any], offered: tuple[str, ...]) -> dict[str, bool]:
    """Return the display options that are asked for, each true or false."""
    named = [name for name in _OPTION_NAMES if given.get(name) is not None]
    if len(named) == 2:
        raise InvalidError("give options or displayOptions, not both")
    options = fields(given[named[0]], named[0], {}) if named else {}
    asked: dict[str, bool] = {}
    for name, value in options.items():
        if name not in offered and name not in _NOT_OFFERED and name not in _OF_LISTS:
            raise InvalidError(f"{named[0]}: {shown(name)} is none of {', '.join(offered)}")
        if value is not None:
            boolean(value, name)
            asked[name] = value
        if value and name not in offered:
            raise InvalidError(f"{name}: not offered here, as {_NOT_OFFERED.get(name, 'this method lists no wallet')}")
    return asked


def _place(given: dict[str, Any]) -> tuple[int, str, str]:
    """Return (page, after, before). page: 0 where the others say it."""
    cursor, after, before = given.get("cursor"), given.get("after"), given.get("before")
    if cursor is not None and (after is not None or before is not None):
        raise InvalidError("give cursor, or before and after, not both")
    bounded = any(bound is not None for bound in (cursor, after, before))
    if bounded and given.get("page") is not None:
        raise InvalidError("give page, or cursor, before and after, not both")
    return 0 if bounded else given.get("page") or 1, cursor or after or "", before or ""


def _is_descending(given: dict[str, Any]) -> bool:
    sort = given.get("sortBy")
    if sort is None:
        return False
    fields(sort, "sortBy", {})
    _known(sort, ("sortBy", "sortDirection"), "sortBy")
    if sort.get("sortBy") in _NOT_SORTED_BY:
        raise InvalidError(f"sortBy: {sort['sortBy']} needs an index; this service sorts by id")
    _SORT.check(sort, "sortBy")
    return bool(sort.get("sortDirection") == "desc")


def _assets(arguments: list[Any], raw: bytes) -> bytes:
    """Rule 5: the owner as a bare string, or in an object under one of three names."""
    at_most(arguments, 1)
    given = at(arguments, 0, "owner")
    if type(given) is str:
        given = {"owner": given}
    elif type(given) is not dict:
        raise InvalidError("parameter 1 must be the owner or an object that names it")
    return _assets_of(given, "parameter 1", by_name=False)


def _assets_by_name(given: dict[str, Any], raw: bytes) -> bytes:
    return _assets_of(given, "params", by_name=True)


def _assets_of(given: dict[str, Any], where: str, by_name: bool) -> bytes:
    _known(given, (*_OWNER_KEYS, *_PAGE, "sortBy", *_OPTION_NAMES, "commitment"), where)
    named = [key for key in _OWNER_KEYS if given.get(key) is not None]
    if len(named) != 1:
        raise InvalidError(f"{where}: wanted the owner under one of {', '.join(_OWNER_KEYS)}")
    pubkey(given[named[0]], named[0])
    fields(given, where, _PAGE_CHECKS | {"commitment": forms.COMMITMENT.check})
    options, (page, after, before) = _options(given, _OF_LISTS), _place(given)
    question = AssetsQuestion(
        owner=given[named[0]],
        page=page,
        limit=given.get("limit") or ASSETS_LIMIT_MAX,
        commitment=given.get("commitment") or "",
        by_name=by_name,
        after=after,
        before=before,
        descending=_is_descending(given),
        fungible=options.get("showFungible", not by_name),
        native_balance=options.get("showNativeBalance", False),
        zero_balance=options.get("showZeroBalance", False),
        grand_total=options.get("showGrandTotal", False),
        unverified_collections=options.get("showUnverifiedCollections", False),
    )
    return encoded(question)


def _asset(arguments: list[Any], raw: bytes) -> bytes:
    """One asset: its id as a string with the options behind it, or an object that has both."""
    at_most(arguments, 2)
    given = at(arguments, 0, "id")
    if type(given) is not dict:
        given = {"id": given, "options": arguments[1] if len(arguments) > 1 else None}
    elif len(arguments) > 1:
        raise InvalidError("parameter 2: the options are in the object")
    return _asset_of(given, raw)


def _asset_of(given: dict[str, Any], raw: bytes) -> bytes:
    _known(given, ("id", *_OPTION_NAMES), "params")
    pubkey(given.get("id"), "id")
    options = _options(given, _OF_ASSETS)
    return encoded(AssetsByIdQuestion((given["id"],), True, options.get("showUnverifiedCollections", False)))


def _batch(arguments: list[Any], raw: bytes) -> bytes:
    """Several assets: their ids as an array with the options behind it, or an object that has both."""
    at_most(arguments, 2)
    given = at(arguments, 0, "ids")
    if type(given) is not dict:
        given = {"ids": given, "options": arguments[1] if len(arguments) > 1 else None}
    elif len(arguments) > 1:
        raise InvalidError("parameter 2: the options are in the object")
    return _batch_of(given, raw)


def _batch_of(given: dict[str, Any], raw: bytes) -> bytes:
    _known(given, ("ids", *_OPTION_NAMES), "params")
    ids = items(given.get("ids"), "ids", pubkey, BATCH_MAX, 1)
    options = _options(given, _OF_ASSETS)
    return encoded(AssetsByIdQuestion(tuple(ids), False, options.get("showUnverifiedCollections", False)))


def _token_accounts(arguments: list[Any], raw: bytes) -> bytes:
    at_most(arguments, 1)
    return _token_accounts_of(fields(at(arguments, 0, "request"), "parameter 1", {}), raw)


def _token_accounts_of(given: dict[str, Any], raw: bytes) -> bytes:
    _known(given, (*(name for names in _NAMES_OF_ACCOUNTS for name in names), *_PAGE, *_OPTION_NAMES), "params")
    owner, mint = (_one_of(given, names) for names in _NAMES_OF_ACCOUNTS)
    if owner is None:
        why = "the holders of a mint need an index" if mint is not None else "it says whose accounts"
        raise InvalidError(f"owner is missing: {why}")
    pubkey(owner, "owner")
    if mint is not None:
        pubkey(mint, "mint")
    fields(given, "params", _PAGE_CHECKS)
    options, (page, after, before) = _options(given, ("showZeroBalance",)), _place(given)
    limit, zero = given.get("limit") or ASSETS_LIMIT_MAX, options.get("showZeroBalance", False)
    return encoded(TokenAccountsQuestion(owner, mint or "", page, limit, after, before, zero))


def _one_of(given: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Return what is given under one of the names; None: nothing is."""
    named = [given[name] for name in names if given.get(name) is not None]
    if len(named) > 1:
        raise InvalidError(f"give {' or '.join(names)}, not both")
    return named[0] if named else None


_PAGE_CHECKS = forms.checks_of(_PAGE)
_LIST_OPTIONS = an_object("what the answer has", (), **dict.fromkeys(_OF_LISTS, forms.BOOLEAN))
_ASSET_OPTIONS = an_object("what the answer has", (), **dict.fromkeys(_OF_ASSETS, forms.BOOLEAN))
_OWNER_FORM: Form = documented(
    description="public key in base58, or an object that has it as ownerAddress, with page, limit or cursor, sortBy, "
    "options (showFungible, showNativeBalance, showZeroBalance, showGrandTotal) and commitment",
    anyOf=[
        dict(forms.PUBKEY.schema),
        dict(
            an_object(
                "the owner, and the page of its assets",
                (),
                **dict.fromkeys(_OWNER_KEYS, forms.PUBKEY),
                **_PAGE,
                sortBy=_SORT,
                options=_LIST_OPTIONS,
                displayOptions=_LIST_OPTIONS,
                commitment=forms.COMMITMENT,
            ).schema
        ),
    ],
)


def _ids_or(what: Form, name: str, description: str) -> Form:
    request = an_object("request", (name,), **{name: what}, options=_ASSET_OPTIONS, displayOptions=_ASSET_OPTIONS)
    return documented(description=description, anyOf=[dict(what.schema), dict(request.schema)])


# Methods of DAS that need an index over the whole chain, or what lies outside it. Asked for, they are refused so.
NEED_AN_INDEX = frozenset(
    (
        *("searchAssets", "getAssetsByGroup", "getAssetsByCreator", "getAssetsByAuthority", "getAssetProof"),
        *("getAssetProofs", "getAssetProofBatch", "getAssetSignatures", "getAssetSignaturesV2"),
        *("getSignaturesForAsset", "getNftEditions", "getGrouping"),
    )
)
_SEVERAL = list_of(forms.PUBKEY, BATCH_MAX)
_IDS = needed("ids", _ids_or(_SEVERAL, "ids", "up to 1,000 mints, or an object with ids and options"))
METHODS = (
    own(
        "getAssetsByOwner",
        MethodClass.READ_HEAVY,
        "Lists the tokens of one owner with their metadata, as of finalized where no commitment is given.",
        "Use it to list all tokens of a wallet at once, with names, amounts and token accounts.",
        results.ASSETS,
        needed("owner", _OWNER_FORM),
        example=(forms.EXAMPLE_KEY,),
        rule=_assets,
        named_rule=_assets_by_name,
    ),
    own(
        "getAsset",
        MethodClass.READ_MEDIUM,
        "Returns one token by its mint: name, symbol, URI, supply, authorities.",
        "Use it to learn what a token is; its owner is null, as that takes an index.",
        results.ASSET,
        needed("id", _ids_or(forms.PUBKEY, "id", "the mint, or an object with id and options")),
        Parameter("options", _ASSET_OPTIONS),
        example=(forms.EXAMPLE_KEY,),
        rule=_asset,
        named_rule=_asset_of,
    ),
    *(
        own(
            name,
            MethodClass.READ_HEAVY,
            "Returns up to 1,000 tokens by their mints, in the order asked; null where there is no such mint.",
            when,
            results.ASSET_BATCH,
            _IDS,
            Parameter("options", _ASSET_OPTIONS),
            example=([forms.EXAMPLE_KEY],),
            rule=_batch,
            named_rule=_batch_of,
        )
        for name, when in (
            ("getAssetBatch", "Use it in place of many getAsset."),
            ("getAssets", "Use it as getAssetBatch, where a program expects this name."),
        )
    ),
    own(
        "getTokenAccounts",
        MethodClass.READ_HEAVY,
        "Lists the token accounts of one owner, of all its mints or of one.",
        "Use it for balances, delegates and addresses without names.",
        results.OWNED_TOKEN_ACCOUNTS,
        needed(
            "request",
            an_object(
                "the owner (also as ownerAddress), and the page of its token accounts",
                (),
                owner=forms.PUBKEY,
                mint=forms.PUBKEY,
                **_PAGE,
                options=an_object("what the answer has", (), showZeroBalance=forms.BOOLEAN),
            ),
        ),
        example=({"owner": forms.EXAMPLE_KEY},),
        rule=_token_accounts,
        named_rule=_token_accounts_of,
    ),
)
