"""A chain in the test with its own mints, which executes real transfers between wallets."""

from pathlib import Path
from typing import Any

from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from spl.token import instructions as spl
from spl.token import models
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID

from devnode.records.records import TransactionRecord
from tests.devnode.local_node import LocalNode

_MINT_BYTES = 82
_FEE_MINT_BYTES = 278  # With the transfer fee's extension.


class Scene:
    def __init__(self, folder: Path) -> None:
        self.local = LocalNode(folder)
        self.anna, self.bert = self.local.wallet(10**10), self.local.wallet(10**10)

    def land(self, payer: Keypair, *instructions: Instruction, signers: tuple[Keypair, ...] = ()) -> TransactionRecord:
        """Execute a transaction until it is final, whether it succeeds or fails on the chain."""
        message = MessageV0.try_compile(payer.pubkey(), list(instructions), [], self.local.blockhash())
        record = self.local.land(VersionedTransaction(message, [payer, *signers]))
        self.local.finalize()
        return record

    def transaction(self, record: TransactionRecord) -> dict[str, Any]:
        """The getTransaction result with jsonParsed."""
        config = {"encoding": "jsonParsed", "maxSupportedTransactionVersion": 1}
        found: dict[str, Any] = self.local.call("getTransaction", str(record.signature), config)
        return found

    def mint(self, decimals: int, program: Pubkey = TOKEN_PROGRAM_ID, fee_basis_points: int = 0) -> Pubkey:
        """Create a mint whose authority is Anna."""
        key = Keypair()
        size = _FEE_MINT_BYTES if fee_basis_points else _MINT_BYTES
        rent = self.local.call("getMinimumBalanceForRentExemption", size)
        params = CreateAccountParams(
            from_pubkey=self.anna.pubkey(), to_pubkey=key.pubkey(), lamports=rent, space=size, owner=program
        )
        steps = [create_account(params)]
        if fee_basis_points:
            fees = models.InitializeTransferFeeConfigParams(
                program_id=program,
                mint=key.pubkey(),
                transfer_fee_config_authority=None,
                withdraw_withheld_authority=None,
                transfer_fee_basis_points=fee_basis_points,
                maximum_fee=10**9,
            )
            steps.append(spl.initialize_transfer_fee_config(fees))
        steps.append(
            spl.initialize_mint(
                models.InitializeMintParams(
                    program_id=program, mint=key.pubkey(), decimals=decimals, mint_authority=self.anna.pubkey()
                )
            )
        )
        record = self.land(self.anna, *steps, signers=(key,))
        assert record.meta.err is None, record.meta.logs
        return key.pubkey()

    def account_of(self, owner: Keypair, mint: Pubkey, program: Pubkey = TOKEN_PROGRAM_ID) -> Pubkey:
        return get_associated_token_address(owner.pubkey(), mint, program)

    def opened(self, owner: Keypair, mint: Pubkey, program: Pubkey = TOKEN_PROGRAM_ID) -> Instruction:
        """Create a token account; Anna pays for it."""
        return spl.create_idempotent_associated_token_account(self.anna.pubkey(), owner.pubkey(), mint, program)

    def minted(self, owner: Keypair, mint: Pubkey, amount: int, program: Pubkey = TOKEN_PROGRAM_ID) -> Instruction:
        params = models.MintToParams(
            program_id=program,
            mint=mint,
            dest=self.account_of(owner, mint, program),
            mint_authority=self.anna.pubkey(),
            amount=amount,
        )
        return spl.mint_to(params)

    def given(
        self,
        giver: Keypair,
        taker: Keypair,
        mint: Pubkey,
        amount: int,
        decimals: int,
        program: Pubkey = TOKEN_PROGRAM_ID,
    ) -> Instruction:
        params = models.TransferCheckedParams(
            program_id=program,
            source=self.account_of(giver, mint, program),
            mint=mint,
            dest=self.account_of(taker, mint, program),
            owner=giver.pubkey(),
            amount=amount,
            decimals=decimals,
        )
        return spl.transfer_checked(params)

    def holds(self, owner: Keypair, mint: Pubkey, amount: int, program: Pubkey = TOKEN_PROGRAM_ID) -> None:
        record = self.land(self.anna, self.opened(owner, mint, program), self.minted(owner, mint, amount, program))
        assert record.meta.err is None, record.meta.logs


__all__ = ["TOKEN_2022_PROGRAM_ID", "TOKEN_PROGRAM_ID", "Scene"]
