"""A whole devnode inside the test process: chain, journal, archive and JSON-RPC, on a manual clock."""

import base64
import json
from pathlib import Path
from typing import Any

import orjson
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import (
    CreateAccountParams,
    InitializeNonceAccountParams,
    TransferParams,
    create_account,
    initialize_nonce_account,
    transfer,
)
from solders.transaction import VersionedTransaction

from actors.clock import ManualClock
from devnode.chain.chain import Chain
from devnode.chain.faucet import Faucet
from devnode.chain.genesis import Birth, chain_keys, genesis_accounts
from devnode.chain.open_block import ForkEnd
from devnode.chain.submissions import Source
from devnode.encoding.addresses import NONCE_ACCOUNT_BYTES, SYSTEM_PROGRAM
from devnode.encoding.wire import Decoded, decode
from devnode.journal.archive import Archive
from devnode.journal.journal import Journal, SealedSlot
from devnode.records.records import TransactionRecord
from devnode.rpc.dispatch import Dispatcher
from devnode.rpc.node import Node
from devnode.rpc.table import METHODS

SALT = bytes(range(32))
ROOT_DEPTH = 4
RETENTION_SLOTS = 320


class LocalNode:
    def __init__(self, data_dir: Path, retention_slots: int = RETENTION_SLOTS) -> None:
        self.data_dir, self.retention_slots = data_dir, retention_slots
        self.clock = ManualClock()
        self.journal = Journal(data_dir, retention_slots)
        past = self.journal.restore()
        self.keys = chain_keys(0, SALT if past is None else past.salt)
        if past is None:
            self.journal.begin(0, SALT)
            self.chain = Chain.new(Birth(SALT, genesis_accounts(self.keys), self.clock.now()), ROOT_DEPTH)
        else:
            self.chain = Chain.restored(past, self.clock.now(), ROOT_DEPTH)
        self.archive = Archive(data_dir)
        self.faucet = Faucet(self.chain, self.keys.faucet)
        self.node = Node(self.chain, self.archive, self.keys, self.faucet, self.clock, 400, "127.0.0.1:8899")
        self.dispatcher = Dispatcher(self.node, METHODS)
        if past is None:
            self.beat(ROOT_DEPTH)

    def close(self) -> None:
        self.archive.close()
        self.journal.close()

    def restarted(self) -> "LocalNode":
        """Open the same folder again, as after a crash: the unsealed slot is lost."""
        self.close()
        return LocalNode(self.data_dir, self.retention_slots)

    def beat(self, slots: int = 1, skip: int = 0) -> None:
        for _ in range(slots):
            self.clock.advance(0.4)
            sealed = self.chain.seal(self.clock.now(), self.clock.monotonic(), skip)
            self.journal.flush(sealed)
            self.chain.mark_durable(sealed.block.slot)

    def seal(self, fork_end: ForkEnd | None = None) -> SealedSlot:
        """Seal the slot being built without writing it to the journal, so that it stays processed."""
        return self.chain.seal(self.clock.now(), self.clock.monotonic(), fork_end=fork_end)

    def lose(self, blocks: int = 1, is_dead: bool = False) -> int:
        """Seal that many blocks of a fork and abandon it; returns its first slot."""
        first = self.chain.levels.building.slot
        for number in range(1, blocks + 1):
            self.seal(ForkEnd(first, is_dead) if number == blocks else None)
        return first

    def finalize(self) -> None:
        self.beat(ROOT_DEPTH)

    def reply(self, method: str, *params: Any) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": list(params)}
        answer = self.dispatcher.answer(json.dumps(request).encode())  # orjson writes no number above 64 bits.
        assert answer is not None
        reply = orjson.loads(answer)
        assert reply["jsonrpc"] == "2.0" and reply["id"] == 7
        return reply

    def raw_reply(self, method: str, *params: Any) -> str:
        request = {"jsonrpc": "2.0", "id": 0, "method": method, "params": list(params)}
        answer = self.dispatcher.answer(orjson.dumps(request))
        assert answer is not None
        return answer.decode()

    def call(self, method: str, *params: Any) -> Any:
        reply = self.reply(method, *params)
        assert "error" not in reply, reply["error"]
        return reply["result"]

    def error(self, method: str, *params: Any) -> tuple[int, str]:
        reply = self.reply(method, *params)
        assert "error" in reply, reply
        return reply["error"]["code"], reply["error"]["message"]

    def wallet(self, lamports: int = 10**9, usdc_base_units: int = 0) -> Keypair:
        """A funded wallet, visible at every commitment."""
        keypair = Keypair()
        self.faucet.fund(keypair.pubkey(), lamports, usdc_base_units)
        self.finalize()
        return keypair

    def blockhash(self) -> Hash:
        return self.chain.blockhashes.latest().blockhash

    def signed(self, payer: Keypair, *instructions: Instruction, blockhash: Hash | None = None) -> VersionedTransaction:
        message = MessageV0.try_compile(payer.pubkey(), list(instructions), [], blockhash or self.blockhash())
        return VersionedTransaction(message, [payer])

    def transfer(self, payer: Keypair, to: Pubkey, lamports: int) -> VersionedTransaction:
        return self.signed(payer, give(payer, to, lamports))

    def land(self, transaction: VersionedTransaction) -> TransactionRecord:
        result = self.chain.submit(bytes(transaction), Source.RPC)
        assert isinstance(result, TransactionRecord), result
        return result


def nonce_instructions(owner: Keypair, account: Keypair) -> list[Instruction]:
    """Create a nonce account that the owner pays for; both sign."""
    make = CreateAccountParams(
        from_pubkey=owner.pubkey(),
        to_pubkey=account.pubkey(),
        lamports=1_447_680,
        space=NONCE_ACCOUNT_BYTES,
        owner=SYSTEM_PROGRAM,
    )
    start = InitializeNonceAccountParams(nonce_pubkey=account.pubkey(), authority=owner.pubkey())
    return [create_account(make), initialize_nonce_account(start)]


def decoded(transaction: VersionedTransaction) -> Decoded:
    found = decode(bytes(transaction))
    assert isinstance(found, Decoded), found
    return found


def text(transaction: VersionedTransaction) -> str:
    """The transaction in base64, as sendTransaction takes it."""
    return base64.b64encode(bytes(transaction)).decode()


def give(payer: Keypair, to: Pubkey, lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=to, lamports=lamports))
