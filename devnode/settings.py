"""The settings of one devnode. Pure; checks every field and reports all mistakes together."""

from dataclasses import dataclass, field
from pathlib import Path

from devnode.chain.open_block import ACCOUNT_UNITS_MAX, BLOCK_UNITS_MAX
from devnode.cloning.upstream import origin_of
from devnode.faults.plan import FaultPlan
from devnode.geyser.settings import GeyserSettings
from devnode.records.blockhashes import BLOCKHASHES_KEPT
from devnode.records.leaders import LEADERS_MAX

RETENTION_SLOTS_MIN = BLOCKHASHES_KEPT + 10  # With fewer, statuses that prevent replays would be deleted too early.

GRPC_REPLAY_SLOTS_MAX = 10_000  # Replay keeps these slots in memory.


class SettingsError(Exception):
    """All mistakes, one a line."""


@dataclass(frozen=True, slots=True)
class Dumps:
    """Files with accounts and programs for a new chain, in addition to its genesis."""

    accounts: tuple[Path, ...] = ()
    programs: tuple[str, ...] = ()  # ADDRESS=FILE.
    folders: tuple[Path, ...] = ()  # Folders of account files.


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data_dir: Path
    host: str = "127.0.0.1"
    http_port: int = 8899
    ws_port: int | None = None  # None: one above the HTTP port.
    tpu_port: int = 0  # UDP, of this node; 0: a free port, which getClusterNodes shows. Other leaders have free ports.
    leaders: int = 3  # Includes this node.
    slot_ms: int = 400
    root_depth: int = 32
    confirm_depth: int = 2
    block_units: int = BLOCK_UNITS_MAX
    account_units: int = ACCOUNT_UNITS_MAX
    crowd: float = 0.0  # Blocks' worth of competing transactions in each slot; 0: none.
    seed: int | None = None  # None: each new chain is different.
    retention_slots: int = 216_000  # A day of 400 ms slots.
    parent_pid: int | None = None
    ready_file: Path | None = None
    faults: FaultPlan = field(default_factory=FaultPlan)  # In force from the start.
    geyser: GeyserSettings = field(default_factory=GeyserSettings)
    launch_programs: bool = True  # Whether a new chain has the accounts of the imitated launch programs.
    dumps: Dumps = field(default_factory=Dumps)
    clone_from: str | None = (
        None  # URL of another node's JSON-RPC, whose accounts are taken over when they are touched.
    )

    def __post_init__(self) -> None:
        ranges = {
            "http-port": (self.http_port, 0, 65_535),
            "ws-port": (self.ws_port or 0, 0, 65_535),
            "tpu-port": (self.tpu_port, 0, 65_535),
            "leaders": (self.leaders, 1, LEADERS_MAX),
            "grpc-port": (self.geyser.port or 0, 0, 65_535),
            "grpc-tls-port": (self.geyser.tls_port or 0, 0, 65_535),
            "grpc-replay-slots": (self.geyser.replay_slots, 0, GRPC_REPLAY_SLOTS_MAX),
            "slot-ms": (self.slot_ms, 10, 60_000),
            "root-depth": (self.root_depth, 2, 150),
            "confirm-depth": (self.confirm_depth, 1, self.root_depth),
            "block-units": (self.block_units, 10_000, 1_000_000_000),
            "account-units": (self.account_units, 10_000, 1_000_000_000),
            "crowd": (self.crowd, 0, 10),
            "seed": (self.seed or 0, 0, 2**63 - 1),
            "retention-slots": (self.retention_slots, RETENTION_SLOTS_MIN, 100_000_000),
        }
        mistakes = [
            f"--{name}: {value}, wanted {least} to {most}"
            for name, (value, least, most) in ranges.items()
            if not least <= value <= most
        ]
        if (self.geyser.tls_cert is None) != (self.geyser.tls_key is None):
            mistakes.append("--grpc-tls-cert and --grpc-tls-key: only one of them, wanted both or none")
        if self.clone_from is not None:
            try:
                origin_of(self.clone_from)
            except ValueError as error:
                mistakes.append(f"--clone-from: {error}")  # Without the URL, which may hold a secret.
        if mistakes:
            raise SettingsError("\n".join(mistakes))
