"""Same seed, same faults, same submissions at the same slots: the same chain, block for block."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from actors.clock import ManualClock
from devnode.app import Devnode
from devnode.chain.bus import SlotDead, SlotsAbandoned, SlotSkipped
from devnode.chain.submissions import Dropped, Source
from devnode.faults.plan import read_plan
from devnode.records.commitment import Commitment
from devnode.rpc.table import METHODS
from devnode.settings import Settings

from .local_node import give

PLAN = {
    "sends": {
        "rpc": {"drop_share": 0.2, "delay_share": 0.3, "delay_slots": 3},
        "tpu": {"drop_share": 0.4},
    },
    "slots": {"skip_share": 0.2, "fork_share": 0.1, "fork_blocks": 2, "dead_share": 0.05},
}
BEATS = 60
PAYERS = [Keypair.from_seed(bytes([number]) * 32) for number in range(1, 5)]


@dataclass(frozen=True, slots=True)
class Told:
    """All that one run shows of its chain."""

    keys: tuple[str, str]
    blocks: list[dict[str, Any]]
    lost: list[object]  # Skipped, dead and abandoned slots.
    dropped: int
    landed: int


async def run(folder: Path, seed: int, faults: dict[str, Any]) -> Told:
    settings = Settings(
        data_dir=folder, http_port=0, seed=seed, root_depth=4, confirm_depth=1, faults=read_plan(faults)
    )
    devnode = Devnode(settings, ManualClock())
    try:
        chain, dropped = devnode.node.chain, 0
        heard = chain.bus.subscribe(SlotSkipped, SlotDead, SlotsAbandoned)
        for payer in PAYERS:
            devnode.node.faucet.fund(payer.pubkey(), 10**12, 10**6)
        for beat in range(BEATS):
            blockhash = chain.blockhashes.latest_at(chain.levels.at(Commitment.FINALIZED).slot).blockhash
            for number, payer in enumerate(PAYERS):
                raw = payment(payer, number, beat, blockhash)
                dropped += isinstance(chain.submit(raw, Source.RPC if number % 2 else Source.TPU), Dropped)
            await devnode.pacemaker.beat()
        await devnode.pacemaker.stop()
        return Told(
            keys=(str(devnode.node.faucet.pubkey), str(devnode.node.keys.identity.pubkey())),
            blocks=blocks_of(devnode),
            lost=heard.drain(),
            dropped=dropped,
            landed=chain.transaction_count,
        )
    finally:
        devnode.close()


def payment(payer: Keypair, number: int, beat: int, blockhash: Hash) -> bytes:
    to = Pubkey.from_bytes(bytes([number + 100]) * 32)
    message = MessageV0.try_compile(payer.pubkey(), [give(payer, to, 2_000_000 + beat)], [], blockhash)
    return bytes(VersionedTransaction(message, [payer]))


def blocks_of(devnode: Devnode) -> list[dict[str, Any]]:
    """As clients read them: hashes, parents, heights, transactions with all that they did."""
    get_block = METHODS["getBlock"].handler
    config = {"maxSupportedTransactionVersion": 0, "commitment": "confirmed", "encoding": "base64"}
    return [get_block(devnode.node, [slot, config]) for slot in devnode.node.archive.slots(0, 10**9, 10**6)]


async def test_two_runs_of_one_seed_give_the_same_chain(tmp_path: Path) -> None:
    """Every block, every hash, every key, every skipped and lost slot; and the faults did strike."""
    first = await run(tmp_path / "first", 7, PLAN | {"seed": 11})
    second = await run(tmp_path / "second", 7, PLAN | {"seed": 11})
    assert second == first
    assert len(first.blocks) > BEATS / 2
    assert first.dropped > 20 and first.landed > 50
    assert {type(event) for event in first.lost} == {SlotSkipped, SlotDead, SlotsAbandoned}


async def test_another_seed_of_faults_gives_another_chain(tmp_path: Path) -> None:
    """The chain's seed makes its keys and hashes, the plan's seed which faults strike."""
    first = await run(tmp_path / "first", 7, PLAN | {"seed": 11})
    other_faults = await run(tmp_path / "second", 7, PLAN | {"seed": 12})
    other_chain = await run(tmp_path / "third", 8, PLAN | {"seed": 11})
    assert other_faults.keys == first.keys and other_faults.lost != first.lost
    assert other_chain.keys != first.keys
    assert other_faults.blocks[:4] == first.blocks[:4]
    assert not {block["blockhash"] for block in other_chain.blocks} & {block["blockhash"] for block in first.blocks}
