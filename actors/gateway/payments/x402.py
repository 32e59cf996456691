"""Takes x402 payments that come with a request: reads their headers, has them settled, and names the payer as caller.

Implements: decisions, "Two ways to pay by x402" (standard x402 on every paid route) and x402 transports over HTTP,
versions 1 and 2. Reads and writes headers and bodies only: deposits/ verifies and settles payments (port:
x402_types.PaymentSettler).

No payment is taken for a request that is refused for free, whoever sends it. A payment buys the calls of its request
only. It decides whose account pays, and credentials beside it are ignored: otherwise a client whose key has no
credits would pay and be refused again.

A payment proves nothing about the sender of the request. The payer signed it, but another server may have received it
from the payer before, and may send it here. So a payment credits its payer and buys the calls of its own request, up to
the credits that it brought. It opens nothing else: no session, no page of the account, no key, and none of the
account's other credits. Payers reach their accounts by a wallet's signature that names this service
(payments/sign_in.py).
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from actors.calls import ProvenProof
from actors.config import PaymentsConfig
from actors.errors import Err, Refusal
from actors.gateway.calls import headers
from actors.gateway.calls.address_limits import AddressLimits
from actors.gateway.calls.admission import PLANS, AdmittedCall, Plan, admit
from actors.gateway.calls.headers import Header, HeaderList
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.outcomes import Replies, Reply
from actors.gateway.calls.replies import Response
from actors.gateway.calls.requests import PAYMENT_V1, PAYMENT_V2, Caller, RefusedCaller, Request
from actors.gateway.payments.terms import TermsByPath
from actors.telemetry.metrics import Metrics
from actors.x402_types import Lack, NotSettled, PaymentSettler, Settled, mint_of, network_of

_RECEIPTS = {2: b"payment-response", 1: b"x-payment-response"}
_HEADER_BYTES_MAX = 16_384
_PRIVATE = (b"cache-control", b"private, no-store")  # A receipt contains the payer's balance.
_TRANSACTION_BYTES_MAX = 1_232
_TO_BE_CREDITED = "settled; POST /account/confirm-deposit with this signature credits it once it is final"
# HTTP status of each failure; a 402 with fresh terms where a new payment can succeed.
_SETTLE_ERRORS = {
    400: Err.INVALID_REQUEST,
    429: Err.RATE_LIMITED,
    502: Err.BACKEND_UNAVAILABLE,
    503: Err.SERVICE_TEMPORARILY_UNAVAILABLE,
}
_STATUS = {Lack.UNAVAILABLE: 503, Lack.NOT_CONFIGURED: 503, Lack.TOO_MANY: 429}

NOT_BOUGHT = Refusal(Err.INSUFFICIENT_CREDITS)  # Without a detail, because the interface fixes the message.


class Offered(msgspec.Struct, frozen=True):
    """A payment as its header describes it; its transaction is not examined yet."""

    version: int
    transaction: bytes
    least_base_units: int


class RequestPayments:
    """settler: None: no payments are taken, and their headers are ignored."""

    def __init__(
        self,
        payments: PaymentsConfig,
        settler: PaymentSettler | None,
        terms: TermsByPath,
        addresses: AddressLimits,
        metrics: Metrics,
    ) -> None:
        self._payments, self._settler, self._terms = payments, settler, terms
        self._addresses, self._metrics = addresses, metrics
        self._networks = {2: network_of(payments).v2, 1: network_of(payments).v1}

    @property
    def takes_payments(self) -> bool:
        return self._settler is not None and self._payments.sponsor_pubkey is not None

    async def take(self, request: Request, now: int) -> Caller | Refusal:
        """Settle a request's payment. Its payer is the caller, with the credits that it brought."""
        assert self._settler is not None, "asked without payments"
        too_many = await self._addresses.refusal(request)
        if too_many is not None:
            return too_many
        offered = read_offer(request.headers, self._payments)
        if isinstance(offered, Refusal):
            header = self._terms.of(request.path, now).header if offered.err is Err.INVALID_REQUEST else b""
            return RefusedCaller(
                offered.err, offered.detail, headers=((b"payment-required", header),) if header else ()
            )
        address = self._addresses.name_of(request.client)
        settled = self._counted(await self._settler.pay(offered.transaction, offered.least_base_units, address))
        if isinstance(settled, NotSettled):
            return self._refused(offered.version, settled)
        receipt = {
            "success": True,
            "transaction": settled.signature,
            "network": self._networks[offered.version],
            "payer": settled.payer,
            "amount": str(settled.amount_base_units),
            "extra": {
                "account": settled.payer,
                "credits_added": settled.credits_added,
                "balance": settled.balance,
            },
        }
        sent = (_receipt(offered.version, receipt), _PRIVATE)
        return Caller(ProvenProof(settled.pubkey), settled.worth, sent)

    def _refused(self, version: int, lack: NotSettled) -> RefusedCaller:
        receipt: dict[str, Any] = {
            "success": False,
            "transaction": lack.signature,
            "network": self._networks[version],
            "errorReason": lack.reason,
            "errorMessage": lack.message,
        }
        if lack.payer:
            receipt["payer"] = lack.payer
        status = _STATUS.get(lack.lack, 402)
        err = {503: Err.SERVICE_TEMPORARILY_UNAVAILABLE, 429: Err.RATE_LIMITED}.get(status, Err.PAYMENT_REQUIRED)
        # An offer would ask for the same money again while the first payment may still land; and a new payment of a
        # payer that is not sponsored would be refused as this one was.
        offers = not lack.may_land and lack.lack is not Lack.NOT_SPONSORED
        return RefusedCaller(err, lack.message, headers=(_receipt(version, receipt),), offers_payment=offers)

    def _counted(self, settled: Settled | NotSettled) -> Settled | NotSettled:
        """Count the payment by its result: settled, or the name of its failure."""
        self._metrics.payments.add(("settled" if isinstance(settled, Settled) else settled.lack.name.lower(),))
        return settled

    # --- POST /x402/settle

    async def settle(self, request: Request) -> Response:
        """Answer POST /x402/settle."""
        if not self.takes_payments:
            return self._settle_answer(503, "settlement_not_configured", "this service settles no payments")
        assert self._settler is not None
        transaction = _read_settle_body(request.body)
        if isinstance(transaction, str):
            return self._settle_answer(400, "invalid_request", transaction)
        address = self._addresses.name_of(request.client)
        settled = self._counted(await self._settler.relay(transaction, address))
        if isinstance(settled, Settled):
            return self._settle_answer(200, "confirmed", _TO_BE_CREDITED, settled.signature)
        if settled.lack is Lack.PENDING:
            return self._settle_answer(202, "pending", settled.message, settled.signature)
        status = {Lack.INVALID: 400, Lack.DUPLICATE: 400, Lack.NOT_SPONSORED: 400, Lack.REJECTED: 502}.get(settled.lack)
        status = status or _STATUS.get(settled.lack, 503)
        return self._settle_answer(status, settled.reason, settled.message, settled.signature)

    def _settle_answer(self, http: int, word: str, message: str, signature: str = "") -> Response:
        """word: status of a payment that was sent, else the reason of its refusal."""
        document: dict[str, Any] = {
            "success": http < 300,
            "transaction": signature,
            "network": self._networks[2],
            "message": message,
        }
        if http < 300:
            document["status"] = word
        else:
            document |= {"error": f"{word}: {message}", "source": "gateway", "constant": _SETTLE_ERRORS[http].name}
        added: HeaderList = [headers.NO_STORE]
        if http in (429, 503):
            document["retry_after_secs"] = seconds = 60 if http == 429 else 5
            added.append(headers.retry_after(seconds))
        return Response(http, orjson.dumps(document), added)


