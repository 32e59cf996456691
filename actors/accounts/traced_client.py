"""The client of the owners of accounts in a replica with tracing: holds and settles are steps of a request's trace.

Implements: actors/launch/README.md, "Traces". A shell; replicas without tracing use client.py alone. The owner
continues the trace of the request, not of the hold, because the later settle names only its operation
(traced_replicas.py).
"""

import msgspec

from actors.accounts.client import ShardedAccounts, find_owner
from actors.accounts.owner_link import FindOwner
from actors.calls import ChargeReply, ChargeRequest, HoldReply, HoldRequest, SettleReply, SettleRequest
from actors.config import Config
from actors.telemetry.tracing import Tracing, current_traceparent, working_on

_NAMES_MAX = 10  # Methods named for a batch, which may have thousands.


class TracedAccounts(ShardedAccounts):
    def __init__(self, config: Config, replica: bytes, tracing: Tracing, find: FindOwner = find_owner) -> None:
        super().__init__(config, replica, find)
        self._tracing = tracing

    async def hold(self, request: HoldRequest) -> HoldReply:
        methods = tuple(item.method for item in request.items[:_NAMES_MAX])
        traceparent = current_traceparent()
        span = self._tracing.child("hold", {"rpc.methods": methods, "calls": len(request.items)})
        if span is None:
            return await super().hold(request)
        with working_on(span):
            reply = await super().hold(msgspec.structs.replace(request, traceparent=traceparent))
            span.set_attribute("refusal", reply.refusal or "")
            return reply

    async def settle(self, request: SettleRequest) -> SettleReply:
        span = self._tracing.child("settle", {"rpc.method": request.method, "credits": request.charged})
        if span is None:
            return await super().settle(request)
        with working_on(span):
            reply = await super().settle(request)
            span.set_attribute("settled", reply.ok)
            return reply

    async def charge(self, request: ChargeRequest) -> ChargeReply:
        traceparent, settle = current_traceparent(), request.settle
        span = self._tracing.child("charge", {"rpc.method": settle.method, "credits": settle.charged})
        if span is None:
            return await super().charge(request)
        with working_on(span):
            hold = msgspec.structs.replace(request.hold, traceparent=traceparent)
            reply = await super().charge(ChargeRequest(hold, settle))
            span.set_attribute("refusal", reply.held.refusal or "")
            span.set_attribute("settled", reply.settled is not None and reply.settled.ok)
            return reply
