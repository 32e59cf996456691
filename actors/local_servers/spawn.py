"""Becomes another program that ends with its parent and runs as the given user.

Implements: design, "The system in one picture" (everything embedded is started and stopped by the application itself).
Run as a script: `python -I -S spawn.py SIGNAL PARENT UID GID -- COMMAND...`. It replaces itself by COMMAND, so the
process id stays and no memory is used. It is a script and not a preexec_fn, because code between fork and exec can
deadlock in a process with threads (Ray's). It imports no module of this project.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2).
_NOT_FOUND = 127  # As a shell answers.


def main(arguments: list[str]) -> int:
    """Become COMMAND; return only when that fails. UID and GID are numbers, or `-` for those of this process."""
    death_signal, parent_pid, uid, gid, separator, *command = arguments
    assert separator == "--", arguments
    assert command, arguments
    if uid != "-":
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    os.umask(0o077)
    # After the change of user, which clears this setting. exec keeps it.
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
    if os.getppid() != int(parent_pid):
        return 1  # The parent ended before the setting took effect.
    try:
        os.execv(command[0], command)  # noqa: S606 - becoming the given program is the purpose of this script.
    except OSError as error:
        print(f"{command[0]}: cannot be started: {error.strerror}", file=sys.stderr)
        return _NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
