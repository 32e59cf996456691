"""executeSnipe and executeSell from the HTTP door to the ledger and the chain: built, signed, landed, charged."""

import base64
from typing import Any

import pytest
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.launch_programs import addresses, curve_math, pdas
from actors.launch_programs.instructions import Kind
from actors.trades.sol_price import fee_credits
from devnode.launchpad import calls
from tests.devnode.pad import SOL

from .scene import CREDITS_PER_USDC, SOL_USD_MICRO, Text, Trading, keypair_of, refused

ACCOUNT_RENTS = 15_000_000  # More than all accounts that a first trade of a coin pays for.
TOKEN_ACCOUNT_RENT = 2_039_280
COINS: dict[str, dict[str, Any]] = {
    "classic": {"kind": Kind.CREATE},
    "create_v2": {"kind": Kind.CREATE_V2},
    "mayhem": {"kind": Kind.CREATE_V2, "is_mayhem": True},
    "wrapped SOL": {"kind": Kind.CREATE_V2},
}


def fee_of(lamports: int) -> int:
    return fee_credits(25, 50, lamports, SOL_USD_MICRO, CREDITS_PER_USDC)


def launched(trading: Trading, kind: str) -> Pubkey:
    mint = trading.pad.launch(**COINS[kind])
    if kind == "wrapped SOL":  # No present instruction stores it.
        trading.pad.change_curve(mint, quote_mint=addresses.WSOL_MINT)
        curve = pdas.bonding_curve(mint)
        opened = trading.pad.land(wrapped_account(trading, curve))
        assert opened.err is None, opened
    return mint


def wrapped_account(trading: Trading, owner: Pubkey) -> Any:
    program, mint = addresses.TOKEN_PROGRAM, addresses.WSOL_MINT
    account = pdas.associated_token(owner, program, mint)
    return calls.create_token_account(trading.pad.user.pubkey(), account, owner, mint, program, idempotent=True)


@pytest.mark.parametrize("kind", COINS)
async def test_a_coin_is_bought_and_sold_as_quoted_and_each_build_costs_its_fee(trading: Trading, kind: str) -> None:
    """Tokens arrive as quoted to the base unit, at no more than the largest cost; then they are sold as quoted. The
    charge is exactly what the result says."""
    mint = launched(trading, kind)
    wallet = await trading.trader()
    user = keypair_of(wallet).pubkey()
    bought = (await trading.ask(wallet, "executeSnipe", mint=str(mint), amount_sol=Text("1.5")))["result"]
    assert bought["max_sol_cost_lamports"] == 1_575_000_000 and bought["mint"] == str(mint)
    assert bought["bonding_curve"] == str(pdas.bonding_curve(mint))
    assert bought["fee_credits"] == fee_of(1_500_000_000)
    before = trading.pad.lamports(user)
    landed = trading.land(wallet, bought["unsigned_tx_base64"])
    assert landed.err is None, landed.logs
    assert trading.tokens(wallet, mint) == bought["tokens_out"] > 0
    spent = before - trading.pad.lamports(user) - landed.fee_lamports
    assert 1_499_999_990 <= spent <= 1_500_000_000 + ACCOUNT_RENTS

    amount = bought["tokens_out"] // 3
    sold = (await trading.ask(wallet, "executeSell", mint=str(mint), token_amount=str(amount)))["result"]
    least = curve_math.proceeds_min(sold["sol_out_lamports"], 500)
    assert sold["min_sol_output_lamports"] == least and sold["fee_credits"] == fee_of(sold["sol_out_lamports"])
    before = trading.pad.lamports(user)
    landed = trading.land(wallet, sold["unsigned_tx_base64"])
    assert landed.err is None, landed.logs
    gained = trading.pad.lamports(user) - before + landed.fee_lamports
    # On a new chain the first sale to a recipient pays for its wrapped-SOL account, and for the buyback recipient's.
    rents = 2 * TOKEN_ACCOUNT_RENT if kind == "wrapped SOL" else 0
    assert sold["sol_out_lamports"] - gained in (0, rents)
    assert trading.tokens(wallet, mint) == bought["tokens_out"] - amount
    fees = [("executeSnipe", bought["fee_credits"]), ("executeSell", sold["fee_credits"])]
    assert await trading.world.debits(wallet) == fees
    wrapped = pdas.associated_token(user, addresses.TOKEN_PROGRAM, addresses.WSOL_MINT)
    assert trading.pad.lamports(wrapped) == 0, "the wrapped-SOL account is closed again"


