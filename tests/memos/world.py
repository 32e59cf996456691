"""A sender of memos on a whole chain in this process, whose memo program runs for real."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from solders.keypair import Keypair

from actors.accounts.proven_roots import ProvenRoot
from actors.memos.actor import MemoSender
from actors.memos.chain import MemoChain
from actors.memos.core import Memo, Root
from actors.memos.store import Latest, MemosUnavailable
from actors.provider_config import MemosConfig
from actors.telemetry.metrics import Metrics
from actors.upstream.replies import NodeAnswer
from tests.devnode.local_node import LocalNode
from tests.ported_node import PortedNode

HOUR = 495_000


def digest(number: int) -> bytes:
    return number.to_bytes(1, "big") * 32


class MemoryMemos:
    """Implements store.MemoStore. fails: the coming call raises."""

    def __init__(self) -> None:
        self.now = HOUR
        self.rows: dict[tuple[int, int], tuple[Memo, str | None, int]] = {}  # With outcome and lamports.
        self.fails = False

    async def hour(self) -> int:
        if self.fails:
            raise MemosUnavailable("nobody listens")
        return self.now

    async def latest(self, series: Sequence[int]) -> list[Latest]:
        return [self._latest(one) for one in series]

    def _latest(self, series: int) -> Latest:
        mine = [(memo, outcome) for memo, outcome, _ in self.rows.values() if memo.root.series == series]
        sent = [memo for memo, outcome in mine if outcome != "lost"]
        newest = max(sent, key=lambda memo: memo.hour, default=None)
        return Latest(max((memo.hour for memo, _ in mine), default=0), newest.root.number if newest else 0)

    async def begin(self, root: Root, hour: int) -> None:
        self.rows.setdefault((root.series, hour), (Memo(root, hour), None, 0))

    async def under_way(self) -> list[Memo]:
        found = [memo for memo, outcome, _ in self.rows.values() if outcome is None]
        return sorted(found, key=lambda memo: (memo.hour, memo.root.series))

    async def attempt(self, memo: Memo, signature: bytes, transaction: bytes, valid_to: int) -> bool:
        return self._change(
            memo,
            memo._replace(attempt=memo.attempt + 1, signature=signature, transaction=transaction, valid_to=valid_to),
        )

    async def landed(self, memo: Memo, lamports: int) -> bool:
        return self._change(memo, memo, "landed", lamports)

    async def failed(self, memo: Memo, lamports: int) -> bool:
        ended = memo._replace(attempt=memo.attempt + 1, charged=memo.charged + 1)
        return self._change(memo, ended._replace(signature=None, transaction=None, valid_to=None), None, lamports)

    async def lost(self, memo: Memo) -> bool:
        return self._change(memo, memo, "lost")

    def _change(self, memo: Memo, new: Memo, outcome: str | None = None, lamports: int = 0) -> bool:
        kept, ended, paid = self.rows[memo.root.series, memo.hour]
        if kept.attempt != memo.attempt or ended is not None:
            return False
        self.rows[memo.root.series, memo.hour] = new, outcome, paid + lamports
        return True


class Roots:
    def __init__(self) -> None:
        self.given = [ProvenRoot(0, 3, digest(3)), ProvenRoot(1, 9, digest(9))]

    async def newest(self) -> Sequence[ProvenRoot]:
        return list(self.given)


class World:
    def __init__(self, folder: Path, store: Any = None, lamports: int = 10**9) -> None:
        self.local = LocalNode(folder)
        self.payer = self.local.wallet(lamports) if lamports else Keypair()
        self.address = str(self.payer.pubkey())
        self.store: Any = store or MemoryMemos()
        self.roots, self.metrics = Roots(), Metrics()
        self.interfere: Callable[[str, list[Any]], NodeAnswer | None] = lambda method, params: None
        self.node = PortedNode(self.local, self._interfere)

    def _interfere(self, method: str, params: list[Any]) -> NodeAnswer | None:
        return self.interfere(method, params)

    def sender(self) -> MemoSender:
        """Another process: of another owner's machine, or after a kill."""
        return MemoSender(MemosConfig(), self.payer, self.roots, MemoChain(self.node), self.store, self.metrics)

    def memos(self) -> list[str]:
        """The texts on the chain, oldest first."""
        rows = self.local.call("getSignaturesForAddress", self.address)
        return [row["memo"].partition("] ")[2] for row in reversed(rows) if row["memo"] and row["err"] is None]

    def expire(self) -> None:
        """Let all blockhashes of now end."""
        self.local.beat(160)

    def counted(self, result: str) -> float:
        return self.metrics.registry.get_sample_value("ledger_gateway_root_memos_total", {"result": result}) or 0

    @property
    def charged(self) -> float:
        return self.metrics.registry.get_sample_value("ledger_gateway_root_memo_lamports_total") or 0
