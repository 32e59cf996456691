"""What shall go wrong, and what does: the settings of all faults, and the decisions that follow from them.

Implements: every decision is a function of the seed and of what it is about (leg, slot, signature, method), never of
a clock or of earlier decisions. Two runs with the same plan and the same submissions at the same slots suffer the
same faults, whatever the order in which they arrived.
Pure. Not here: doing it (faults.py, chain/pacemaker.py, door.py).
"""

import hashlib
from dataclasses import dataclass
from enum import Enum, unique
from typing import Annotated, Any

import msgspec

SLOTS_MAX = 1_000  # Of a delay or a lag: beyond it nothing could be told from being lost.
FORK_BLOCKS_MAX = 8
HANG_MS_MAX = 600_000
SKIP_SLOTS_MAX = 64  # In a row; a share of 1 would otherwise skip for ever.

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class PlanError(Exception):
    """The settings cannot be read; the text names the place."""


@unique
class Stream(Enum):
    PUBSUB = "pubsub"
    GRPC = "grpc"


class SendFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one leg. The sender is answered as ever; what is dropped or late is the transaction."""

    drop_share: Share = 0.0
    delay_share: Share = 0.0  # Of what is not dropped.
    delay_slots: Annotated[int, msgspec.Meta(ge=1, le=SLOTS_MAX)] = 2


class Legs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rpc: SendFaults = SendFaults()
    tpu: SendFaults = SendFaults()
    bundle: SendFaults = SendFaults()


class SlotFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    frozen: bool = False  # No slot ends while set.
    skip_share: Share = 0.0  # Of slots: no block is made in them.
    fork_share: Share = 0.0  # Of slots: the block made there, and those on top of it, are abandoned.
    fork_blocks: Annotated[int, msgspec.Meta(ge=1, le=FORK_BLOCKS_MAX)] = 1
    dead_share: Share = 0.0  # Of slots: the block made there turns out invalid.


class NodeFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lag_slots: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)] = 0
    unhealthy: bool = False


class CallFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one JSON-RPC method. At most one of them befalls a call."""

    too_many_share: Share = 0.0  # HTTP 429; the call is not carried out.
    retry_after_seconds: Annotated[int, msgspec.Meta(ge=0, le=86_400)] | None = 1
    hang_share: Share = 0.0  # Not carried out before hang_ms have passed; never, where that is null.
    hang_ms: Annotated[int, msgspec.Meta(ge=1, le=HANG_MS_MAX)] | None = None
    garbage_share: Share = 0.0  # Carried out, but what comes back is no JSON.
    lost_share: Share = 0.0  # Carried out, but the connection ends instead of an answer.


class StreamFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    silent: bool = False  # Connections stay open and hear nothing; what they miss is lost.
    lost_slot_share: Share = 0.0  # Of slots: nothing that happens in them is told.


class Streams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pubsub: StreamFaults = StreamFaults()
    grpc: StreamFaults = StreamFaults()


class FaultPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set. `calls` is by method; the entry "*" stands for methods without one."""

    seed: _Seed = 0
    sends: Legs = Legs()
    slots: SlotFaults = SlotFaults()
    node: NodeFaults = NodeFaults()
    calls: dict[str, CallFaults] = {}
    streams: Streams = Streams()

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown


class LostSlots(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From the slot being built on: so many of which nothing is told."""

    pubsub: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)] = 0
    grpc: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)] = 0


