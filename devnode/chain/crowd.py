"""The crowd: transactions that compete for room in the blocks.

Implements: in every slot, payments of the crowd's own wallets that ask for compute units worth a set share of a block.
The demand rises and falls by periods of `burst_slots`; prices are spread around a median. They really land and really
pay; they use few units, but count with all that they ask for (filling.py).
The demand and prices of a slot are a function of the seed and the slot. Not here: who gets the room (filling.py).
"""

import hashlib
import logging
import random
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from devnode.chain.chain import Chain
from devnode.chain.faucet import Faucet, FaucetError
from devnode.encoding.addresses import LAMPORTS_PER_SOL
from devnode.encoding.wire import Decoded, decode

logger = logging.getLogger("devnode")
WALLETS = 64
_GRANT_LAMPORTS = 1_000 * LAMPORTS_PER_SOL
_WALLET_LAMPORTS_MIN = 10 * LAMPORTS_PER_SOL
_TRANSACTIONS_MAX = 2_000  # Limit for one slot.


class CrowdError(Exception):
    """The settings are not valid; the text names the field."""


class CrowdSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    load: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.0  # Blocks' worth of units that arrive in a slot, on average.
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    units: Annotated[int, msgspec.Meta(ge=10_000, le=1_400_000)] = 1_000_000  # Units that each transaction asks for.
    median_price: Annotated[int, msgspec.Meta(ge=0, le=10**9)] = 10_000  # Micro-lamports a unit.
    spread: Annotated[float, msgspec.Meta(ge=0, le=5)] = 1.0  # Standard deviation of the price's logarithm.
    burst_slots: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1
    accounts: tuple[str, ...] = ()  # Accounts that a share of the transactions writes, one each.
    account_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown


def with_changes(settings: CrowdSettings, fields: Any) -> CrowdSettings:
    """The settings with these fields changed; null resets a field. Raises CrowdError."""
    known = {name: value for name, value in settings.as_json().items() if fields.get(name, value) is not None}
    try:
        found = msgspec.convert(
            known | {name: value for name, value in fields.items() if value is not None}, CrowdSettings
        )
        for address in found.accounts:
            Pubkey.from_string(address)
    except (msgspec.ValidationError, ValueError) as error:
        raise CrowdError(str(error)) from None
    return found


class Crowd:
    def __init__(self, chain: Chain, faucet: Faucet, settings: CrowdSettings | None = None) -> None:
        self._chain, self._faucet = chain, faucet
        self.settings = settings if settings is not None else CrowdSettings()
        self._wallets: list[Keypair] = []

    @property
    def compete(self) -> bool:
        return self.settings.load > 0

    def transactions(self, slot: int) -> Iterator[Decoded]:
        if not self.compete:
            return
        settings, blockhash = self.settings, self._chain.blockhashes.latest().blockhash
        drawn = random.Random(f"{settings.seed} crowd {slot}")  # noqa: S311 - a simulation, the same for every run.
        for number in range(self._count(slot, drawn)):
            price = round(settings.median_price * drawn.lognormvariate(0, settings.spread))
            written = None
            if settings.accounts and drawn.random() < settings.account_share:
                written = Pubkey.from_string(drawn.choice(settings.accounts))
            try:
                decoded = decode(bytes(self._payment(number, price, written, blockhash)))
            except FaucetError as error:
                logger.warning("the crowd stays away in slot %d: %s", slot, error)
                return
            assert isinstance(decoded, Decoded), decoded
            yield decoded

    def _count(self, slot: int, drawn: random.Random) -> int:
        """The number of transactions of this slot: on average the load, more or less by period and by slot."""
        settings = self.settings
        period = random.Random(f"{settings.seed} burst {slot // settings.burst_slots}")  # noqa: S311
        demand = settings.load * (1 + period.expovariate(1)) / 2
        mean = demand * self._chain.space.limits.units / settings.units
        return min(_TRANSACTIONS_MAX, max(0, round(drawn.gauss(mean, mean**0.5))))

    def _payment(self, number: int, price: int, written: Pubkey | None, blockhash: Hash) -> VersionedTransaction:
        """A payment of a wallet to itself; its amount makes it unique."""
        payer = self._wallet(number % WALLETS)
        key = payer.pubkey()
        pay = transfer(TransferParams(from_pubkey=key, to_pubkey=key, lamports=number + 1))
        if written is not None:  # The system program ignores further accounts, but the transaction locks them.
            pay = Instruction(pay.program_id, pay.data, [*pay.accounts, AccountMeta(written, False, True)])
        asked = [set_compute_unit_limit(self.settings.units), set_compute_unit_price(price), pay]
        return VersionedTransaction(MessageV0.try_compile(key, asked, [], blockhash), [payer])

    def _wallet(self, number: int) -> Keypair:
        """A wallet of the crowd, with enough SOL for its fees."""
        while len(self._wallets) <= number:
            self._wallets.append(_derived(self._chain.salt, len(self._wallets)))
        wallet = self._wallets[number]
        account = self._chain.vm.account(wallet.pubkey())
        if account is None or account.lamports < _WALLET_LAMPORTS_MIN:
            self._faucet.airdrop(wallet.pubkey(), _GRANT_LAMPORTS)
        return wallet


def _derived(salt: bytes, number: int) -> Keypair:
    return Keypair.from_seed(hashlib.sha256(f"devnode crowd {number} ".encode() + salt).digest())
