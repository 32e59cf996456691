"""Assembles the settling of x402 payments in one replica: rules, sponsor's key, store, node and recovery.

Implements: design, "Layout" (contexts on one level do not import each other; they are joined here). Wiring only: every
rule is in deposits/.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg
from solders.pubkey import Pubkey

from actors.accounts.api import AccountsClient
from actors.clock import Clock
from actors.config import Config
from actors.deposits.x402.network import PaymentNetwork
from actors.deposits.x402.recovery import PaymentRecovery
from actors.deposits.x402.rules import Rules
from actors.deposits.x402.settler import SettlementLimits, Settler
from actors.deposits.x402.sponsor_key import Sponsor, parse_key
from actors.deposits.x402.sponsor_limits import Budgets
from actors.deposits.x402.store import PostgresPaymentStore
from actors.storage.connections import checked_postgres
from actors.upstream.replies import Node
from actors.x402_types import mint_of

_CONNECTIONS_MAX = 3


@dataclass(frozen=True, slots=True)
class Payments:
    """The parts of taking payments. settler: for the gateway."""

    settler: Settler
    recovery: PaymentRecovery
    pool: asyncpg.Pool

    async def close(self) -> None:
        await self.recovery.stop()
        await self.settler.drain()
        await self.pool.close()


async def assemble_payments(
    config: Config, node: Node, accounts: AccountsClient, clock: Clock, single_nodes: Sequence[Node] = ()
) -> Payments | None:
    """Assemble the parts and start the recovery.

    single_nodes: the nodes behind `node`, each by itself. Returns None, and settles no payment, where no sponsor's key
    or no deposit wallet is configured.
    """
    payments = config.payments
    if payments.sponsor_key is None or payments.deposit_wallet is None:
        return None
    assert config.storage.postgres_url is not None
    pool = await checked_postgres(
        config.storage.postgres_url.get_secret_value(),
        connections_max=_CONNECTIONS_MAX,
        application="ledger-gateway payments",
    )
    sponsor = Sponsor(parse_key(payments.sponsor_key.get_secret_value()))
    rules = Rules(
        Pubkey.from_string(payments.deposit_wallet),
        Pubkey.from_string(mint_of(payments)),
        sponsor.pubkey,
        payments.minimum_deposit_base_units,
        payments.x402_unit_price_max,
        payments.x402_unit_limit_max,
    )
    limits = SettlementLimits(
        payments.x402_wait_ms,
        Budgets(
            payments.x402_attempts_per_minute,
            payments.x402_failures_per_hour,
            payments.x402_failures_per_address_per_hour,
        ),
        payments.x402_commitment == "finalized",
    )
    store, network = PostgresPaymentStore(pool), PaymentNetwork(node, single_nodes)
    settler = Settler(rules, limits, sponsor, store, network, accounts, clock)
    recovery = PaymentRecovery(limits, settler, store, network, accounts, clock, rules, payments.sponsor_low_lamports)
    recovery.start()
    return Payments(settler, recovery, pool)
