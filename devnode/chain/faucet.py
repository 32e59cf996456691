"""The faucet: funds wallets by real transactions that it signs and submits to the chain.

Implements: requestAirdrop, and funding of a wallet with SOL and USDC. Each call makes new signatures.
"""

from dataclasses import dataclass

from solders.compute_budget import set_compute_unit_price
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from devnode.chain.chain import Chain
from devnode.chain.submissions import Dropped, Source, SubmitResult, Waiting
from devnode.encoding.addresses import (
    ASSOCIATED_TOKEN_PROGRAM,
    LAMPORTS_PER_SOL,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAM,
    USDC_MINT,
)
from devnode.encoding.transaction_errors import error_text
from devnode.encoding.wire import Malformed
from devnode.execution.execution import Refused

AIRDROP_LAMPORTS_MAX = 1_000_000 * LAMPORTS_PER_SOL
USDC_BASE_UNITS_MAX = 1_000_000_000 * 10**6
NO_SIGNATURE = Signature.default()
_CREATE_IDEMPOTENT = b"\x01"
_MINT_TO = b"\x07"
_PRICE_CYCLE = 1_000_000  # Micro-lamports per unit; keeps the priority fee below a millionth of a usual grant.
_ATTEMPTS_MAX = 10_000  # After a restart the first prices may be used already; no slot has as many grants as this.


class FaucetError(Exception):
    """The faucet's transaction did not land; the text says why."""


@dataclass(frozen=True, slots=True)
class Funded:
    """Signatures of the landed transactions; None for a currency that was not requested."""

    sol_signature: str | None
    usdc_signature: str | None
    token_account: str | None


class Faucet:
    """Signs with the faucet's key. Each grant has a compute-unit price one higher than the last: otherwise two equal
    grants on one blockhash would be the same transaction, and the second would be refused as a duplicate."""

    def __init__(self, chain: Chain, keypair: Keypair) -> None:
        self._chain, self._keypair = chain, keypair
        self._price = 0

    @property
    def pubkey(self) -> Pubkey:
        return self._keypair.pubkey()

    def airdrop(self, wallet: Pubkey, lamports: int) -> str:
        """Transfer SOL and return the signature of the landed transaction. Raises FaucetError."""
        give = transfer(TransferParams(from_pubkey=self.pubkey, to_pubkey=wallet, lamports=lamports))
        return self._land([give])

    def fund(self, wallet: Pubkey, lamports: int, usdc_base_units: int) -> Funded:
        """Transfer SOL, then mint USDC to the wallet's associated account, which is created if it is missing."""
        sol_signature = self.airdrop(wallet, lamports) if lamports else None
        if not usdc_base_units:
            return Funded(sol_signature, None, None)
        token_account = get_associated_token_address(wallet, USDC_MINT)
        instructions = [
            _create_token_account(self.pubkey, token_account, wallet),
            _mint_to(token_account, self.pubkey, usdc_base_units),
        ]
        return Funded(sol_signature, self._land(instructions), str(token_account))

    def _land(self, instructions: list[Instruction]) -> str:
        for _ in range(_ATTEMPTS_MAX):
            self._price = self._price % _PRICE_CYCLE + 1
            priced = [set_compute_unit_price(self._price), *instructions]
            blockhash = self._chain.blockhashes.latest().blockhash
            message = MessageV0.try_compile(self.pubkey, priced, [], blockhash)
            result = self._chain.submit(bytes(VersionedTransaction(message, [self._keypair])), Source.FAUCET)
            if not (isinstance(result, Refused) and result.err == "AlreadyProcessed"):
                return _signature_of(result)
        raise FaucetError("faucet: no unused price is left in this slot")


def _signature_of(result: SubmitResult) -> str:
    assert not isinstance(result, Malformed), result
    if isinstance(result, Dropped | Waiting):
        raise FaucetError("faucet: the transaction was dropped by fault injection")
    err = result.err if isinstance(result, Refused) else result.meta.err
    if err is not None or isinstance(result, Refused):
        raise FaucetError(f"faucet: {error_text(err)}")
    return result.signature


def _create_token_account(payer: Pubkey, token_account: Pubkey, wallet: Pubkey) -> Instruction:
    accounts = [
        AccountMeta(payer, True, True),
        AccountMeta(token_account, False, True),
        AccountMeta(wallet, False, False),
        AccountMeta(USDC_MINT, False, False),
        AccountMeta(SYSTEM_PROGRAM, False, False),
        AccountMeta(TOKEN_PROGRAM, False, False),
    ]
    return Instruction(ASSOCIATED_TOKEN_PROGRAM, _CREATE_IDEMPOTENT, accounts)


def _mint_to(token_account: Pubkey, authority: Pubkey, base_units: int) -> Instruction:
    accounts = [
        AccountMeta(USDC_MINT, False, True),
        AccountMeta(token_account, False, True),
        AccountMeta(authority, True, False),
    ]
    return Instruction(TOKEN_PROGRAM, _MINT_TO + base_units.to_bytes(8, "little"), accounts)