async def test_a_wrapped_sol_account_that_was_there_stays_open(trading: Trading) -> None:
    """It may hold wrapped SOL that is not of this trade: the rest of a buy and the proceeds of a sale stay in it."""
    mint = launched(trading, "wrapped SOL")
    wallet = await trading.trader()
    user = keypair_of(wallet).pubkey()
    assert trading.pad.land(wrapped_account(trading, user)).err is None
    wrapped = pdas.associated_token(user, addresses.TOKEN_PROGRAM, addresses.WSOL_MINT)
    bought = (await trading.ask(wallet, "executeSnipe", mint=str(mint), amount_sol=1))["result"]
    assert trading.land(wallet, bought["unsigned_tx_base64"]).err is None
    rest = trading.pad.tokens(wrapped)
    assert rest == bought["max_sol_cost_lamports"] - 10**9
    sold = (await trading.ask(wallet, "executeSell", mint=str(mint), token_amount=bought["tokens_out"]))["result"]
    assert trading.land(wallet, sold["unsigned_tx_base64"]).err is None
    assert trading.pad.tokens(wrapped) == rest + sold["sol_out_lamports"]


async def test_the_last_tokens_of_a_curve_are_bought_at_their_own_price(trading: Trading) -> None:
    """A budget above the rest of the curve: the largest cost follows from the cost, not from the budget, and so does
    the fee. Afterwards the curve is complete, and both methods say where the coin trades."""
    mint = launched(trading, "create_v2")
    curve = trading.pad.curve(mint)
    sold = curve.real_token_reserves - 10**12
    paid = curve.virtual_quote_reserves * sold // (curve.virtual_token_reserves - sold)
    trading.pad.change_curve(
        mint,
        real_token_reserves=10**12,
        virtual_token_reserves=curve.virtual_token_reserves - sold,
        virtual_quote_reserves=curve.virtual_quote_reserves + paid,
        real_quote_reserves=paid,
    )
    wallet = await trading.trader()
    bought = (await trading.ask(wallet, "executeSnipe", mint=str(mint), amount_sol="15", slippage_bps=0))["result"]
    assert bought["tokens_out"] == 10**12 and bought["max_sol_cost_lamports"] < SOL
    assert bought["fee_credits"] == fee_of(bought["max_sol_cost_lamports"])
    landed = trading.land(wallet, bought["unsigned_tx_base64"])
    assert landed.err is None, landed.logs
    pool = str(pdas.canonical_pool(mint, addresses.WSOL_MINT))
    for method, amount in (("executeSnipe", {"amount_sol": 1}), ("executeSell", {"token_amount": 1})):
        code, message = refused(await trading.ask(wallet, method, mint=str(mint), **amount))
        assert code == -32602 and pool in message and "complete" in message and "does not exist yet" in message
    assert len(await trading.world.debits(wallet)) == 1


REFUSED_TEXTS = {
    "amount_sol": (
        *(
            '"NaN"',
            "1e-10",
            "1E12",
            "1e99",
            "1e-99",
            "1e300",
            '"1e3"',
            '"٣"',
            '"+1"',
            '" 1"',
            '"1 "',
            '".5"',
            '"1."',
            "-1",
            "0",
            '"0"',
            "0.0",
            '""',
        ),
        *("0.0000000001", '"1.0000000000"', "99999999999", '"0x10"', '"1,5"', '"00.1"', "true", "null", "[1]", "{}"),
        *('"1_0"', "1.0000000001e0", '"18446744073.709551616"', '"\\u0661"', '"Infinity"'),
    ),
    "token_amount": (
        *('"all"', "1.5", '"1.0"', "1.0", "1e3", '"1e3"', '"٣"', "0", '"0"', "-5", '"-5"', '""', "true", "null", "[]"),
        *("18446744073709551616", '"18446744073709551616"', '"1_000"', '" 7"', '"007"', '"NaN"'),
    ),
    "slippage_bps": ("10001", "-1", "500.0", '"500"', "true", "1e2"),
    "priority_fee_micro_lamports": ("-1", "18446744073709551616", "1.5", '"1"', "false"),
    "mint": ('"x"', "5", '"' + "1" * 45 + '"', "null", '"0OIl1111111111111111111111111111"'),
    "slipage_bps": ("5",),
}


