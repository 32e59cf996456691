"""Quotes and instructions against @pump-fun/pump-sdk from its registry, without a chain, over generated curves."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from actors.errors import Refusal
from actors.launch_programs import addresses, curve_math, fee_schedule
from actors.launch_programs.accounts import Trader
from actors.launch_programs.configs import FeeConfig, Fees, FeeTier, Global, encode_fee_config, encode_global
from actors.launch_programs.curve_account import CURVE_BYTES, BondingCurve, encode_curve
from actors.methods.trades import SellQuestion, SnipeQuestion
from actors.trades.builders import buy_instructions, sell_instructions
from actors.trades.quotes import Disposal, Purchase, quote_sell, quote_snipe
from actors.trades.snapshot import CoinState, WalletState
from devnode.launchpad.genesis import global_config
from tests.npm import Npm

SCRIPT = Path(__file__).with_name("offline_quotes.mjs")
STATES = 280
SEED = 20261122
KINDS = ("classic", "create_v2", "mayhem", "wrapped SOL", "wrapped SOL mayhem", "cashback", "wrapped SOL cashback")
SLIPPAGES_BPS = (0, 25, 100, 500, 1_000, 2_555, 10_000)


@dataclass(frozen=True)
class State:
    kind: str
    coin: CoinState
    wallet: WalletState
    bought: SnipeQuestion
    sold: SellQuestion

    @property
    def for_the_sdk(self) -> dict[str, Any]:
        coin = self.coin
        return {
            "global": encode_global(coin.config).hex(),
            "fee_config": None if coin.schedule is None else encode_fee_config(coin.schedule).hex(),
            "curve": encode_curve(coin.curve, CURVE_BYTES).hex(),
            "mint": str(coin.mint),
            "mint_supply": str(coin.supply),
            "token_program": str(coin.token_program),
            "user": str(self.wallet.user),
            "budget": str(self.bought.budget_lamports),
            "tokens_sold": str(self.sold.tokens),
            "slippage_bps": self.bought.slippage_bps // 10 * 10,
        }


def key(chance: random.Random) -> Pubkey:
    return Pubkey(chance.randbytes(32))


def schedule_of(chance: random.Random) -> FeeConfig | None:
    if chance.random() < 0.15:
        return None
    tiers = [FeeTier(0, Fees(0, 95, 30))]
    for _ in range(chance.choice((0, 0, 1, 4))):
        later = tiers[-1].market_cap_min + chance.randint(1, 10**11)
        tiers.append(FeeTier(later, Fees(0, chance.randint(0, 200), chance.randint(0, 300))))
    return FeeConfig(255, addresses.WITHDRAW_AUTHORITY, Fees(0, 95, 30), tuple(tiers), tuple(tiers), Fees(0, 95, 30))


def curve_of(kind: str, chance: random.Random) -> BondingCurve:
    """A curve that trades have moved along its own hyperbola, from fresh to nearly complete."""
    tokens, quote, real = 1_073 * 10**12, 30 * 10**9, 793_100 * 10**9
    moved = chance.choice((0, chance.randint(1, real - 1), real - chance.randint(1, 10**9)))
    net = -(-quote * moved // (tokens - moved))
    return BondingCurve(
        tokens - moved,
        quote + net,
        real - moved,
        net,
        10**15,
        creator=addresses.ZERO_KEY if chance.random() < 0.2 else key(chance),
        is_mayhem_mode="mayhem" in kind,
        is_cashback_coin="cashback" in kind,
        quote_mint=addresses.WSOL_MINT if "wrapped" in kind else addresses.ZERO_KEY,
        creator_fee_bps=chance.choice((0, 0, chance.randint(1, 300))),
    )


def states() -> Iterator[State]:
    chance = random.Random(SEED)
    for number in range(STATES):
        kind = KINDS[number % len(KINDS)]
        curve, mint, user = curve_of(kind, chance), key(chance), key(chance)
        token_2022 = "mayhem" in kind or chance.random() < 0.5
        program = addresses.TOKEN_2022_PROGRAM if token_2022 else addresses.TOKEN_PROGRAM
        supply = 2 * 10**15 if curve.is_mayhem_mode else 10**15
        config: Global = replace(global_config(), creator_fee_configurable=chance.random() < 0.8)
        coin = CoinState(mint, program, supply, curve, config, schedule_of(chance))
        budget = 10 ** chance.randint(3, 11) + chance.randint(0, 999)
        most = max(1, curve.real_quote_reserves * curve.virtual_token_reserves // curve.virtual_quote_reserves)
        tokens = chance.choice((chance.randint(1, 200_000), chance.randint(1, most)))
        slippage = chance.choice(SLIPPAGES_BPS)
        yield State(
            kind,
            coin,
            WalletState(user, tokens, has_wrapped_sol=True),
            SnipeQuestion(str(mint), budget, slippage, 0),
            SellQuestion(str(mint), tokens, slippage, 0),
        )


def shown(instruction: Instruction) -> dict[str, Any]:
    return {
        "program": str(instruction.program_id),
        "data": bytes(instruction.data).hex(),
        "accounts": [
            [str(meta.pubkey), ("w" if meta.is_writable else "r") + ("s" if meta.is_signer else "")]
            for meta in instruction.accounts
        ],
    }


def with_limit(instruction: dict[str, Any], limit: int) -> dict[str, Any]:
    """The same instruction with another largest cost or smallest result: bytes 16 to 24 of its data."""
    data = instruction["data"]
    return instruction | {"data": data[:32] + limit.to_bytes(8, "little").hex() + data[48:]}


@pytest.fixture(scope="module")
def answered(npm: Npm, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[State, dict[str, Any]]]:
    made = list(states())
    path = tmp_path_factory.mktemp("sdk") / "states.json"
    path.write_text(json.dumps([state.for_the_sdk for state in made]))
    answers = npm.run(SCRIPT, {"STATES": str(path)})
    return list(zip(made, answers, strict=True))


def trader_of(state: State) -> Trader:
    """The recipients that the SDK names when its chance is always the first."""
    config = state.coin.config
    recipients = config.fee_recipients_of(state.coin.curve.is_mayhem_mode)
    return Trader(state.wallet.user, recipients[0], addresses.BUYBACK_FEE_RECIPIENTS[0])


def test_buys_are_those_of_the_sdk(answered: list[tuple[State, dict[str, Any]]]) -> None:
    """Tokens, cost, and every instruction with its accounts, flags and data. Differences, each ruled by a source:

    - A budget that buys nothing is refused here; the SDK builds a buy of 0 tokens, which the program refuses (6020).
    - Slippage: the SDK takes percent and rounds down to steps of 0.1; the interface has basis points.
    - The last tokens of a curve: the SDK's largest cost follows from the budget, so a budget of 100 SOL for tokens
      worth 1 would allow a price of 100; here it follows from the cost.
    - Wrapped SOL: the SDK leaves making and funding of the account to its caller; the interface includes them.
    """
    compared = dict.fromkeys(KINDS, 0)
    last = 0
    for state, sdk in answered:
        coin, asked = state.coin, state.bought
        quoted = quote_snipe(coin, asked)
        if sdk["tokens"] == "0":
            assert isinstance(quoted, Refusal), state
            continue
        assert isinstance(quoted, Purchase), (state, quoted, sdk)
        rates = fee_schedule.rates(coin.config, coin.schedule, coin.curve, coin.supply)
        amounts = curve_math.buy_exact_out(coin.curve, quoted.tokens, rates)
        assert amounts is not None
        assert (str(quoted.tokens), str(amounts.total_cost)) == (sdk["tokens"], sdk["cost"]), state
        ours = [shown(one) for one in buy_instructions(coin, state.wallet, trader_of(state), quoted)]
        created, trade = sdk["buy"]
        base = amounts.total_cost if quoted.completes else asked.budget_lamports
        last += quoted.completes
        assert quoted.cost_max == base + base * asked.slippage_bps // 10_000
        wanted = trade if not quoted.completes and asked.slippage_bps % 10 == 0 else with_limit(trade, quoted.cost_max)
        if coin.curve.curve_type == "classic":
            assert ours == [created, wanted], state
        else:
            assert [ours[0], ours[4]] == [created, wanted] and len(ours) == 5, state
        compared[state.kind] += 1
    assert min(compared.values()) >= 30 and sum(compared.values()) >= 250 and last >= 10, (compared, last)


def test_sales_are_those_of_the_sdk(answered: list[tuple[State, dict[str, Any]]]) -> None:
    """As for buys. A sale whose proceeds the fees eat is refused here (interface, executeSell); the SDK gives zero or
    less. A sale for more than the curve's real reserves fails on the chain, and the SDK does not look at them."""
    compared, refused = dict.fromkeys(KINDS, 0), 0
    for state, sdk in answered:
        coin, asked = state.coin, state.sold
        quoted = quote_sell(coin, state.wallet, asked)
        gross = asked.tokens * coin.curve.virtual_quote_reserves // (coin.curve.virtual_token_reserves + asked.tokens)
        if int(sdk["proceeds"]) <= 0 or gross > coin.curve.real_quote_reserves:
            assert isinstance(quoted, Refusal), state
            refused += 1
            continue
        assert isinstance(quoted, Disposal), (state, quoted, sdk)
        assert str(quoted.proceeds) == sdk["proceeds"], state
        (wanted,) = sdk["sell"]
        if asked.slippage_bps % 10:
            wanted = with_limit(wanted, curve_math.proceeds_min(quoted.proceeds, asked.slippage_bps))
        ours = [shown(one) for one in sell_instructions(coin, state.wallet, trader_of(state), quoted)]
        assert ours[-1] == wanted, state
        assert len(ours) == (1 if coin.curve.curve_type == "classic" else 2)
        compared[state.kind] += 1
    assert min(compared.values()) >= 15 and sum(compared.values()) >= 150 and refused >= 10, (compared, refused)
