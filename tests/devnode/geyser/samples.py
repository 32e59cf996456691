"""Sample updates for tests of filters and messages that need no chain."""

from solders.account import Account
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.units import UnixMillis
from devnode.encoding.addresses import SYSTEM_PROGRAM
from devnode.geyser.messages import AccountUpdate, TransactionUpdate
from devnode.records.records import Block, TokenBalance, TransactionMeta, TransactionRecord
from tests.devnode.local_node import give

SLOT = 1_234
CREATED_MS = UnixMillis(1_700_000_000_123)
PAYER = Keypair.from_seed(bytes(32))
KEYS = tuple(Keypair.from_seed(bytes([number]) * 32).pubkey() for number in range(1, 9))
SIGNATURE = str(PAYER.sign_message(b"a transaction"))


def account_update(
    pubkey: Pubkey = KEYS[0],
    owner: Pubkey = SYSTEM_PROGRAM,
    lamports: int = 1_000,
    data: bytes = b"",
    signature: str | None = SIGNATURE,
    slot: int = SLOT,
) -> AccountUpdate:
    return AccountUpdate(slot, pubkey, Account(lamports, data, owner), 7, signature, CREATED_MS)


def closed_update(pubkey: Pubkey = KEYS[0]) -> AccountUpdate:
    return AccountUpdate(SLOT, pubkey, None, 8, SIGNATURE, CREATED_MS)


def meta(
    err: object = None, pre: tuple[TokenBalance, ...] = (), post: tuple[TokenBalance, ...] = ()
) -> TransactionMeta:
    return TransactionMeta(
        err=err,
        fee_lamports=5_000,
        compute_units=150,
        pre_lamports=(10, 0, 1),
        post_lamports=(3, 2, 1),
        pre_tokens=pre,
        post_tokens=post,
        inner=(),
        logs=("Program 11111111111111111111111111111111 invoke [1]",),
        loaded_writable=(),
        loaded_readonly=(),
    )


def balance(index: int, owner: Pubkey, amount: int) -> TokenBalance:
    return TokenBalance(index, str(KEYS[7]), str(owner), str(KEYS[6]), amount, 6)


def record(keys: tuple[Pubkey, ...] = (), what: TransactionMeta | None = None, position: int = 0) -> TransactionRecord:
    """A transfer by PAYER; `keys` are further accounts of the transaction."""
    message = MessageV0.try_compile(PAYER.pubkey(), [give(PAYER, KEYS[0], position + 1)], [], Hash.default())
    transaction = VersionedTransaction(message, [PAYER])
    return TransactionRecord(
        slot=SLOT,
        position=position,
        signature=str(transaction.signatures[0]),
        raw=bytes(transaction),
        keys=tuple(map(str, (*message.account_keys, *keys))),
        meta=what if what is not None else meta(),
        compute_unit_price=0,
        write_locked=(),
    )


def transaction_update(
    keys: tuple[Pubkey, ...] = (), what: TransactionMeta | None = None, position: int = 0
) -> TransactionUpdate:
    return TransactionUpdate(record(keys, what, position), CREATED_MS)


def block(transactions: tuple[TransactionRecord, ...] = (), slot: int = SLOT) -> Block:
    return Block(
        slot=slot,
        parent_slot=slot - 2,
        height=234,
        blockhash=str(Hash.new_unique()),
        previous_blockhash=str(Hash.default()),
        unix_time=1_700_000_000,
        transactions=transactions,
    )
