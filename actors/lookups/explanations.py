"""One transaction in words: a summary of its transfers, and one sentence about its effect on one address.

Implements: interface, "getTransactionHistory result" (`summary`, `explanation`).
Pure. Says only what balances and instructions show; it does not guess intentions.
"""

from collections.abc import Sequence

from actors import addresses
from actors.lookups.transfers import SolTransfer, TokenTransfer

NOT_FOUND = "The node lists this transaction and no longer keeps it."
_SOL_DECIMALS = 9
# Names of well-known mints; any other mint is named by its address.
_SYMBOLS = {
    addresses.WRAPPED_SOL_MINT: "wrapped SOL",
    addresses.USDC_MAINNET_MINT: "USDC",
    addresses.USDC_DEVNET_MINT: "USDC",
    "Es9vMFrzaCERmJfrF4H2FYD4KCoNky11McCe8BenwNYB": "USDT",
}


def short(address: str) -> str:
    return f"{address[:4]}..{address[-4:]}"


def decimal_text(amount: int, decimals: int | None) -> str:
    """Write base units as a decimal number, by integer arithmetic. Unchanged where the decimals are unknown."""
    if not decimals:
        return str(amount)
    whole, part = divmod(amount, 10**decimals)
    digits = f"{part:0{decimals}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def summary(sol: Sequence[SolTransfer], tokens: Sequence[TokenTransfer], programs: Sequence[str], failed: bool) -> str:
    parts = [
        _count(len(tokens), "token transfer"),
        _count(len(sol), "SOL transfer"),
        f"programs: {', '.join(programs)}" if programs else "",
    ]
    text = ", ".join(part for part in parts if part) or "no transfers"
    return f"failed; {text}" if failed else text


def explanation(
    address: str,
    payer: str,
    fee_lamports: int,
    sol: Sequence[SolTransfer],
    tokens: Sequence[TokenTransfer],
    programs: Sequence[str],
    failed: bool,
) -> str:
    """Explain the effect on `address`, or on the payer of the fee where `address` gave and got nothing."""
    if failed:
        fee = decimal_text(fee_lamports, _SOL_DECIMALS)
        return f"It failed: nothing moved but the fee of {fee} SOL, paid by {short(payer)}."
    for subject in (address, payer):
        moved = _moved(subject, sol, tokens)
        if moved is not None:
            return moved
    called = f"called {', '.join(programs)}" if programs else "did nothing"
    return f"{short(payer)} {called}; neither SOL nor tokens of its own moved."


def _moved(subject: str, sol: Sequence[SolTransfer], tokens: Sequence[TokenTransfer]) -> str | None:
    """Describe the sum that this account gave and got. None: nothing."""
    change: dict[_Asset, int] = {}
    others: set[str] = set()
    for give, take, asset, amount in _flows(sol, tokens):
        if subject in give and subject in take:
            continue
        if subject in give or subject in take:
            change[asset] = change.get(asset, 0) + (amount if subject in take else -amount)
            others |= {other for other in (take if subject in give else give)[:1] if other}
    gave = [_amount_text(asset, -amount) for asset, amount in change.items() if amount < 0]
    got = [_amount_text(asset, amount) for asset, amount in change.items() if amount > 0]
    if gave and got:
        return f"{short(subject)} gave {_listed(gave)} and got {_listed(got)}."
    if gave:
        return f"{short(subject)} sent {_listed(gave)}{_party(' to', others)}."
    if got:
        return f"{short(subject)} received {_listed(got)}{_party(' from', others)}."
    return None


_Side = tuple[str, ...]  # One side of a transfer: the owner, then the token account.
_Asset = tuple[str, int | None]  # Name and decimals.
_Flow = tuple[_Side, _Side, _Asset, int]


def _flows(sol: Sequence[SolTransfer], tokens: Sequence[TokenTransfer]) -> list[_Flow]:
    flows: list[_Flow] = [
        (_side(move.source), _side(move.destination), ("SOL", _SOL_DECIMALS), move.lamports) for move in sol
    ]
    for token in tokens:
        name = "an unknown token" if token.mint is None else _SYMBOLS.get(token.mint, short(token.mint))
        asset = (name, token.decimals)
        give = _side(token.source, token.source_account)
        take = _side(token.destination, token.destination_account)
        flows.append((give, take, asset, token.amount))
    return flows


def _side(*names: str | None) -> _Side:
    return tuple(name for name in names if name is not None)


def _amount_text(asset: _Asset, amount: int) -> str:
    name, decimals = asset
    units = " base units of" if decimals is None else ""
    return f"{decimal_text(amount, decimals)}{units} {name}"


def _party(word: str, others: set[str]) -> str:
    if not others:
        return ""
    return f"{word} {short(next(iter(others)))}" if len(others) == 1 else f"{word} {len(others)} accounts"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}" if number else ""
