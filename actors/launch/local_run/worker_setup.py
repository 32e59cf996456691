"""What each of Ray's processes of a local run does first, before it learns what it is for.

Implements: design, "Measured facts" (what a local run starts). It imports next to nothing, as it runs in every process.
"""

import sys


def leave_pandas_out() -> None:
    """Have this process import no pandas, where it is installed.

    Serve imports it in each of its processes, if it can, to encode answers that are frames: 77 MB with pyarrow, and a
    third of a second. This product answers with no frames from there (exports of signals have a process of their own).
    """
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]  # As of a module that cannot be imported.
