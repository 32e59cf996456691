"""`python -m bench.starvation`: what one client at full speed does to another one, attacker by attacker.

The whole product with two replicas on its embedded chain. A victim makes 50 calls a second, alone and beside each
attacker; the table says what became of them. Reports and judges nothing: the exit code is 0 unless a step broke.
"""

import json
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench import free_riders
from bench.assaults import Assault, assault, kill_replica, target_of
from bench.attackers.__main__ import ATTACKERS
from bench.loop_figures import held_loops
from bench.product import Product, ProductFailed, free_ports
from bench.victim import Victim
from tests.customers import Customer
from tests.product import StaffedProduct

RESULTS = Path(__file__).with_name("results") / "starvation.json"
_CREDITS = 1_000_000
_POSTED_SECONDS = 12.0  # Streams post what they delivered every ten seconds.
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


@contextmanager
def running() -> Iterator[Product]:
    with tempfile.TemporaryDirectory(prefix="ledger-gateway-starvation-") as folder:
        Path(folder).chmod(0o711)  # Run by root, the stores run as another user, who must be able to pass through.
        product = StaffedProduct(Path(folder) / "data", _SETTINGS, free_ports())
        product.start()
        try:
            yield product
        finally:
            product.stop()


def customer_with_credits(product: Product) -> Customer:
    customer = Customer(product)
    customer.grant(_CREDITS)
    return customer


def measure(product: Product, names: Sequence[str], seconds: float, quiet_seconds: float) -> Iterator[Row]:
    """Attack with each in turn."""
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


def show_free_riders(product: Product, console: Console) -> None:
    """Print whether those who pay nothing took what all share."""
    got, newcomer = free_riders.fill_webhook_places(product)
    console.print(
        f"webhooks for 100 wallets, accounts without a credit: {dict(got)}; then one with credits: {newcomer}"
    )
    taken, last = free_riders.fill_signal_places(product)
    console.print(f"subscribeSignal for 100 wallets, accounts with few credits: {dict(taken)}; then a rich one: {last}")
    given, paid = free_riders.deliveries_without_credits(product, _EVENTS, _TOLD_SECONDS)
    console.print(f"deliveries to accounts without a credit: {given}; to one with credits: {paid}")


def show_kill(product: Product, console: Console, seconds: float) -> None:
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


def table_of(rows: Sequence[Row]) -> Table:
    table = Table(title="A victim's 50 getSlot a second, alone and beside each attacker", show_lines=False)
    table.add_column("attacker")
    for heading in (
        *("quiet p50, p99 ms", "attacked p50, p99 ms", "p99 ratio", "5xx", "other failures"),
        *("replicas MB before, peak, after", "loop held ms", "paid"),
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        found, quiet, attacked = row.assault, row.assault.quiet, row.assault.attacked
        failures = attacked.failures
        fives = sum(number for end, number in failures.items() if end.startswith("5"))
        table.add_row(
            found.attacker,
            f"{quiet.latency(0.5) * 1e3:.1f}, {quiet.latency(0.99) * 1e3:.1f}",
            f"{attacked.latency(0.5) * 1e3:.1f}, {attacked.latency(0.99) * 1e3:.1f}",
            f"{attacked.latency(0.99) / quiet.latency(0.99):.1f}",
            f"{fives} of {len(attacked.calls)}",
            str(sum(failures.values()) - fives),
            ", ".join(f"{size // _MEGABYTE}" for size in (found.bytes_before, found.bytes_peak, found.bytes_after)),
            f"{row.held_seconds * 1e3:g}",
            f"{row.paid:,}",
        )
    return table


def main(
    only: Annotated[str, typer.Option(help="Attackers, separated by commas.")] = ",".join(ATTACKERS),
    seconds: Annotated[float, typer.Option(min=1, help="Length of each attack.")] = 10.0,
    quiet_seconds: Annotated[float, typer.Option(min=1, help="The victim alone, before each attack.")] = 5.0,
    others: Annotated[bool, typer.Option(help="Also shared places, deliveries without credits, and a kill.")] = True,
    results: Annotated[Path, typer.Option(help="Where the figures are written as JSON.")] = RESULTS,
) -> None:
    """Attack a product on this machine; takes about ten minutes."""
    names = [name.strip() for name in only.split(",")]
    if not set(names) <= set(ATTACKERS):
        raise typer.BadParameter(f"wanted some of {', '.join(ATTACKERS)}")
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 180)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # As an interrupt, so that all processes are stopped.
    rows: list[Row] = []
    try:
        with running() as product:
            for row in measure(product, names, seconds, quiet_seconds):
                rows.append(row)
                console.print(table_of([row]))
                saw, failures = row.assault.saw, dict(row.assault.attacked.failures)
                console.print(f"the attacker saw {saw}; the victim {failures}", markup=False)
            if others:
                show_free_riders(product, console)
                show_kill(product, console, seconds)
    except ProductFailed as error:
        console.print(str(error), markup=False)
        raise typer.Exit(1) from None
    finally:
        if rows:
            console.print(table_of(rows))
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
