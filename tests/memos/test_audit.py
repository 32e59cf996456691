"""The memos on the chain against the files: a past that was signed anew is named, by whoever had the secret too.

Rules: decisions, "Signed roots" (memos on the chain).
"""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from actors.accounts.proven_roots import ProvenRoot
from actors.memos import audit as audit_module
from actors.memos.audit import audit, document, show
from actors.memos.chain import MemoChain
from actors.receipts.roots_file import RootsFile
from actors.receipts.statements import SignedStatement
from tests.launch.operator.test_cli import CLI
from tests.memos.world import World
from tests.receipts.test_roots_file import KEY, PINNED, statements


async def anchored(folder: Path) -> tuple[World, list[SignedStatement]]:
    """A file with five statements of series 3, of which the chain has the second and the fourth."""
    world, made = World(folder), statements(5)
    RootsFile(folder, 3).append(KEY, made)
    sender = world.sender()
    for hour, number in enumerate((2, 4)):
        world.store.now += hour
        world.roots.given = [ProvenRoot(3, number, made[number - 1].digest)]
        for _ in range(2):
            await sender.tick()
            world.local.finalize()
    return world, made


def shown(report: audit_module.MemosReport) -> str:
    console = Console(width=200, record=True)
    show(report, console)
    return console.export_text()


async def test_memos_agree_with_true_files(tmp_path: Path) -> None:
    world, _ = await anchored(tmp_path)
    report = await audit(MemoChain(world.node), world.address, [tmp_path], PINNED)
    assert (report.memos, report.series, report.statements, report.lamports) == (2, 1, 5, 11_200)
    assert report.faults == [] and "Each memo has the statement of the files" in shown(report)
    assert document(report)["differences"] == 0 and report.newest_seconds > 0


async def test_files_that_were_made_anew_are_named(tmp_path: Path) -> None:
    """With the true key and all signatures: the chain says that they were otherwise."""
    world, made = await anchored(tmp_path)
    file = RootsFile(tmp_path, 3)
    file.path.unlink()
    anew = statements(2, first=1, at_ms=9)
    anew += statements(3, first=3, previous=anew[-1].digest, at_ms=9)
    file.append(KEY, anew)
    report = await audit(MemoChain(world.node), world.address, [tmp_path])
    assert report.faults_total == 2 and all("another hash" in fault for _, fault in report.faults)
    assert "Next: keep the files" in shown(report) and made[1].digest != anew[1].digest


async def test_files_that_lack_a_statement_are_named(tmp_path: Path) -> None:
    world, made = await anchored(tmp_path)
    file = RootsFile(tmp_path, 3)
    file.path.unlink()
    RootsFile(tmp_path, 3).append(KEY, made[2:3])
    report = await audit(MemoChain(world.node), world.address, [tmp_path])
    assert [fault for _, fault in report.faults] == [
        "the chain has statement 2 of series 3, and the files lack it",
        "the chain has statement 4 of series 3, and the files end with 3: later ones were taken away",
    ]


async def test_a_statement_is_not_of_later_than_its_memo(tmp_path: Path) -> None:
    world = World(tmp_path)
    (later,) = statements(1, at_ms=2_000_000_000_000)
    RootsFile(tmp_path, 3).append(KEY, [later])
    world.roots.given = [ProvenRoot(3, 1, later.digest)]
    sender = world.sender()
    for _ in range(2):
        await sender.tick()
        world.local.finalize()
    report = await audit(MemoChain(world.node), world.address, [tmp_path])
    assert [fault for _, fault in report.faults] == [
        "statement 1 of series 3 says that it is of later than the block which has its memo"
    ]


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--payer", "x"), 2, "no address of the chain"),
        (("--roots-keys", "absent.json"), 2, "save /.well-known/ledger-keys.json"),
        ((), 0, "2 memos of 1 series"),
        (("--json",), 0, '"differences": 0'),
    ],
)
async def test_the_command_says_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], code: int, words: str
) -> None:
    world, _ = await anchored(tmp_path)
    monkeypatch.setattr(audit_module, "Nodes", lambda *_: Nodes(world))
    given = ["memos", "audit", "--node-url", "http://node", "--payer", world.address, "--roots", str(tmp_path), *more]
    done = await run_in_thread(given)
    assert done.exit_code == code and words in done.output, done.output


async def run_in_thread(arguments: list[str]) -> Any:
    """The command has an event loop of its own."""
    import asyncio

    return await asyncio.to_thread(CliRunner().invoke, CLI, arguments)


class Nodes:
    """In place of the nodes that the command would open."""

    def __init__(self, world: World) -> None:
        self.call = world.node.call

    async def probe(self) -> None:
        pass

    async def close(self) -> None:
        pass
