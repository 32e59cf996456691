"""A seeded market of coins: real transactions whose meaning is known beforehand, for tests of classifiers.

Implements: launches of every kind, trades on curves, graduations (the buy that completes a curve, and the migration),
trades in both kinds of pools, routed trades, pools of another program; and transactions that mean nothing: payments,
failed trades, a second migration. Each transaction is returned with the events that a reader of the chain must find in
it. Amounts are taken from balances, never from the programs' own events.
The same seed on a chain of the same state gives the same actions. Not here: the instructions (market_orders.py).
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.launch_programs.addresses import PUMP, PUMP_AMM
from actors.launch_programs.cpmm import CPMM
from actors.launch_programs.instructions import Kind
from actors.launch_programs.pool_trades import PoolKind
from devnode.chain.chain import Chain
from devnode.chain.faucet import Faucet, FaucetError
from devnode.chain.submissions import Source
from devnode.encoding.addresses import LAMPORTS_PER_SOL, USDC_MINT
from devnode.launchpad import calls
from devnode.launchpad.routing import route_instruction
from devnode.market.market_orders import MarketCoin, Orders, wrapping
from devnode.records.records import TransactionRecord

_WALLETS = 4
_WALLET_LAMPORTS, _WRAPPED_LAMPORTS = 20_000 * LAMPORTS_PER_SOL, 8_000 * LAMPORTS_PER_SOL
_UNITS = 600_000
_KINDS = ("v2", "classic", "mayhem", "v2", "usdc")  # In turns, so that a short market has all of them.
_ROUTED_SHARE, _LARGE_SHARE = 0.3, 0.2
_COMPLETING_LAMPORTS = 120 * LAMPORTS_PER_SOL  # More than any curve still takes.
_COINS_MAX = 200


class MarketError(Exception):
    """The market cannot go on; the text says why."""


@dataclass(frozen=True, slots=True)
class ExpectedEvent:
    """An event that a reader of the chain must find. kind: newPair, graduation or swap.

    lamports: of a swap, what its trader paid or got in SOL; on a curve without the fees, as the platform's event has
    it. quote_asset: SOL, or a mint. stage: of a graduation, complete or migrated.
    """

    kind: str
    program: str
    mint: str
    wallet: str
    quote_asset: str = "SOL"
    lamports: int | None = None
    is_buy: bool | None = None
    stage: str | None = None


@dataclass(frozen=True, slots=True)
class LabelledTransaction:
    signature: str
    slot: int
    action: str
    failed: bool
    routed: bool
    expected: tuple[ExpectedEvent, ...]


Action = Callable[[], Sequence[LabelledTransaction]]


class Market:
    """Call `step` as often as wanted; slots may pass in between."""

    def __init__(self, chain: Chain, faucet: Faucet, seed: int) -> None:
        """Fund the market's wallets. Raises MarketError."""
        self._chain, self._seed = chain, seed
        self._orders = Orders(chain.vm)
        self._random = random.Random(seed)  # noqa: S311 - a seeded choice, no secret.
        self._wallets = [self._keypair("wallet", number) for number in range(_WALLETS)]
        self._coins: list[MarketCoin] = []
        self._sent = 0
        if chain.vm.account(self._wallets[0].pubkey()) is not None:
            raise MarketError(f"seed {seed} has been used on this chain: choose another one")
        try:
            for wallet in self._wallets:
                faucet.fund(wallet.pubkey(), _WALLET_LAMPORTS, 0)
        except FaucetError as error:
            raise MarketError(str(error)) from None
        for wallet in self._wallets:
            self._land("funding", wallet, wrapping(wallet.pubkey(), _WRAPPED_LAMPORTS))

    def step(self) -> Sequence[LabelledTransaction]:
        """Perform the next action: one transaction, or two where the second belongs to the first."""
        actions = self._possible()
        names = list(actions)
        weights = [actions[name][0] for name in names]
        (name,) = self._random.choices(names, weights)
        return actions[name][1]()

    def perform(self, actions: int) -> list[LabelledTransaction]:
        return [labelled for _ in range(actions) for labelled in self.step()]

    def _possible(self) -> dict[str, tuple[int, Action]]:
        """Weights and actions that the present state allows, by name."""
        sol = [coin for coin in self._coins if coin.in_sol]
        on_curve = [coin for coin in sol if self._orders.curve(coin).is_tradable]
        complete = [coin for coin in sol if self._orders.curve(coin).complete and not self._is_migrated(coin)]
        migrated = [coin for coin in sol if self._is_migrated(coin)]
        plain = [coin for coin in on_curve if not coin.has_other_pool]
        pooled = [coin for coin in sol if coin.has_other_pool]
        found: dict[str, tuple[int, Action]] = {"payment": (1, self._payment)}
        if len(self._coins) < _COINS_MAX:
            found["creation"] = (4 if len(on_curve) < 3 else 1, self._creation)
        if on_curve:
            found["curve_trade"] = (6, lambda: self._curve_trade(self._random.choice(on_curve)))
            found["completion"] = (1, lambda: self._completion(self._random.choice(on_curve)))
            found["failure"] = (1, lambda: self._failure(self._random.choice(on_curve)))
        if plain:
            found["other_pool"] = (1, lambda: self._other_pool(self._random.choice(plain)))
        if complete:
            found["migration"] = (6, lambda: self._migration(self._random.choice(complete)))
        if migrated:
            found["pool_trade"] = (4, lambda: self._pool_trade(self._random.choice(migrated)))
            found["second_migration"] = (1, lambda: self._second_migration(self._random.choice(migrated)))
        if pooled:
            found["other_swap"] = (3, lambda: self._other_swap(self._random.choice(pooled)))
        return found

    def _is_migrated(self, coin: MarketCoin) -> bool:
        return self._orders.curve(coin).is_migrated

    # Actions.

    def _creation(self) -> Sequence[LabelledTransaction]:
        wallet, kind = self._random.choice(self._wallets), _KINDS[len(self._coins) % len(_KINDS)]
        mint = self._keypair("mint", self._sent)
        user = wallet.pubkey()
        coin, made = self._orders.creation(user, kind, mint.pubkey(), f"Coin {self._sent}")
        quote = "SOL" if coin.in_sol else str(USDC_MINT)
        created = ExpectedEvent("newPair", str(PUMP), str(coin.mint), str(user), quote)
        self._coins.append(coin)
        return [self._land("creation", wallet, [made], [created], signers=[mint])]

    def _curve_trade(self, coin: MarketCoin) -> Sequence[LabelledTransaction]:
        wallet = self._random.choice(self._wallets)
        held = self._orders.tokens(wallet.pubkey(), coin)
        if held and self._random.random() < 0.4:
            sold = self._orders.curve_trade(wallet.pubkey(), coin, Kind.SELL, held // 2 or held, 0)
            return [self._on_curve(wallet, coin, [sold], is_buy=False)]
        return [self._on_curve(wallet, coin, self._buy(wallet, coin, self._size()), is_buy=True)]

    def _completion(self, coin: MarketCoin) -> Sequence[LabelledTransaction]:
        wallet = self._random.choice(self._wallets)
        return [self._on_curve(wallet, coin, self._buy(wallet, coin, _COMPLETING_LAMPORTS), is_buy=True)]

    def _buy(self, wallet: Keypair, coin: MarketCoin, lamports: int) -> list[Instruction]:
        user = wallet.pubkey()
        trade = self._orders.curve_trade(user, coin, Kind.BUY_EXACT_SOL_IN, lamports, 1)
        return [*self._orders.token_account(user, coin), trade]

    def _on_curve(
        self, wallet: Keypair, coin: MarketCoin, instructions: list[Instruction], is_buy: bool
    ) -> LabelledTransaction:
        before = self._orders.curve(coin).real_quote_reserves
        record, routed = self._submit(wallet, instructions, may_route=True)
        after = self._orders.curve(coin)
        moved = abs(after.real_quote_reserves - before)
        expected = [self._swap(PUMP, coin, wallet, moved, is_buy)]
        if after.complete:
            expected.append(self._graduation(coin, wallet, "complete"))
        return self._labelled("curve_trade", record, expected, routed)

    def _failure(self, coin: MarketCoin) -> Sequence[LabelledTransaction]:
        """A buy with too low a limit: it lands, fails, and means nothing."""
        wallet = self._random.choice(self._wallets)
        user = wallet.pubkey()
        trade = self._orders.curve_trade(user, coin, Kind.BUY, 10**9, 1)
        return [self._land("failure", wallet, [*self._orders.token_account(user, coin), trade], fails=True)]

    def _migration(self, coin: MarketCoin) -> Sequence[LabelledTransaction]:
        wallet = self._random.choice(self._wallets)
        expected = [self._graduation(coin, wallet, "migrated")]
        return [self._land("migration", wallet, [self._orders.migration(wallet.pubkey(), coin)], expected)]

    def _second_migration(self, coin: MarketCoin) -> Sequence[LabelledTransaction]:
        wallet = self._random.choice(self._wallets)
        return [self._land("second_migration", wallet, [self._orders.migration(wallet.pubkey(), coin)])]

    def _pool_trade(self, coin: MarketCoin) -> Sequence[LabelledTransaction]:
        def order(user: Pubkey, is_buy: bool, amount: int) -> Instruction:
            kind = PoolKind.BUY_EXACT_QUOTE_IN if is_buy else PoolKind.SELL
            return self._orders.pool_trade(user, coin, kind, amount)

        return [self._in_pool("pool_trade", PUMP_AMM, coin, order)]

    def _other_swap(self, coin: MarketCoin) -> Sequence[LabelledTransaction]:
        def order(user: Pubkey, is_buy: bool, amount: int) -> Instruction:
            return self._orders.other_swap(user, coin, is_buy, amount)

        return [self._in_pool("other_swap", CPMM, coin, order)]

    def _in_pool(
        self, action: str, program: Pubkey, coin: MarketCoin, order: Callable[[Pubkey, bool, int], Instruction]
    ) -> LabelledTransaction:
        wallet = self._random.choice(self._wallets)
        user = wallet.pubkey()
        held = self._orders.tokens(user, coin)
        is_buy = held < 1_000 or self._random.random() < 0.6
        trade = order(user, is_buy, self._size() if is_buy else held // 2)
        before = self._orders.wsol(user)
        record, routed = self._submit(wallet, [*self._orders.token_account(user, coin), trade], may_route=True)
        moved = abs(self._orders.wsol(user) - before)
        return self._labelled(action, record, [self._swap(program, coin, wallet, moved, is_buy)], routed)

    def _other_pool(self, coin: MarketCoin) -> Sequence[LabelledTransaction]:
        """Buy tokens on the curve, then open a pool of another program with half of them."""
        wallet = self._random.choice(self._wallets)
        user, lamports = wallet.pubkey(), self._size()
        bought = self._on_curve(wallet, coin, self._buy(wallet, coin, lamports), is_buy=True)
        opened = self._orders.other_pool(user, coin, self._orders.tokens(user, coin) // 2, lamports // 2)
        expected = [ExpectedEvent("newPair", str(CPMM), str(coin.mint), str(user))]
        coin.has_other_pool = True
        return [bought, self._land("other_pool", wallet, [opened], expected)]

    def _payment(self) -> Sequence[LabelledTransaction]:
        payer, receiver = self._random.sample(self._wallets, 2)
        paid = calls.transfer_lamports(payer.pubkey(), receiver.pubkey(), self._random.randrange(1, 10**9))
        return [self._land("payment", payer, [paid])]

    # Labels.

    def _swap(self, program: Pubkey, coin: MarketCoin, wallet: Keypair, lamports: int, is_buy: bool) -> ExpectedEvent:
        user = str(wallet.pubkey())
        return ExpectedEvent("swap", str(program), str(coin.mint), user, lamports=lamports, is_buy=is_buy)

    def _graduation(self, coin: MarketCoin, wallet: Keypair, stage: str) -> ExpectedEvent:
        return ExpectedEvent("graduation", str(PUMP), str(coin.mint), str(wallet.pubkey()), stage=stage)

    def _labelled(
        self, action: str, record: TransactionRecord, expected: Sequence[ExpectedEvent], routed: bool
    ) -> LabelledTransaction:
        failed = record.meta.err is not None
        return LabelledTransaction(record.signature, record.slot, action, failed, routed, tuple(expected))

    # Transactions.

    def _size(self) -> int:
        """The lamports of a buy: mostly up to 2 SOL, some of 10 to 40."""
        if self._random.random() < _LARGE_SHARE:
            return self._random.randrange(10 * LAMPORTS_PER_SOL, 40 * LAMPORTS_PER_SOL)
        return self._random.randrange(LAMPORTS_PER_SOL // 100, 2 * LAMPORTS_PER_SOL)

    def _land(
        self,
        action: str,
        wallet: Keypair,
        instructions: list[Instruction],
        expected: Sequence[ExpectedEvent] = (),
        signers: Sequence[Keypair] = (),
        fails: bool = False,
    ) -> LabelledTransaction:
        record, routed = self._submit(wallet, instructions, signers=signers, fails=fails)
        return self._labelled(action, record, expected, routed)

    def _submit(
        self,
        wallet: Keypair,
        instructions: list[Instruction],
        may_route: bool = False,
        signers: Sequence[Keypair] = (),
        fails: bool = False,
    ) -> tuple[TransactionRecord, bool]:
        """Land a transaction, the last instruction inside the router for a share of those that may."""
        routed = may_route and self._random.random() < _ROUTED_SHARE
        if routed:
            instructions = [*instructions[:-1], route_instruction(instructions[-1:])]
        self._sent += 1
        # The price makes every transaction a different one.
        budget = [set_compute_unit_limit(_UNITS), set_compute_unit_price(self._sent)]
        blockhash = self._chain.blockhashes.latest().blockhash
        message = MessageV0.try_compile(wallet.pubkey(), [*budget, *instructions], [], blockhash)
        result = self._chain.submit(bytes(VersionedTransaction(message, [wallet, *signers])), Source.FAUCET)
        if not isinstance(result, TransactionRecord) or (result.meta.err is not None) != fails:
            raise MarketError(f"a transaction of the market did not land as planned: {result}")
        return result, routed

    def _keypair(self, role: str, number: int) -> Keypair:
        text = f"market {self._seed} {role} {number}".encode()
        return Keypair.from_seed(hashlib.sha256(text + self._chain.salt).digest())
