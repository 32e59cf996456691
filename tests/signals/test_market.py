"""Precision and recall on a labelled market of a devnode: every expected event is found, and nothing else."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

from actors.addresses import WRAPPED_SOL_MINT
from actors.signals.classify import PROGRAMS, classify, observe
from actors.signals.geyser_source import GeyserSource
from actors.signals.observations import What
from actors.signals.sources import SlotSeen, SlotState, TransactionSeen
from actors.signals.transaction import Transaction, key_text, signature_text
from tests.devnode.conftest import Process
from tests.signals import chain_calls
from tests.signals.test_geyser_source import each

_KINDS = {What.CREATED: "newPair", What.GRADUATED: "graduation", What.TRADED: "swap"}
_ROUNDS, _ACTIONS, _SECONDS = 3, 100, 120.0
_LARGE = 20_000_000_000


def _found(transaction: Transaction) -> list[tuple[Any, ...]]:
    rows = []
    for seen in observe(transaction):
        quote = "SOL" if seen.quote_asset == WRAPPED_SOL_MINT else seen.quote_asset
        mint = None if seen.mint is None else key_text(seen.mint)
        rows.append((_KINDS[seen.what], key_text(seen.program), mint, quote, seen.lamports, seen.is_buy))
    return rows


def _expected(row: dict[str, Any]) -> tuple[Any, ...]:
    quote = "SOL" if row["quote_asset"] == WRAPPED_SOL_MINT else row["quote_asset"]
    return (row["kind"], row["program"], row["mint"], quote, row["lamports"], row["is_buy"])


async def _stream(chain: Process, from_slot: int, signatures: set[str]) -> dict[str, Transaction]:
    found: dict[str, Transaction] = {}
    source = GeyserSource(chain.facts["grpc_url"], PROGRAMS)
    async with asyncio.timeout(_SECONDS), contextlib.aclosing(source.updates(from_slot)) as batches:
        async for update in each(batches):
            if isinstance(update, TransactionSeen):
                found[signature_text(update.transaction.signature)] = update.transaction
            last = isinstance(update, SlotSeen) and update.state is SlotState.FINALIZED
            if last and signatures <= found.keys():
                return found
    raise AssertionError("the stream ended")


async def test_precision_and_recall_are_one(chain: Process) -> None:
    """Launches of every kind, trades on curves and in pools of two programs, graduations, routed; and what means
    nothing: failed trades, payments, second migrations."""
    chain_calls.launch(chain.url, trades=0)
    start = chain_calls.rpc(chain.url, "getSlot", {"commitment": "processed"})
    labelled: dict[str, list[tuple[Any, ...]]] = {}
    for _ in range(_ROUNDS):
        body = {"seed": 7, "actions": _ACTIONS}
        answer = await asyncio.to_thread(chain_calls.post, f"{chain.url}/admin/market", body)
        for row in answer["transactions"]:
            labelled[row["signature"]] = [_expected(each) for each in row["expected"]]
    streamed = await _stream(chain, start, {signature for signature, rows in labelled.items() if rows})
    kinds: Counter[str] = Counter()
    for signature, expected in labelled.items():
        found = _found(streamed[signature]) if signature in streamed else []
        assert sorted(map(str, found)) == sorted(map(str, expected)), signature
        kinds.update(row[0] for row in expected)
        large = {row[2] for row in expected if row[0] == "swap" and (row[4] or 0) >= _LARGE}
        signals = classify(streamed[signature], large_swap_lamports=_LARGE) if signature in streamed else ()
        assert {one.mint for one in signals if one.kind == "largeSwap"} == large
        kinds["largeSwap"] += len(large)
    assert min(kinds[name] for name in ("newPair", "graduation", "swap", "largeSwap")) >= 3, kinds
    assert sum(not rows for rows in labelled.values()) >= 3
