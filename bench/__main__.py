"""`python -m bench SCENARIO [options]` measures; `python -m bench --list` names the scenarios.

Each scenario is a function `main` whose parameters are the options. Only the module of the chosen scenario is imported.
"""

import sys
from importlib import import_module

from rich.console import Console
from rich.table import Table

from bench import scenario

# Name: module, function, what it measures.
SCENARIOS = {
    "calls": ("calls", "main", "billed calls: the product beside the node alone and a hand-written gateway"),
    "pair": ("pair", "main", "billed calls of this tree beside those of another commit, alternating"),
    "scale": ("scale", "main", "CPU a call with 1, 2 and 4 replicas and owners, part by part"),
    "placement": ("placement", "main", "a simulation: hot accounts over owners and replicas, up to 1,000,000 calls/s"),
    "edge": ("two_doors", "edge", "calls over HTTPS beside plain ones"),
    "mcp": ("two_doors", "mcp", "processor time of a call as an MCP tool beside the same call as JSON-RPC"),
    "blocks": ("blocks", "main", "answers of 1 MB and 10 MB, direct and through the product"),
    "large-answers": ("large_answers", "main", "answers of 1 to 50 MB, compressed and not, beside a victim"),
    "node-calls": ("node_calls", "main", "processor time of one read to a node, layer by layer"),
    "lagging-nodes": ("lagging_nodes", "main", "monotonic reads before nodes that lag and swap places, beside others"),
    "refused-bodies": ("refused_bodies", "main", "how long the worst request bodies hold an event loop"),
    "call-log": ("call_log", "main", "the log of calls: on the path of an answer, in the background, in Redis"),
    "devnode": ("devnode", "main", "the embedded chain alone: reads, sends, slots, memory, TPU"),
    "deposits": ("deposits", "main", "a backlog of deposits until the last credit is durable"),
    "usage": ("usage", "main", "the query of GET /account/usage on ten million ledger entries"),
    "ledger-growth": ("ledger_growth", "main", "pages, audit and disk of a ledger of ten million entries"),
    "sends": ("sends", "main", "sendAndConfirm through the product, under losses and kills"),
    "races": ("races", "main", "races over three legs beside races over each leg alone"),
    "racers": ("racers", "main", "several racers: many sends in flight, and moves, kills and cuts under load"),
    "in-flight": ("in_flight", "main", "10,000 sends in flight at one moment, through the product with several racers"),
    "landing-fees": ("landing_fees", "main", "how soon a transaction lands with each suggested fee"),
    "trades": ("trades", "main", "time to build executeSnipe and executeSell at a fixed rate"),
    "streams": ("streams", "main", "WebSocket subscriptions: memory, sharing, fan-out"),
    "stream-faults": ("stream_checks", "stream_faults", "WebSocket updates beside the node's own, with cuts"),
    "stream-kills": ("stream_checks", "stream_kills", "a replica killed under 500 WebSockets"),
    "grpc-streams": ("grpc_streams", "main", "Yellowstone streams: direct, by a bare relay, by the product"),
    "grpc-soak": ("stream_checks", "grpc_soak", "Yellowstone streams against the chain, with cuts"),
    "grpc-kill": ("stream_checks", "grpc_kill", "a replica killed under 500 Yellowstone streams"),
    "signals": ("signals", "main", "delay from a node's update to the signal that a subscriber reads"),
    "signal-history": ("signal_history", "main", "a day of ten million signals as Parquet: rows a second, memory"),
    "classifiers": ("classifiers", "main", "signals of one program, shared by one, two and four classifiers"),
    "webhooks": ("webhooks", "main", "webhook deliveries, beside slow receivers and through kills"),
    "starvation": ("starvation", "main", "a client's calls beside an attacker, attacker by attacker"),
}


def main(arguments: list[str]) -> None:
    name = arguments[0] if arguments else "--list"
    if name in SCENARIOS:
        module, function, _ = SCENARIOS[name]
        scenario.run(name, getattr(import_module(f"bench.{module}"), function), arguments[1:])
        return
    table = Table("scenario", "what it measures", title="python -m bench SCENARIO --help shows its options")
    for each, (_, _, measures) in SCENARIOS.items():
        table.add_row(each, measures)
    Console(highlight=False, width=120).print(table)
    if name not in ("--list", "--help"):
        sys.exit(f"there is no scenario {name!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
