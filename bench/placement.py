"""Simulates where the calls of unequal accounts go: virtual shards, owners in blocks, replicas by bounded load.

Pure: a seed in, a table out, so `python -m bench placement` writes the same table each time, and a test compares it
with docs/costs.md. What a call costs is measured by other scenarios and stands here as constants with their source.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from actors.launch.front.affinity import BUSY_DENOMINATOR, BUSY_NUMERATOR
from actors.units import VIRTUAL_SHARDS

RATES = (1_000, 10_000, 100_000, 1_000_000)
BUSY_SHARE = 0.6  # Share of a core that a process may use: the rest is for bursts, and for the work of a lost process.
OWNERS_MAX = 256
ACCOUNTS = (1_000, 100_000)


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of one call: processor time by part, and bytes."""

    haproxy_us: float
    replica_us: float
    owner_us: float
    postgres_us: float
    wal_bytes: int


# docs/costs.md says how both were measured.
BUSY = Costs(haproxy_us=62, replica_us=247, owner_us=131, postgres_us=67, wal_bytes=813)
QUIET = Costs(haproxy_us=29, replica_us=72, owner_us=29, postgres_us=15, wal_bytes=813)


def account_rates(calls_a_second: float, accounts: int, exponent: float, most: float) -> list[float]:
    """Return the calls a second of each account: by Zipf's law, and none beyond `most`, its rate limit.

    The sum is calls_a_second where so many accounts may make so many calls.
    """
    assert calls_a_second <= accounts * most, "the limits of the accounts do not allow so many calls"
    weights = [1 / rank**exponent for rank in range(1, accounts + 1)]
    rest_of_weights = sum(weights)
    for at_limit, weight in enumerate(weights):
        factor = (calls_a_second - at_limit * most) / rest_of_weights
        if factor * weight <= most:
            break
        rest_of_weights -= weight
    return [min(most, factor * weight) for weight in weights]


def shard_loads(rates: Sequence[float], seed: int) -> list[float]:
    """Return the calls a second of each virtual shard. A hash has put each account into one."""
    chance, loads = random.Random(seed), [0.0] * VIRTUAL_SHARDS
    for rate in rates:
        loads[chance.randrange(VIRTUAL_SHARDS)] += rate
    return loads


