"""Thirty-odd tasks that an agent fulfils by tools alone, reading nothing but descriptions, schemas and errors.

Each wish is in the words of a user. The tool that is chosen is part of the task: where another one is chosen, the
descriptions do not tell the two apart. Nothing ends in an error that says nothing an agent could do.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from solders.hash import Hash
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey

from actors.gateway.doors.mcp import eras
from tests.devnode.local_node import give
from tests.gateway.doors.mcp.agent import Agent, DeadEndError
from tests.gateway.doors.mcp.test_door import request
from tests.gateway.doors.mcp.test_modern import ask
from tests.gateway.doors.mcp.whole import Whole, a_whole, text
from tests.gateway.payment_doubles import Desk
from tests.gateway.world import Wallet
from tests.trades.scene import signed

TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
Facts = Callable[["Town"], dict[str, Any]]


class Town:
    """A chain with somebody on it, and what a user of an agent there has."""

    def __init__(self, whole: Whole, wallet: Wallet) -> None:
        self.whole, self.wallet, self.local = whole, wallet, whole.pad.local
        self.key = whole.keypair(wallet).pubkey()
        self.rich = str(whole.pad.user.pubkey())
        self.coin = whole.pad.coin()
        self.landed = whole.pad.record(whole.pad.base_account(self.coin))
        self.slot = self.local.call("getSlot")
        self.local.beat(1, skip=1)
        self.local.finalize()
        present = self.local.call("getBlocks", self.slot)
        (self.skipped,) = set(range(self.slot, present[-1])) - set(present)
        by_program = self.local.call(
            "getTokenAccountsByOwner", self.rich, {"programId": TOKEN_PROGRAM}, {"encoding": "jsonParsed"}
        )
        self.token_account = by_program["value"][0]["pubkey"]
        self.mint = by_program["value"][0]["account"]["data"]["parsed"]["info"]["mint"]

    def transfer(self, lamports: int = 5_000_000) -> str:
        return text(self.whole.transfer(self.wallet, lamports))

    def message(self) -> str:
        return base64.b64encode(to_bytes_versioned(self.whole.transfer(self.wallet, 1).message)).decode()

    def lamports(self) -> int:
        return int(self.local.call("getBalance", str(self.key))["value"])


@dataclass(frozen=True, slots=True)
class Wish:
    """tools: called, in order. fits: whether the value is the right one. told: words of the text where only a person
    can help. confirms: what the user says when asked. credits: of the account."""

    words: str
    tools: tuple[str, ...]
    facts: Facts = field(default=lambda town: {})
    fits: Callable[[Town, Any], bool] = field(default=lambda town, value: value is not None)
    told: str = ""
    confirms: bool | None = None
    ceiling: int | None = None
    credits: int = 10_000_000


def _of_wallet(town: Town) -> dict[str, Any]:
    return {"public key": town.rich}


WISHES = (
    Wish(
        "How much SOL is in this wallet?",
        ("getBalance",),
        lambda t: {"public key": str(t.key)},
        lambda t, v: v["value"] == t.lamports(),
    ),
    Wish(
        "Find the wallet's token accounts of this mint, with balances",
        ("getTokenAccountsByOwner",),
        lambda t: _of_wallet(t) | {"mint": t.mint},
        lambda t, v: v["value"][0]["pubkey"] == t.token_account,
    ),
    Wish(
        "List all tokens of one wallet with amounts",
        ("getAssetsByOwner",),
        _of_wallet,
        lambda t, v: t.mint in {one["id"] for one in v["items"]},
    ),
    Wish(
        "Does this address exist as an account, and what does it hold?",
        ("getAccountInfo",),
        lambda t: {"public key": str(Pubkey(b"\7" * 32))},
        lambda t, v: v["value"] is None,
    ),
    Wish(
        "Read up to 100 accounts instead of several calls",
        ("getMultipleAccounts",),
        lambda t: {"public keys": [t.rich, str(t.key)]},
        lambda t, v: len(v["value"]) == 2,
    ),
    Wish(
        "The balance of a token account, whose address I have",
        ("getTokenAccountBalance",),
        lambda t: {"public key": t.token_account},
        lambda t, v: int(v["value"]["amount"]) > 0,
    ),
    Wish(
        "Supply and decimals of a token by its mint",
        ("getTokenSupply",),
        lambda t: {"public key": t.mint},
        lambda t, v: v["value"]["decimals"] == 6,
    ),
    Wish(
        "How many lamports does an account of 165 bytes need before I create it?",
        ("getMinimumBalanceForRentExemption",),
        lambda t: {"data length": 165},
        lambda t, v: v == 2_039_280,
    ),
    Wish("How far is the chain: the newest slot", ("getSlot",), fits=lambda t, v: v > 0),
    Wish("How far is the current epoch?", ("getEpochInfo",), fits=lambda t, v: v["slotsInEpoch"] > 0),
    Wish(
        "I am about to sign a transaction: I need the latest blockhash",
        ("getLatestBlockhash",),
        fits=lambda t, v: len(v["value"]["blockhash"]) > 30,
    ),
    Wish(
        "Can this blockhash still be used? The transaction was signed a while ago",
        ("isBlockhashValid",),
        lambda t: {"blockhash": str(t.local.blockhash())},
        lambda t, v: v["value"] in (True, False),
    ),
    Wish(
        "What fee will the chain charge for this message, before I sign?",
        ("getFeeForMessage",),
        lambda t: {"message": t.message(), "commitment": "processed"},
        lambda t, v: v["value"] == 5_000,
    ),
    Wish(
        "Suggest a priority fee before I build a transaction",
        ("suggestPriorityFee",),
        fits=lambda t, v: v["suggested_fee_microlamports"] >= 0,
    ),
    Wish(
        "The raw figures of priority fees in recent slots",
        ("getRecentPrioritizationFees",),
        fits=lambda t, v: len(v) > 0,
    ),
    Wish("Only the time of a block in Unix seconds", ("getBlockTime",), lambda t: {"slot": t.slot}, lambda t, v: v > 0),
    Wish(
        "Read a slot's block with its transactions",
        ("getBlock",),
        lambda t: {"slot": t.slot},
        lambda t, v: len(v["blockhash"]) > 30,
    ),
    Wish(
        "Which slots have a block, and which were skipped?",
        ("getBlocks",),
        lambda t: {"slot": t.slot},
        lambda t, v: t.slot in v,
    ),
    Wish(
        "List the newest transactions that an address took part in",
        ("getSignaturesForAddress",),
        _of_wallet,
        lambda t, v: v[0]["signature"] == str(t.landed.signature),
    ),
    Wish(
        "Explain to a person what this wallet did",
        ("getTransactionHistory",),
        _of_wallet,
        lambda t, v: v["transactions"][0]["found"],
    ),
    Wish(
        "Read a confirmed transaction with its logs and error",
        ("getTransaction",),
        lambda t: {"signature": str(t.landed.signature)},
        lambda t, v: v["meta"]["err"] is None,
    ),
    Wish(
        "What became of these transactions, did they land?",
        ("getSignatureStatuses",),
        lambda t: {"signature": str(t.landed.signature)},
        lambda t, v: v["value"][0]["err"] is None,
    ),
    Wish(
        "Would this transaction succeed, without sending it?",
        ("simulateTransaction",),
        lambda t: {"transaction": t.transfer(), "encoding": "base64", "replace recent blockhash": True},
        lambda t, v: v["value"]["err"] is None,
    ),
    Wish(
        "Land a signed transaction and know its outcome",
        ("sendAndConfirm",),
        lambda t: {"transaction": t.transfer()},
        lambda t, v: v["status"] == "confirmed",
    ),
    Wish(
        "Land a signed transaction and know its outcome",
        ("sendAndConfirm", "sendAndConfirm"),
        lambda t: {"transaction": t.transfer()},
        lambda t, v: v["status"] == "confirmed" and v["charged_credits"] == 50,
        confirms=True,
    ),
    Wish(
        "Land a signed transaction and know its outcome",
        ("sendAndConfirm", "sendAndConfirm"),
        lambda t: {"transaction": t.transfer()},
        told="the call was not confirmed",
        confirms=False,
    ),
    Wish(
        "Land a signed transaction and know its outcome",
        ("sendAndConfirm",),
        lambda t: {"transaction": t.transfer(10**15), "skip preflight": False},
        told="Transaction simulation failed",
    ),
    Wish(
        "Transactions that must all land in order in one block, or not at all",
        ("sendBundle",),
        lambda t: {"transactions": [text(t.whole.tip(t.wallet)), t.transfer(7_000_000)]},
        lambda t, v: len(v) == 64,
    ),
    Wish(
        "Buy a token on its bonding curve",
        ("executeSnipe",),
        lambda t: {"mint": str(t.coin), "amount sol": "0.1"},
        lambda t, v: v["tokens_out"] > 0,
    ),
    Wish(
        "Buy a token on its bonding curve",
        ("executeSnipe", "executeSnipe"),
        lambda t: {"mint": str(t.coin), "amount sol": "0.1"},
        lambda t, v: v["tokens_out"] > 0,
        confirms=True,
    ),
    # What a user has is not enough, or wrong, and an error says how to go on.
    Wish(
        "Find the wallet's token accounts with their balances",
        ("getTokenAccountsByOwner",) * 2,
        _of_wallet,
        lambda t, v: v["value"] == [],
    ),
    Wish(
        "Does this address exist as an account, and what does it hold?",
        ("getAccountInfo",) * 2,
        lambda t: {"public key": t.token_account, "encoding": "base58"},
        lambda t, v: v["value"]["data"][1] == "base64",
    ),
    Wish(
        "Read a slot's block with its transactions",
        ("getBlock", "getBlocks", "getBlock"),
        lambda t: {"slot": t.skipped},
        lambda t, v: len(v["blockhash"]) > 30,
    ),
    Wish(
        "Land a signed transaction and know its outcome",
        ("sendAndConfirm",),
        lambda t: {"transaction": t.transfer()},
        told="x402",
        credits=1,
    ),
    Wish(
        "Read a slot's block with its transactions",
        ("getBlock",),
        lambda t: {"slot": t.slot},
        told="ask your user for a higher ceiling",
        ceiling=24,
    ),
)


def asking(town: Town, wallet: Wallet, tools: dict[str, Any], can_confirm: bool) -> Any:
    """How an agent's host makes a call. Every answer is held against the tool's output schema."""

    async def one(name: str, arguments: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        meta: dict[str, Any] = {eras.CAPABILITIES_META: {"elicitation": {}} if can_confirm else {}}
        if "ceiling" in more:
            meta["ledger-gateway/max-credits"] = more.pop("ceiling")
        message = request("tools/call", 1, name=name, arguments=arguments, _meta=meta, **more)
        body = (await town.whole.finished(ask(town.whole.world, message, wallet))).json()
        if "error" in body:
            raise DeadEndError(body["error"]["message"])
        result: dict[str, Any] = body["result"]
        if "structuredContent" in result:
            Draft202012Validator(tools[name]["outputSchema"]).validate(result["structuredContent"])
        return result

    return one


async def an_agent(town: Town, wallet: Wallet, **settings: Any) -> Agent:
    listed = (await ask(town.whole.world, request("tools/list"))).json()["result"]["tools"]
    own = [tool for tool in listed if tool["name"] != "rpc"]  # As a host that shows all tools.
    can_confirm = settings.get("confirms") is not None
    tools = {tool["name"]: tool for tool in own}
    return Agent(own, asking(town, wallet, tools, can_confirm), town.whole.world.clock.advance, **settings)


async def test_an_agent_fulfils_wishes_by_tools_alone(tmp_path: Path) -> None:
    """No dead end: each ends with the right value, or with words for a person."""
    async with a_whole(tmp_path, desk=Desk()) as whole:
        town = Town(whole, await whole.customer())
        failed = []
        for number, wish in enumerate(WISHES):
            wallet = town.wallet if wish.credits > 1 else await whole.world.customer(wish.credits)
            agent = await an_agent(town, wallet, confirms=wish.confirms, ceiling=wish.ceiling)
            whole.world.clock.advance(1)
            before = await whole.world.balance(wallet)
            try:
                done = await agent.fulfil(wish.words, wish.facts(town))
            except DeadEndError as error:
                failed.append(f"{number} {wish.words}: dead end: {error}")
                continue
            if done.tools != wish.tools:
                failed.append(f"{number} {wish.words}: {done.tools}")
            elif wish.told and (wish.told not in done.told or done.value is not None or done.spent):
                failed.append(f"{number} {wish.words}: told {done}")
            elif not wish.told and not wish.fits(town, done.value):
                failed.append(f"{number} {wish.words}: {done.value}")
            elif before - await whole.world.balance(wallet) != done.spent:
                failed.append(f"{number} {wish.words}: says that it spent {done.spent}")
        assert len(WISHES) >= 30 and failed == [], "\n".join(failed)


async def test_a_transfer_from_its_price_to_its_proof(tmp_path: Path) -> None:
    """One wish after the other, each with what the one before has brought; the wallet signs, and not the agent."""
    async with a_whole(tmp_path) as whole:
        town = Town(whole, await whole.customer())
        agent = await an_agent(town, town.wallet, confirms=True)
        assert agent.price("Land a signed transaction and know its outcome") == "Costs 50 credits if it lands, else 2."
        recent = await agent.fulfil("I am about to sign a transaction: I need the latest blockhash", {})
        payer, taker = whole.keypair(town.wallet), Pubkey.new_unique()
        blockhash = Hash.from_string(recent.value["value"]["blockhash"])
        transfer = text(town.local.signed(payer, give(payer, taker, 5_000_000), blockhash=blockhash))
        tried = await agent.fulfil(
            "Would this transaction succeed, without sending it?", {"transaction": transfer, "encoding": "base64"}
        )
        assert tried.value["value"]["err"] is None
        sent = await agent.fulfil("Land a signed transaction and know its outcome", {"transaction": transfer})
        assert (sent.value["status"], sent.spent, sent.tools) == ("confirmed", 50, ("sendAndConfirm",) * 2)
        later = await agent.fulfil(
            "A sendAndConfirm did not answer: what is its outcome?", {"signature": sent.value["signature"]}
        )
        assert later.tools == ("getSendStatus",) and later.value["status"] == "confirmed" and later.spent == 0
        assert town.local.call("getBalance", str(taker), {"commitment": "confirmed"})["value"] == 5_000_000


async def test_a_trade_from_its_build_to_its_sale(tmp_path: Path) -> None:
    async with a_whole(tmp_path) as whole:
        town = Town(whole, await whole.customer())
        agent = await an_agent(town, town.wallet)
        coin = {"mint": str(town.coin)}
        built = await agent.fulfil("Buy a token on its bonding curve", coin | {"amount sol": "0.5"})
        unsigned = signed(built.value["unsigned_tx_base64"], whole.keypair(town.wallet))
        landed = await agent.fulfil("Land a signed transaction and know its outcome", {"transaction": text(unsigned)})
        assert landed.value["status"] == "confirmed" and landed.value["error"] is None
        wish = "Sell a token on its bonding curve"
        too_many = await agent.fulfil(wish, coin | {"token amount": built.value["tokens_out"] * 2})
        assert "token_amount: the wallet" in too_many.told and too_many.spent == 0
        sale = await agent.fulfil(wish, coin | {"token amount": built.value["tokens_out"]})
        assert sale.tools == ("executeSell",) and sale.value["sol_out_lamports"] > 0
        assert sale.spent == sale.value["fee_credits"]


async def test_an_agent_that_is_too_fast_waits_as_it_is_told(tmp_path: Path) -> None:
    async with a_whole(tmp_path, accounts={"requests_per_second": 1}) as whole:
        town = Town(whole, await whole.customer())
        agent = await an_agent(town, town.wallet)
        called: list[str] = []
        for _ in range(3):
            called += (await agent.fulfil("How far is the chain: the newest slot", {})).tools
        assert len(called) > 3, "it was told to wait, and went on"
        assert await whole.world.debits(town.wallet) == [("getSlot", 1)] * 3


async def test_an_error_that_says_nothing_would_be_a_dead_end(tmp_path: Path) -> None:
    """So that the other tests can fail: the agent invents nothing."""

    async def ask_nobody(name: str, arguments: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        text = [{"type": "text", "text": "bad request"}]
        return {"isError": True, "content": text, "_meta": {"ledger-gateway/credits": {"spent": 0}}}

    async with a_whole(tmp_path) as whole:
        town = Town(whole, await whole.customer())
        agent = await an_agent(town, town.wallet)
        agent.ask = ask_nobody
        with pytest.raises(DeadEndError):
            await agent.fulfil("How far is the chain: the newest slot", {})
