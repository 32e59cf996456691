"""A desk that settles what a test says, and headers as the official clients write them."""

import base64
import hashlib
from typing import Any

import base58
import orjson

from actors.accounts.api import AdjustCredits
from actors.x402_types import BlockhashHint, NotSettled, Settled

from .world import DEPOSIT_WALLET, SPONSOR, Wallet, World

NETWORK_V2, MINT = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU"
HINT = BlockhashHint("11111111111111111111111111111111", 321)


class Desk:
    """x402_types.PaymentSettler: credits `payer` through the real owner of accounts, or answers `lack`."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.payer: Wallet | None = None
        self.lack: NotSettled | None = None
        self.paid: list[tuple[bytes, int]] = []
        self.relayed: list[bytes] = []
        self.addresses: list[str] = []
        self.amount = 100_000
        self.hinted: BlockhashHint | None = None

    def hint(self) -> BlockhashHint | None:
        return self.hinted

    async def pay(self, transaction: bytes, least_base_units: int, address: str) -> Settled | NotSettled:
        self.paid.append((transaction, least_base_units))
        self.addresses.append(address)
        if self.lack is not None:
            return self.lack
        assert self.world is not None and self.payer is not None
        operation = f"payment-{hashlib.sha256(transaction).hexdigest()[:32]}"
        answer = await self.world.shard.ask(AdjustCredits(self.payer.pubkey, self.amount // 10, "a payment", operation))
        assert answer.value is not None, answer
        return self._settled(transaction, answer.value.amount, answer.value.balance)

    async def relay(self, transaction: bytes, address: str) -> Settled | NotSettled:
        self.relayed.append(transaction)
        self.addresses.append(address)
        return self._settled(transaction, 0, 0) if self.lack is None else self.lack

    def _settled(self, transaction: bytes, added: int, balance: int) -> Settled:
        pubkey = self.payer.pubkey if self.payer else bytes(32)
        return Settled(
            base58.b58encode(hashlib.sha512(transaction).digest()).decode(),
            base58.b58encode(pubkey).decode(),
            pubkey,
            self.amount,
            added,
            balance,
            added,
        )


def accepted(amount: int = 100_000, **changes: Any) -> dict[str, Any]:
    offer = {
        "scheme": "exact",
        "network": NETWORK_V2,
        "amount": str(amount),
        "asset": MINT,
        "payTo": DEPOSIT_WALLET,
        "maxTimeoutSeconds": 60,
        "extra": {"feePayer": SPONSOR},
    }
    return offer | changes


def header_v2(transaction: bytes = b"a transaction", **changes: Any) -> str:
    payload = {
        "x402Version": 2,
        "payload": {"transaction": base64.b64encode(transaction).decode()},
        "accepted": accepted(),
        "resource": {"url": "http://gateway.test/"},
    }
    return base64.b64encode(orjson.dumps(payload | changes)).decode()


def header_v1(transaction: bytes = b"a transaction", **changes: Any) -> str:
    payload = {
        "x402Version": 1,
        "scheme": "exact",
        "network": "solana-devnet",
        "payload": {"transaction": base64.b64encode(transaction).decode()},
    }
    return base64.b64encode(orjson.dumps(payload | changes)).decode()


def receipt(response: Any, name: str = "payment-response") -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(base64.b64decode(response.headers[name], validate=True))
    return found
