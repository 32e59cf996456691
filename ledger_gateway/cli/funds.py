"""Checks whether a wallet can pay a deposit: USDC for the transfer, SOL for the network's fee.

Pure. Not here: asking the node (deposit_command.py).
"""

from typing import Any
from urllib.parse import urlsplit

from ledger_gateway.cli.shell import Refused
from ledger_gateway.cli.transfer import usdc_text

FEE_LAMPORTS = 5_000  # One signature; the transfer sets no price for compute units.
EMBEDDED_NODE = "http://127.0.0.1:8899"
_LAMPORTS_PER_SOL_DIGITS = 9
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def require(accounts: Any, pubkey: str, units: int, faucet: str) -> None:
    """Refuse a deposit that the wallet cannot pay, before anything is sent.

    accounts: result of getMultipleAccounts (jsonParsed) for the wallet and its token account. faucet: faucet_advice().
    Raises LookupError, TypeError or ValueError where it is no such result.
    """
    wallet, token = accounts["value"][0], accounts["value"][1]
    lamports = 0 if wallet is None else int(wallet["lamports"])
    held = 0 if token is None else int(token["data"]["parsed"]["info"]["tokenAmount"]["amount"])
    if lamports >= FEE_LAMPORTS and held >= units:
        return
    raise Refused(
        f"the wallet {pubkey} has {sol_text(lamports)} SOL and {usdc_text(held)} USDC; the deposit needs"
        f" {usdc_text(units)} USDC, and {sol_text(FEE_LAMPORTS)} SOL for the network's fee",
        f"send it what is missing, then try again.{faucet}",
    )


def faucet_advice(pubkey: str, units: int, asked_url: str, node_url: str | None) -> str:
    """Return how the embedded chain funds a wallet; nothing where the chain cannot be the embedded one.

    asked_url: of the gateway or node that was asked. node_url: of the node, where the user named one.
    """
    if urlsplit(asked_url).hostname not in _LOOPBACK:
        return ""
    at = "" if node_url is None or node_url.rstrip("/") == EMBEDDED_NODE else f" --url {node_url}"
    command = f".venv/bin/python -m devnode fund {pubkey} --sol 1 --usdc {usdc_text(units)}{at}"
    return f" On the embedded chain: `{command}`."


def sol_text(lamports: int) -> str:
    whole, rest = divmod(lamports, 10**_LAMPORTS_PER_SOL_DIGITS)
    return f"{whole}.{rest:0{_LAMPORTS_PER_SOL_DIGITS}d}".rstrip("0").rstrip(".")