def refused_for_free(
    parsed: Call | BadCall | Sequence[Call | BadCall | AdmittedCall], plans: Mapping[str, Plan] = PLANS
) -> Replies | None:
    """Return the replies to a request of which nothing could be charged; None: there is something to pay for.

    plans: of the methods offered here.
    """
    calls = parsed if isinstance(parsed, Sequence) else (parsed,)
    refused: list[Reply] = []
    for call in calls:
        verdict = admit(call, plans) if isinstance(call, Call) else call
        if isinstance(verdict, AdmittedCall):
            return None
        verdict = verdict.refusal if isinstance(verdict, BadCall) else verdict
        refused.append(Reply(call.id, None, verdict))
    return Replies(refused, None, None)


def within(
    calls: Sequence[Call | BadCall | AdmittedCall], credits: int, plans: Mapping[str, Plan] = PLANS
) -> list[Any]:
    """Return the calls that a payment of this many credits buys; other calls become a refusal for lack of credits.

    Counted in order and by their prices, so that the sum of what is charged cannot be more, whatever else the payer's
    account holds. The price of a quoted call is not known yet, so it may use all credits that are left. plans: with the
    prices that are charged here.
    """
    bought: list[Any] = []
    for call in calls:
        verdict = admit(call, plans) if isinstance(call, Call) else call
        price = _price(verdict)
        if isinstance(verdict, AdmittedCall) and price > credits:
            bought.append(BadCall(call.id, NOT_BOUGHT, method=verdict.plan.method))
        elif isinstance(verdict, AdmittedCall) and verdict.plan.quoted:
            bought.append(msgspec.structs.replace(call, credits_max=credits))
            credits = 0
        else:
            credits -= price
            # Bought at the price in the terms, whatever the payer's own price list says.
            bought.append(call if isinstance(call, BadCall) else msgspec.structs.replace(call, credits_max=price))
    return bought


