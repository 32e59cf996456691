"""Launches and trades sample coins by real transactions of a wallet that the faucet funds.

Implements: POST /admin/launch. Its transactions are those of a user, with one exception: no present instruction stores
WSOL as a coin's quote, so for `quote: WSOL` the curve account is rewritten after the launch.
Keys are derived from the chain's state, so that the same seed gives the same coins.
"""

import hashlib
from dataclasses import dataclass, replace

from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import Keys, Trader, create_instruction, trade_instruction, trade_keys
from actors.launch_programs.configs import Global, decode_global
from actors.launch_programs.curve_account import BondingCurve, decode_curve, encode_curve
from actors.launch_programs.instructions import CreateArguments, Kind, TradeArguments
from devnode.chain.chain import Chain
from devnode.chain.faucet import Faucet, FaucetError
from devnode.chain.submissions import Dropped, Source, Waiting
from devnode.encoding.addresses import LAMPORTS_PER_SOL, USDC_MINT
from devnode.encoding.transaction_errors import error_text
from devnode.encoding.wire import Malformed
from devnode.execution.execution import Refused
from devnode.execution.vm import Vm
from devnode.launchpad import calls
from devnode.parsing.token_accounts import holding

KINDS = ("classic", "v2", "mayhem")
QUOTES = ("SOL", "WSOL", "USDC")
TRADES_MAX = 20
_CREATOR_LAMPORTS = 10 * LAMPORTS_PER_SOL
_CREATOR_USDC = 1_000 * 10**6
_BUDGETS = {"SOL": LAMPORTS_PER_SOL // 10, "WSOL": LAMPORTS_PER_SOL // 10, "USDC": 10 * 10**6}
_SELL_EVERY = 3  # Every third trade sells half of the tokens; the others buy.


class LaunchError(Exception):
    """The coin could not be launched or traded; the text says why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    kind: str = "classic"
    quote: str = "SOL"
    name: str = "Devnode Coin"
    symbol: str = "DEV"
    uri: str = "https://example.com/coin.json"
    trades: int = 3

    def mistake(self) -> str | None:
        """Why the request is invalid; None if it is valid."""
        if self.kind not in KINDS:
            return f"kind: wanted one of {', '.join(KINDS)}"
        if self.quote not in QUOTES:
            return f"quote: wanted one of {', '.join(QUOTES)}"
        if self.quote != "SOL" and self.kind != "v2":
            return "quote: only coins of kind v2 have another quote than SOL"
        if not 0 <= self.trades <= TRADES_MAX:
            return f"trades: wanted 0 to {TRADES_MAX}"
        return None


@dataclass(frozen=True, slots=True)
class Launched:
    mint: Pubkey
    bonding_curve: Pubkey
    creator: Pubkey
    token_program: Pubkey
    curve: BondingCurve
    signatures: tuple[str, ...]


def launch_coin(chain: Chain, faucet: Faucet, wanted: Wanted) -> Launched:
    """Launch a coin and trade it. Raises LaunchError; transactions that landed before the error stay."""
    mistake = wanted.mistake()
    if mistake is not None:
        raise LaunchError(mistake)
    launch = _Launch(chain, wanted)
    try:
        faucet.fund(launch.creator.pubkey(), _CREATOR_LAMPORTS, _CREATOR_USDC if wanted.quote == "USDC" else 0)
    except FaucetError as error:
        raise LaunchError(str(error)) from None
    launch.create()
    for number in range(1, wanted.trades + 1):
        launch.trade(number)
    return launch.result()


class _Launch:
    def __init__(self, chain: Chain, wanted: Wanted) -> None:
        self._chain, self._wanted = chain, wanted
        state = bytes(chain.blockhashes.latest().blockhash) + chain.transaction_count.to_bytes(8, "little")
        self.creator, self._mint = (
            Keypair.from_seed(hashlib.sha256(role + state).digest()) for role in (b"creator", b"coin")
        )
        self._program = addresses.TOKEN_PROGRAM if wanted.kind == "classic" else addresses.TOKEN_2022_PROGRAM
        self._signatures: list[str] = []

    @property
    def _vm(self) -> Vm:
        return self._chain.vm

    def create(self) -> None:
        wanted, creator, mint = self._wanted, self.creator.pubkey(), self._mint.pubkey()
        arguments = CreateArguments(wanted.name, wanted.symbol, wanted.uri, creator, wanted.kind == "mayhem")
        kind = Kind.CREATE if wanted.kind == "classic" else Kind.CREATE_V2
        quote = (USDC_MINT, addresses.TOKEN_PROGRAM) if wanted.quote == "USDC" else None
        made = [create_instruction(kind, arguments, mint, creator, quote)]
        made.append(self._token_account(pdas.associated_token(creator, self._program, mint), mint, self._program))
        if wanted.quote == "WSOL":
            curve = pdas.bonding_curve(mint)
            account = pdas.associated_token(curve, addresses.TOKEN_PROGRAM, addresses.WSOL_MINT)
            made.append(
                calls.create_token_account(
                    creator, account, curve, addresses.WSOL_MINT, addresses.TOKEN_PROGRAM, idempotent=True
                )
            )
        self._land(made, self._mint)
        if wanted.quote == "WSOL":
            self._store_wsol()

    def _store_wsol(self) -> None:
        address = pdas.bonding_curve(self._mint.pubkey())
        account = self._vm.account(address)
        assert account is not None
        curve = replace(self._curve(), quote_mint=addresses.WSOL_MINT)
        data = encode_curve(curve, len(account.data))
        self._chain.place(address, type(account)(account.lamports, data, account.owner, False, account.rent_epoch))

    def trade(self, number: int) -> None:
        """Land one trade. number: from 1; it is the trade's limit, so that equal trades are different transactions."""
        curve, config = self._curve(), self._global()
        recipient = config.fee_recipients_of(curve.is_mayhem_mode)[0]
        trader = Trader(self.creator.pubkey(), recipient, config.buyback_fee_recipients[0])
        keys = trade_keys(self._mint.pubkey(), self._program, curve, trader, addresses.TOKEN_PROGRAM)
        in_v2 = self._wanted.kind == "v2"
        if number % _SELL_EVERY == 0:
            held = holding(self._vm.account(keys["user_base"]))
            amount = 0 if held is None else held.amount // 2
            kind = Kind.SELL_V2 if in_v2 else Kind.SELL
            self._land([trade_instruction(kind, TradeArguments(amount, number), keys)])
            return
        budget = _BUDGETS[self._wanted.quote]
        kind = Kind.BUY_EXACT_QUOTE_IN_V2 if in_v2 else Kind.BUY_EXACT_SOL_IN
        bought = trade_instruction(kind, TradeArguments(budget, number), keys)
        self._land([*self._wrapped(keys, budget), bought])

    def _wrapped(self, keys: Keys, lamports: int) -> list[Instruction]:
        """Instructions that fund the buyer's WSOL account, for a coin that is paid in WSOL."""
        if self._wanted.quote != "WSOL":
            return []
        return [
            self._token_account(keys["user_quote"], addresses.WSOL_MINT, addresses.TOKEN_PROGRAM),
            calls.transfer_lamports(keys["user"], keys["user_quote"], lamports),
            calls.sync_native(addresses.TOKEN_PROGRAM, keys["user_quote"]),
        ]

    def _token_account(self, account: Pubkey, mint: Pubkey, program: Pubkey) -> Instruction:
        owner = self.creator.pubkey()
        return calls.create_token_account(owner, account, owner, mint, program, idempotent=True)

    def _land(self, instructions: list[Instruction], *more_signers: Keypair) -> None:
        blockhash = self._chain.blockhashes.latest().blockhash
        message = MessageV0.try_compile(self.creator.pubkey(), instructions, [], blockhash)
        raw = bytes(VersionedTransaction(message, [self.creator, *more_signers]))
        result = self._chain.submit(raw, Source.FAUCET)
        if isinstance(result, Dropped | Waiting):
            raise LaunchError("the transaction was dropped by fault injection")
        if isinstance(result, Malformed):
            raise LaunchError(result.text)
        err = result.err if isinstance(result, Refused) else result.meta.err
        if isinstance(result, Refused) or err is not None:
            raise LaunchError(error_text(err))
        self._signatures.append(result.signature)

    def _curve(self) -> BondingCurve:
        account = self._vm.account(pdas.bonding_curve(self._mint.pubkey()))
        curve = None if account is None else decode_curve(account.data)
        if curve is None:
            raise LaunchError("the coin has no curve: the launch programs of this chain are not imitated")
        return curve

    def _global(self) -> Global:
        """Read the fee recipients from the Global account: a loaded dump may name other recipients."""
        account = self._vm.account(addresses.GLOBAL)
        config = None if account is None else decode_global(account.data)
        if config is None:
            raise LaunchError("the platform's Global account is missing or invalid")
        return config

    def result(self) -> Launched:
        mint = self._mint.pubkey()
        return Launched(
            mint, pdas.bonding_curve(mint), self.creator.pubkey(), self._program, self._curve(), tuple(self._signatures)
        )
