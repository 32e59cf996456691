"""getAssetsByOwner, getAsset, getAssetBatch, getAssets and getTokenAccounts: the calls to the node.

Implements: interface, JSON-RPC gateway rule 5; design, "Work on the loop" (nothing holds the loop longer than 5 ms).
A shell: assets.py makes the replies. Parameters are checked before (methods/assets.py).

A mint and its metadata account are asked for in one call, fifty of both at a time. A list without fungible tokens needs
the mints before the page to be known too: of these only supply and decimals are asked for, a hundred at a time.
A reply is complete or the call fails: the first failed call to the node becomes the answer, and it costs nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import orjson
from solders.pubkey import Pubkey

from actors.addresses import TOKEN_PROGRAMS
from actors.errors import Err
from actors.lookups import assets
from actors.lookups.assets import KnownMint
from actors.lookups.fan_out import ACCOUNTS_PER_CALL, Asker, Questions
from actors.lookups.holdings import MINT_SLICE, Mint, read_mints, read_ui_amounts
from actors.lookups.metadata import SLICE, MintAccount, metadata_address, read_metadata, read_mint
from actors.lookups.token_accounts import (
    TOKEN_ACCOUNT_SLICE,
    TokenAccount,
    read_accounts,
    read_token_accounts,
    rows_of,
)
from actors.methods.assets import AssetsByIdQuestion, AssetsQuestion, TokenAccountsQuestion
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, MethodHandler, NodeAnswer

MINTS_PER_CALL = ACCOUNTS_PER_CALL // 2
ASSETS_PER_SLICE = 50  # Making and writing an asset takes 20 us,
ACCOUNTS_PER_ASSET = 50  # and as long for this many of its token accounts.
ACCOUNTS_PER_SLICE = 500
_SORTED_AT_ONCE = 5_000  # Keys that are only put into their places.
# Without fungible tokens: most mints whose supply and decimals one call may read, by a hundred calls to the node.
CANDIDATES_MAX = 10_000
_TOO_MANY = replies.own_error(
    Err.INVALID_PARAMS,
    f"more than {CANDIDATES_MAX} tokens stand before the end of this page; ask with cursor, or with showFungible",
    {},
)
_MALFORMED = (KeyError, TypeError, IndexError, ValueError, AttributeError, msgspec.DecodeError)


class _Failed(Exception):
    """Ends a call with this answer."""

    def __init__(self, answer: NodeAnswer) -> None:
        self.answer = answer


class AssetMethods:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def handlers(self) -> dict[str, MethodHandler]:
        """Return handlers by method name. Each takes a question of methods/assets.py as JSON."""
        return {
            "getAssetsByOwner": self._by_owner,
            "getAsset": self._by_id,
            "getAssetBatch": self._by_id,
            "getAssets": self._by_id,
            "getTokenAccounts": self._token_accounts,
        }

    async def _by_owner(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        asked = msgspec.json.decode(params, type=AssetsQuestion)
        reads = _Reads(self._asker.questions(timeout_ms), asked.commitment)
        return await reads.answered(self._list(reads, asked))

    async def _list(self, reads: "_Reads", asked: AssetsQuestion) -> NodeAnswer:
        slot, accounts = await reads.token_accounts(asked.owner)
        grouped = await reads.by_mint(accounts, asked.zero_balance)
        keys = await reads.in_order(grouped, asked.descending)
        if not asked.fungible:
            # The holder of a mint with a supply of one has exactly one.
            every, keys = keys, []
            for start in range(0, len(every), ACCOUNTS_PER_SLICE):
                await reads.turn()
                some = every[start : start + ACCOUNTS_PER_SLICE]
                keys += [key for key in some if sum(account.amount for account in grouped[key]) <= 1]
        if (
            asked.fungible
            or asked.grand_total
            or not asked.by_name
            or asked.page > 1
            or (not asked.after and asked.before)
        ):
            if not asked.fungible:
                keys = await reads.non_fungible(keys)
            page = _page(asked, keys)
            known = await reads.known(page)
        else:
            page, known = await reads.next_non_fungible(_within(asked, keys), asked.limit)
        items = await self._items(reads, asked, page, known, grouped)
        body: dict[str, Any] = {"owner": asked.owner, "slot": slot} if not asked.by_name else {}
        body |= {
            "last_indexed_slot": slot,
            "total": len(items) if asked.by_name else len(keys),
            "limit": asked.limit,
            "page": asked.page or None,
            "cursor": str(Pubkey(page[-1])) if page else None,
            "items": [orjson.Fragment(item) for item in items],
        }
        if asked.grand_total:
            body["grand_total"] = len(keys)
        if asked.native_balance:
            lamports = await reads.lamports(asked.owner)
            body["nativeBalance"] = {"lamports": lamports, "price_per_sol": None, "total_price": None}
        await reads.turn()
        return replies.made(orjson.dumps(body), reads.nodes)

    async def _items(
        self,
        reads: "_Reads",
        asked: AssetsQuestion,
        page: Sequence[bytes],
        known: Mapping[bytes, KnownMint],
        grouped: Mapping[bytes, list[TokenAccount]],
    ) -> list[bytes]:
        """Write the assets of the page, each as JSON."""
        ui_amounts = {} if asked.by_name else await reads.scaled_amounts(page, known, grouped)
        items: list[bytes] = []
        weight = ASSETS_PER_SLICE
        for key in page:
            held = grouped[key]
            weight += 1 + len(held) // ACCOUNTS_PER_ASSET
            if weight >= ASSETS_PER_SLICE:
                await reads.turn()
                weight = 0
            mint, what = str(Pubkey(key)), known[key]
            item = assets.das_asset(mint, what, held, asked.owner, asked.unverified_collections)
            if not asked.by_name:
                listed = orjson.Fragment(await _former_accounts(reads, what, held, ui_amounts))
                item |= assets.former_fields(mint, what, held, listed)
            items.append(orjson.dumps(item))
        return items

    async def _by_id(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        asked = msgspec.json.decode(params, type=AssetsByIdQuestion)
        reads = _Reads(self._asker.questions(timeout_ms), "")
        return await reads.answered(self._assets(reads, asked))

    async def _assets(self, reads: "_Reads", asked: AssetsByIdQuestion) -> NodeAnswer:
        keys = [bytes(Pubkey.from_string(mint)) for mint in asked.ids]
        known = await reads.known(list(dict.fromkeys(keys)))
        items: list[bytes] = []
        for index, key in enumerate(keys):
            if index % ASSETS_PER_SLICE == 0:
                await reads.turn()
            found = known[key]
            if found.mint is None:
                items.append(b"null")
                continue
            asset = assets.das_asset(str(Pubkey(key)), found, (), None, asked.unverified_collections)
            items.append(orjson.dumps(asset | {"last_indexed_slot": reads.slot}))
        if not asked.alone:
            return replies.made(b"[" + b",".join(items) + b"]", reads.nodes)
        if items[0] == b"null":
            return replies.absent(Err.INVALID_PARAMS, f"Asset Not Found: {asked.ids[0]}", reads.nodes)
        return replies.made(items[0], reads.nodes)

    async def _token_accounts(self, params: bytes, timeout_ms: int) -> NodeAnswer:
        asked = msgspec.json.decode(params, type=TokenAccountsQuestion)
        reads = _Reads(self._asker.questions(timeout_ms), "")
        return await reads.answered(self._accounts(reads, asked))

    async def _accounts(self, reads: "_Reads", asked: TokenAccountsQuestion) -> NodeAnswer:
        slot, accounts = await reads.token_accounts(asked.owner, asked.mint)
        by_key: dict[bytes, TokenAccount] = {}
        for start in range(0, len(accounts), ACCOUNTS_PER_SLICE):
            await reads.turn()
            some = accounts[start : start + ACCOUNTS_PER_SLICE]
            by_key |= {account.key: account for account in some if account.amount or asked.zero_balance}
        after, before = _key(asked.after), _key(asked.before)
        page = assets.page_of(await reads.in_order(by_key), asked.page, asked.limit, after, before)
        await reads.turn()
        found = [assets.token_account(by_key[key]) for key in page]
        body = {
            "last_indexed_slot": slot,
            "total": len(found),
            "limit": asked.limit,
            "page": asked.page or None,
            "cursor": found[-1]["address"] if found else None,
            "token_accounts": found,
        }
        return replies.made(orjson.dumps(body), reads.nodes)


def _key(text: str) -> bytes:
    return bytes(Pubkey.from_string(text)) if text else b""


def _page(asked: AssetsQuestion, keys: Sequence[bytes]) -> list[bytes]:
    after, before = _key(asked.after), _key(asked.before)
    return assets.page_of(keys, asked.page, asked.limit, after, before, asked.descending)


def _within(asked: AssetsQuestion, keys: Sequence[bytes]) -> list[bytes]:
    """Return all keys between the bounds."""
    return assets.page_of(keys, 0, len(keys), _key(asked.after), _key(asked.before), asked.descending)


async def _former_accounts(
    reads: "_Reads", known: KnownMint, held: list[TokenAccount], ui_amounts: Mapping[str, str | None]
) -> bytes:
    """Write the token accounts of one asset as JSON, by address."""
    held.sort(key=lambda account: account.address)
    pieces: list[bytes] = []
    for start in range(0, len(held), ACCOUNTS_PER_SLICE):
        if start:
            await reads.turn()
        some = held[start : start + ACCOUNTS_PER_SLICE]
        pieces.append(orjson.dumps([assets.former_account(account, known, ui_amounts) for account in some])[1:-1])
    return b"[" + b",".join(pieces) + b"]"


class _Reads:
    """What one call of a client reads from the node. Its methods raise _Failed."""

    def __init__(self, questions: Questions, commitment: str) -> None:
        self._questions = questions
        self._at = {"commitment": commitment} if commitment else {}
        # The memory budget counts large answers as long as they are referenced; values read from them are not counted.
        self._kept: list[NodeAnswer] = []
        self.slot: int | None = None
        self.turn = questions.turn

    @property
    def nodes(self) -> str:
        return self._questions.nodes

    async def in_order(self, keys: Iterable[bytes], descending: bool = False) -> list[bytes]:
        """Sort keys, those with one first byte at a time."""
        parts: list[list[bytes]] = [[] for _ in range(256)]
        for number, key in enumerate(keys):
            if number % _SORTED_AT_ONCE == 0:
                await self.turn()
            parts[key[0]].append(key)
        ordered: list[bytes] = []
        for number, part in enumerate(parts):
            if number % 32 == 0:
                await self.turn()
            ordered += sorted(part)
        return ordered[::-1] if descending else ordered

    async def answered(self, work: Any) -> NodeAnswer:
        """Do the work. Returns its answer, or the one with which it failed."""
        answer = replies.GARBAGE
        try:
            answer = await work
        except* _Failed as failed:
            answer = _first(failed).answer
        except* _MALFORMED:
            pass
        return answer

    async def _ask(self, method: str, *params: Any) -> NodeAnswer:
        answer = await self._questions.ask(method, *params)
        if answer.kind is not AnswerKind.RESULT:
            raise _Failed(answer)
        return answer

    def _saw(self, slot: int) -> None:
        self.slot = slot if self.slot is None else min(self.slot, slot)

    async def token_accounts(self, owner: str, mint: str = "") -> tuple[int, list[TokenAccount]]:
        """Return (slot of the oldest answer, the owner's token accounts of both programs, or of one mint)."""
        config = {"encoding": "base64", "dataSlice": TOKEN_ACCOUNT_SLICE} | self._at
        filters = [{"mint": mint}] if mint else [{"programId": program} for program in TOKEN_PROGRAMS]

        async def of_filter(named: dict[str, str]) -> list[TokenAccount]:
            answer = await self._ask("getTokenAccountsByOwner", owner, named, config)
            self._kept.append(answer)
            await self.turn()
            slot, rows = rows_of(answer.body)
            self._saw(slot)
            return await read_token_accounts(rows, self._questions.slices)

        found = await self._questions.each(filters, of_filter)
        assert self.slot is not None
        return self.slot, [account for accounts in found for account in accounts]

    async def by_mint(self, accounts: Sequence[TokenAccount], zero_balance: bool) -> dict[bytes, list[TokenAccount]]:
        grouped: dict[bytes, list[TokenAccount]] = {}
        for start in range(0, len(accounts), ACCOUNTS_PER_SLICE):
            await self.turn()
            for account in accounts[start : start + ACCOUNTS_PER_SLICE]:
                if account.amount or zero_balance:
                    grouped.setdefault(account.mint, []).append(account)
        await self.turn()
        return grouped

    async def next_non_fungible(self, keys: Sequence[bytes], limit: int) -> tuple[list[bytes], dict[bytes, KnownMint]]:
        """Read mints in their order until so many with a supply of one and no decimals are found."""
        page: list[bytes] = []
        known: dict[bytes, KnownMint] = {}
        at = 0
        while at < len(keys) and len(page) < limit:
            if at >= CANDIDATES_MAX:
                raise _Failed(_TOO_MANY)
            some = keys[at : at + max(limit - len(page), MINTS_PER_CALL)]
            found = await self.known(some)
            for key, what in found.items():
                if what.mint is not None and _is_non_fungible(what.mint) and len(page) < limit:
                    page.append(key)
                    known[key] = what
            at += len(some)
        return page, known

    async def non_fungible(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return those of the mints with a supply of one and no decimals."""
        if len(keys) > CANDIDATES_MAX:
            raise _Failed(_TOO_MANY)
        config = {"encoding": "base64", "dataSlice": MINT_SLICE} | self._at
        chunks = [keys[start : start + ACCOUNTS_PER_CALL] for start in range(0, len(keys), ACCOUNTS_PER_CALL)]

        async def of_chunk(chunk: Sequence[bytes]) -> list[bytes]:
            await self.turn()
            answer = await self._ask("getMultipleAccounts", [str(Pubkey(key)) for key in chunk], config)
            await self.turn()
            mints = read_mints(answer.value())
            found = zip(chunk, mints, strict=True)
            return [key for key, mint in found if mint is not None and _is_non_fungible(mint)]

        return [key for found in await self._questions.each(chunks, of_chunk) for key in found]

    async def known(self, keys: Sequence[bytes]) -> dict[bytes, KnownMint]:
        """Read mints and their Metaplex accounts."""
        config = {"encoding": "base64", "dataSlice": SLICE} | self._at
        chunks = [keys[start : start + MINTS_PER_CALL] for start in range(0, len(keys), MINTS_PER_CALL)]

        async def of_chunk(chunk: Sequence[bytes]) -> list[KnownMint]:
            await self.turn()
            addresses = [address for key in chunk for address in (str(Pubkey(key)), metadata_address(key))]
            answer = await self._ask("getMultipleAccounts", addresses, config)
            await self.turn()
            slot, rows = rows_of(answer.body)
            if len(rows) != len(addresses):
                raise _Failed(replies.GARBAGE)
            self._saw(slot)
            found = read_accounts(rows)
            return [_known(key, found[2 * index], found[2 * index + 1]) for index, key in enumerate(chunk)]

        found = await self._questions.each(chunks, of_chunk)
        return dict(zip(keys, (known for some in found for known in some), strict=True))

    async def scaled_amounts(
        self,
        page: Sequence[bytes],
        known: Mapping[bytes, KnownMint],
        grouped: Mapping[bytes, Sequence[TokenAccount]],
    ) -> dict[str, str | None]:
        """Ask the node for the amounts that its clock or a multiplier is part of, by token account."""
        scaled = [key for key in page if (mint := known[key].mint) is not None and mint.is_scaled]
        addresses = [account.address for key in scaled for account in grouped[key]]
        chunks = [addresses[start : start + ACCOUNTS_PER_CALL] for start in range(0, len(addresses), ACCOUNTS_PER_CALL)]
        config = {"encoding": "jsonParsed"} | self._at

        async def of_chunk(chunk: Sequence[str]) -> list[str | None]:
            answer = await self._ask("getMultipleAccounts", chunk, config)
            await self.turn()
            return read_ui_amounts(answer.value())

        found = await self._questions.each(chunks, of_chunk)
        return dict(zip(addresses, (amount for amounts in found for amount in amounts), strict=True))

    async def lamports(self, owner: str) -> int:
        answer = await self._ask("getBalance", owner, *([self._at] if self._at else []))
        return int(orjson.loads(answer.value())["value"])


def _is_non_fungible(mint: Mint | MintAccount) -> bool:
    return assets.kind_of(mint.decimals, mint.supply) == assets.NON_FUNGIBLE


def _known(key: bytes, mint: tuple[str, bytes, int] | None, metadata: tuple[str, bytes, int] | None) -> KnownMint:
    return KnownMint(
        None if mint is None else read_mint(*mint),
        None if metadata is None else read_metadata(metadata[0], metadata[1], key),
    )


def _first(group: BaseExceptionGroup[_Failed]) -> _Failed:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, _Failed)
    return found
