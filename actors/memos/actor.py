"""Sends the newest statement of each series to the chain, once an hour, and follows each memo to its end.

Implements: decisions, "Signed roots" (memos on the chain). A shell: core.py says what follows from what nodes tell, and
the database has each attempt before it is sent. So any number of senders may run, be killed and start again: an hour
of a series has one memo. Not here: making statements, which the owners of accounts do and wait for nothing here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from solders.keypair import Keypair

from actors.accounts.proven_roots import ProvenRoot, RootsUnavailable
from actors.background import Background
from actors.memos.chain import MemoChain
from actors.memos.core import CHARGED_MAX, Memo, MemoStep, Root, fee_lamports, make_transaction, next_step
from actors.memos.store import MemoStore, MemosUnavailable
from actors.provider_config import MemosConfig
from actors.telemetry.metrics import Metrics
from actors.units import base58_text

logger = logging.getLogger(__name__)

TICK_SECONDS = 5.0
_BALANCE_TICKS = 60  # Five minutes.


class Roots(Protocol):
    async def newest(self) -> Sequence[ProvenRoot]:
        """Return the newest statement of each series. Raises RootsUnavailable."""
        ...


class MemoSender:
    """payer: signs and pays for memos, and does nothing else."""

    def __init__(
        self,
        config: MemosConfig,
        payer: Keypair,
        roots: Roots,
        chain: MemoChain,
        store: MemoStore,
        metrics: Metrics,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._config, self._payer, self._roots, self._chain, self._store = config, payer, roots, chain, store
        self._metrics, self._sleep = metrics, sleep
        self.address = str(payer.pubkey())
        self.lamports = -1  # Lamports of the payer, as last read; -1: unknown.
        self._ticks = 0
        self._is_low = False
        self.fault = ""  # Fault of the latest turn.
        self._background = Background(logger, "sending memos of signed statements failed")
        metrics.watch("root_memo_payer_lamports", "Lamports of the key that pays for memos.", lambda: self.lamports)

    def start(self) -> None:
        most = fee_lamports(self._config.unit_price_micro_lamports) * CHARGED_MAX
        logger.info(
            "%s signs memos of signed statements: one an hour for each series, %d lamports a series and hour at most",
            self.address,
            most,
        )
        self._background.start(self._for_ever())

    async def stop(self) -> None:
        await self._background.stop()

    async def _for_ever(self) -> None:
        while True:
            try:
                await self.tick()
            except Exception:
                logger.exception("a turn of the memos failed; the next one tries again")
            await self._sleep(TICK_SECONDS)

    async def tick(self) -> None:
        """Begin due memos, and follow running ones. The next turn retries failures."""
        if self._ticks % _BALANCE_TICKS == 0:
            await self._look_at_balance()
        self._ticks += 1
        try:
            hour = await self._store.hour()
            await self._begin(hour)
            for memo in await self._store.under_way():
                await self._go_on(memo, is_over=memo.hour < hour)
            self.fault = ""
        except (MemosUnavailable, RootsUnavailable) as error:
            self.fault = str(error)
            logger.info("memos of signed statements wait: %s", error)

    async def _begin(self, hour: int) -> None:
        """Begin memos of an hour. A series without news since its last memo gets none."""
        roots = await self._roots.newest()
        latest = await self._store.latest([root.series for root in roots])
        for root, last in zip(roots, latest, strict=True):
            if last.hour < hour and last.number < root.number:
                await self._store.begin(Root(*root), hour)

    async def _go_on(self, memo: Memo, *, is_over: bool) -> None:
        look = None if memo.signature is None else await self._chain.look(memo.signature)
        match next_step(memo, look, is_over=is_over):
            case MemoStep.SEND_NEW:
                await self._send_new(memo)
            case MemoStep.SEND_AGAIN:
                assert memo.transaction is not None
                await self._chain.send(memo.transaction)
            case MemoStep.LANDED:
                await self._landed(memo)
            case MemoStep.FAILED:
                await self._failed(memo)
            case MemoStep.LOST:
                if await self._store.lost(memo):
                    self._metrics.root_memos.add(("lost",))
                    logger.warning("%s is not on the chain: none of its attempts has landed", _named(memo))

    async def _send_new(self, memo: Memo) -> None:
        fresh = await self._chain.blockhash()
        if fresh is None:
            return
        blockhash, valid_to = fresh
        price = self._config.unit_price_micro_lamports
        signature, transaction = make_transaction(self._payer, memo.root, blockhash, price)
        if not await self._store.attempt(memo, signature, transaction, valid_to):
            return  # Another sender was faster.
        refused = await self._chain.send(transaction)
        if refused is not None:
            self._metrics.root_memos.add(("refused",))
            logger.warning("%s was refused: %s; it is tried again", _named(memo), refused)

    async def _landed(self, memo: Memo) -> None:
        assert memo.signature is not None
        lamports = await self._fee(memo.signature)
        if await self._store.landed(memo, lamports):
            self._metrics.root_memos.add(("landed",))
            self._metrics.root_memo_lamports.add((), lamports)
            signature = base58_text(memo.signature)
            logger.info("%s is on the chain for %d lamports: %s", _named(memo), lamports, signature)

    async def _failed(self, memo: Memo) -> None:
        assert memo.signature is not None
        lamports = await self._fee(memo.signature)
        if await self._store.failed(memo, lamports):
            self._metrics.root_memos.add(("failed",))
            self._metrics.root_memo_lamports.add((), lamports)
            logger.error(
                "%s failed on the chain, for %d lamports: %s", _named(memo), lamports, base58_text(memo.signature)
            )

    async def _fee(self, signature: bytes) -> int:
        told = await self._chain.fee(signature)
        return fee_lamports(self._config.unit_price_micro_lamports) if told is None else told

    async def _look_at_balance(self) -> None:
        lamports = await self._chain.lamports(self.address)
        if lamports is None:
            return
        self.lamports, was_low = lamports, self._is_low
        self._is_low = lamports < self._config.low_lamports
        if self._is_low and not was_low:
            logger.warning("%s, which pays for memos of signed statements, has %d lamports", self.address, lamports)


def _named(memo: Memo) -> str:
    return f"the memo of statement {memo.root.number} of series {memo.root.series}"
