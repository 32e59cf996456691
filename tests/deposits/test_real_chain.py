"""The watcher over a chain that executes token programs and forks: threat 23 from end to end."""

from dataclasses import dataclass
from typing import Any

import pytest
from solders.keypair import Keypair

from actors.clock import ManualClock
from actors.deposits.usdc.actor import DepositWatcher
from actors.deposits.usdc.chain import DepositChain, signature_of
from actors.deposits.usdc.confirmation import Confirming
from actors.deposits.usdc.core import FindingStatus, Part, Reason
from actors.deposits.usdc.crediting import Crediting
from actors.errors import Err, Refusal
from devnode.chain.open_block import ForkEnd
from devnode.chain.submissions import Source
from tests.deposits.memory_stores import MemoryDepositStore
from tests.deposits.token_making import (
    Shop,
    approve,
    batch,
    mint_to,
    open_associated,
    open_mint,
    open_multisig,
    open_plain,
    pay,
    pay_checked,
    token_account,
)
from tests.deposits.usdc.test_chain import Here
from tests.deposits.world import MINIMUM, FakeAccounts


@dataclass
class Till:
    """A watcher over the shop's chain."""

    shop: Shop

    def __post_init__(self) -> None:
        self.accounts, self.store, clock = FakeAccounts(), MemoryDepositStore(), ManualClock()
        chain, crediting = DepositChain(Here(self.shop)), Crediting(self.accounts)
        account = self.shop.account
        self.watcher = DepositWatcher(account, chain, self.store, crediting, clock, minimum_base_units=MINIMUM)
        self.confirming = Confirming(account.address, self.watcher, chain, self.store, crediting, clock)

    async def confirm(self, signature: str) -> Any:
        return (await self.confirming.confirm(signature_of(signature)))[0]

    async def reasons(self, status: FindingStatus) -> list[Reason]:
        rows = await self.store.listing(self.shop.account.address, status, 50, 0)
        return [row.reason for row in rows][::-1]


@pytest.fixture
def till(shop: Shop) -> Till:
    return Till(shop)


async def test_every_way_to_pay_is_credited_to_its_authority_once(till: Till) -> None:
    """Plain, checked, in a batch, by a delegate, by two wallets at once; by the watcher and by confirmation."""
    shop = till.shop
    friend = shop.node.wallet(10**9, 10**6)
    delegate = shop.node.wallet(10**9)
    shop.run([approve(50_000, shop.purse, delegate.pubkey(), shop.wallet)])
    signatures = [
        shop.run([shop.pay(10_000)]),
        shop.run([pay_checked(20_000, shop.purse, shop.till, shop.wallet)]),
        shop.run([batch(shop.pay(30_000), shop.pay(40_000))]),
        shop.run([pay(50_000, shop.purse, shop.till, delegate.pubkey())], delegate),
        shop.run([shop.pay(60_000), pay(70_000, token_account(friend.pubkey()), shop.till, friend.pubkey())], friend),
    ]
    for signature in signatures[:2]:
        assert isinstance(await till.confirm(signature), tuple)
    for _ in range(2):
        await till.watcher.round()
    for signature in signatures:
        outcome = await till.confirm(signature)
        assert isinstance(outcome, tuple) and all(part.added == 0 for part in outcome)
    due = {bytes(shop.wallet): 16_000, bytes(delegate.pubkey()): 5_000, bytes(friend.pubkey()): 7_000}
    assert till.accounts.balances == due
    held = shop.node.call("getTokenAccountBalance", str(shop.till), {"commitment": "finalized"})
    assert int(held["value"]["amount"]) == sum(due.values()) * 10


async def test_nothing_that_is_faked_earns_a_credit(till: Till) -> None:
    """Another mint, another account, a failed transfer, a multisig, minted tokens, a transfer to itself."""
    shop = till.shop
    mint, other, multisig, vault, second = (Keypair() for _ in range(5))
    shop.run(open_mint(shop.wallet, mint.pubkey(), shop.wallet), mint)
    mine, theirs = (token_account(owner, mint.pubkey()) for owner in (shop.wallet, shop.keeper.pubkey()))
    opened = [open_associated(shop.wallet, owner, mint.pubkey()) for owner in (shop.wallet, shop.keeper.pubkey())]
    shop.run([*opened, mint_to(10**12, mint.pubkey(), mine, shop.wallet)])
    shop.run(open_plain(shop.wallet, other.pubkey(), shop.keeper.pubkey()), other)
    shop.run(open_multisig(shop.wallet, multisig.pubkey(), 2, shop.wallet, second.pubkey()), multisig)
    shop.run(open_plain(shop.wallet, vault.pubkey(), multisig.pubkey()), vault)
    shop.run([pay(90_000, shop.purse, vault.pubkey(), shop.wallet)])
    wrong = [
        shop.run([pay_checked(10**12, mine, theirs, shop.wallet, mint.pubkey())]),
        shop.run([pay(10_000, shop.purse, other.pubkey(), shop.wallet)]),
        shop.run([shop.pay(10**12)]),
        shop.run([pay(90_000, vault.pubkey(), shop.till, multisig.pubkey(), shop.wallet, second.pubkey())], second),
        shop.run([shop.pay(10_000), pay(10_000, shop.till, shop.purse, shop.keeper.pubkey())], shop.keeper),
        shop.run([shop.pay(9_999)]),
    ]
    shop.node.faucet.fund(shop.keeper.pubkey(), 0, 77_000)
    shop.node.finalize()
    for signature in wrong:
        outcome = await till.confirm(signature)
        assert isinstance(outcome, Refusal) and outcome.err is Err.INVALID_REQUEST, outcome
    await till.watcher.round()
    assert till.accounts.balances == {}
    listed = [Reason.NO_WALLET, Reason.BALANCE_DIFFERS, Reason.BELOW_MINIMUM, Reason.NO_TRANSFER]
    assert await till.reasons(FindingStatus.LISTED) == listed


async def test_what_is_forked_out_earns_nothing_until_it_is_final(till: Till) -> None:
    """Processed, dropped with its fork, landed again: one credit, once it is final."""
    shop, chain = till.shop, till.shop.node.chain
    transaction = shop.signed([shop.pay(10_000)])
    signature = str(transaction.signatures[0])
    first = chain.levels.building.slot
    shop.node.land(transaction)
    pending = await till.confirm(signature)
    assert isinstance(pending, Refusal) and pending.err is Err.DEPOSIT_NOT_FINAL
    chain.seal(shop.node.clock.now(), shop.node.clock.monotonic(), fork_end=ForkEnd(first))
    shop.node.finalize()
    await till.watcher.round()
    lost = await till.confirm(signature)
    assert isinstance(lost, Refusal) and lost.err is Err.DEPOSIT_NOT_FOUND
    assert till.accounts.balances == {}
    chain.submit(bytes(transaction), Source.RPC)
    shop.node.beat()
    await till.watcher.round()
    again = await till.confirm(signature)
    assert isinstance(again, Refusal) and again.err is Err.DEPOSIT_NOT_FINAL
    assert till.accounts.balances == {}
    shop.node.finalize()
    assert await till.confirm(signature) == (Part(bytes(shop.wallet), 1_000, 1_000),)
    await till.watcher.round()
    assert till.accounts.balances == {bytes(shop.wallet): 1_000}
