"""The settings of all faults, and the decisions that follow from them.

Implements: every decision is a function of the seed and of its subject (leg, slot, signature, method), never of a
clock or of earlier decisions. Two runs with the same plan and the same submissions at the same slots have the same
faults, in whatever order the submissions arrive.
Pure. Not here: applying the decisions (chain/faults.py, chain/pacemaker.py, rpc/faulty_answers.py).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, unique
from typing import Annotated, Any

import msgspec

from devnode.records.leaders import LEADERS_MAX

SLOTS_MAX = 1_000  # For a delay or a lag: a client could not tell a longer one from a loss.
FORK_BLOCKS_MAX = 8
HANG_MS_MAX = 600_000
LATE_MS_MAX = 60_000
LEADER_NAMES = frozenset(("*", *map(str, range(LEADERS_MAX))))
SKIP_SLOTS_MAX = 64  # Skips in a row; without this limit, a share of 1 would skip for ever.

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class PlanError(Exception):
    """The settings are not valid; the text names the field."""


@unique
class Stream(Enum):
    PUBSUB = "pubsub"
    GRPC = "grpc"


class SendFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of one leg. The sender gets the usual answer; the transaction is dropped or late."""

    drop_share: Share = 0.0
    delay_share: Share = 0.0  # Share of the sends that are not dropped.
    delay_slots: Annotated[int, msgspec.Meta(ge=1, le=SLOTS_MAX)] = 2
    run_slots: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)] = 0  # Drops come in runs of so many slots; 0: singly.


class Legs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rpc: SendFaults = SendFaults()
    tpu: SendFaults = SendFaults()
    bundle: SendFaults = SendFaults()
    correlation: Share = 0.0  # Share of the drops that are decided once for all legs.


class LeaderFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    drop_share: Share = 0.0  # Share of the transactions sent to its TPU.
    late_ms: Annotated[int, msgspec.Meta(ge=0, le=LATE_MS_MAX)] = 0  # Each of its slots lasts so much longer.
    skip_share: Share = 0.0  # Share of its slots without a block.


class TpuFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of connections to TPU ports. A connection has at most one of them."""

    ignored_share: Share = 0.0  # No packet is answered.
    refused_share: Share = 0.0  # Closed after the handshake, as `disallowed`.
    broken_share: Share = 0.0  # Closed, as `dropped`, when its first transaction arrives; that one is lost.


class EngineFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    down: bool = False  # Every call is answered with HTTP 503, and no auction is held.
    # Of one client (x-jito-auth, or else its address); null: no limit. Jito's default is 1.
    requests_per_second: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None


class SlotFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    frozen: bool = False  # No slot ends while it is set.
    skip_share: Share = 0.0  # Share of slots without a block.
    fork_share: Share = 0.0  # Share of slots whose block, with the ones built on it, is abandoned.
    fork_blocks: Annotated[int, msgspec.Meta(ge=1, le=FORK_BLOCKS_MAX)] = 1
    dead_share: Share = 0.0  # Share of slots whose block turns out invalid.


class NodeFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lag_slots: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)] = 0
    unhealthy: bool = False


class CallFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of one JSON-RPC method. A call has at most one of them."""

    too_many_share: Share = 0.0  # HTTP 429; the call is not executed.
    retry_after_seconds: Annotated[int, msgspec.Meta(ge=0, le=86_400)] | None = 1
    hang_share: Share = 0.0  # Executed after hang_ms; never, if that is null.
    hang_ms: Annotated[int, msgspec.Meta(ge=1, le=HANG_MS_MAX)] | None = None
    garbage_share: Share = 0.0  # Executed, but the answer is not JSON.
    lost_share: Share = 0.0  # Executed, but the connection ends during the answer.


class StreamFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    silent: bool = False  # Connections stay open and receive nothing; the missed events are lost.
    lost_slot_share: Share = 0.0  # Share of slots whose events are not delivered.
    cut_share: Share = 0.0  # Share of slots at whose start all connections end.


class Streams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pubsub: StreamFaults = StreamFaults()
    grpc: StreamFaults = StreamFaults()


class FaultPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings. `calls` is by method, `leaders` by the leader's number in getClusterNodes; the entry "*" is for
    methods and leaders without their own entry."""

    seed: _Seed = 0
    sends: Legs = Legs()
    leaders: dict[str, LeaderFaults] = {}
    tpu: TpuFaults = TpuFaults()
    engine: EngineFaults = EngineFaults()
    slots: SlotFaults = SlotFaults()
    node: NodeFaults = NodeFaults()
    calls: dict[str, CallFaults] = {}
    streams: Streams = Streams()

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = msgspec.to_builtins(self)
        return shown


class LostSlots(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number of slots whose events each stream loses, from the slot being built on."""

    pubsub: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)] = 0
    grpc: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)] = 0


class CutConnections(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The streams whose connections all end at once."""

    pubsub: bool = False
    grpc: bool = False


class Once(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults that happen a single time."""

    skip_slots: Annotated[int, msgspec.Meta(ge=0, le=SKIP_SLOTS_MAX)] = 0
    fork_blocks: Annotated[int, msgspec.Meta(ge=0, le=FORK_BLOCKS_MAX)] = 0  # From the slot being built on.
    dead_block: bool = False  # The block of the slot being built.
    expire_blockhashes: bool = False
    purge_before_slot: Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None = None
    lost_slots: LostSlots = LostSlots()
    cut_connections: CutConnections = CutConnections()

    def joined(self, later: "Once") -> "Once":
        """Merge two requests that come before the same seal; where both set a field, the later one counts."""
        return Once(
            skip_slots=later.skip_slots or self.skip_slots,
            fork_blocks=later.fork_blocks or self.fork_blocks,
            dead_block=later.dead_block or self.dead_block,
            purge_before_slot=later.purge_before_slot or self.purge_before_slot,
        )


@dataclass(frozen=True, slots=True)
class Passes:
    """The send arrives at once."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The send never arrives."""


@dataclass(frozen=True, slots=True)
class Late:
    """The send arrives that many slots later."""

    slots: int


SendFate = Passes | Lost | Late


@unique
class CallFate(Enum):
    ANSWERED = "answered"
    TOO_MANY = "too_many"
    HANGS = "hangs"
    GARBAGE = "garbage"
    LOST = "lost"


@unique
class TpuFate(Enum):
    SERVED = "served"
    IGNORED = "ignored"
    REFUSED = "refused"
    BROKEN = "broken"


_NO_TPU_FAULTS = TpuFaults()


def read_plan(fields: Any) -> FaultPlan:
    """Read a plan from its JSON form. Raises PlanError."""
    try:
        plan = msgspec.convert(fields, FaultPlan)
    except msgspec.ValidationError as error:
        raise PlanError(str(error)) from None
    unknown = plan.leaders.keys() - LEADER_NAMES
    if unknown:
        raise PlanError(f"leaders: wanted numbers of leaders or *, not {', '.join(sorted(unknown))}")
    return plan


def read_once(fields: Any) -> Once:
    """Read single faults from their JSON form. Raises PlanError."""
    try:
        return msgspec.convert(fields, Once)
    except msgspec.ValidationError as error:
        raise PlanError(str(error)) from None


def changed(plan: FaultPlan, fields: Any) -> FaultPlan:
    """The plan after a JSON merge patch: objects are merged, null resets a setting. Raises PlanError."""
    return read_plan(_merged(plan.as_json(), fields))


def _merged(old: Any, new: Any) -> Any:
    """Merge by RFC 7396, except that null is a value of the settings in `_MAY_BE_NULL`."""
    if not isinstance(new, dict):
        return new
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in new.items():
        if value is None and name not in _MAY_BE_NULL:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


_MAY_BE_NULL = {"hang_ms", "retry_after_seconds", "requests_per_second"}


def send_fate(plan: FaultPlan, leg: str, slot: int, signature: str) -> SendFate:
    """The fate of a send. Sent again in the same slot, a transaction has the same fate; in a later slot, a new one."""
    faults: SendFaults = getattr(plan.sends, leg)
    if faults.drop_share and _is_dropped(plan, faults, leg, slot, signature):
        return Lost()
    if faults.delay_share and _drawn(plan, "delay", leg, slot, signature) < faults.delay_share:
        return Late(faults.delay_slots)
    return Passes()


def _is_dropped(plan: FaultPlan, faults: SendFaults, leg: str, slot: int, signature: str) -> bool:
    """Whether a send is dropped. In a run, all sends of a leg have one fate; correlated drops have one for all legs."""
    subject: tuple[str | int, ...] = (slot // faults.run_slots,) if faults.run_slots else (slot, signature)
    correlation = plan.sends.correlation
    if correlation and _drawn(plan, "correlated", *subject) < correlation:
        leg = "all"
    return _drawn(plan, "drop", leg, *subject) < faults.drop_share


def leader_faults(plan: FaultPlan, leader: int) -> LeaderFaults | None:
    return plan.leaders.get(str(leader)) or plan.leaders.get("*")


def leader_drops(plan: FaultPlan, leader: int, slot: int, signature: str) -> bool:
    """Whether the leader loses a transaction that is sent to its TPU."""
    faults = leader_faults(plan, leader)
    return (
        faults is not None
        and faults.drop_share > 0
        and _drawn(plan, "leader", leader, slot, signature) < faults.drop_share
    )


def tpu_fate(plan: FaultPlan, leader: int, number: int) -> TpuFate:
    """The fate of a connection. number: its position, from 0, among the connections to this leader's port since the
    start."""
    left = _drawn(plan, "tpu", leader, number) if plan.tpu != _NO_TPU_FAULTS else 1.0
    for share, fate in (
        (plan.tpu.ignored_share, TpuFate.IGNORED),
        (plan.tpu.refused_share, TpuFate.REFUSED),
        (plan.tpu.broken_share, TpuFate.BROKEN),
    ):
        if left < share:
            return fate
        left -= share
    return TpuFate.SERVED


def skipped_after(plan: FaultPlan, slot: int, leader_at: Callable[[int], int] | None = None) -> int:
    """The number of slots right after this one that have no block. leader_at: the leader of a slot."""
    count = 0
    while count < SKIP_SLOTS_MAX and _is_skipped(plan, slot + count + 1, leader_at):
        count += 1
    return count


def _is_skipped(plan: FaultPlan, slot: int, leader_at: Callable[[int], int] | None) -> bool:
    share = plan.slots.skip_share
    if plan.leaders and leader_at is not None:
        faults = leader_faults(plan, leader_at(slot))
        share = share if faults is None else max(share, faults.skip_share)
    return share > 0 and _drawn(plan, "skip", slot) < share


def forked_blocks(plan: FaultPlan, slot: int) -> int:
    """The number of blocks that are abandoned, from this slot on; 0 if there is no fork."""
    share = plan.slots.fork_share
    return plan.slots.fork_blocks if share and _drawn(plan, "fork", slot) < share else 0


def is_dead(plan: FaultPlan, slot: int) -> bool:
    """Whether the slot's block turns out invalid."""
    share = plan.slots.dead_share
    return bool(share) and _drawn(plan, "dead", slot) < share


def call_fate(plan: FaultPlan, method: str, number: int) -> CallFate:
    """The fate of a call. number: its position, from 0, among this method's calls since the plan was set."""
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
    """Whether the stream loses the events of the slot."""
    faults: StreamFaults = getattr(plan.streams, stream.value)
    if faults.silent:
        return True
    share = faults.lost_slot_share
    return bool(share) and _drawn(plan, "stream", stream.value, slot) < share


def cuts(plan: FaultPlan, stream: Stream, slot: int) -> bool:
    """Whether the stream's connections end when the slot begins."""
    faults: StreamFaults = getattr(plan.streams, stream.value)
    return bool(faults.cut_share) and _drawn(plan, "cut", stream.value, slot) < faults.cut_share


def _drawn(plan: FaultPlan, *about: str | int) -> float:
    """A number from 0 to below 1, evenly distributed; equal seeds and subjects give the same one in every process."""
    text = "\0".join(map(str, (plan.seed, *about)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48
