"""The payment terms of a 402: where to deposit, and the same as an offer for x402 clients of both versions.

Implements: interface, "HTTP statuses and bodies" (402); x402 protocol versions 1 and 2, scheme `exact`
on SVM; decisions, "Neutral words of the interface" (network ids); decisions, "Two ways to pay by x402".
Terms are made per path from configuration and the newest blockhash. Not here: reading payments (x402.py).

Version 2 clients read the PAYMENT-REQUIRED header (standard base64, padded) and nothing else; version 1 clients read
`x402Version: 1` and `accepts` at the top of the body. Both are always sent together: one current client chokes on the
body without the header.
"""

import base64
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from actors.config import PaymentsConfig
from actors.gateway.calls.replies import Terms
from actors.gateway.payments.sign_in import EXTENSION, NONCE_BYTES, SignIn
from actors.units import usdc_text
from actors.x402_types import BlockhashHint, Network, mint_of, network_of

# Clients take the first by default: $0.10 is below every client's own cap and worth the network's fee.
AMOUNTS_BASE_UNITS = (100_000, 10_000, 1_000_000)
_MAX_TIMEOUT_SECONDS = 60
_DESCRIPTION = "Prepaid credits for Solana RPC calls"


def build(payments: PaymentsConfig, public_url: str, path: str, hint: BlockhashHint | None = None) -> Terms:
    """public_url: origin that clients see, without a slash at its end; path: starts with one.

    payments.network None means mainnet. Without a sponsor no x402 client could pay, so no x402 terms are offered. hint:
    newest blockhash, which saves payers of version 2 a request to a node. It changes every few seconds.
    """
    network = network_of(payments)
    mint = mint_of(payments)
    deposit = _deposit(payments, network, mint)
    if payments.deposit_wallet is None or payments.sponsor_pubkey is None:
        return Terms(deposit, {}, [], b"")
    url = public_url.rstrip("/") + path
    common = {
        "scheme": "exact",
        "payTo": payments.deposit_wallet,
        "asset": mint,
        "maxTimeoutSeconds": _MAX_TIMEOUT_SECONDS,
        "extra": {"feePayer": payments.sponsor_pubkey},
    }
    amounts = [amount for amount in AMOUNTS_BASE_UNITS if amount >= payments.minimum_deposit_base_units]
    amounts = amounts or [payments.minimum_deposit_base_units]
    v2 = {
        "x402Version": 2,
        "error": "payment required",
        "resource": {"url": url, "description": _DESCRIPTION, "mimeType": "application/json"},
        "accepts": [_hinted({**common, "network": network.v2, "amount": str(amount)}, hint) for amount in amounts],
    }
    v1 = {
        **common,
        "network": network.v1,
        "maxAmountRequired": str(amounts[0]),
        "resource": url,
        "description": _DESCRIPTION,
        "mimeType": "application/json",
    }
    return Terms(deposit, v2, [v1], base64.b64encode(orjson.dumps(v2)))


def discovery(payments: PaymentsConfig, public_url: str, resources: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Make /.well-known/x402.json: what can be paid for, and how. resources: HTTP method and path of each."""
    listed = []
    for method, path in resources:
        page = build(payments, public_url, path)
        if page.v2:
            listed.append({"type": "http", "method": method, **page.v2["resource"], "accepts": page.v2["accepts"]})
    base = public_url.rstrip("/")
    return {
        "x402Version": 2,
        "versions": [1, 2],
        "enabled": bool(listed),
        "resources": listed,
        "settle": f"{base}/x402/settle",
        "pricing": f"{base}/pricing",
        "deposit": build(payments, public_url, "/").deposit,
    }


# These paths need a wallet's own signature, or the session that ends; a sign-in does not open them, so their terms
# offer none.
_WITHOUT_SIGN_IN = frozenset((b"/account/api-key", b"/auth/logout"))


class TermsByPath:
    """The terms of the paths that take credentials, rebuilt only when their blockhash changes.

    public_url: see build(). hint: returns the newest blockhash, or None. deposit: where to deposit, on every path.
    """

    def __init__(
        self,
        payments: PaymentsConfig,
        public_url: str,
        sign_in: SignIn,
        randomness: Callable[[int], bytes],
        hint: Callable[[], BlockhashHint | None],
    ) -> None:
        self._payments, self._public_url, self._sign_in = payments, public_url, sign_in
        self._randomness, self._hint = randomness, hint
        # Contains only served paths, of which there are few.
        self._known: dict[bytes, tuple[BlockhashHint | None, Terms]] = {}
        self.deposit = build(payments, public_url, "/").deposit

    def of(self, path: bytes, now: int) -> Terms:
        """Return the terms for one 402, with a fresh nonce for sign-in."""
        hint = self._hint()
        known, terms = self._known.get(path, (None, None))
        if terms is None or known != hint:
            terms = build(self._payments, self._public_url, path.decode("ascii"), hint)
            self._known[path] = (hint, terms)
        if not terms.v2 or path in _WITHOUT_SIGN_IN:
            return terms
        url = terms.v2["resource"]["url"]
        offered = self._sign_in.offer(url, now, self._randomness(NONCE_BYTES))
        return terms if offered is None else terms.with_extension(EXTENSION, offered)


def _hinted(accept: dict[str, Any], hint: BlockhashHint | None) -> dict[str, Any]:
    if hint is None:
        return accept
    known = {"recentBlockhash": hint.blockhash, "lastValidBlockHeight": str(hint.last_valid_block_height)}
    return {**accept, "extra": {**accept["extra"], **known}}


def _deposit(payments: PaymentsConfig, network: Network, mint: str) -> dict[str, str]:
    minimum = usdc_text(payments.minimum_deposit_base_units)
    address = payments.deposit_wallet or ""
    instructions = (
        f"Send at least {minimum} USDC (mint {mint}) on {network.name} to {address} from the wallet that will sign "
        "your requests; credits appear within seconds after the transfer is final."
        if address
        else "This service has no deposit address configured; ask its operator for credits."
    )
    return {
        "deposit_address": address,
        "usdc_mint": mint,
        "minimum_deposit_usdc": minimum,
        "network": network.v2,
        "network_name": network.name,
        "instructions": instructions,
    }
