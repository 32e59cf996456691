"""Three machines go from a release to the next under load, tables first, and back: no call fails, no stream has a gap.

Rules: launch/README.md, "Upgrades" and "A replica that leaves"; hotlink/README.md, "Releases side by side". Once from
this release to the next, which is made of this tree (next_release.py), and once from 0.1.0, which is its own commit,
where the repository has that. With LONG_TESTS=1, as it takes minutes.
"""

import io
import os
import re
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from actors.release import FIRST_RELEASE, RELEASE
from tests.cluster.machine_load import SIGNALS, STREAMS, Mixed, Outcome, Size
from tests.cluster.machine_network import address_of, why_not
from tests.cluster.machines import ROOT, Machines, await_health
from tests.cluster.next_release import next_release

# 64 calls a second. A client waits for as long as the slowest method may take: a busy machine is no failure.
_SIZE = Size(streams=100, calls=0.6, answer_seconds=45.0)
_REPLACED_SECONDS, _AFTER_SECONDS = 600.0, 10.0
_OFF_MAX = 0.01  # Of all credits, where 0.1.0 hands nothing over.
_SLOT_MS = 400  # As on mainnet: past slots are kept for so many slots, which clients come back within.
_SETTINGS = {
    "LEDGER_GATEWAY__REPLICAS": "3",
    "LEDGER_ACCOUNTS__SHARD_ACTORS": "3",
    "LEDGER_WEBHOOKS__ALLOW_LOOPBACK": "true",
}
_HEADING = (
    "| Step | Calls failed, within | Again, within | Slowest | Streams resumed | Gaps | Twice | Credits off by | Took |"
)
# The last: a client that came to a replica which was leaving too.
_TOLD = ("1012", "UNAVAILABLE: the service restarts", "UNAVAILABLE: server is shutting down")
_WAY_BACK = re.compile(r"```sh\n(cd ~/ledger-gateway .*?remove_others.*?)```", re.DOTALL)  # In launch/README.md.
_FIRST_COMMIT = "66a78539087b25f319f77c9b4f082803854cc818"  # The last one of 0.1.0, which handed nothing over.

pytestmark = [
    pytest.mark.timeout(1_200),
    pytest.mark.skipif("LONG_TESTS" not in os.environ, reason="takes minutes: set LONG_TESTS=1"),
]


@dataclass(frozen=True)
class Release:
    """number: as its connections say it. hands_over: its streams end with the place to go on from, and its owners of
    accounts give these away, and take them, while they serve; else owners are killed, calls wait for new ones, and some
    in vain: on a busy machine, and where replicas of the release after it are left, which these owners do not know."""

    number: str
    tree: Path
    hands_over: bool = True


