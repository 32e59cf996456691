"""Turns events of the chain into notifications for subscribers.

Implements: when each notification is sent, and at which commitment:
- at processed, signatures when the transaction lands; accounts, programs and logs when the slot is sealed, accounts
  once; at the other levels, all of them when the slot reaches the level;
- a signature that has already reached its level is notified at once, and then its subscription ends;
- blocks of a lost fork never reach a higher level; the accounts they wrote are notified again at processed, with their
  contents before the fork, after the next block: an account that the fork created is shown as empty.
Synchronous: one event after the other. Not here: where events come from (hub.py), JSON (payloads.py and others).
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from solders.account import Account
from solders.pubkey import Pubkey
from solders.signature import Signature

from devnode.chain.bus import (
    AccountWritten,
    Event,
    SignatureReceived,
    SlotConfirmed,
    SlotDead,
    SlotFinalized,
    SlotOpened,
    SlotsAbandoned,
    SlotSealed,
    TransactionLanded,
)
from devnode.faults.plan import Stream
from devnode.pubsub import payloads
from devnode.pubsub.payloads import account_value, block_value, program_value, vote_of
from devnode.pubsub.registry import Registry
from devnode.pubsub.topics import (
    AccountTopic,
    BlockTopic,
    LogsTopic,
    ProgramTopic,
    RootTopic,
    SignatureTopic,
    SlotsUpdatesTopic,
    SlotTopic,
    Topic,
    VoteTopic,
)
from devnode.pubsub.writes import SlotWrites
from devnode.records.commitment import Commitment
from devnode.records.records import Block, BlockHeader, Reward, TransactionRecord
from devnode.rpc.accounts import passes
from devnode.rpc.node import Node

_RANK = {level: rank for rank, level in enumerate(Commitment)}


class Feed:
    def __init__(self, node: Node, registry: Registry) -> None:
        self._node, self._registry = node, registry
        self._writes = SlotWrites()
        self._unconfirmed: dict[int, Block] = {}  # Sealed blocks that the archive does not have yet.
        self._landed: dict[int, list[tuple[SignatureTopic, Any]]] = {}  # By slot; these wait for their level.
        # Accounts to notify with the next block, after a lost fork. None: the fork had created the account.
        self._restored: dict[Pubkey, Account | None] = {}

    def begin(self, topic: Topic) -> None:
        """Prepare for the first subscriber of a topic."""
        if isinstance(topic, AccountTopic | ProgramTopic):
            self._writes.look_back(self._node.chain, topic)

    def settle(self, topic: SignatureTopic) -> None:
        """Notify a signature that landed before the subscription: at once, or when it reaches its level."""
        chain = self._node.chain
        recent = chain.statuses.get(Signature.from_string(topic.signature))
        landed = (recent.slot, recent.err) if recent is not None else self._node.archive.status(topic.signature)
        if landed is None:
            return
        slot, err = landed
        if _RANK[chain.levels.level_of(slot)] >= _RANK[topic.level]:
            self._finish(topic, chain.levels.at(topic.level).slot, err)
        else:
            self._landed.setdefault(slot, []).append((topic, err))

    def reset(self) -> None:
        """Forget all state, after events were missed."""
        self._writes.clear()
        self._unconfirmed.clear()
        self._landed.clear()
        self._restored.clear()

    def handle(self, event: Event) -> None:
        match event:
            case AccountWritten():
                self._on_write(event)
            case TransactionLanded(record):
                self._on_landing(record)
            case SignatureReceived(slot, signature):
                self._on_received(slot, signature)
            case SlotOpened(slot, parent):
                self._on_opened(slot, parent)
            case SlotSealed(block):
                self._on_sealed(block)
            case SlotDead(slot, error):
                self._notify(SlotsUpdatesTopic(), payloads.dead_update(slot, error, self._node.clock.now_ms()))
            case SlotsAbandoned():
                self._on_abandoned(event)
            case SlotConfirmed(slot):
                self._on_confirmed(slot)
            case SlotFinalized(slot):
                self._on_finalized(slot)

    # Within a slot.

    def _on_write(self, event: AccountWritten) -> None:
        at, account = self._registry.at, event.account
        is_wanted = bool(at((AccountTopic, event.pubkey)))
        if not is_wanted and account is not None:
            is_wanted = bool(at((ProgramTopic, account.owner)))
        self._writes.note(event.slot, event.pubkey, account, is_wanted)

    def _on_landing(self, transaction: TransactionRecord) -> None:
        slot = transaction.slot
        for topic in self._registry.at((SignatureTopic, transaction.signature)):
            assert isinstance(topic, SignatureTopic), topic
            if topic.level is Commitment.PROCESSED:
                self._finish(topic, slot, transaction.meta.err)
            else:
                self._landed.setdefault(slot, []).append((topic, transaction.meta.err))

    def _on_received(self, slot: int, signature: str) -> None:
        for topic in self._registry.at((SignatureTopic, signature)):
            if isinstance(topic, SignatureTopic) and topic.wants_received:
                self._notify(topic, payloads.in_slot(slot, payloads.RECEIVED))

    # Slots.

    def _on_opened(self, slot: int, parent: int) -> None:
        root = self._node.chain.levels.at(Commitment.FINALIZED).slot
        self._notify(SlotTopic(), payloads.slot_result(slot, parent, root))
        for update in payloads.opened_updates(slot, parent, self._node.clock.now_ms()):
            self._notify(SlotsUpdatesTopic(), update)

    def _on_sealed(self, block: Block) -> None:
        self._unconfirmed[block.slot] = block
        for update in payloads.sealed_updates(block, self._node.clock.now_ms()):
            self._notify(SlotsUpdatesTopic(), update)
        self._notify_accounts(block.slot, Commitment.PROCESSED)
        restored, self._restored = self._restored, {}
        for pubkey, account in restored.items():
            if pubkey not in self._writes.at(block.slot):
                self._notify_account(block.slot, Commitment.PROCESSED, pubkey, account)
        if self._registry.listens(LogsTopic, levels=(Commitment.PROCESSED,)):
            for transaction in block.transactions:
                self._notify_logs(block.slot, Commitment.PROCESSED, transaction)
        if self._registry.at(VoteTopic):
            self._notify(VoteTopic(), vote_of(self._node.keys, block))

    def _on_abandoned(self, event: SlotsAbandoned) -> None:
        for slot in event.slots:
            self._unconfirmed.pop(slot, None)
            self._landed.pop(slot, None)
            self._writes.forget(slot)
        self._restored |= dict(event.restored)

    def _on_confirmed(self, slot: int) -> None:
        self._notify(SlotsUpdatesTopic(), payloads.confirmed_update(slot, self._node.clock.now_ms()))
        self._notify_level(slot, Commitment.CONFIRMED)
        self._unconfirmed.pop(slot, None)

    def _on_finalized(self, slot: int) -> None:
        self._notify(RootTopic(), slot)
        self._notify(SlotsUpdatesTopic(), payloads.root_update(slot, self._node.clock.now_ms()))
        self._notify_level(slot, Commitment.FINALIZED)
        self._landed.pop(slot, None)
        self._writes.forget_up_to(slot)

    def _notify_level(self, slot: int, level: Commitment) -> None:
        self._notify_accounts(slot, level)
        if self._registry.listens(LogsTopic, BlockTopic, levels=(level,)):
            block = self._block(slot)
            header, transactions = block if block is not None else (None, ())
            for transaction in transactions:
                self._notify_logs(slot, level, transaction)
            if header is not None:
                self._notify_blocks(level, header, transactions)
        for topic, err in self._landed.get(slot, ()):
            if topic.level is level:
                self._finish(topic, slot, err)

    def _block(self, slot: int) -> tuple[BlockHeader, Sequence[TransactionRecord]] | None:
        """The block of a slot; None if it is cleaned up, which needs a lag longer than the retention."""
        sealed = self._unconfirmed.get(slot)
        if sealed is not None:
            return sealed, sealed.transactions
        header = self._node.archive.block(slot)
        if header is None:
            return None
        transactions = tuple(self._node.archive.block_transactions(slot))
        return _with_reward(header, transactions, self._node.archive.reward(slot)), transactions

    # Sending.

    def _notify_accounts(self, slot: int, level: Commitment) -> None:
        for pubkey, account in self._writes.at(slot).items():
            self._notify_account(slot, level, pubkey, account)

    def _notify_account(self, slot: int, level: Commitment, pubkey: Pubkey, account: Account | None) -> None:
        at = self._registry.at
        for topic in at((AccountTopic, pubkey)):
            if isinstance(topic, AccountTopic) and topic.level is level:
                self._notify(topic, payloads.in_slot(slot, account_value(self._node, topic, pubkey, account)))
        for topic in () if account is None else at((ProgramTopic, account.owner)):
            assert isinstance(topic, ProgramTopic) and account is not None, topic
            if topic.level is level and passes(account, list(topic.filters)):
                value = program_value(self._node, topic, pubkey, account)
                if value is not None:
                    self._notify(topic, payloads.in_slot(slot, value))

    def _notify_logs(self, slot: int, level: Commitment, transaction: TransactionRecord) -> None:
        topics = [topic for mention in (None, *transaction.keys) for topic in self._registry.at((LogsTopic, mention))]
        for topic in topics:
            if topic.level is level:
                self._notify(topic, payloads.in_slot(slot, payloads.logs_value(transaction)))

    def _notify_blocks(self, level: Commitment, header: BlockHeader, transactions: Sequence[TransactionRecord]) -> None:
        for topic in self._registry.at(BlockTopic):
            if isinstance(topic, BlockTopic) and topic.level is level:
                value = block_value(header, transactions, topic)
                if value is not None:
                    self._notify(topic, payloads.in_slot(header.slot, value))

    def _finish(self, topic: SignatureTopic, slot: int, err: Any) -> None:
        """Notify the result of a signature and end its subscription; a second call changes nothing."""
        self._notify(topic, payloads.in_slot(slot, payloads.signature_value(err)))
        self._registry.finish(topic)

    def _notify(self, topic: Topic, result: Any) -> None:
        if not self._node.faults.delivers(Stream.PUBSUB):
            return  # Fault injection: the notification is lost.
        entry = self._registry.entry(topic)
        if entry is not None:
            text = payloads.notification(topic, entry.identifier, result)
            for subscriber in entry.subscribers:
                subscriber.offer(text)


def _with_reward(header: BlockHeader, transactions: tuple[TransactionRecord, ...], reward: Reward | None) -> Block:
    return Block(**msgspec.structs.asdict(header), transactions=transactions, reward=reward)