def _price(verdict: AdmittedCall | BadCall | Refusal) -> int:
    """Return the most that a call can cost; 0: it is refused for free."""
    return verdict.plan.ceiling if isinstance(verdict, AdmittedCall) else 0


def _receipt(version: int, receipt: dict[str, Any]) -> Header:
    return _RECEIPTS[version], base64.b64encode(orjson.dumps(receipt))


def read_offer(sent: HeaderList, payments: PaymentsConfig) -> Offered | Refusal:
    """Read the payment of the version 2 header, else of version 1; wallets that send both headers send the same
    payment."""
    for name, version in ((PAYMENT_V2, 2), (PAYMENT_V1, 1)):
        values = [value for header, value in sent if header == name]
        if len(values) > 1:
            return _invalid("the payment header came more than once")
        if values:
            return _read_header(values[0], version, payments)
    raise AssertionError("no payment header")


def _read_header(value: bytes, version: int, payments: PaymentsConfig) -> Offered | Refusal:
    if len(value) > _HEADER_BYTES_MAX:
        return _invalid(f"the payment header is longer than {_HEADER_BYTES_MAX} bytes")
    try:
        offer = orjson.loads(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):  # orjson's own error is a ValueError.
        return _invalid("the payment header is not JSON in padded base64")
    if not isinstance(offer, dict) or offer.get("x402Version") != version:
        return _invalid(f"wanted x402Version {version} in this header")
    payload = offer.get("payload")
    text = payload.get("transaction") if isinstance(payload, dict) else None
    transaction = _decode(text)
    if transaction is None:
        return _invalid("payload.transaction must be a transaction in base64")
    least = _least_of_v2(offer, payments) if version == 2 else _least_of_v1(offer, payments)
    return least if isinstance(least, Refusal) else Offered(version, transaction, least)


def _least_of_v2(offer: dict[str, Any], payments: PaymentsConfig) -> int | Refusal:
    """Return the amount of the accepted offer: at least the minimum, and everything else as offered.

    `extra` may hold more than was offered, as its blockhash hint differs from answer to answer.
    """
    accepted = offer.get("accepted")
    if not isinstance(accepted, dict):
        return _invalid("accepted is missing")
    extra = accepted.get("extra")
    wanted = {
        "scheme": "exact",
        "network": network_of(payments).v2,
        "asset": mint_of(payments),
        "payTo": payments.deposit_wallet,
    }
    if any(accepted.get(name) != value for name, value in wanted.items()):
        return _not_offered("scheme, network, asset or payTo")
    if not isinstance(extra, dict) or extra.get("feePayer") != payments.sponsor_pubkey:
        return _not_offered("extra.feePayer")
    amount = accepted.get("amount")
    if not isinstance(amount, str) or not amount.isascii() or not amount.isdigit() or len(amount) > 20:
        return _invalid("accepted.amount must be a whole number as text")
    if int(amount) < payments.minimum_deposit_base_units:
        return _not_offered("the amount")
    return int(amount)


def _least_of_v1(offer: dict[str, Any], payments: PaymentsConfig) -> int | Refusal:
    """Return the smallest deposit: version 1 repeats no terms, and the arriving amount is credited."""
    if offer.get("scheme") != "exact" or offer.get("network") != network_of(payments).v1:
        return _not_offered("scheme or network")
    return payments.minimum_deposit_base_units


def _read_settle_body(body: bytes) -> bytes | str:
    """Return the wire bytes, or what is wrong with the body."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return 'the body must be JSON: {"transaction": "<base64>"}'
    text = value.get("transaction") if isinstance(value, dict) else None
    if not isinstance(text, str) or not text:
        return 'the body must be {"transaction": "<base64>"}'
    transaction = _decode(text)
    return "transaction is not base64, or longer than a transaction can be" if transaction is None else transaction


def _decode(text: Any) -> bytes | None:
    """Decode a transaction. None: it is too long (checked before decoding), or not base64."""
    if not isinstance(text, str) or len(text) > _TRANSACTION_BYTES_MAX * 4 // 3 + 4:
        return None
    try:
        return base64.b64decode(text, validate=True) or None
    except (binascii.Error, ValueError):
        return None


def _invalid(detail: str) -> Refusal:
    return Refusal(Err.INVALID_REQUEST, detail)


def _not_offered(what: str) -> Refusal:
    return Refusal(Err.PAYMENT_REQUIRED, f"the payment is for other terms than this service's: {what}")
