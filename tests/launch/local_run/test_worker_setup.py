"""Guards what each of Ray's processes leaves out."""

import subprocess
import sys


def test_serve_runs_without_pandas_in_a_process_that_was_set_up() -> None:
    """As in an installation that has none; the test environment has it, for the clients."""
    code = """
import importlib.util, sys
hook = "actors.launch.local_run.worker_setup.leave_pandas_out"
module, _, name = hook.rpartition(".")
getattr(importlib.import_module(module), name)()
import ray.serve
assert not [one for one in sys.modules if one.startswith(("pandas.", "pyarrow"))]
assert importlib.util.find_spec("pyarrow"), "exports of signals ask for it"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