@dataclass(frozen=True)
class Upgraded:
    """A cluster that is brought from one release to another, and back."""

    machines: Machines
    mixed: Mixed
    before: Release
    after: Release
    rows: list[str] = field(default_factory=list)

    def step(self, name: str, act: Callable[[], object], size: Size = _SIZE, hands_over: bool = True) -> Outcome:
        """Do it under load: no stream has a gap, and what was charged is what clients were given.

        hands_over: False where owners and replicas of 0.1.0 are killed, or told nothing: of what they had under way a
        part is charged and was never given, or the other way round.
        """
        took = 0.0

        def timed() -> None:
            nonlocal took
            began = time.monotonic()
            act()
            took = time.monotonic() - began

        outcome = self.mixed.during(timed, _AFTER_SECONDS, size)
        records = outcome.records.values()
        again = sum(record.asked_again for record in records)
        failed = sum(len(record.failed) for record in records)
        within = max(record.window_seconds for record in records)
        window = max(record.asked_again_seconds for record in records)
        resumed = f"{outcome.lost[SIGNALS]} WebSockets, {outcome.lost[STREAMS]} gRPC"
        print(
            f"{name}: { {kind: str(record) for kind, record in outcome.records.items()} }; streams ended {outcome.ends}"
        )
        self.rows.append(
            f"| {name} | {failed} of {sum(record.calls for record in records)}, {within:.1f} s "
            f"| {again}, {window:.1f} s | {max(record.slowest_seconds for record in records):.1f} s | {resumed} "
            f"| {outcome.missing} | {outcome.repeated} | {outcome.wrong or 0} | {took:.0f} s |"
        )
        print(self.rows[-1])
        if hands_over:
            assert not outcome.wrong, outcome.wrong
        else:
            off = sum(map(abs, outcome.off_by.values()))
            assert off <= _OFF_MAX * sum(outcome.charged.values()), outcome.wrong
        assert (outcome.missing, outcome.repeated) == (0, 0)
        return outcome

    def deploy(self, leaving: Release, coming: Release) -> None:
        """Replace the code of all machines and deploy it, under load, until no replica of before is left.

        Without streams on the way back to 0.1.0: its hub has no slot from before its own start, and says so.
        """
        hands_over = leaving.hands_over and coming.hands_over
        size = _SIZE if coming.hands_over else replace(_SIZE, streams=0)
        name = f"{coming.number} in place of {leaving.number}"
        outcome = self.step(name, lambda: self._deploy(coming.tree), size, hands_over)
        assert min(outcome.lost.values()) >= size.streams, outcome.lost
        if hands_over:
            assert outcome.failed == []
            assert all(end.startswith(_TOLD) for end in outcome.ends), outcome.ends
        if not coming.hands_over:
            self.machines.run(0, self._command_of_the_way_back())
        assert self.machines.connected() == {coming.number}

    def _command_of_the_way_back(self) -> str:
        """Return what an operator enters after it: it ends the actors that 0.1.0 does not know by their names."""
        (found,) = _WAY_BACK.findall((ROOT / "actors/launch/README.md").read_text(encoding="utf-8"))
        return str(found).replace('"auto"', f'"{address_of(0)}:6379"')

    def _deploy(self, tree: Path) -> None:
        before = self._serving()
        self.machines.install(tree)
        self.machines.redeploy()
        deadline = time.monotonic() + _REPLACED_SECONDS
        while left := before & self._serving():
            assert time.monotonic() < deadline, f"replicas of before go on: {left}"
            time.sleep(0.5)

    def _serving(self) -> set[int]:
        return {one.pid for at in range(3) for one in self.machines.running(at, "ray::ServeReplica")}


@pytest.fixture(scope="module", params=["this to the next", "0.1.0 to this"])
def upgraded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    tree, this = tmp_path_factory.mktemp("release") / "tree", Release(RELEASE, ROOT)
    if request.param == "this to the next":
        before, after = this, Release(next_release(tree), tree)
    else:
        before, after = Release(FIRST_RELEASE, tree, hands_over=False), this
        _check_out(_FIRST_COMMIT, tree)
    with Machines(_SETTINGS, code=before.tree, slot_ms=_SLOT_MS) as machines:
        await_health(range(3))
        upgraded = Upgraded(machines, Mixed(machines), before, after)
        yield upgraded
        print("\n".join([_HEADING, *upgraded.rows]))


def _check_out(commit: str, tree: Path) -> None:
    packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False, timeout=60)
    if packed.returncode != 0:
        pytest.skip(f"this repository has no commit {commit}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(tree, filter="data")
    # What `pip install -e .` leaves: that release took its number from there.
    (tree / "ledger_gateway.egg-info").mkdir()
    package = f"Metadata-Version: 2.1\nName: ledger-gateway\nVersion: {FIRST_RELEASE}\n"
    (tree / "ledger_gateway.egg-info/PKG-INFO").write_text(package, encoding="utf-8")


def test_tables_of_the_later_release_end_no_stream_and_fail_no_call(upgraded: Upgraded) -> None:
    """`migrate` adds tables, columns and functions while the release before goes on."""
    tree = upgraded.after.tree
    outcome = upgraded.step(f"`migrate` of {upgraded.after.number}", lambda: print(upgraded.machines.migrate(tree)))
    assert outcome.failed == [] and not outcome.ends
    assert upgraded.machines.connected() == {upgraded.before.number}


def test_the_later_release_is_deployed_without_a_failed_call(upgraded: Upgraded) -> None:
    """Owners, racers, dispatchers and replicas are replaced; streams go on where they were."""
    upgraded.deploy(upgraded.before, upgraded.after)


def test_the_release_before_is_deployed_again_on_the_new_tables(upgraded: Upgraded) -> None:
    upgraded.deploy(upgraded.after, upgraded.before)


def test_the_ledger_is_whole_afterwards(upgraded: Upgraded) -> None:
    """Every balance, hash chain and webhook, recomputed by this release."""
    upgraded.machines.install(ROOT)
    assert "The ledger adds up" in upgraded.machines.operator("audit")
