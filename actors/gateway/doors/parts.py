"""Builds the parts that all doors of a replica share: who is calling, what a call costs, how a refusal reads.

Implements: design, "One billed call" (one pipeline for every door). Wiring; every rule is in the part that it is about.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from actors.accounts.api import AccountsClient
from actors.accounts.told_lists import ToldLists
from actors.call_log.core import RecentCalls
from actors.calls import REPLICA_ID_BYTES
from actors.clock import Clock
from actors.config import Config
from actors.gateway.calls.account_prices import AccountPrices
from actors.gateway.calls.address_limits import AddressLimits, address_of
from actors.gateway.calls.admission import Plan, plans
from actors.gateway.calls.call_notes import CallNotes
from actors.gateway.calls.free_work import FreeWork
from actors.gateway.calls.idempotent import IdempotentCalls
from actors.gateway.calls.limited_calls import LimitedCalls
from actors.gateway.calls.pipeline import Pipeline
from actors.gateway.calls.proven_callers import ProvenCallers
from actors.gateway.calls.refusal_limits import RefusalLimits
from actors.gateway.calls.replies import ErrorReplies
from actors.gateway.doors.mcp.confirming import CallConfirmations
from actors.gateway.doors.mcp.long_sends import LongSends
from actors.gateway.doors.websocket.door import StreamService
from actors.gateway.pages.pricing import PricingPage
from actors.gateway.pages.routes import DepositConfirmer, StatusPages
from actors.gateway.payments.authentication import Authenticator
from actors.gateway.payments.sign_in import SignIn
from actors.gateway.payments.terms import TermsByPath
from actors.gateway.payments.x402 import RequestPayments
from actors.idempotency.store import IdempotencyStore
from actors.identity.client_addresses import TrustedProxies, front_token
from actors.identity.store import IdentityStore
from actors.leaving import Leaving
from actors.pages import Page
from actors.provider_config import browser_origin
from actors.telemetry.metrics import Metrics
from actors.upstream.replies import CallerHandler, Node, QuoteHandler
from actors.x402_types import PaymentSettler


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Dependencies of the door. config: with the network, the wallets and the cluster secret filled in."""

    config: Config
    accounts: AccountsClient
    node: Node
    identity_store: IdentityStore
    status: StatusPages
    clock: Clock
    randomness: Callable[[int], bytes] = os.urandom
    replica_id: bytes = b""  # First bytes of this process's operation ids, if account owners must know them.
    # A request with X-Request-Id got it from our own outer layer, which adds it to the answer; all other ids are made
    # here. False: the header of a request is a client's, and is ignored.
    ids_from_serve: bool = False
    payment_settler: PaymentSettler | None = None  # None: no x402 payments.
    deposits: DepositConfirmer | None = None  # None: no deposit wallet.
    peers_are_clients: bool = True  # False: a proxy in front does not tell client addresses.
    metrics: Metrics = field(default_factory=Metrics)  # Metrics of this process.
    callers: Mapping[str, CallerHandler] = field(default_factory=dict)  # Methods whose handlers need the caller.
    quotes: Mapping[str, QuoteHandler] = field(default_factory=dict)  # Methods with a price of their own.
    pages: Sequence[Page] = ()  # Paths that other contexts serve.
    streams: StreamService | None = None  # None: no WebSocket.
    idempotency: IdempotencyStore | None = None  # None: requests with an Idempotency-Key are refused with 503.
    leaving: Leaving | None = None  # Ends the streams of this process when it leaves.
    recent: RecentCalls | None = None  # Records each call; None: no log of calls.
    relay: bool = False  # Whether the node answers the methods of prices.RELAY.
    told: ToldLists = field(default_factory=ToldLists)  # Which price lists callers of this process have.


@dataclass(frozen=True, slots=True)
class DoorParts:
    """replica_id: first bytes of this process's operation ids. offered: the callable methods at their prices."""

    public_url: str
    replica_id: bytes
    terms: TermsByPath
    errors: ErrorReplies
    addresses: AddressLimits
    payments: RequestPayments
    authenticator: Authenticator
    offered: Mapping[str, Plan]
    pipeline: Pipeline
    callers: ProvenCallers
    limited: LimitedCalls
    pricing: PricingPage
    keyed: IdempotentCalls
    confirming: CallConfirmations
    long_sends: LongSends


def public_url_of(config: Config) -> str:
    host = f"[{config.serve.host}]" if ":" in config.serve.host else config.serve.host
    return config.serve.public_url or browser_origin(f"http://{host}:{config.serve.http_port}")


def shared_parts(dependencies: Dependencies) -> DoorParts:
    config, clock, metrics = dependencies.config, dependencies.clock, dependencies.metrics
    gateway, settler, randomness = config.gateway, dependencies.payment_settler, dependencies.randomness
    replica_id = dependencies.replica_id or randomness(REPLICA_ID_BYTES)
    assert config.storage.cluster_secret is not None, "the launcher settles the secret of the cluster"
    secret = config.storage.cluster_secret.get_secret_value().encode()
    public_url = public_url_of(config)
    sign_in = SignIn(config.payments, public_url)
    hint = (lambda: None) if settler is None else settler.hint
    terms = TermsByPath(config.payments, public_url, sign_in, randomness, hint)
    errors = ErrorReplies(terms, clock.now)
    trusted = TrustedProxies(config.identity.trusted_proxies, front_token(secret), dependencies.peers_are_clients)
    addresses = AddressLimits(config.identity, dependencies.identity_store, trusted, clock)
    payments = RequestPayments(config.payments, settler, terms, addresses, metrics)
    limits = RefusalLimits(gateway.account_refusals_per_second, gateway.address_refusals_per_second, addresses.name_of)
    authenticator = Authenticator(
        config.identity, clock, sign_in, limits, payments, lambda client: address_of(client, trusted)
    )
    offered = plans(config.pricing, {*dependencies.callers, *dependencies.quotes}, dependencies.relay)
    prices = AccountPrices(config.pricing, offered, dependencies.told)
    pipeline = Pipeline(
        dependencies.accounts,
        dependencies.node,
        clock,
        replica_id,
        gateway.calls_in_flight_max,
        limits,
        metrics,
        offered,
        dependencies.callers,
        dependencies.quotes,
        CallNotes(dependencies.recent, clock),
        prices,
        FreeWork(config.lookups.free_node_calls_per_minute),
    )
    keyed = IdempotentCalls(
        pipeline,
        dependencies.accounts,
        dependencies.idempotency,
        clock,
        gateway.idempotency_keys_max,
        metrics,
    )
    callers = ProvenCallers(dependencies.accounts, pipeline)
    limited = LimitedCalls(prices, callers)
    pricing = PricingPage(
        dependencies.accounts, dependencies.status, authenticator, addresses.refusal, prices.are_listed
    )
    confirming = CallConfirmations(secret, callers, keyed, clock, prices, config.pricing, randomness)
    return DoorParts(
        *(public_url, replica_id, terms, errors, addresses, payments, authenticator, offered, pipeline),
        *(callers, limited, pricing, keyed),
        confirming,
        LongSends(secret, callers, pipeline, keyed, clock, randomness),
    )
