"""The nouns of an x402 payment: what a door hands to whoever settles it, what comes back, and the networks' names.

Implements: decisions 1 (network ids) and 3.6; x402 protocol versions 1 and 2, scheme `exact` on SVM.
Pure vocabulary of two contexts that never meet: the doors read headers and answer, deposits/ verifies and settles.
"""

from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType
from typing import Protocol

from actors.addresses import USDC_DEVNET_MINT, USDC_MAINNET_MINT
from actors.config import PaymentsConfig


@dataclass(frozen=True, slots=True)
class Network:
    v2: str  # CAIP-2: "solana:" and the first 32 characters of the genesis hash.
    v1: str
    usdc_mint: str


NETWORKS: MappingProxyType[str, Network] = MappingProxyType(
    {
        "mainnet": Network("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "solana", USDC_MAINNET_MINT),
        "devnet": Network("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "solana-devnet", USDC_DEVNET_MINT),
    }
)


def network_of(payments: PaymentsConfig) -> Network:
    """None means mainnet."""
    return NETWORKS[payments.network or "mainnet"]


def mint_of(payments: PaymentsConfig) -> str:
    return payments.usdc_mint or network_of(payments).usdc_mint


@unique
class Lack(Enum):
    """Why a payment was not settled. Only PENDING may yet land."""

    INVALID = "invalid"  # Not a payment that this service takes; nothing was signed or sent.
    DUPLICATE = "duplicate"  # This very payment was taken before; it is not settled, signed or credited again.
    REJECTED = "rejected"  # The network refused it, or it landed and failed.
    PENDING = "pending"  # Sent, and the network's verdict is not known: it must not be paid again.
    UNAVAILABLE = "unavailable"  # Not tried: the node, the store or the owner of the account is away.
    NOT_CONFIGURED = "not configured"
    TOO_MANY = "too many"  # At once, or in this minute; the same payer may try again soon.
    NOT_SPONSORED = "not sponsored"  # The service pays no network fees for this payer.


@dataclass(frozen=True, slots=True)
class NotSettled:
    """reason: a short word of the x402 specification or its SDKs; message: one sentence for people.

    signature: base58, empty where there is no transaction of it on its way or on the chain.
    may_land: this very payment may still land, so nobody should be asked for another one in its place.
    """

    lack: Lack
    reason: str
    message: str
    signature: str = ""
    payer: str = ""
    may_land: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """On the chain at the commitment that settlement waits for. payer: of the transfer, as base58 and as bytes."""

    signature: str
    payer: str
    pubkey: bytes
    amount_base_units: int
    credits_added: int = 0
    balance: int = 0
    worth: int = 0  # Credits that this payment brought its payer, now or, where it was credited before, then.


@dataclass(frozen=True, slots=True)
class BlockhashHint:
    """A fresh blockhash that payers may sign on, from the node that will broadcast."""

    blockhash: str
    last_valid_block_height: int


class PaymentDesk(Protocol):
    """Settles x402 payments. Each payment is settled at most once, whoever asks and however often."""

    def hint(self) -> BlockhashHint | None:
        """At most some seconds old; None where there is none."""
        ...

    async def pay(self, transaction: bytes, least_base_units: int, address: str) -> Settled | NotSettled:
        """The standard path: verify, co-sign, send, wait for the commitment, credit the payer.

        address: of the client that brought it, as requests are counted. Settled is answered once for each payment.
        """
        ...

    async def relay(self, transaction: bytes, address: str) -> Settled | NotSettled:
        """POST /x402/settle: verify, co-sign where the sponsor is the fee payer, send, wait. Credits nothing."""
        ...
