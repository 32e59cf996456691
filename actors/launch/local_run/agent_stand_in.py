"""Stands in the place of an agent of Ray's node that nobody uses here: waits until the raylet has ended, then ends.

Implements: design, "Measured facts" (what a local run starts). A program of its own, run without any package
(ray_helpers.py), so that it takes next to no memory. The raylet ends when it ends.
"""

import os
import select
import stat

_LOOK_SECONDS = 5.0


def main() -> None:
    raylet = os.getppid()
    # The raylet gives its agents a pipe, which is closed with it, where its settings do not say otherwise.
    pipes = [0] if stat.S_ISFIFO(os.fstat(0).st_mode) else []
    while os.getppid() == raylet:
        if select.select(pipes, (), (), _LOOK_SECONDS)[0] and not os.read(0, 1024):
            return


if __name__ == "__main__":
    main()
