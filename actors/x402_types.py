"""Types of x402 payments, shared by the gateway, which receives a payment, and the settler; names of the networks.

Implements: decisions, "Neutral words of the interface" (network ids); decisions, "Two ways to pay by x402"; x402
protocol versions 1 and 2, scheme `exact` on SVM. Pure vocabulary of two contexts that do not import each other:
gateway/ reads headers and answers, deposits/ verifies and settles.
"""

from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType
from typing import Protocol

from actors.addresses import USDC_DEVNET_MINT, USDC_MAINNET_MINT
from actors.config import PaymentsConfig


@dataclass(frozen=True, slots=True)
class Network:
    """v2: CAIP-2, "solana:" and the first 32 characters of the genesis hash: every field `network` of this service has
    it, but in objects of x402's version 1, which prescribes v1. name: for people."""

    v2: str
    v1: str
    name: str
    usdc_mint: str


NETWORKS: MappingProxyType[str, Network] = MappingProxyType(
    {
        "mainnet": Network("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "solana", "Solana mainnet", USDC_MAINNET_MINT),
        "devnet": Network(
            "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "solana-devnet", "Solana devnet", USDC_DEVNET_MINT
        ),
    }
)


def network_of(payments: PaymentsConfig) -> Network:
    """Return the configured network; mainnet where none is set."""
    return NETWORKS[payments.network or "mainnet"]


def mint_of(payments: PaymentsConfig) -> str:
    return payments.usdc_mint or network_of(payments).usdc_mint


@unique
class Lack(Enum):
    """The reason why a payment was not settled. Only a PENDING one may still land."""

    INVALID = "invalid"  # This service does not accept the payment; nothing was signed or sent.
    DUPLICATE = "duplicate"  # The same payment came before; it is not settled, signed or credited again.
    REJECTED = "rejected"  # The network refused it, or it landed and failed.
    PENDING = "pending"  # Sent, and the result is unknown: the client must not pay again.
    UNAVAILABLE = "unavailable"  # Not tried: the node, the store or the owner of the account does not answer.
    NOT_CONFIGURED = "not configured"
    TOO_MANY = "too many"  # Too many payments at once or in a minute; the payer may try again soon.
    NOT_SPONSORED = "not sponsored"  # The service pays no network fees for this payer.


@dataclass(frozen=True, slots=True)
class NotSettled:
    """reason: a short word of the x402 specification or its SDKs; message: one sentence for people.

    signature: base58, of the transaction that was sent or is on the chain; empty where there is none.
    may_land: this payment may still land, so the client must not be asked for another one.
    """

    lack: Lack
    reason: str
    message: str
    signature: str = ""
    payer: str = ""
    may_land: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """The payment is on the chain, at the configured commitment. payer, pubkey: the payer as base58 and as bytes."""

    signature: str
    payer: str
    pubkey: bytes
    amount_base_units: int
    credits_added: int = 0
    balance: int = 0
    worth: int = 0  # Credits that this payment brought its payer, now or at an earlier request.


@dataclass(frozen=True, slots=True)
class BlockhashHint:
    """A fresh blockhash for payers to sign with, from the node that will broadcast the payment."""

    blockhash: str
    last_valid_block_height: int


class PaymentSettler(Protocol):
    """Settles x402 payments. Each payment is settled at most once, however often it is brought."""

    def hint(self) -> BlockhashHint | None:
        """Return a blockhash that is at most some seconds old, or None."""
        ...

    async def pay(self, transaction: bytes, least_base_units: int, address: str) -> Settled | NotSettled:
        """Settle a payment of the standard path: verify, co-sign, send, wait for the commitment, credit the payer.

        address: of the client, in the form that request limits use. Each such payment is answered as Settled only once.
        """
        ...

    async def relay(self, transaction: bytes, address: str) -> Settled | NotSettled:
        """Settle for POST /x402/settle: verify, co-sign where the sponsor is the fee payer, send, wait. No credits.

        Asked again for a payment that was relayed before: the result of the first time."""
        ...
