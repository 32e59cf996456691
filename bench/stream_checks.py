"""Long runs of the checks of streams against the chain, which tests/cluster and tests/clients run for some seconds.

The checks stand in tests/stream_checks. Here: the product that they run on, and their figures.
"""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

import typer

from bench import scenario
from bench.product import Product
from bench.systems import started
from tests.customers import Customer
from tests.product import StaffedProduct
from tests.stream_checks.websocket_faults import UpdatesDiffer, same_updates
from tests.stream_checks.websocket_kills import StreamsDiffer, killed
from tests.stream_checks.yellowstone_kill import Kill
from tests.stream_checks.yellowstone_soak import Soak

_QUIET = {"LEDGER_TELEMETRY__LOG_LEVEL": "WARNING"}
_TWO_REPLICAS = {
    "LEDGER_GATEWAY__REPLICAS": "2",
    "LEDGER_IDENTITY__ADDRESS_REQUESTS_PER_MINUTE": "1000000",  # The ledger of a long run has many pages.
}
_MANY_STREAMS = {
    "LEDGER_GEYSER__STREAMS_PER_ACCOUNT": "2000",
    "LEDGER_ACCOUNTS__REQUESTS_PER_SECOND": "10000",
    "LEDGER_ACCOUNTS__CONCURRENCY": "2000",
}

Long = Annotated[float, typer.Option(min=5, help="How long payments are made and connections are cut.")]
Streams = Annotated[int, typer.Option(min=6, help="Open streams, half of them on the killed replica.")]


def stream_faults(
    seconds: Long = 600, seed: Annotated[int, typer.Option(help="Of transfers and cuts.")] = 7
) -> dict[str, Any]:
    """Compare WebSocket updates through the gateway with those of the node itself, with connections cut."""
    with started(_QUIET) as product:
        try:
            found = asyncio.run(same_updates(product, seconds, seed))
        except UpdatesDiffer as differ:
            raise scenario.Wrong(str(differ)) from None
    scenario.show_figures("updates of both clients", found)
    return found


def stream_kills(
    streams: Streams = 500,
    accounts: Annotated[int, typer.Option(min=2, help="Accounts that pay for them.")] = 10,
) -> dict[str, Any]:
    """Kill a replica under open WebSockets, and compare what clients know with the chain and the ledger."""
    with started(_QUIET | _TWO_REPLICAS, StaffedProduct) as product:
        customers = [Customer(product) for _ in range(accounts)]
        for customer in customers:
            customer.grant(100_000)
        try:
            found = asyncio.run(killed(product, customers, streams))
        except StreamsDiffer as differ:
            raise scenario.Wrong(str(differ)) from None
        scenario.show_figures("a replica killed under WebSockets", found)
        _audit(product, found)
    return found


def grpc_soak(
    seconds: Long = 600,
    seed: Annotated[int, typer.Option(help="Of payments and cuts.")] = 1,
    cut_every_seconds: Annotated[float, typer.Option(min=0.5, help="Between two cuts, on average.")] = 10.0,
) -> list[dict[str, Any]]:
    """Compare Yellowstone streams with the chain, with connections cut."""
    with started({"LEDGER_SERVE__TLS": "true"}) as product:
        found = [asdict(one) for one in Soak(product, seed, seconds, cut_every_seconds).run()]
    scenario.show("Yellowstone clients", tuple(found[0]), (tuple(one.values()) for one in found))
    if any(one["missing"] or one["extra"] or one["repeated"] for one in found):
        raise scenario.Wrong("a client does not have what the chain has", found)
    return found


def grpc_kill(streams: Streams = 500) -> dict[str, Any]:
    """Kill a replica under open Yellowstone streams, and compare clients with the chain and the ledger."""
    with started(_TWO_REPLICAS | _MANY_STREAMS) as product:
        found = asdict(Kill(product, product.api_key, streams).run())
        scenario.show_figures("a replica killed under Yellowstone streams", found)
        _audit(product, found)
    if any(found[name] for name in ("missing", "extra", "repeated", "untouched_ends")):
        raise scenario.Wrong("a client does not have what the chain has, or another stream ended", found)
    if not found["told"] <= found["credits"] <= found["begun"]:
        raise scenario.Wrong("the ledger does not have one credit for each stream", found)
    return found


def _audit(product: Product, figures: Any) -> None:
    audit = product.audit()
    if audit.returncode != 0:
        raise scenario.Wrong(f"the audit does not balance: {audit.stdout[-300:]}", figures)
