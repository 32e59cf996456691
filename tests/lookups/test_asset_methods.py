"""Assets and token accounts over a chain that executed the transactions; replies when the node fails; large wallets."""

import asyncio
import base64
import time
import tracemalloc
from typing import Any

import orjson
import pytest
from solders.pubkey import Pubkey

from actors.addresses import TOKEN_PROGRAM
from actors.lookups import asset_methods
from actors.lookups.asset_methods import MINTS_PER_CALL, AssetMethods
from actors.lookups.fan_out import ACCOUNTS_PER_CALL, CALLS_PER_REQUEST, Asker
from actors.methods.assets import AssetsByIdQuestion, AssetsQuestion, TokenAccountsQuestion
from actors.methods.entries import Question, encoded
from actors.upstream import replies
from actors.upstream.replies import AnswerKind, NodeAnswer
from tests.ported_node import PortedNode, node_error, node_result

from .scene import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID, Scene
from .tokens import metadata_account, place_metadata, with_own_metadata

_METHODS = {AssetsQuestion: "getAssetsByOwner", TokenAccountsQuestion: "getTokenAccounts"}
NFTS = {"by_name": True, "fungible": False}


async def asked(node: PortedNode, question: Question) -> NodeAnswer:
    method = _METHODS.get(type(question), "getAssetBatch")
    return await AssetMethods(Asker(node, 100)).handlers()[method](encoded(question), 30_000)


async def result(node: PortedNode, question: Question) -> Any:
    answer = await asked(node, question)
    assert answer.kind is AnswerKind.RESULT, answer
    return orjson.loads(answer.value())


async def test_assets_of_both_programs_with_their_kinds(scene: Scene):
    """Fungible, indivisible with a larger supply, non-fungible, and of Token-2022; as by position ever since."""
    mints = [scene.mint(6), scene.mint(0), scene.mint(0), scene.mint(2, TOKEN_2022_PROGRAM_ID)]
    for mint, amount in zip(mints[:3], (1_500, 5, 1), strict=True):
        scene.holds(scene.bert, mint, amount)
    scene.holds(scene.bert, mints[3], 7, TOKEN_2022_PROGRAM_ID)
    empty = scene.mint(0)
    scene.holds(scene.bert, empty, 0)
    body = await result(PortedNode(scene.local), AssetsQuestion(str(scene.bert.pubkey()), 1, 1_000))
    items = {item["id"]: item for item in body["items"]}
    assert [items[str(mint)]["kind"] for mint in mints] == ["fungible", "fungible", "non_fungible", "fungible"]
    assert [items[str(mint)]["supply"] for mint in mints] == ["1500", "5", "1", "7"]
    assert items[str(mints[0])]["token_program"] == str(TOKEN_PROGRAM_ID)
    assert items[str(mints[3])]["token_program"] == str(TOKEN_2022_PROGRAM_ID)
    assert items[str(mints[0])]["token_accounts"] == [
        {
            "address": str(scene.account_of(scene.bert, mints[0])),
            "amount": "1500",
            "ui_amount_string": "0.0015",
            "frozen": False,
            "delegate": None,
        }
    ]
    assert str(empty) not in items
    assert (body["owner"], body["total"], body["page"], body["limit"]) == (str(scene.bert.pubkey()), 4, 1, 1_000)
    assert body["slot"] > 0
    interfaces = [items[str(mint)]["interface"] for mint in mints]
    assert interfaces == ["FungibleToken", "FungibleAsset", "V1_NFT", "FungibleToken"]


