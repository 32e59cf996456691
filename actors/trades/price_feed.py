"""Keeps the SOL/USD price current: reads the price account every few seconds.

Implements: interface, "Billing for both builders" (the live rate). A shell: sol_price.py reads the
account and judges the price's age. One price is used for builds and for GET /pricing, so the page shows the rate of the
next build. When the account cannot be read, the last price is used until it is too old; then builds are refused.
"""

import logging

import msgspec
import orjson

from actors.background import Background
from actors.clock import Clock
from actors.config import TradesConfig
from actors.errors import Err, Refusal
from actors.trades.snapshot import RawAccount, UnreadableAccountsError, account_bytes
from actors.trades.sol_price import EARLY, SolPrice, read_price
from actors.upstream.replies import AnswerKind, Node

logger = logging.getLogger(__name__)

_READ_TIMEOUT_MS = 5_000
_NOT_READ = "the SOL/USD price has not been read yet"


class _Value(msgspec.Struct):
    value: RawAccount | None


_DECODER = msgspec.json.Decoder(_Value)


class SolPriceFeed:
    def __init__(self, node: Node, config: TradesConfig, clock: Clock) -> None:
        self._node, self._config, self._clock = node, config, clock
        self._background = Background(logger, "reading the SOL/USD price failed")
        self._fault = _NOT_READ
        self._latest: SolPrice | None = None
        if config.sol_usd_micro is not None:
            self._latest = SolPrice(config.sol_usd_micro, None)

    @property
    def latest(self) -> SolPrice | None:
        """Return the last price read, however old."""
        return self._latest

    def usable(self) -> SolPrice | Refusal:
        """Return the price to charge by now, or SERVICE_TEMPORARILY_UNAVAILABLE with the reason."""
        if self._latest is None:
            return Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, self._fault)
        fault = self._latest.fault(self._clock.now(), self._config.sol_usd_age_seconds_max)
        return self._latest if fault is None else Refusal(Err.SERVICE_TEMPORARILY_UNAVAILABLE, fault)

    def start(self) -> None:
        """Read the price from now on; a fixed price needs no reading."""
        if self._config.sol_usd_micro is None:
            self._background.repeat(self.read, self._config.sol_usd_poll_seconds)

    async def stop(self) -> None:
        await self._background.stop()

    async def read(self) -> None:
        """Read the account once. A price that is older than the known one does not replace it: nodes differ."""
        found = await self._ask()
        if isinstance(found, SolPrice) and found.is_early(self._clock.now()):
            found = EARLY  # A stored future price would block every true price until its time has come.
        if isinstance(found, SolPrice):
            self._fault = ""
            known = self._latest
            if known is None or (found.published_at or 0) >= (known.published_at or 0):
                self._latest = found
        elif found != self._fault:
            logger.warning("SOL/USD price: %s", found)
            self._fault = found

    async def _ask(self) -> SolPrice | str:
        """Return the price, or the reason why there is none."""
        params = orjson.dumps([self._config.sol_usd_account, {"encoding": "base64", "commitment": "confirmed"}])
        answer = await self._node.call("getAccountInfo", params, _READ_TIMEOUT_MS)
        if answer.kind is not AnswerKind.RESULT:
            return "the node did not give the SOL/USD price"
        try:
            account = _DECODER.decode(answer.value()).value
            data = b"" if account is None else account_bytes(account)
        except (msgspec.DecodeError, UnreadableAccountsError):
            return "the node's SOL/USD price could not be read"
        return "there is no price account" if account is None else read_price(account.owner, data)
