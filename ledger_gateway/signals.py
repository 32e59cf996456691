"""Signals as records, and as frames for notebooks.

Implements: actors/signals/README.md, "Interface" and "Fields of each kind". Pure, but for pandas, which is imported by
the functions that need it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import pandas

_COLUMNS = (
    *("slot", "kind", "program", "mint", "signature", "lamports", "curve_type", "quote_asset", "complete"),
    "cursor",
)
_TYPES = {"slot": "Int64", "lamports": "Int64", "complete": "boolean"}
_MISSING = "signals as frames need pandas: pip install 'ledger-gateway[data]'"


class Signal(msgspec.Struct, frozen=True):
    """One event that a program emitted on the chain.

    lamports: the SOL side of a largeSwap. wallets: watched ones, of a walletActivity. cursor: its place in the log, for
    `since`. correction: removed, moved or restored, where a lost fork changed an earlier signal; None for a new one.
    """

    kind: str
    program: str
    signature: str
    slot: int
    mint: str | None = None
    accounts: list[str] = []
    quote_asset: str | None = None
    curve_type: str | None = None
    complete: bool | None = None
    lamports: int | None = None
    wallets: list[str] = []
    cursor: str | None = None
    correction: str | None = None

    @property
    def identity(self) -> tuple[str, str, str]:
        """Return what makes two reports one signal."""
        return self.signature, self.kind, self.mint or ""


class SignalGap(msgspec.Struct, frozen=True):
    """Signals between these cursors may be missing; nobody has them any more."""

    reason: str
    from_cursor: str | None = None
    to_cursor: str | None = None
    from_slot: int | None = None
    to_slot: int | None = None


class SignalPage(msgspec.Struct, frozen=True):
    """GET /signals/recent. next_cursor: where to go on, as `since`."""

    events: list[Signal]
    next_cursor: str | None = None


def current(signals: Iterable[Signal]) -> list[Signal]:
    """Apply corrections: leave out signals of lost forks, and give moved ones their new slot. Order is kept."""
    kept: dict[tuple[str, str, str], Signal] = {}
    for signal in signals:
        if signal.correction == "removed":
            kept.pop(signal.identity, None)
        else:
            kept[signal.identity] = msgspec.structs.replace(signal, correction=None)
    return list(kept.values())


def to_pandas(signals: Iterable[Signal]) -> "pandas.DataFrame":
    """Return one row for each signal that stands, in order. lamports is a nullable integer: no float touches money."""
    try:
        import pandas
    except ImportError:
        raise ImportError(_MISSING) from None
    standing = current(signals)
    columns = {
        # Column by column with its type: by way of rows, lamports beside a missing value would become floats.
        name: pandas.array([getattr(signal, name) for signal in standing], dtype=_TYPES.get(name, "object"))
        for name in _COLUMNS
    }
    return pandas.DataFrame(columns)
