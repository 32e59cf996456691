"""Has a person confirm the calls that send or trade, where the client can ask its user.

Implements: Model Context Protocol 2026-07-28, basic/patterns/mrtr; decisions, "MCP confirmations"; money rule 1.
A shell: confirmations.py decides. The owner proves the credential before anybody is asked; a payment is settled after
that, and until then its bytes stand for the account.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from actors.calls import PUBLIC_PRICES, Figures, Proof
from actors.clock import Clock
from actors.errors import Refusal
from actors.gateway.calls.account_prices import AccountPrices
from actors.gateway.calls.admission import AdmittedCall
from actors.gateway.calls.idempotent import IdempotentCalls
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.gateway.calls.large_requests import admitted
from actors.gateway.calls.outcomes import Replies
from actors.gateway.calls.proven_callers import ProvenCallers
from actors.gateway.calls.requests import Request
from actors.gateway.doors.mcp import confirmations
from actors.gateway.doors.mcp.confirmations import NONCE_BYTES, Confirmed, States, Unasked
from actors.gateway.doors.mcp.messages import ToolCall
from actors.methods import entries
from actors.methods.catalog import METHODS
from actors.pricing_config import PricingConfig


class ConfirmationQuestion(msgspec.Struct, frozen=True):
    """The question for the client's user. figures: of the account afterwards; None: unknown."""

    input_requests: dict[str, Any]
    state: str
    figures: Figures | None = None


class Cleared(msgspec.Struct, frozen=True):
    """The call may run. proof: of the account that confirmed it; None: it pays by a payment that is not settled yet.
    key: under which it runs, once."""

    call: AdmittedCall | BadCall | Call
    key: bytes | None
    proof: Proof | None = None


class CallConfirmations:
    """randomness: returns this many random bytes."""

    def __init__(
        self,
        cluster_secret: bytes,
        callers: ProvenCallers,
        keyed: IdempotentCalls,
        clock: Clock,
        prices: AccountPrices,
        pricing: PricingConfig,
        randomness: Callable[[int], bytes],
    ) -> None:
        self._states, self._callers, self._keyed, self._clock = States(cluster_secret), callers, keyed, clock
        self._prices, self._pricing, self._randomness = prices, pricing, randomness

    def wants(self, asked: ToolCall, call: Call | BadCall) -> AdmittedCall | None:
        """Return the call if a person must confirm it. A call refused for its parameters needs no confirmation."""
        if not asked.can_confirm or isinstance(call, BadCall) or call.method not in self._prices.plans:
            return None
        if METHODS[call.method].method_class not in confirmations.CLASSES:
            return None
        end = admitted(call, self._prices.plans)
        return end if isinstance(end, AdmittedCall) else None

    async def of_account(
        self, request: Request, proof: Proof, asked: ToolCall, call: AdmittedCall
    ) -> Cleared | ConfirmationQuestion | Replies:
        """Clear a call paid from an account. Replies: a refusal."""
        held = await self._callers.proven(proof, request.client)
        if isinstance(held, Replies):
            return held
        call = self._prices.told_by(held, call)
        account = held.pubkey + held.key.to_bytes(4, "big")
        subject = confirmations.subject_of(account, call, request.key)
        verdict = self._states.decide(asked.state, asked.responses, subject, self._clock.now())
        if isinstance(verdict, Confirmed):
            return Cleared(_at_most(call), request.key or self._key_of(verdict), held.payer)
        if isinstance(verdict, Refusal):
            return self._callers.refused(call, verdict, held, request.client)
        figures = await self._callers.unpaid(call, held, request.client)
        return figures if isinstance(figures, Replies) else self._question(call, subject, figures)

    def of_payment(
        self, request: Request, asked: ToolCall, call: AdmittedCall
    ) -> Cleared | ConfirmationQuestion | Refusal:
        """Clear a call paid by an x402 payment that is not settled yet."""
        subject = confirmations.subject_of(b"x402" + hashlib.sha256(asked.payment).digest(), call, request.key)
        verdict = self._states.decide(asked.state, asked.responses, subject, self._clock.now())
        match verdict:
            case Confirmed():
                return Cleared(call, request.key or self._key_of(verdict))
            case Unasked():
                return self._question(call, subject, None)
        return verdict

    def _key_of(self, confirmed: Confirmed) -> bytes | None:
        """Return the key under which one confirmation runs its call once, if keys can be stored here."""
        return b"mcp-confirmed-" + confirmed.nonce.hex().encode() if self._keyed.keeps else None

    def _question(self, call: AdmittedCall, subject: bytes, figures: Figures | None) -> ConfirmationQuestion:
        prices = self._prices.list_of(call.plan.price_list or PUBLIC_PRICES)
        price, _ = entries.price_of(METHODS[call.plan.method], self._pricing, prices)
        state = self._states.make(subject, self._clock.now(), self._randomness(NONCE_BYTES))
        return ConfirmationQuestion(confirmations.input_requests(call, price), state, figures)


def _at_most(call: AdmittedCall) -> AdmittedCall:
    """Limit the call to the price that its user confirmed; a built trade tells its own price."""
    if call.plan.quoted:
        return call
    most = call.plan.ceiling if call.cost_max is None else min(call.plan.ceiling, call.cost_max)
    return msgspec.structs.replace(call, cost_max=most)
