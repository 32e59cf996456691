"""Files that only their owner may read, written as a whole."""

import os
import stat
from pathlib import Path

import pytest

from actors.local_servers.private_files import write_private


@pytest.mark.parametrize("mode", [0o600, 0o700])
def test_only_the_owner_may_read_whatever_was_there(tmp_path: Path, mode: int) -> None:
    """Rule: neither an earlier file's permissions nor those of a crash's leftover pass to the new file."""
    path, leftover = tmp_path / "secret", tmp_path / "secret.new"
    for earlier in (path, leftover):
        earlier.write_text("earlier")
        earlier.chmod(0o666)
    umask = os.umask(0o077)
    try:
        write_private(path, "later", mode)
    finally:
        os.umask(umask)
    assert path.read_text() == "later" and stat.S_IMODE(path.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_earlier_file(tmp_path: Path) -> None:
    """Rule: a reader never sees a part of the file: here the new text cannot be encoded."""
    path = tmp_path / "secret"
    write_private(path, "earlier")
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "later \ud800")
    assert path.read_text() == "earlier"
