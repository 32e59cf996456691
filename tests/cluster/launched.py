"""Machines that Ray's own launcher brings up: sshd in a namespace each, and `ray up` with the file that users have.

Beside the network of machines.py, each machine has processes, a home and an /etc of its own, so that `ray stop`
ends only what runs on it. Of cluster.yaml only what it tells its reader to put in is changed: addresses and the user.
The packages come from a folder that pip has filled before, as the machines reach nothing beyond each other.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import psutil
import yaml

from tests.cluster import machine_network
from tests.cluster.machine_network import PREFIX, address_of, make_network
from tests.cluster.machines import HIGHEST_LIMIT, ROOT, Machines

_SSHD = "/usr/sbin/sshd"
_UP_SECONDS, _EXEC_SECONDS, _DOWN_SECONDS, _DOWNLOAD_SECONDS = 900.0, 300.0, 240.0, 600.0
_READY_SECONDS = 30.0
# Files of a machine stand over the host's in its own mount namespace; $1 is its folder, $2 the home that all have.
_MACHINE = """
set -e
mkdir -p "$1/etc" "$1/work" "$1/ray" "$1/home" "$1/run" "$1/none" /tmp/ray
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/etc,workdir=$1/work" /etc
if [ -d /etc/xdg/pip ]; then mount --bind "$1/none" /etc/xdg/pip; fi
mount --bind "$1/home" "$2"
mount --bind "$1/ray" /tmp/ray
mount --bind "$1/run" /run
mkdir -p /run/sshd
mount -t tmpfs tmpfs /dev/shm
exec {sshd} -D -e -f "$3"
"""


def why_not() -> str | None:
    """Return why there can be no launched machines here. None: there can."""
    missing = [name for name in ("ssh", "rsync", "unshare") if shutil.which(name) is None]
    if not Path(_SSHD).exists():
        missing.append("sshd")
    if missing:
        return f"programs are missing: {', '.join(missing)} (Debian: apt-get install openssh-server rsync)"
    return machine_network.why_not()


class LaunchedMachines(Machines):
    """Three machines that `ray up` starts. A context; `ray down` is the test's own, what is left ends with it."""

    def _bring_up(self) -> None:
        make_network(self._number)
        self._start_stores()
        self._make_settings()
        self._make_keys()
        self._download()
        for machine in range(self._number):
            self._start_machine(machine)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        for path in Path("/tmp/ray").glob(f"cluster-{self._name}.*"):
            path.unlink()

    # --- what the launcher does

    def up(self, *options: str, code: Path = ROOT) -> str:
        """code: the tree that goes to all machines, with its own cluster.yaml."""
        self._write_file(code)
        return self._ray("up", "--yes", "--no-config-cache", *options, seconds=_UP_SECONDS, code=code)

    def execute(self, command: str) -> str:
        """Run a command on the head, as `ray exec` does."""
        return self._ray("exec", "--no-config-cache", more=(command,), seconds=_EXEC_SECONDS)

    def await_nodes(self) -> None:
        """Wait until Ray runs on all machines: the head brings the others up after `ray up` has ended."""
        deadline = time.monotonic() + _UP_SECONDS
        while True:
            found = self.execute("cd ~/ledger-gateway && . ./ray.env && .venv/bin/ray status")
            running = sum(int(number) for number in re.findall(r"^ (\d+) local\.cluster\.node", found, re.MULTILINE))
            if running == self._number:
                return
            assert time.monotonic() < deadline, found
            time.sleep(5.0)

    def down(self) -> str:
        return self._ray("down", "--yes", seconds=_DOWN_SECONDS)

    def _ray(self, verb: str, *options: str, more: tuple[str, ...] = (), seconds: float, code: Path = ROOT) -> str:
        """Raises AssertionError with what it printed, when it fails."""
        done = subprocess.run(
            [str(Path(sys.executable).with_name("ray")), verb, str(self._file), *options, *more],
            cwd=code,
            env={**os.environ, "HOME": str(self.folder / "launching"), "RAY_USAGE_STATS_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=seconds,
        )
        assert done.returncode == 0, done.stdout[-6_000:]
        return done.stdout

    # --- the machines

    @property
    def _name(self) -> str:
        return f"ledger-{self.folder.name}"

    @property
    def _file(self) -> Path:
        return self.folder / "cluster.yaml"

    def _make_settings(self) -> None:
        self._shared = self._of_these_stores()
        self._write_shared()

    def _write_file(self, code: Path) -> None:
        text = (code / "cluster.yaml").read_text(encoding="utf-8")
        cluster = yaml.safe_load(text.replace("ulimit -n 65536", HIGHEST_LIMIT))
        cluster["cluster_name"] = self._name
        cluster["provider"]["head_ip"] = address_of(0)
        cluster["provider"]["worker_ips"] = [address_of(machine) for machine in range(1, self._number)]
        cluster["auth"] = {"ssh_user": "root", "ssh_private_key": str(self.folder / "key")}
        self._file.write_text(yaml.safe_dump(cluster, sort_keys=False), encoding="utf-8")

    def _make_keys(self) -> None:
        for name in ("key", "host-key"):
            path = str(self.folder / name)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, timeout=20)
        (self.folder / "h").mkdir()
        (self.folder / "launching").mkdir()

    def _download(self) -> None:
        """Fill a folder with the wheels of cluster.yaml's own installation."""
        wheels = self.folder / "wheels"
        download = [sys.executable, "-m", "pip", "download", "-q", "-d", str(wheels), "-c", "constraints.txt"]
        subprocess.run(
            [*download, ".", "setuptools", "wheel"], cwd=ROOT, check=True, timeout=_DOWNLOAD_SECONDS, text=True
        )

    def _start_machine(self, machine: int) -> None:
        place = self.folder / f"m{machine}"
        etc, home = place / "etc", self.folder / "h"  # Short, as paths of sockets are below it.
        (place / "home" / ".ssh").mkdir(parents=True)
        etc.mkdir()
        # The profile of a login would put its own Python first, of another release than the wheels are for.
        path = f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        (place / "home" / ".bashrc").write_text(f"export PATH={path}\n", encoding="utf-8")
        (place / "home" / ".ssh" / "authorized_keys").write_bytes((self.folder / "key.pub").read_bytes())
        accounts = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()
        kept = [line for line in accounts if not line.startswith("root:")]
        (etc / "passwd").write_text("\n".join([f"root:x:0:0::{home}:/bin/bash", *kept]) + "\n", encoding="utf-8")
        (etc / "pip.conf").write_text(
            f"[global]\nno-index = true\nfind-links = {self.folder / 'wheels'}\n", encoding="utf-8"
        )
        (etc / "ledger-gateway.env").write_bytes((self.folder / "shared.env").read_bytes())
        (etc / "ledger-gateway.env").chmod(0o600)
        configuration = place / "sshd.conf"
        configuration.write_text(
            f"HostKey {self.folder / 'host-key'}\nPermitRootLogin yes\nStrictModes no\nUsePAM no\n"
            f"PasswordAuthentication no\nPidFile none\nMaxStartups 100\nMaxSessions 100\n",
            encoding="utf-8",
        )
        script = _MACHINE.format(sshd=_SSHD)
        with (self.folder / f"sshd-{machine}.log").open("wb") as output:
            started = subprocess.Popen(
                [
                    *("ip", "netns", "exec", f"{PREFIX}-{machine}"),
                    *("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"),
                    *("bash", "-c", script, "machine", str(place), str(home), str(configuration)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._apart.append(started)
        deadline = time.monotonic() + _READY_SECONDS
        while not self.running(machine, "sshd"):
            assert started.poll() is None, (self.folder / f"sshd-{machine}.log").read_text(encoding="utf-8")
            assert time.monotonic() < deadline, "no sshd"
            time.sleep(0.1)

    def release(self, machine: int) -> str:
        """Return the release of the code that is on a machine."""
        text = (self.folder / f"m{machine}/home/ledger-gateway/actors/release.py").read_text(encoding="utf-8")
        return str(re.findall(r'^RELEASE = "(.*)"', text, re.MULTILINE)[0])

    def await_release(self, release: str) -> None:
        """Wait until all machines have the code: the head passes it on to the others after `ray up` has ended."""
        deadline = time.monotonic() + _UP_SECONDS
        while (found := {self.release(machine) for machine in range(self._number)}) != {release}:
            assert time.monotonic() < deadline, found
            time.sleep(1.0)

    def left(self, machine: int) -> list[str]:
        """The command lines of what runs on a machine, beside sshd and what started it."""
        found = []
        for process in self.processes(machine):
            try:
                words = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if words and not any(mark in words for mark in ("sshd", "unshare", "ip netns exec")):
                found.append(words)
        return found
