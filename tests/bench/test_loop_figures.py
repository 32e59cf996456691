"""The longest hold of a replica's loop between two looks at the page of metrics."""

from bench.loop_figures import HeldLoops


def _page(counts: dict[str, tuple[int, int, int]]) -> str:
    lines = ["# TYPE ledger_gateway_event_loop_held_seconds histogram"]
    for process, found in counts.items():
        for bound, count in zip(("0.005", "0.05", "+Inf"), found, strict=True):
            labels = f'le="{bound}",process="{process}"'
            lines.append(f"ledger_gateway_event_loop_held_seconds_bucket{{{labels}}} {count}.0")
    return "\n".join(lines) + "\n"


def test_the_longest_hold_is_the_highest_range_that_grew_in_a_replica() -> None:
    """Holds from before the first look, and those of other processes, are not this attack's."""
    before = HeldLoops(_page({"gateway-1@a": (10, 12, 13), "account-shard-0": (5, 5, 5)}))
    short = HeldLoops(_page({"gateway-1@a": (20, 22, 23), "account-shard-0": (5, 5, 9)}))
    assert short.longest_since(before) == 0.005
    long = HeldLoops(_page({"gateway-1@a": (20, 23, 24), "gateway-2@a": (7, 7, 7)}))
    assert long.longest_since(before) == 0.05
    assert before.longest_since(before) == 0.0
