import os
from pathlib import Path

import pytest

from devnode.journal.lock import FolderLock, FolderTaken


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    """The error of a second owner names the first; after the release the folder is free."""
    first = FolderLock(tmp_path / "chain")
    with pytest.raises(FolderTaken, match=f"another devnode \\(process {os.getpid()}\\)"):
        FolderLock(tmp_path / "chain")
    first.release()
    FolderLock(tmp_path / "chain").release()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderTaken, match="give another --data-dir"):
        FolderLock(tmp_path / "file" / "chain")