async def test_names_come_from_mints_and_from_metadata_accounts_in_one_call(scene: Scene):
    """One call to the node for all mints of the page and their metadata accounts."""
    classic, own = scene.mint(0), with_own_metadata(scene, "Own", "OWN", "https://x/own.json")
    bytes_of = metadata_account(classic, "Classic", "CLS", "https://x/1.json", scene.anna.pubkey(), 1, 0)
    place_metadata(scene, classic, bytes_of)
    scene.holds(scene.bert, classic, 1)
    scene.holds(scene.bert, own, 2_500_000, TOKEN_2022_PROGRAM_ID)
    node = PortedNode(scene.local)
    body = await result(node, AssetsQuestion(str(scene.bert.pubkey()), 1, 10, by_name=True))
    items = {item["id"]: item for item in body["items"]}
    assert items[str(classic)]["content"]["metadata"] == {
        "name": "Classic",
        "symbol": "CLS",
        "token_standard": "NonFungible",
    }
    assert items[str(own)]["content"]["metadata"] == {"name": "Own", "symbol": "OWN"}
    assert items[str(own)]["content"]["json_uri"] == "https://x/own.json"
    assert items[str(own)]["token_info"]["balance"] == 2_500_000
    assert items[str(own)]["ownership"]["owner"] == str(scene.bert.pubkey())
    assert len(node.asked("getMultipleAccounts")) == 1 and len(node.asked("getTokenAccountsByOwner")) == 2
    assert (body["total"], body["limit"], body["page"], "owner" in body) == (2, 10, 1, False)
    assert body["cursor"] == body["items"][-1]["id"] and body["last_indexed_slot"] > 0


async def test_a_list_without_fungible_tokens_has_those_with_a_supply_of_one(scene: Scene):
    """By the mint: one unit of a token of many is fungible; an amount above one is not even looked up."""
    alone, dust, many = scene.mint(0), scene.mint(6), scene.mint(6)
    scene.holds(scene.bert, alone, 1)
    scene.holds(scene.bert, dust, 1)
    scene.holds(scene.anna, dust, 9)
    scene.holds(scene.bert, many, 10**6)
    node, owner = PortedNode(scene.local), str(scene.bert.pubkey())
    body = await result(node, AssetsQuestion(owner, 1, 10, **NFTS))
    assert [item["id"] for item in body["items"]] == [str(alone)] and body["total"] == 1
    (listed,) = node.asked("getMultipleAccounts")
    assert len(listed[0]) == 4
    second = await result(PortedNode(scene.local), AssetsQuestion(owner, 2, 1, **NFTS))
    assert (second["items"], second["total"], second["cursor"]) == ([], 0, None)
    grand = await result(PortedNode(scene.local), AssetsQuestion(owner, 1, 10, grand_total=True, **NFTS))
    assert (grand["grand_total"], grand["total"]) == (1, 1)


async def test_the_balance_in_sol_and_empty_accounts_are_shown_on_request(scene: Scene):
    """And not otherwise: each costs the node more."""
    scene.holds(scene.bert, scene.mint(2), 0)
    owner = str(scene.bert.pubkey())
    plain = await result(PortedNode(scene.local), AssetsQuestion(owner, 1, 10))
    assert (plain["items"], "nativeBalance" in plain) == ([], False)
    question = AssetsQuestion(owner, 1, 10, by_name=True, native_balance=True, zero_balance=True)
    body = await result(PortedNode(scene.local), question)
    lamports = scene.local.call("getBalance", owner)["value"]
    assert body["nativeBalance"] == {"lamports": lamports, "price_per_sol": None, "total_price": None}
    assert [item["token_info"]["balance"] for item in body["items"]] == [0]


async def test_single_assets_keep_the_order_and_say_what_is_missing(scene: Scene):
    """Null where there is no mint, in the order asked; an asset is looked up once however often it is named."""
    mint, nobody = str(scene.mint(3)), str(Pubkey.new_unique())
    node = PortedNode(scene.local)
    body = await result(node, AssetsByIdQuestion((nobody, mint, mint)))
    assert body[0] is None and body[1] == body[2] and body[1]["id"] == mint
    assert body[1]["ownership"]["owner"] is None and body[1]["token_info"]["decimals"] == 3
    (listed,) = node.asked("getMultipleAccounts")
    assert len(listed[0]) == 4
    one = orjson.loads((await asked(node, AssetsByIdQuestion((mint,), alone=True))).value())
    assert one["id"] == mint and one["last_indexed_slot"] > 0
    missing = await asked(node, AssetsByIdQuestion((nobody,), alone=True))
    assert (missing.kind, missing.error_code) == (AnswerKind.ERROR, -32602)
    assert missing.error_message == f"invalid params: Asset Not Found: {nobody}"
    assert isinstance(missing, replies.AbsentAnswer), "a whole answer, and charged as one"