@pytest.mark.parametrize(("field", "text"), [(field, text) for field, texts in REFUSED_TEXTS.items() for text in texts])
@pytest.mark.threat(34)
async def test_absurd_parameters_are_refused_before_anything_is_asked(trading: Trading, field: str, text: str) -> None:
    """-32602, and neither a hold nor a call to the node."""
    wallet = await trading.trader(lamports=0)
    fine = {"mint": f'"{Pubkey(bytes(32))}"', "amount_sol": "1"}
    method = "executeSnipe"
    if field == "token_amount":
        method, fine = "executeSell", {"mint": fine["mint"], "token_amount": "1"}
    reply = await trading.ask(wallet, method, **{name: Text(value) for name, value in (fine | {field: text}).items()})
    code, message = refused(reply)
    assert code == -32602 and reply["error"]["data"]["source"] == "gateway", message
    assert trading.node.calls == []
    assert all(not hold.items for hold in trading.world.accounts.holds)


async def test_amounts_are_read_from_their_digits(trading: Trading) -> None:
    """0.1 has no float: as a number and as text it is 100,000,000 lamports. Edges of slippage are taken."""
    mint = launched(trading, "classic")
    wallet = await trading.trader()
    for text, slippage, wanted in (
        ("0.1", 0, 100_000_000),
        ('"0.1"', 10_000, 200_000_000),
        ("0.100000001", 0, 100_000_001),
        ("1", 0, SOL),
        ('"0.002000002"', 500, 2_100_002),
    ):
        reply = await trading.ask(wallet, "executeSnipe", mint=str(mint), amount_sol=Text(text), slippage_bps=slippage)
        assert reply["result"]["max_sol_cost_lamports"] == wanted


async def test_what_cannot_be_sold_is_refused_for_free(trading: Trading) -> None:
    """A wallet without the tokens; a sale that the fees eat, with the threshold in lamports; a mint without a curve; a
    curve with another quote, by its name."""
    mint = launched(trading, "classic")
    wallet = await trading.trader()
    code, message = refused(await trading.ask(wallet, "executeSell", mint=str(mint), token_amount=1))
    assert code == -32602 and "holds 0 base units" in message and wallet.text in message
    bought = (await trading.ask(wallet, "executeSnipe", mint=str(mint), amount_sol="0.5"))["result"]
    trading.land(wallet, bought["unsigned_tx_base64"])
    held = bought["tokens_out"]
    code, message = refused(await trading.ask(wallet, "executeSell", mint=str(mint), token_amount=held + 1))
    assert code == -32602 and f"holds {held} base units" in message
    code, message = refused(await trading.ask(wallet, "executeSell", mint=str(mint), token_amount="1"))
    assert code == -32602 and "at least 3 lamports" in message
    least = int(message.rpartition("at present ")[2].split()[0])
    assert "result" in await trading.ask(wallet, "executeSell", mint=str(mint), token_amount=least)
    assert "result" not in await trading.ask(wallet, "executeSell", mint=str(mint), token_amount=least - 1)

    code, message = refused(await trading.ask(wallet, "executeSnipe", mint=wallet.text, amount_sol=1))
    assert code == -32602 and "no curve" in message
    usdc = trading.pad.launch(Kind.CREATE_V2, quote=Pubkey.from_string("4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"))
    for method, amount in (("executeSnipe", {"amount_sol": 1}), ("executeSell", {"token_amount": 1})):
        code, message = refused(await trading.ask(wallet, method, mint=str(usdc), **amount))
        assert code == -32602 and "quoted in USDC (4zMM" in message
    assert [method for method, _ in await trading.world.debits(wallet)] == ["executeSnipe", "executeSell"]