class Once(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for a single time."""

    skip_slots: Annotated[int, msgspec.Meta(ge=0, le=SKIP_SLOTS_MAX)] = 0
    fork_blocks: Annotated[int, msgspec.Meta(ge=0, le=FORK_BLOCKS_MAX)] = 0  # The slot being built is the first.
    dead_block: bool = False  # The slot being built.
    expire_blockhashes: bool = False
    purge_before_slot: Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None = None
    lost_slots: LostSlots = LostSlots()

    def joined(self, later: "Once") -> "Once":
        """Both, where two are asked for between the same two seals; the later one decides where they differ."""
        return Once(
            skip_slots=later.skip_slots or self.skip_slots,
            fork_blocks=later.fork_blocks or self.fork_blocks,
            dead_block=later.dead_block or self.dead_block,
            purge_before_slot=later.purge_before_slot or self.purge_before_slot,
        )


@dataclass(frozen=True, slots=True)
class Passes:
    pass


@dataclass(frozen=True, slots=True)
class Lost:
    pass


@dataclass(frozen=True, slots=True)
class Late:
    """Arrives that many slots later."""

    slots: int


SendFate = Passes | Lost | Late


@unique
class CallFate(Enum):
    ANSWERED = "answered"
    TOO_MANY = "too_many"
    HANGS = "hangs"
    GARBAGE = "garbage"
    LOST = "lost"


def read_plan(fields: Any) -> FaultPlan:
    """A plan from its JSON form. Raises PlanError."""
    try:
        return msgspec.convert(fields, FaultPlan)
    except msgspec.ValidationError as error:
        raise PlanError(str(error)) from None


def read_once(fields: Any) -> Once:
    """Raises PlanError."""
    try:
        return msgspec.convert(fields, Once)
    except msgspec.ValidationError as error:
        raise PlanError(str(error)) from None


def changed(plan: FaultPlan, fields: Any) -> FaultPlan:
    """The plan after a JSON merge patch: objects are merged, null takes a setting back. Raises PlanError."""
    return read_plan(_merged(plan.as_json(), fields))


def _merged(old: Any, new: Any) -> Any:
    """RFC 7396. A null that a setting may hold (hang_ms) is what its default says as well."""
    if not isinstance(new, dict):
        return new
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in new.items():
        if value is None and name not in _MAY_BE_NULL:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


_MAY_BE_NULL = {"hang_ms", "retry_after_seconds"}


def send_fate(plan: FaultPlan, leg: str, slot: int, signature: str) -> SendFate:
    """A transaction sent again in a later slot is thrown for anew; in the same slot it fares the same."""
    faults: SendFaults = getattr(plan.sends, leg)
    if faults.drop_share and _drawn(plan, "drop", leg, slot, signature) < faults.drop_share:
        return Lost()
    if faults.delay_share and _drawn(plan, "delay", leg, slot, signature) < faults.delay_share:
        return Late(faults.delay_slots)
    return Passes()


def skipped_after(plan: FaultPlan, slot: int) -> int:
    """How many slots right after this one have no block."""
    count = 0
    share = plan.slots.skip_share
    while share and count < SKIP_SLOTS_MAX and _drawn(plan, "skip", slot + count + 1) < share:
        count += 1
    return count


def forked_blocks(plan: FaultPlan, slot: int) -> int:
    """How many blocks, from this slot's on, are abandoned; 0 where none is."""
    share = plan.slots.fork_share
    return plan.slots.fork_blocks if share and _drawn(plan, "fork", slot) < share else 0


def is_dead(plan: FaultPlan, slot: int) -> bool:
    """Whether the slot's block turns out invalid."""
    share = plan.slots.dead_share
    return bool(share) and _drawn(plan, "dead", slot) < share


def call_fate(plan: FaultPlan, method: str, number: int) -> CallFate:
    """number: of this method's calls since the plan was set, from 0."""
    faults = call_faults(plan, method)
    if faults is None:
        return CallFate.ANSWERED
    left = _drawn(plan, "call", method, number)
    for share, fate in (
        (faults.too_many_share, CallFate.TOO_MANY),
        (faults.hang_share, CallFate.HANGS),
        (faults.garbage_share, CallFate.GARBAGE),
        (faults.lost_share, CallFate.LOST),
    ):
        if left < share:
            return fate
        left -= share
    return CallFate.ANSWERED


def call_faults(plan: FaultPlan, method: str) -> CallFaults | None:
    return plan.calls.get(method) or plan.calls.get("*")


def loses(plan: FaultPlan, stream: Stream, slot: int) -> bool:
    """Whether what happens in the slot is not told on the stream."""
    faults: StreamFaults = getattr(plan.streams, stream.value)
    if faults.silent:
        return True
    share = faults.lost_slot_share
    return bool(share) and _drawn(plan, "stream", stream.value, slot) < share


def _drawn(plan: FaultPlan, *about: str | int) -> float:
    """From 0 to below 1, evenly spread, the same for the same seed and subject in every process."""
    text = "\0".join(map(str, (plan.seed, *about)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48
