"""A settler over a real chain (devnode, stepped by hand), a real owner of accounts and a store, in one process."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from actors.accounts.actor import AccountShard
from actors.accounts.api import Command, CreditDeposit, Describe, OwnerReply, OwnerUnavailable, PaidTransfer, Value
from actors.config import AccountsConfig, IdentityConfig, PaymentsConfig
from actors.deposits.x402.network import PaymentNetwork
from actors.deposits.x402.recovery import PaymentRecovery
from actors.deposits.x402.rules import Rules
from actors.deposits.x402.settler import SettlementLimits, Settler
from actors.deposits.x402.sponsor_key import Sponsor
from actors.deposits.x402.sponsor_limits import Budgets
from actors.deposits.x402.states import Record
from actors.deposits.x402.store import PaymentStore, PaymentsUnavailable
from actors.units import VIRTUAL_SHARDS, VirtualShard
from actors.upstream import replies
from actors.upstream.replies import NodeAnswer
from actors.x402_types import Lack, NotSettled, Settled
from devnode.encoding.addresses import USDC_MINT
from tests.accounts.memory_store import MemoryAccountStore
from tests.deposits.memory_stores import MemoryPaymentStore
from tests.devnode.local_node import LocalNode
from tests.identity.memory_store import MemoryIdentityStore

from .x402_making import half_signed, memo, message_of, transfer_checked

LIMITS = SettlementLimits(wait_ms=3_500, budgets=Budgets(20, 60, 5), wait_for_finalized=False)
USDC = 1_000_000


class ChainNode:
    """The client of a node over the chain in this process. Faults replace answers, by method."""

    def __init__(self, chain: LocalNode) -> None:
        self.chain = chain
        self.asked: list[str] = []
        self.before: dict[str, NodeAnswer] = {}  # The request never arrives.
        self.after: dict[str, NodeAnswer] = {}  # It is carried out, and its answer is lost.

    async def call(self, method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
        self.asked.append(method)
        await asyncio.sleep(0)
        if method in self.before:
            return self.before[method]
        request = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (method.encode(), params)
        body = self.chain.dispatcher.answer(request)
        assert body is not None
        return self.after.get(method) or replies.judge(body)

    def count(self, method: str) -> int:
        return self.asked.count(method)


class CountingSponsor(Sponsor):
    """A sponsor that counts its signatures."""

    __slots__ = ("has_signed", "signed")

    def __init__(self, seed: bytes) -> None:
        super().__init__(seed)
        self.signed: list[bytes] = []
        self.has_signed = asyncio.Event()

    def sign(self, message: bytes) -> Any:
        self.signed.append(message)
        self.has_signed.set()
        return super().sign(message)


class FailingPayments(MemoryPaymentStore):
    """fail: what the coming writes do, one each: "before" (nothing kept), "after" (kept, the answer lost), ""."""

    def __init__(self) -> None:
        super().__init__()
        self.fail: list[str] = []

    async def claim(self, record: Record, look_at_ms: int) -> bool:
        return await self._perhaps(lambda: super(FailingPayments, self).claim(record, look_at_ms))

    async def move(self, record: Record, look_at_ms: int) -> bool:
        return await self._perhaps(lambda: super(FailingPayments, self).move(record, look_at_ms))

    async def _perhaps(self, write: Callable[[], Any]) -> Any:
        failure = self.fail.pop(0) if self.fail else ""
        if failure == "before":
            raise PaymentsUnavailable("the connection was lost")
        done = await write()
        if failure == "after":
            raise PaymentsUnavailable("the connection was lost")
        return done


class Accounts:
    """The part of the owner of accounts that settling needs. down: it does not answer."""

    def __init__(self, shard: AccountShard) -> None:
        self.shard, self.down = shard, False
        self.credits: list[PaidTransfer] = []

    async def ask(self, command: Command[Value]) -> OwnerReply[Value]:
        if self.down:
            raise OwnerUnavailable("the test says so")
        if isinstance(command, CreditDeposit):
            self.credits.append(command.transfer)
        return await self.shard.ask(command)

    async def balance(self, pubkey: Pubkey) -> int | None:
        answer = await self.shard.ask(Describe(bytes(pubkey)))
        return None if answer.value is None else answer.value.balance


class PaymentWorld:
    """sleep of the settler seals a slot, so time passes on the chain as it waits. payer has SOL and 10 USDC."""

    def __init__(
        self,
        folder: Path,
        limits: SettlementLimits = LIMITS,
        store: PaymentStore | None = None,
        retention_slots: int = 2_000,
    ) -> None:
        self.chain = LocalNode(folder, retention_slots)
        self.clock = self.chain.clock
        self.node = ChainNode(self.chain)
        self.network = PaymentNetwork(self.node)
        self.sponsor_keys = self.chain.wallet(lamports=10**9)
        self.sponsor = CountingSponsor(bytes(self.sponsor_keys)[:32])
        self.deposit = self.chain.wallet(lamports=10**9, usdc_base_units=1)
        self.payer = self.chain.wallet(lamports=10**9, usdc_base_units=10 * USDC)
        self.rules = Rules(self.deposit.pubkey(), USDC_MINT, self.sponsor.pubkey, 10_000, 50_000, 200_000)
        self.store: Any = store or MemoryPaymentStore()
        self.limits = limits
        self.shard = AccountShard(
            AccountsConfig(),
            IdentityConfig(),
            PaymentsConfig(network="devnet"),
            MemoryAccountStore(self.clock),
            MemoryIdentityStore(self.clock),
            self.clock,
            "test",
            [VirtualShard(number) for number in range(VIRTUAL_SHARDS)],
            sleep=_for_ever,
        )
        self.accounts = Accounts(self.shard)
        self.settler = self.new_settler()
        self.recovery = self.new_recovery()

    def new_settler(self) -> Settler:
        """The settler of another replica or of a restarted one, over the same store."""
        return Settler(
            *(self.rules, self.limits, self.sponsor, self.store, self.network, self.accounts, self.clock),  # type: ignore[arg-type]
            self.sleep,
        )

    def new_recovery(self, settler: Settler | None = None) -> PaymentRecovery:
        parts = (settler or self.settler, self.store, self.network, self.accounts, self.clock)
        return PaymentRecovery(self.limits, *parts, self.rules, 50_000_000, self.sleep)  # type: ignore[arg-type]

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.chain.beat()

    async def rounds(self, count: int = 1, seconds: float = 40) -> None:
        """Follow-up rounds: every open payment is due in each, and all that landed before it is final."""
        for _ in range(count):
            self.clock.advance(seconds)
            self.chain.finalize()
            await self.recovery.carry_on()

    def standard(
        self,
        amount: int = 100_000,
        payer: Keypair | None = None,
        text: str = "memo",
        blockhash: Hash | None = None,
        more: tuple[Instruction, ...] = (),
    ) -> bytes:
        """A stock client's payment on this chain's newest blockhash."""
        payer = payer or self.payer
        return self.framed(self.transfer(amount, payer), payer, text, blockhash, more)

    def framed(
        self,
        transfer: Instruction,
        payer: Keypair,
        text: str = "memo",
        blockhash: Hash | None = None,
        more: tuple[Instruction, ...] = (),
    ) -> bytes:
        """This transfer with the other instructions of a stock client."""
        frame = [set_compute_unit_limit(20_000), set_compute_unit_price(1)]
        return self._sponsored([*frame, transfer, memo(text), *more], payer, blockhash)

    def bare(self, amount: int = 100_000) -> bytes:
        """A payment for the relay path: one TransferChecked."""
        return self._sponsored([self.transfer(amount, self.payer)], self.payer)

    def self_paid(self, amount: int = 100_000) -> bytes:
        return bytes(self.chain.signed(self.payer, self.transfer(amount, self.payer)))

    def transfer(self, amount: int, payer: Keypair) -> Any:
        return transfer_checked(amount, payer.pubkey(), self.rules.deposit_account, USDC_MINT)

    def _sponsored(self, instructions: list[Any], payer: Keypair, blockhash: Hash | None = None) -> bytes:
        message = message_of(instructions, self.sponsor.pubkey, blockhash or self.chain.blockhash())
        return half_signed(message, payer)

    def received(self) -> int:
        """Base units on the deposit account, less the one that made it."""
        found = self.chain.call("getTokenAccountBalance", str(self.rules.deposit_account), {"commitment": "processed"})
        return int(found["value"]["amount"]) - 1

    def forget(self, signature: str) -> None:
        """Make the node forget the payment, as after a fork, and let its blockhash expire."""
        node, known = self.node, self.node.call

        async def call(method: str, params: bytes, timeout_ms: int) -> NodeAnswer:
            if method == "getSignatureStatuses" and signature.encode() in params:
                node.asked.append(method)
                return replies.judge(b'{"jsonrpc":"2.0","result":{"context":{"slot":1},"value":[null]},"id":1}')
            if method == "sendTransaction":
                node.asked.append(method)
                return replies.judge(b'{"jsonrpc":"2.0","result":"sent","id":1}')
            return await known(method, params, timeout_ms)

        node.call = call  # type: ignore[method-assign]

    async def close(self) -> None:
        await self.settler.drain()
        await self.shard.stop()
        self.chain.close()


async def a_payment_world(folder: Path, **settings: Any) -> PaymentWorld:
    world = PaymentWorld(folder, **settings)
    await world.shard.start()
    return world


def with_limits(**changes: Any) -> SettlementLimits:
    """changes: of limits, or of the budgets in them."""
    budgets = {name: changes.pop(name) for name in list(changes) if hasattr(LIMITS.budgets, name)}
    return replace(LIMITS, budgets=replace(LIMITS.budgets, **budgets), **changes)


async def _for_ever(seconds: float) -> None:
    await asyncio.Event().wait()


def lack(found: Settled | NotSettled) -> Lack:
    assert isinstance(found, NotSettled), found
    assert found.message
    return found.lack