def in_blocks(loads: Sequence[float], count: int) -> list[float]:
    """Return the sums of `count` blocks of neighbours, which differ by one in size at most."""
    sums = [0.0] * count
    for place, load in enumerate(loads):
        sums[place * count // len(loads)] += load
    return sums


def bounded(wanted: Sequence[float], most_by_mean: float) -> list[float]:
    """Return the loads when what is beyond `most_by_mean` times the mean goes to those with the least."""
    most = sum(wanted) / len(wanted) * most_by_mean
    kept = [min(load, most) for load in wanted]
    level, excess = 0.0, sum(wanted) - sum(kept)
    ascending = sorted(kept)
    for place in range(len(ascending)):  # Fills the smallest loads first.
        level = (sum(ascending[: place + 1]) + excess) / (place + 1)
        if place + 1 == len(ascending) or level <= ascending[place + 1]:
            break
    return [max(load, level) for load in kept]


def owners_for(loads: Sequence[float], owner_us: float) -> int:
    """Return the fewest owners of which none is busier than BUSY_SHARE; OWNERS_MAX where not even these are enough."""
    fewest = max(1, math.ceil(sum(loads) * owner_us / 1e6 / BUSY_SHARE))
    for count in range(fewest, OWNERS_MAX + 1):
        if max(in_blocks(loads, count)) * owner_us / 1e6 <= BUSY_SHARE:
            return count
    return OWNERS_MAX


@dataclass(frozen=True, slots=True)
class Placement:
    """Owners and replicas for one rate of calls, and their loads."""

    calls_a_second: int
    accounts: int
    busiest_account: float  # Calls a second.
    replicas: int
    owners: int
    owner_by_mean: float  # Calls of the busiest owner divided by the mean.
    owner_cores: float  # Of the busiest owner.
    replica_by_mean_wanted: float  # If every account had its own replica, whatever the load of that replica.
    replica_by_mean: float
    moved_share: float  # Share of all calls that go to another replica than their account's.
    links: int  # Between a replica and an owner, by blocks.
    links_of_all: int


def placed(calls_a_second: int, costs: Costs, exponent: float = 1.1, most: float = 1_000.0, seed: int = 1) -> Placement:
    """Size and simulate one rate. Accounts: as many as calls a second, between these bounds."""
    accounts = min(max(calls_a_second, ACCOUNTS[0]), ACCOUNTS[1])
    rates = account_rates(calls_a_second, accounts, exponent, most)
    loads = shard_loads(rates, seed)
    owners = owners_for(loads, costs.owner_us)
    replicas = max(2, math.ceil(calls_a_second * costs.replica_us / 1e6 / BUSY_SHARE))
    of_owners, wanted = in_blocks(loads, owners), in_blocks(loads, min(replicas, VIRTUAL_SHARDS))
    found = bounded(wanted, BUSY_NUMERATOR / BUSY_DENOMINATOR)
    pairs = {
        (shard * len(wanted) // VIRTUAL_SHARDS, shard * owners // VIRTUAL_SHARDS) for shard in range(VIRTUAL_SHARDS)
    }
    return Placement(
        calls_a_second,
        accounts,
        max(rates),
        replicas,
        owners,
        max(of_owners) / (sum(of_owners) / owners),
        max(of_owners) * costs.owner_us / 1e6,
        max(wanted) / (sum(wanted) / len(wanted)),
        max(found) / (sum(found) / len(found)),
        sum(max(0.0, before - after) for before, after in zip(wanted, found, strict=True)) / sum(wanted),
        len(pairs),
        replicas * owners,
    )


HEADINGS = (
    *("calls/s", "accounts", "busiest account, calls/s", "replicas", "owners", "busiest owner by the mean; cores"),
    *("busiest replica by the mean: unbounded, bounded", "calls that leave their replica", "links; of all pairs"),
    *("HAProxy, PostgreSQL: cores", "PostgreSQL's log, MB/s"),
)


def row_of(one: Placement, costs: Costs) -> tuple[str, ...]:
    cores = [one.calls_a_second * each / 1e6 for each in (costs.haproxy_us, costs.postgres_us)]
    return (
        f"{one.calls_a_second:,}",
        f"{one.accounts:,}",
        f"{one.busiest_account:,.0f}",
        f"{one.replicas:,}",
        f"{one.owners:,}",
        f"{one.owner_by_mean:.2f}; {one.owner_cores:.2f}",
        f"{one.replica_by_mean_wanted:.2f}, {one.replica_by_mean:.2f}",
        f"{one.moved_share:.1%}",
        f"{one.links:,}; {one.links_of_all:,}",
        f"{cores[0]:,.2f}, {cores[1]:,.2f}",
        f"{one.calls_a_second * costs.wal_bytes / 1e6:,.1f}",
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Write the table as Markdown, as docs/costs.md has it."""
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main(
    exponent: Annotated[float, typer.Option(min=0.1, help="Of Zipf's law: how unequal accounts are.")] = 1.1,
    most: Annotated[float, typer.Option(min=1, help="Calls a second that an account may make.")] = 1_000.0,
    seed: int = 1,
) -> dict[str, Any]:
    """Size and simulate placements from 1,000 to 1,000,000 calls a second; takes seconds."""
    found = {}
    for name, costs in (("busy", BUSY), ("quiet", QUIET)):
        of_rates = [placed(rate, costs, exponent, most, seed) for rate in RATES]
        print(f"{table([row_of(one, costs) for one in of_rates])}\n")
        found[name] = [asdict(one) for one in of_rates]
    return found
