"""Prices the calls of each account by its price list, and anew where the account's owner has another one.

Implements: decisions, "Price lists"; money rule 1. A shell where it asks the owner.
A replica prices a call before its hold, by the list that the owner told last for the credential
(accounts/told_lists.py). The hold names that list. An owner that has another one for the account refuses with it, and
nothing is held or taken; the calls are then priced by that one and asked for again. So a call costs what the list says
in the moment of its hold.

A call that a payment has bought (credits_max) costs the public price, which its terms told.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from actors.accounts.api import AccountsClient
from actors.accounts.told_lists import ToldLists
from actors.calls import OTHER_PRICES, HoldReply, HoldRequest, Proof, ProvenProof
from actors.errors import Err, Refusal
from actors.gateway.calls.admission import PLANS, AdmittedCall, Plan, listed
from actors.gateway.calls.jsonrpc import BadCall, Call
from actors.methods.price_lists import PriceList, price_lists
from actors.pricing_config import PricingConfig
from actors.upstream.replies import QuotedAnswer

HOLDS_MAX = 3  # Of one call: by a guess, by the list that the owner told, and once more where that changed meanwhile.
OF_NO_ACCOUNT = "?"  # Takes the place of a list's name; no list can have this name (accounts/price_list.py).
_TABLES_MAX = 256  # Price lists with prices in memory, including unknown ones.

Calls = Sequence[AdmittedCall]


class AccountPrices:
    """Prices calls at one replica. plans: the callable methods at public prices, which `pricing` has."""

    def __init__(
        self,
        pricing: PricingConfig | None = None,
        plans: Mapping[str, Plan] = PLANS,
        told: ToldLists | None = None,
    ) -> None:
        self._pricing, self.plans, self.told = pricing or PricingConfig(), plans, told or ToldLists()
        self._lists = price_lists(self._pricing)
        self._tables: dict[str, Mapping[str, Plan]] = {}
        self.are_listed = len(self._lists) > 1  # Whether the settings have any list.

    def list_of(self, name: str) -> PriceList:
        """Return the list of this name; a list missing from the settings has the public prices."""
        return self._lists.get(name) or PriceList(name)

    def plans_of(self, proof: Proof) -> Mapping[str, Plan]:
        """Return the callable methods at the prices that this proof's account pays, as far as is known."""
        return self.plans if not self.told.names else self.plans_by(self.told.of(proof))

    def plans_by(self, name: str) -> Mapping[str, Plan]:
        """Return the callable methods at the prices of this list."""
        if not name:
            return self.plans
        table = self._tables.get(name)
        if table is None:
            if len(self._tables) >= _TABLES_MAX:
                self._tables.clear()
            prices = self.list_of(name)
            made = {method: listed(plan, prices, self._pricing) for method, plan in self.plans.items()}
            table = self._tables[name] = MappingProxyType(made)
        return table

    def plans_for(self, proof: Proof, calls: Sequence[Call | BadCall | AdmittedCall]) -> Mapping[str, Plan]:
        """As plans_of; calls that a payment has bought have the public prices."""
        if not self.told.names or any(_is_bought(call) for call in calls):
            return self.plans
        return self.plans_by(self.told.of(proof))

    def by(self, call: AdmittedCall, name: str) -> AdmittedCall:
        """The call at the prices of this list. One whose price was found (calls/quoted.py) stays as it is."""
        plan = call.plan
        if plan.price_list == name or plan.price_list is None or isinstance(call.answer, QuotedAnswer):
            return call
        known = self.plans.get(plan.method)
        if known is not None and (plan.public or plan) is known:
            return msgspec.structs.replace(call, plan=self.plans_by(name)[plan.method])
        return msgspec.structs.replace(call, plan=listed(plan, self.list_of(name), self._pricing))

    def expected(self, proof: Proof, call: AdmittedCall) -> AdmittedCall:
        """Return the call at the prices that this proof's account pays, as far as is known."""
        if not self.told.names or _is_bought(call):
            return call
        return self.by(call, self.told.of(proof))

    def told_by(self, held: HoldReply, call: AdmittedCall) -> AdmittedCall:
        """Return the call at the prices of the list that an owner's reply names."""
        if held.price_list or self.told.names:
            self.told.learn(held.payer, held.price_list)
        return call if _is_bought(call) else self.by(call, held.price_list)

    def anew(self, proof: Proof, calls: Calls, held: HoldReply) -> Calls | Refusal | None:
        """The calls at the prices of the list that an owner has told in its refusal. Refusal: they cost more then than
        their X-Max-Credits. None: the price of one is found by asking, and has to be found anew."""
        self.told.learn(proof, held.price_list)
        found = [call.plan.price_list for call in calls if isinstance(call.answer, QuotedAnswer)]
        if any(name is not None and name != held.price_list for name in found):
            return None
        made = [_of_no_list(call) if _is_bought(call) else self.by(call, held.price_list) for call in calls]
        return over_limit(made) or made

    async def held(
        self, proof: Proof, calls: Calls, ask: Callable[[Calls], Awaitable[HoldReply]]
    ) -> tuple[Calls, HoldReply]:
        """Ask for the hold of these calls, at the prices of the list that the owner has. Returns them at their prices,
        with its reply: with a refusal OTHER_PRICES, where prices have to be found anew."""
        if self.told.names:  # The calls may be priced by different guesses; a found price stays.
            found = [call.plan.price_list for call in calls if isinstance(call.answer, QuotedAnswer)]
            name = found[0] if found else self.told.of(proof)
            if name is not None:  # Otherwise a payment has bought them.
                calls = [call if _is_bought(call) else self.by(call, name) for call in calls]
        for _ in range(HOLDS_MAX):
            held = await ask(calls)
            if held.refusal != OTHER_PRICES:
                break
            made = self.anew(proof, calls, held)
            if made is None:
                break
            if isinstance(made, Refusal):
                verdicts = (made.err.name,) * len(calls)
                return calls, msgspec.structs.replace(held, refusal=None, verdicts=verdicts)
            calls = made
        return calls, held

    async def held_one(
        self, accounts: AccountsClient, operation: bytes, payer: ProvenProof, call: AdmittedCall
    ) -> tuple[AdmittedCall, HoldReply]:
        """As `held`, for one call that has an operation already."""

        async def ask(calls: Calls) -> HoldReply:
            items, prices = calls[0].plan.items, price_list_of(calls)
            return await accounts.hold(HoldRequest(operation, payer, items, price_list=prices))

        (call,), held = await self.held(payer, (call,), ask)
        return call, held


def price_list_of(calls: Calls) -> str | None:
    """The list that the hold of these calls names: the one by which they are priced.

    Where they cost more by it than their X-Max-Credits allows, it is a name that no account has: the owner holds
    nothing and tells the account's list, by which `anew` judges them.
    """
    name = calls[0].plan.price_list
    return name if name is None or over_limit(calls) is None else OF_NO_ACCOUNT


def over_limit(calls: Calls) -> Refusal | None:
    """Return why these calls cost more than their X-Max-Credits allows, at their present prices; or None."""
    total = most = 0
    for call in calls:
        if call.cost_max is not None:
            total += call.plan.ceiling
            most += call.cost_max
    return Refusal(Err.MAX_CREDITS_EXCEEDED, f"{total} credits, and {most} are allowed") if total > most else None


def _is_bought(call: Call | BadCall | AdmittedCall) -> bool:
    return not isinstance(call, BadCall) and call.credits_max is not None


def _of_no_list(call: AdmittedCall) -> AdmittedCall:
    return msgspec.structs.replace(call, plan=msgspec.structs.replace(call.plan, price_list=None))
