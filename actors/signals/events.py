"""Signals: their kinds, their fields, and their form on the wire.

Implements: interface, "Signal event" and "Signal kinds"; decisions, "one signal", "cursors and gaps".
Pure vocabulary. Not here: how a transaction becomes a signal (classify.py).
"""

from enum import Enum, unique
from typing import Any

import msgspec


@unique
class SignalKind(Enum):
    NEW_PAIR = "newPair"
    GRADUATION = "graduation"
    WALLET_ACTIVITY = "walletActivity"
    LARGE_SWAP = "largeSwap"


KINDS = frozenset(kind.value for kind in SignalKind)


class SignalEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One signal. The texts are as clients get them.

    lamports: the SOL side of a largeSwap. wallets: of a walletActivity, the watched wallets that the transaction names.
    block_time: Unix seconds, where the source told it.
    """

    kind: str
    program: str
    signature: str
    slot: int
    mint: str | None
    accounts: tuple[str, ...]
    quote_asset: str | None = None
    curve_type: str | None = None
    complete: bool | None = None
    lamports: int | None = None
    wallets: tuple[str, ...] = ()
    block_time: int | None = None

    @property
    def identity(self) -> tuple[str, str, str]:
        """Return the identity of a signal; reports with the same identity are one signal."""
        return self.signature, self.kind, self.mint or ""

    def body(self) -> dict[str, Any]:
        """Return the fields of the interface; a largeSwap also has its size, a walletActivity its wallets."""
        fields: dict[str, Any] = {
            "kind": self.kind,
            "program": self.program,
            "signature": self.signature,
            "slot": self.slot,
            "mint": self.mint,
            "accounts": list(self.accounts),
            "quote_asset": self.quote_asset,
            "curve_type": self.curve_type,
            "complete": self.complete,
        }
        if self.kind == SignalKind.LARGE_SWAP.value:
            fields["lamports"] = self.lamports
        if self.wallets:
            fields["wallets"] = list(self.wallets)
        return fields
