"""Operator commands of a running product, one after the other in one process that stays in its cluster.

A command as a process of its own, as an operator gives it, imports and joins Ray for seconds; tests give many. It is
the same command line: only joining the cluster and leaving it are done once.
"""

import contextlib
import io
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.product import ROOT, ProductFailed, environment

_ANSWER_SECONDS, _LEAVE_SECONDS = 90, 30


class OperatorProcess:
    """Joins the cluster at its first command; ends with `close`."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(data_dir)],
            cwd=ROOT,
            env=environment(settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        """What the command printed. Raises ProductFailed when it was refused."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(arguments), file=self._process.stdin, flush=True)
        if not select.select([self._process.stdout], [], [], _ANSWER_SECONDS)[0]:
            raise ProductFailed(f"{' '.join(arguments)}: no answer within {_ANSWER_SECONDS} s")
        told = self._process.stdout.readline()  # One line is written at once.
        if not told:
            raise ProductFailed(f"the operator's process ended with {self._process.wait()}")
        code, text = json.loads(told)
        if code:
            raise ProductFailed(f"{' '.join(arguments)}: {text}")
        return str(text)

    def close(self) -> None:
        """Leave the cluster, which must still be there to be left in order; by force where that takes too long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=_LEAVE_SECONDS)
        self._process.kill()
        self._process.wait()


def main(data_dir: Path) -> None:
    from actors import hosting
    from actors.launch.local_run import owner_commands as operator
    from actors.launch.local_run.cluster import token_environment
    from actors.launch.local_run.run import Parts
    from actors.launch.local_run.wallets import load_or_make
    from actors.launch.operator.cli import make_cli

    os.environ.update(token_environment(load_or_make(data_dir / "secrets").ray_token))
    hosting.connect(operator.find_instance(data_dir / "run").ray_address)
    leave, hosting.disconnect = hosting.disconnect, lambda: None
    hosting.connect = lambda address: None
    commands = make_cli(Parts(None, None, None, None, None))  # type: ignore[arg-type]
    answers = sys.stdout
    for line in sys.stdin:
        printed, code = io.StringIO(), 0
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                commands([*json.loads(line), "--data-dir", str(data_dir)], standalone_mode=False)
            except SystemExit as end:
                code = int(end.code or 0)
        print(json.dumps([code, printed.getvalue()]), file=answers, flush=True)
    leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
