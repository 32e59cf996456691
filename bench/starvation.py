"""Measures the calls of one client beside another client that attacks at full speed, attacker by attacker.

The whole product with two replicas on its embedded chain. A victim makes 50 calls a second, alone and beside each
attacker. Reports and judges nothing; tests/cluster/test_starvation.py does.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from bench import scenario
from bench.assaults import Assault, assault, kill_replica, target_of
from bench.attackers.__main__ import ATTACKERS
from bench.loop_figures import held_loops
from bench.product import Product
from bench.scenario import console
from bench.systems import started
from bench.victim import Victim
from tests import free_riders
from tests.customers import Customer
from tests.product import StaffedProduct

_CREDITS = 1_000_000
_POSTED_SECONDS = 12.0  # Streams post delivered events every ten seconds.
_BACK_SECONDS = 15.0
_EVENTS, _TOLD_SECONDS = 20, 60.0
_MEGABYTE = 1 << 20
_SETTINGS = {
    "LEDGER_GATEWAY__REPLICAS": "2",
    "LEDGER_WEBHOOKS__ALLOW_LOOPBACK": "true",
    # Of pages of accounts alone: those that the measurement itself makes and reads come from one address.
    "LEDGER_IDENTITY__ADDRESS_REQUESTS_PER_MINUTE": "1000000",
}


@dataclass(frozen=True, slots=True)
class Row:
    """held_seconds: longest hold of a replica's loop, rounded up to a range of the histogram. paid: credits."""

    assault: Assault
    held_seconds: float
    paid: int


def customer_with_credits(product: Product) -> Customer:
    customer = Customer(product)
    customer.grant(_CREDITS)
    return customer


def measure(product: Product, names: Sequence[str], seconds: float, quiet_seconds: float) -> Iterator[Row]:
    """Attack with each attacker in turn."""
    owner = customer_with_credits(product)
    victim = Victim(product.http_url, owner.api_key)
    try:
        for name in names:
            attacker = customer_with_credits(product)
            target = target_of(product, (attacker.api_key,), seconds)
            before = held_loops(product)
            found = assault(product, victim, name, target, quiet_seconds, _BACK_SECONDS)
            yield Row(found, held_loops(product).longest_since(before), _paid(attacker))
    finally:
        victim.close()


def _paid(attacker: Customer) -> int:
    """Return what left the account, once that has stood still for as long as a stream may wait with a charge."""
    deadline, found = time.monotonic() + _POSTED_SECONDS, -1
    while time.monotonic() < deadline:
        now = _CREDITS - attacker.balance
        if now == found:
            break
        found = now
        time.sleep(1)
    return found


def show_free_riders(product: Product) -> None:
    """Print whether accounts that pay nothing take the places that all accounts share."""
    got, newcomer = free_riders.fill_webhook_places(product)
    console.print(
        f"webhooks for 100 wallets, accounts without a credit: {dict(got)}; then one with credits: {newcomer}"
    )
    taken, last = free_riders.fill_signal_places(product)
    console.print(f"subscribeSignal for 100 wallets, accounts with few credits: {dict(taken)}; then a rich one: {last}")
    given, paid = free_riders.deliveries_without_credits(product, _EVENTS, _TOLD_SECONDS)
    console.print(f"deliveries to accounts without a credit: {given}; to one with credits: {paid}")


def show_kill(product: Product, seconds: float) -> None:
    """Print what the kill of a replica did to the victim."""
    victim = Victim(product.http_url, customer_with_credits(product).api_key)
    try:
        seen = kill_replica(product, victim, seconds)
    finally:
        victim.close()
    console.print(
        f"a replica killed: {dict(seen.failures)} of {len(seen.calls)} calls failed, "
        f"within {seen.failing_seconds:.1f} s; with one retry {dict(seen.failures_after_retry)}"
    )


def show(rows: Sequence[Row]) -> None:
    cells = []
    for row in rows:
        found, quiet, attacked = row.assault, row.assault.quiet, row.assault.attacked
        fives = sum(number for end, number in attacked.failures.items() if end.startswith("5"))
        cells.append(
            (
                found.attacker,
                f"{quiet.latency(0.5) * 1e3:.1f}, {quiet.latency(0.99) * 1e3:.1f}",
                f"{attacked.latency(0.5) * 1e3:.1f}, {attacked.latency(0.99) * 1e3:.1f}",
                f"{attacked.latency(0.99) / quiet.latency(0.99):.1f}",
                f"{fives} of {len(attacked.calls)}",
                sum(attacked.failures.values()) - fives,
                ", ".join(f"{size // _MEGABYTE}" for size in (found.bytes_before, found.bytes_peak, found.bytes_after)),
                f"{row.held_seconds * 1e3:g}",
                f"{row.paid:,}",
            )
        )
    headings = (
        *("attacker", "quiet p50, p99 ms", "attacked p50, p99 ms", "p99 ratio", "5xx", "other failures"),
        *("replicas MB before, peak, after", "loop held ms", "paid"),
    )
    scenario.show("A victim's 50 getSlot a second, alone and beside each attacker", headings, cells)


def main(
    only: Annotated[str, typer.Option(help="Attackers, separated by commas.")] = ",".join(ATTACKERS),
    seconds: Annotated[float, typer.Option(min=1, help="Length of each attack.")] = 10.0,
    quiet_seconds: Annotated[float, typer.Option(min=1, help="The victim alone, before each attack.")] = 5.0,
    others: Annotated[bool, typer.Option(help="Also shared places, deliveries without credits, and a kill.")] = True,
) -> list[Row]:
    """Attack a product on this machine; takes about ten minutes."""
    names, rows = scenario.chosen(only, ATTACKERS), list[Row]()
    with started(_SETTINGS, StaffedProduct) as product:
        for row in measure(product, names, seconds, quiet_seconds):
            rows.append(row)
            show([row])
            saw, failures = row.assault.saw, dict(row.assault.attacked.failures)
            console.print(f"the attacker saw {saw}; the victim {failures}", markup=False)
        if others:
            show_free_riders(product)
            show_kill(product, seconds)
    show(rows)
    return rows


if __name__ == "__main__":
    scenario.run("starvation", main, sys.argv[1:])