async def test_token_accounts_come_in_pages_that_follow_each_other(scene: Scene):
    """Every account once, by cursor and by page; empty ones on request."""
    for _ in range(3):
        scene.holds(scene.bert, scene.mint(0), 4)
    scene.holds(scene.bert, scene.mint(0), 0)
    owner, node = str(scene.bert.pubkey()), PortedNode(scene.local)
    walked, cursor = [], ""
    while True:
        body = await result(node, TokenAccountsQuestion(owner, "", 0 if cursor else 1, 2, after=cursor))
        if not body["token_accounts"]:
            break
        walked += [account["address"] for account in body["token_accounts"]]
        cursor = body["cursor"]
    assert len(walked) == 3 == len(set(walked))
    second = await result(node, TokenAccountsQuestion(owner, "", 2, 2))
    assert [account["address"] for account in second["token_accounts"]] == walked[2:]
    whole = await result(node, TokenAccountsQuestion(owner, "", 1, 10, zero_balance=True))
    assert sorted(account["amount"] for account in whole["token_accounts"]) == [0, 4, 4, 4]
    mint = whole["token_accounts"][0]["mint"]
    of_mint = await result(node, TokenAccountsQuestion(owner, mint, 1, 10, zero_balance=True))
    assert of_mint["token_accounts"] == whole["token_accounts"][:1]
    assert of_mint["token_accounts"][0]["owner"] == owner
    assert node.asked("getTokenAccountsByOwner")[-1][1] == {"mint": mint}


async def test_only_the_mints_of_the_page_are_looked_up(scene: Scene):
    """However many the owner has."""
    for _ in range(3):
        scene.holds(scene.bert, scene.mint(0), 1)
    node = PortedNode(scene.local)
    body = await result(node, AssetsQuestion(str(scene.bert.pubkey()), 2, 2))
    assert (body["total"], len(body["items"])) == (3, 1)
    assert [len(params[0]) for params in node.asked("getMultipleAccounts")] == [2]


async def test_assets_are_asked_for_at_the_commitment_of_the_call(scene: Scene):
    """A purchase that is confirmed is not final yet; without a commitment the node's default counts."""
    scene.holds(scene.bert, scene.mint(0), 1)
    for commitment in ("", "confirmed"):
        node = PortedNode(scene.local)
        await result(node, AssetsQuestion(str(scene.bert.pubkey()), 1, 10, commitment))
        calls = [*node.asked("getTokenAccountsByOwner"), *node.asked("getMultipleAccounts")]
        assert len(calls) == 3
        assert all(params[-1].get("commitment", "") == commitment for params in calls)


async def test_an_owner_of_nothing_has_an_empty_page(scene: Scene):
    """No mints are looked up."""
    node = PortedNode(scene.local)
    body = await result(node, AssetsQuestion(str(Pubkey.new_unique()), 1, 10))
    assert (body["total"], body["items"]) == (0, [])
    assert node.asked("getMultipleAccounts") == []


@pytest.mark.parametrize("failing", ["getTokenAccountsByOwner", "getMultipleAccounts", "getBalance"])
@pytest.mark.parametrize("failure", [replies.TIMED_OUT, node_error(-32005, "Node is unhealthy"), node_result([5])])
async def test_assets_are_whole_or_not_given(scene: Scene, failing: str, failure: NodeAnswer):
    """A list with half of the holdings would be wrong, so the call fails; nonsense is garbage."""
    scene.holds(scene.bert, scene.mint(0), 1)
    node = PortedNode(scene.local, lambda method, _: failure if method == failing else None)
    wanted = replies.GARBAGE if failure.kind is AnswerKind.RESULT else failure
    for question in (
        AssetsQuestion(str(scene.bert.pubkey()), 1, 10, native_balance=True),
        AssetsQuestion(str(scene.bert.pubkey()), 1, 10, native_balance=True, **NFTS),
    ):
        assert await asked(node, question) is wanted