async def test_the_exact_price_is_held_and_a_poor_account_is_refused(trading: Trading) -> None:
    """One credit less than the fee is too little; the smallest price is asked before any work is done."""
    mint = launched(trading, "classic")
    fee = fee_of(SOL // 10)
    rich, poor, poorest = [await trading.trader(credits, lamports=0) for credits in (fee, fee - 1, 24)]
    reply = await trading.ask(rich, "executeSnipe", mint=str(mint), amount_sol=Text("0.1"))
    assert reply["result"]["fee_credits"] == fee and await trading.world.balance(rich) == 0
    reply = await trading.ask(poor, "executeSnipe", mint=str(mint), amount_sol=Text("0.1"))
    assert reply["error"]["code"] == -32010 and await trading.world.balance(poor) == fee - 1
    trading.node.calls.clear()
    reply = await trading.ask(poorest, "executeSnipe", mint=str(mint), amount_sol=Text("0.1"))
    assert reply["error"]["code"] == -32010 and trading.node.calls == []


async def test_a_batch_with_trades_is_answered_in_order(trading: Trading) -> None:
    """Trades, other calls, refusals of both kinds: each in its place, each charged by itself."""
    mint = launched(trading, "classic")
    wallet = await trading.trader()
    trade = [{"mint": str(mint), "amount_sol": "0.1"}]
    nothing = [{"mint": str(mint), "token_amount": "5"}]
    methods = [
        ("executeSnipe", trade),
        ("getSlot", []),
        ("executeSell", nothing),
        ("getSupply", []),
        ("executeSnipe", trade),
    ]
    body = [{"jsonrpc": "2.0", "id": at, "method": name, "params": params} for at, (name, params) in enumerate(methods)]
    response = await trading.world.rpc(wallet, body)
    replies = response.json()
    assert [reply["id"] for reply in replies] == [0, 1, 2, 3, 4]
    assert [reply.get("error", {}).get("code") for reply in replies] == [None, None, -32602, -32601, None]
    fee = fee_of(SOL // 10)
    assert sorted(await trading.world.debits(wallet)) == [("executeSnipe", fee), ("executeSnipe", fee), ("getSlot", 1)]
    assert int(response.headers["x-credits-remaining"]) == 10_000_000 - 2 * fee - 1


async def test_a_transaction_is_v0_unsigned_and_the_wallets_own(trading: Trading) -> None:
    """The account's wallet is the only signer and the payer; the compute price is the one that was asked for."""
    mint = launched(trading, "mayhem")
    wallet = await trading.trader(lamports=0)
    asked = {"mint": str(mint), "amount_sol": "0.1", "priority_fee_micro_lamports": 123_456}
    result = (await trading.ask(wallet, "executeSnipe", **asked))["result"]
    raw = base64.b64decode(result["unsigned_tx_base64"])
    transaction = VersionedTransaction.from_bytes(raw)
    assert raw[65] & 0x80 and len(raw) <= 1_232
    message = transaction.message
    assert message.header.num_required_signatures == 1 and message.account_keys[0] == keypair_of(wallet).pubkey()
    assert bytes(message.instructions[1].data) == b"\x03" + (123_456).to_bytes(8, "little")
    latest = trading.pad.local.call("getLatestBlockhash", {"commitment": "confirmed"})
    assert str(message.recent_blockhash) == latest["value"]["blockhash"]


async def test_an_idempotency_key_builds_and_charges_once(trading: Trading) -> None:
    """The same request again is the same transaction, though the curve has moved; a refused one leaves the key free."""
    mint = launched(trading, "classic")
    wallet = await trading.trader()
    body = {"jsonrpc": "2.0", "id": 1, "method": "executeSnipe", "params": [{"mint": str(mint), "amount_sol": "0.1"}]}
    first = await trading.world.rpc(wallet, body, **{"idempotency-key": "one"})
    assert trading.land(wallet, first.json()["result"]["unsigned_tx_base64"]).err is None
    again = await trading.world.rpc(wallet, body, **{"idempotency-key": "one"})
    assert again.json() == first.json() and again.headers["idempotent-replayed"] == "true"
    assert await trading.world.debits(wallet) == [("executeSnipe", fee_of(SOL // 10))]

    sale = {"jsonrpc": "2.0", "id": 1, "method": "executeSell", "params": [{"mint": str(mint), "token_amount": "1"}]}
    for _ in range(2):
        refusal = await trading.world.rpc(wallet, sale, **{"idempotency-key": "two"})
        assert refused(refusal.json())[0] == -32602 and "idempotent-replayed" not in refusal.headers
    poor = await trading.trader(fee_of(SOL // 10) - 1, lamports=0)
    assert (await trading.world.rpc(poor, body, **{"idempotency-key": "one"})).json()["error"]["code"] == -32010
    assert await trading.world.debits(poor) == []


async def test_agents_build_trades_by_the_same_rules(trading: Trading) -> None:
    """As a tool at POST /mcp: the same amounts, price and refusals."""
    mint = launched(trading, "classic")
    wallet = await trading.trader()

    async def tool(arguments: dict[str, Any]) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "executeSnipe", **arguments}}
        sent = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        response = await trading.world.rpc(wallet, body, path="/mcp", **sent)
        found: dict[str, Any] = response.json()
        return found

    built = await tool({"arguments": {"params": [{"mint": str(mint), "amount_sol": 0.1}]}})
    assert f'"fee_credits":{fee_of(SOL // 10)}' in str(built).replace(" ", ""), built
    await tool({"arguments": {"params": [{"mint": str(mint), "amount_sol": "1e3"}]}})
    assert await trading.world.debits(wallet) == [("executeSnipe", fee_of(SOL // 10))]
