"""Topics of subscriptions, as values: equal topics share one id and one serialized notification.

Implements: the parameters of each subscription with defaults filled in; the route of a topic, which is the key under
which events look topics up. Pure. Not here: reading them from JSON (reading.py), their subscribers (registry.py).
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from solders.pubkey import Pubkey

from devnode.records.commitment import Commitment
from devnode.rpc.accounts import Filter


@dataclass(frozen=True, slots=True)
class Shape:
    """How account contents are shown."""

    encoding: str
    # The data slice, both or neither. As on a node, it makes another topic, and notifications have the whole data.
    offset: int | None = None
    length: int | None = None

    def config(self) -> dict[str, Any]:
        """The shape as the configuration object of a call."""
        return {"encoding": self.encoding}


@dataclass(frozen=True, slots=True)
class AccountTopic:
    notification: ClassVar[str] = "accountNotification"
    pubkey: Pubkey
    level: Commitment
    shape: Shape

    @property
    def route(self) -> Hashable:
        return AccountTopic, self.pubkey


@dataclass(frozen=True, slots=True)
class ProgramTopic:
    notification: ClassVar[str] = "programNotification"
    program: Pubkey
    level: Commitment
    shape: Shape
    filters: tuple[Filter, ...]

    @property
    def route(self) -> Hashable:
        return ProgramTopic, self.program


@dataclass(frozen=True, slots=True)
class LogsTopic:
    notification: ClassVar[str] = "logsNotification"
    mention: str | None  # None: every transaction.
    level: Commitment

    @property
    def route(self) -> Hashable:
        return LogsTopic, self.mention


@dataclass(frozen=True, slots=True)
class SignatureTopic:
    notification: ClassVar[str] = "signatureNotification"
    signature: str
    level: Commitment
    wants_received: bool  # Also notify when the node receives the transaction.

    @property
    def route(self) -> Hashable:
        return SignatureTopic, self.signature


@dataclass(frozen=True, slots=True)
class BlockTopic:
    notification: ClassVar[str] = "blockNotification"
    mention: str | None  # None: every block, with all its transactions.
    level: Commitment
    encoding: str
    details: str
    shows_rewards: bool
    max_version: int | None

    @property
    def route(self) -> Hashable:
        return BlockTopic


@dataclass(frozen=True, slots=True)
class SlotTopic:
    notification: ClassVar[str] = "slotNotification"
    level: ClassVar[None] = None

    @property
    def route(self) -> Hashable:
        return SlotTopic


@dataclass(frozen=True, slots=True)
class RootTopic:
    notification: ClassVar[str] = "rootNotification"
    level: ClassVar[None] = None

    @property
    def route(self) -> Hashable:
        return RootTopic


@dataclass(frozen=True, slots=True)
class SlotsUpdatesTopic:
    notification: ClassVar[str] = "slotsUpdatesNotification"
    level: ClassVar[None] = None

    @property
    def route(self) -> Hashable:
        return SlotsUpdatesTopic


@dataclass(frozen=True, slots=True)
class VoteTopic:
    notification: ClassVar[str] = "voteNotification"
    level: ClassVar[None] = None

    @property
    def route(self) -> Hashable:
        return VoteTopic


Topic = (
    AccountTopic
    | ProgramTopic
    | LogsTopic
    | SignatureTopic
    | BlockTopic
    | SlotTopic
    | RootTopic
    | SlotsUpdatesTopic
    | VoteTopic
)
