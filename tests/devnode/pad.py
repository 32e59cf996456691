"""A chain with the launch programs, and a wallet that launches and trades by signed transactions."""

from dataclasses import replace
from pathlib import Path

from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.launch_programs import addresses, pdas
from actors.launch_programs.accounts import Keys, Trader, create_instruction, trade_instruction, trade_keys
from actors.launch_programs.curve_account import BondingCurve, decode_curve, encode_curve
from actors.launch_programs.events import Event, decode_event
from actors.launch_programs.instructions import CreateArguments, Kind, TradeArguments
from devnode.launchpad import calls
from devnode.launchpad.genesis import launch_accounts
from devnode.parsing.token_accounts import holding
from devnode.records.records import TransactionMeta, TransactionRecord
from tests.devnode.local_node import LocalNode

SOL = 10**9


class Pad:
    def __init__(self, data_dir: Path) -> None:
        self.local = LocalNode(data_dir)
        for pubkey, account in launch_accounts():
            self.local.chain.place(pubkey, account)
        self.user = self.local.wallet(200 * SOL, 10_000 * 10**6)

    # Coins.

    def launch(self, kind: Kind = Kind.CREATE_V2, quote: Pubkey | None = None, **asked: object) -> Pubkey:
        """Launch a coin of the pad's user; returns its mint."""
        mint = Keypair()
        meta = self.land(self.creation(mint.pubkey(), kind, quote, **asked), signers=(mint,))
        assert meta.err is None, meta
        return mint.pubkey()

    def coin(self, kind: Kind = Kind.CREATE_V2, quote: Pubkey | None = None, **asked: object) -> Pubkey:
        """Launch a coin for which the user has a token account; returns its mint."""
        mint = self.launch(kind, quote, **asked)
        assert self.land(self.base_account(mint)).err is None
        return mint

    def creation(
        self, mint: Pubkey, kind: Kind = Kind.CREATE_V2, quote: Pubkey | None = None, **asked: object
    ) -> Instruction:
        user = self.user.pubkey()
        arguments = replace(CreateArguments("Some Coin", "SOME", "https://example.com/some", user), **asked)  # type: ignore[arg-type]
        token_quote = None if quote is None else (quote, addresses.TOKEN_PROGRAM)
        return create_instruction(kind, arguments, mint, user, token_quote)

    def curve(self, mint: Pubkey) -> BondingCurve:
        account = self.local.chain.vm.account(pdas.bonding_curve(mint))
        assert account is not None
        curve = decode_curve(account.data)
        assert curve is not None
        return curve

    def change_curve(self, mint: Pubkey, size: int | None = None, **fields: object) -> None:
        """Rewrite the curve account, as a loaded dump does."""
        address = pdas.bonding_curve(mint)
        account = self.local.chain.vm.account(address)
        assert account is not None
        curve = replace(self.curve(mint), **fields)  # type: ignore[arg-type]
        data = encode_curve(curve, size or len(account.data))
        lamports = max(account.lamports, curve.real_quote_reserves + 2 * 10**6)
        changed = type(account)(lamports, data, account.owner, False, account.rent_epoch)
        self.local.chain.place(address, changed)

    # Trades.

    def keys(self, mint: Pubkey, user: Pubkey | None = None) -> Keys:
        curve = self.curve(mint)
        recipients = addresses.RESERVED_FEE_RECIPIENTS if curve.is_mayhem_mode else addresses.NORMAL_FEE_RECIPIENTS
        trader = Trader(user or self.user.pubkey(), recipients[3], addresses.BUYBACK_FEE_RECIPIENTS[4])
        return trade_keys(mint, self.program_of(mint), curve, trader, addresses.TOKEN_PROGRAM)

    def trade(
        self, mint: Pubkey, kind: Kind, amount: int, limit: int, flag: bool = False, /, **other: Pubkey
    ) -> Instruction:
        """A trade instruction. other: accounts, by name, that replace the right ones."""
        return trade_instruction(kind, TradeArguments(amount, limit, flag), self.keys(mint) | other)

    def base_account(self, mint: Pubkey) -> Instruction:
        user, program = self.user.pubkey(), self.program_of(mint)
        return calls.create_token_account(
            user, pdas.associated_token(user, program, mint), user, mint, program, idempotent=True
        )

    def program_of(self, mint: Pubkey) -> Pubkey:
        account = self.local.chain.vm.account(mint)
        assert account is not None
        return account.owner

    # Transactions.

    def transaction(self, *instructions: Instruction, signers: tuple[Keypair, ...] = ()) -> VersionedTransaction:
        message = MessageV0.try_compile(self.user.pubkey(), list(instructions), [], self.local.blockhash())
        return VersionedTransaction(message, [self.user, *signers])

    def land(self, *instructions: Instruction, signers: tuple[Keypair, ...] = ()) -> TransactionMeta:
        return self.record(*instructions, signers=signers).meta

    def record(self, *instructions: Instruction, signers: tuple[Keypair, ...] = ()) -> TransactionRecord:
        self.local.beat()  # Equal transactions differ by their blockhash.
        return self.local.land(self.transaction(*instructions, signers=signers))

    def error(self, *instructions: Instruction, signers: tuple[Keypair, ...] = ()) -> object:
        """Land a failing transaction; returns the error number of its last instruction. Only the fee may change."""
        record = self.record(*instructions, signers=signers)
        err = record.meta.err
        assert err is not None and err["InstructionError"][0] == len(instructions) - 1, err
        fee = record.meta.fee_lamports
        changes = [
            after - before for before, after in zip(record.meta.pre_lamports, record.meta.post_lamports, strict=True)
        ]
        assert changes == [-fee, *[0] * (len(changes) - 1)], changes
        assert record.meta.pre_tokens == record.meta.post_tokens
        cause = err["InstructionError"][1]
        return cause["Custom"] if isinstance(cause, dict) else cause

    # Reading.

    def lamports(self, pubkey: Pubkey) -> int:
        account = self.local.chain.vm.account(pubkey)
        return 0 if account is None else account.lamports

    def tokens(self, token_account: Pubkey) -> int:
        held = holding(self.local.chain.vm.account(token_account))
        return 0 if held is None else held.amount


def events(meta: TransactionMeta) -> list[Event]:
    found = (decode_event(call.data) for group in meta.inner for call in group.instructions)
    return [event for event in found if event is not None]