async def test_the_node_is_asked_for_amounts_that_are_not_by_the_decimals(scene: Scene):
    """A mint that goes on behind the slice may bear interest: then the node's own words count."""
    mint = with_own_metadata(scene, "N" * 190, "S", "u" * 500)
    scene.holds(scene.bert, mint, 1_500_000, TOKEN_2022_PROGRAM_ID)

    def interfere(method: str, params: list[Any]) -> NodeAnswer | None:
        if method != "getMultipleAccounts" or params[1]["encoding"] != "base64":
            return None
        found = scene.local.call(method, *params)
        found["value"][0]["space"] = 9_999
        return node_result(found)

    node = PortedNode(scene.local, interfere)
    body = await result(node, AssetsQuestion(str(scene.bert.pubkey()), 1, 10))
    assert body["items"][0]["token_accounts"][0]["ui_amount_string"] == "1.5"
    assert [params[1]["encoding"] for params in node.asked("getMultipleAccounts")] == ["base64", "jsonParsed"]


# --- large wallets


class LargeWallet:
    """A node's answers about a wallet with so many token accounts, made before anything is measured."""

    def __init__(self, accounts: int, amount: int = 1, one_mint: bool = False) -> None:
        self.mints = [Pubkey(number.to_bytes(32, "big")) for number in range(1, 1 + (1 if one_mint else accounts))]
        tail = bytes(32) + amount.to_bytes(8, "little") + bytes(36) + b"\1" + bytes(20)
        rows = [
            (str(Pubkey(b"\x77" + number.to_bytes(31, "big"))), bytes(self.mints[0 if one_mint else number]))
            for number in range(accounts)
        ]
        listed = [self._row(TOKEN_PROGRAM, mint + tail) | {"_": address} for address, mint in rows]
        value = [{"pubkey": row.pop("_"), "account": row} for row in listed]
        self.accounts = replies.made(orjson.dumps({"context": {"slot": 9}, "value": value}))
        self.nothing = replies.made(b'{"context":{"slot":9},"value":[]}')
        mint = bytes(36) + (1 if amount == 1 else 10**9).to_bytes(8, "little") + bytes((0, 1)) + bytes(36)
        self.mint = orjson.dumps(self._row(TOKEN_PROGRAM, mint, 82))

    @staticmethod
    def _row(owner: str, data: bytes, space: int = 165) -> dict[str, Any]:
        text = base64.b64encode(data).decode()
        return {"lamports": 1, "owner": owner, "data": [text, "base64"], "executable": False, "space": space}

    def answer(self, method: str, params: list[Any]) -> NodeAnswer:
        if method == "getTokenAccountsByOwner":
            return self.accounts if params[1] == {"programId": TOKEN_PROGRAM} else self.nothing
        both = "length" in params[1].get("dataSlice", {}) and params[1]["dataSlice"]["length"] > 100
        rows = [b"null" if both and index % 2 else self.mint for index in range(len(params[0]))]
        return replies.made(b'{"context":{"slot":9},"value":[' + b",".join(rows) + b"]}")


async def longest_hold_ms(work: Any) -> tuple[float, Any]:
    """The longest time of this thread for which the work kept the loop from going round."""
    longest = 0.0
    running = asyncio.get_running_loop().create_task(work)
    last = time.thread_time()
    while not running.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    return longest * 1_000, running.result()


LARGE = 10_000


