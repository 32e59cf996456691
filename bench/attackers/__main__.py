"""`python -m bench.attackers NAME`: one attacker in a process of its own, driven by bench/attackers/process.py.

Reads its target from the first line of its input, prints "ready", begins at the second line, and prints what it saw.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial

from bench.attackers import grpc, http, subscriptions, websocket
from bench.attackers.target import Attack, Target

_NICE = 10  # A real attacker has its own machine: if both want a core, the product gets it.
_GRACE_SECONDS = 20  # After the attack's own end.

ATTACKERS: dict[str, Callable[[Attack], Awaitable[None]]] = {
    "pongs": websocket.pongs,
    "pings": websocket.pings,
    "fragments": websocket.fragments,
    "handshakes": websocket.handshakes,
    "refused messages": websocket.refused_messages,
    "unread MCP lists": http.unread_mcp_lists,
    "refused bodies": http.refused_bodies,
    **{f"refused bodies: {name}": partial(http.refused_bodies, names=(name,)) for name in http.BODIES},
    "strangers' batches": http.strangers_batches,
    "unread answers": http.unread_answers,
    "unread answers of 10 MB": partial(http.unread_answers, large_accounts=13, per_second=1),
    "filter replacements": grpc.filter_replacements,
    "replays": grpc.replays,
    "distinct accounts": subscriptions.distinct_accounts,
}


def main(name: str) -> None:
    os.nice(_NICE)
    target = Target.of(sys.stdin.readline())
    signal.alarm(round(target.seconds + _GRACE_SECONDS))  # Ends the process even if the attacker's own code hangs.
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if not sys.stdin.readline():
        return  # The measurement that started it has ended.
    attack = Attack(target)
    asyncio.run(_run(name, attack))
    sys.stdout.write(json.dumps(attack.seen) + "\n")


async def _run(name: str, attack: Attack) -> None:
    await ATTACKERS[name](attack)


if __name__ == "__main__":
    main(sys.argv[1])