@pytest.mark.parametrize(
    "question",
    [
        AssetsQuestion("o", 1, 1_000),
        AssetsQuestion("o", 10, 1_000, by_name=True, fungible=True),
        AssetsQuestion("o", 1, 1_000, **NFTS),
        AssetsQuestion("o", 10, 1_000, **NFTS),
        TokenAccountsQuestion("o", "", 1, 1_000),
    ],
)
async def test_a_wallet_of_10000_token_accounts_holds_no_loop(question: Question):
    """Design, "Work on the loop": 5 ms. The best of some tries counts."""
    wallet = LargeWallet(LARGE)
    holds = []
    for _ in range(5):
        node = PortedNode(interfere=wallet.answer)
        held, answer = await longest_hold_ms(asked(node, question))
        assert answer.kind is AnswerKind.RESULT and node.at_once_max <= CALLS_PER_REQUEST
        holds.append(held)
    assert min(holds) < 5, holds
    assert b'"total":1000' in answer.body or b'"total":10000' in answer.body


async def test_one_mint_in_10000_accounts_holds_no_loop():
    """One asset with a long list of token accounts."""
    wallet = LargeWallet(LARGE, amount=3, one_mint=True)
    holds = []
    for _ in range(5):
        held, answer = await longest_hold_ms(asked(PortedNode(interfere=wallet.answer), AssetsQuestion("o", 1, 10)))
        holds.append(held)
    assert min(holds) < 5, holds
    (item,) = orjson.loads(answer.value())["items"]
    assert len(item["token_accounts"]) == LARGE and item["amount"] == str(3 * LARGE)


async def test_a_large_wallet_takes_a_bounded_memory():
    """Some times what the node's answer has, and nothing of it stays."""
    wallet = LargeWallet(LARGE)
    node = PortedNode(interfere=wallet.answer)
    tracemalloc.start()
    try:
        answer = await asked(node, AssetsQuestion("o", 1, 10))
        _, peak = tracemalloc.get_traced_memory()
        assert answer.kind is AnswerKind.RESULT
        assert peak < 8 * len(wallet.accounts.body), peak
    finally:
        tracemalloc.stop()


async def test_the_calls_for_one_page_are_few_and_bounded(monkeypatch: pytest.MonkeyPatch):
    """Two for each hundred assets; a page behind more candidates than one call may look through is refused, free."""
    wallet, node = LargeWallet(300), None
    node = PortedNode(interfere=wallet.answer)
    await result(node, AssetsQuestion("o", 1, 300, **NFTS))
    assert len(node.asked("getMultipleAccounts")) == 300 // MINTS_PER_CALL
    deep = PortedNode(interfere=wallet.answer)
    await result(deep, AssetsQuestion("o", 3, 100, **NFTS))
    assert len(deep.asked("getMultipleAccounts")) == 300 // ACCOUNTS_PER_CALL + 100 // MINTS_PER_CALL
    monkeypatch.setattr(asset_methods, "CANDIDATES_MAX", 200)
    refused = await asked(deep, AssetsQuestion("o", 3, 100, **NFTS))
    assert refused.kind is AnswerKind.ERROR and refused.error_code == -32602 and b"ask with cursor" in refused.body
    of_coins = LargeWallet(300)
    of_coins.mint = LargeWallet(1, amount=3).mint  # One of each, and none is an asset of this kind.
    coins = PortedNode(interfere=of_coins.answer)
    refused = await asked(coins, AssetsQuestion("o", 0, 2, after=str(wallet.mints[0]), **NFTS))
    assert refused.kind is AnswerKind.ERROR and b"ask with cursor" in refused.body
    assert len(coins.asked("getMultipleAccounts")) == 200 // MINTS_PER_CALL
    near = PortedNode(interfere=wallet.answer)
    cursor = str(wallet.mints[250])
    body = await result(near, AssetsQuestion("o", 0, 2, after=cursor, **NFTS))
    assert [item["id"] for item in body["items"]] == [str(mint) for mint in wallet.mints[251:253]]
    assert len(near.asked("getMultipleAccounts")) == 1
