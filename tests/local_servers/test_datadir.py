"""The data folder: whose it is, one run at a time, and what is removed."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.local_servers import datadir
from actors.local_servers.datadir import LOCK_NAME, MARKER_NAME, DataDir, DataDirError, default_path, remove

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as another user")
as_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """In place of /var/lib/ledger-gateway. As root it must be open for the servers' user, and tmp_path is not."""
    return tmp_path / "system"


@pytest.fixture
def open_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on a way that everybody may take."""
    if os.geteuid() != 0:
        yield tmp_path_factory.mktemp("open")
        return
    path = Path("/var/tmp") / f"ledger-gateway-tests-{os.getpid()}"
    path.mkdir(mode=0o755)
    path.chmod(0o755)
    yield path
    subprocess.run(["/bin/rm", "-rf", str(path)], check=True)


def test_the_default_follows_the_desktop_rules() -> None:
    """A relative XDG_DATA_HOME is to be ignored."""
    home = Path.home() / ".local/share/ledger-gateway"
    assert default_path({}) == home
    assert default_path({"XDG_DATA_HOME": "relative"}) == home
    assert default_path({"XDG_DATA_HOME": "/data"}) == Path("/data/ledger-gateway")


def test_a_folder_is_made_marked_and_kept(open_path: Path) -> None:
    """The id stays the same, so what depends on it is found again."""
    with DataDir(open_path / "a" / "b") as data:
        first = data.id
        assert json.loads((data.path / MARKER_NAME).read_text())["id"] == first
        assert stat.S_IMODE(data.logs.stat().st_mode) == 0o700
        assert data.servers.folder == data.path
    with DataDir(open_path / "a" / "b") as data:
        assert data.id == first


def test_others_may_not_look_inside(open_path: Path) -> None:
    """As root the servers' user must pass through; reading the folder is nobody else's in either case."""
    with DataDir(open_path / "new") as data:
        mode = stat.S_IMODE(data.path.stat().st_mode)
        assert mode == (0o711 if os.geteuid() == 0 else 0o700)


def test_a_second_run_is_refused_with_the_first_ones_id(open_path: Path) -> None:
    """Two runs on one folder would both own every account."""
    script = f"""
from pathlib import Path
from actors.local_servers.datadir import DataDir
with DataDir(Path({str(open_path / "data")!r})):
    print("locked", flush=True)
    input()
"""
    first = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(datadir.__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"locked\n"
        with pytest.raises(DataDirError, match=rf"already in use by process {first.pid};"):
            DataDir(open_path / "data")
        with pytest.raises(DataDirError, match="already in use"):
            remove(open_path / "data")
    finally:
        first.kill()
        first.communicate()
    # A killed run leaves its lock file, which locks nothing.
    DataDir(open_path / "data").close()


def test_closing_lets_the_next_run_in(open_path: Path) -> None:
    """In one process too."""
    DataDir(open_path / "data").close()
    DataDir(open_path / "data").close()


def test_a_folder_of_something_else_is_refused_untouched(tmp_path: Path, system: Path) -> None:
    """A slip in --data-dir must not spread files over somebody's home."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DataDirError, match=r"not empty \(thesis\.tex\)"):
        DataDir(tmp_path, system)
    with pytest.raises(DataDirError, match="this product did not make it"):
        remove(tmp_path, system)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    """Every way in which a folder cannot be used names the folder, the reason and the setting."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DataDirError, match=r"Not a directory.*--data-dir"):
            DataDir(path)


@as_user
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Every way in which a folder cannot be used names the folder, the reason and the setting."""
    tmp_path.chmod(0o500)
    for path in (tmp_path, tmp_path / "below"):
        with pytest.raises(DataDirError, match=r"Permission denied.*--data-dir"):
            DataDir(path)


def test_an_unwritable_place_is_told_to_root_too() -> None:
    """The kernel's own folders take no files, not even from root."""
    with pytest.raises(DataDirError, match=r"cannot be used as the data folder.*--data-dir"):
        DataDir(Path("/proc/ledger-gateway"))


def test_another_format_is_not_touched(tmp_path: Path, system: Path) -> None:
    """A folder of a newer version is neither used nor misread."""
    (tmp_path / MARKER_NAME).write_text('{"product": "ledger-gateway", "format": 2, "id": "00"}')
    with pytest.raises(DataDirError, match="format 2"):
        DataDir(tmp_path, system)


@pytest.mark.parametrize("marker", ["", "[]", "{}", '{"product": "ledger-gateway", "format": 1, "id": "../../../etc"}'])
def test_a_marker_that_is_not_ours_removes_nothing(tmp_path: Path, system: Path, marker: str) -> None:
    """The id becomes part of a path that is deleted, so it must be one of ours."""
    (tmp_path / MARKER_NAME).write_text(marker)
    with pytest.raises(DataDirError, match="not removed"):
        remove(tmp_path, system)
    assert (tmp_path / MARKER_NAME).exists()


def test_removing_takes_what_we_wrote_and_nothing_else(open_path: Path) -> None:
    """`--fresh` is no `rm -rf`: other files, and what links lead to, stay."""
    path, outside = open_path / "data", open_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("")
    with DataDir(path) as data:
        (data.logs / "redis.log").write_text("")
        (data.path / "ray").symlink_to(outside)
    (path / "notes.txt").write_text("mine")
    assert remove(path)
    assert sorted(entry.name for entry in path.iterdir()) == ["notes.txt"]
    assert (outside / "keep").exists()
    (path / "notes.txt").unlink()
    assert not remove(path)
    assert not remove(open_path / "never made")


def test_removing_keeps_what_it_is_told_to_keep(open_path: Path) -> None:
    """`--fresh` deletes no key of a wallet, and the folder stays ours."""
    path = open_path / "data"
    with DataDir(path) as data:
        for name in ("secrets/keys.json", "secrets/postgres.json", "logs/redis.log"):
            data.folder(name.partition("/")[0]).joinpath(name.partition("/")[2]).write_text("")
    assert remove(path, kept=("secrets/keys.json", "secrets/absent.json"))
    assert sorted(found.name for found in path.rglob("*")) == ["keys.json", MARKER_NAME, "secrets"]
    with DataDir(path) as data:
        assert (data.folder("secrets") / "keys.json").exists()


def test_removing_leaves_nothing_when_all_was_ours(open_path: Path) -> None:
    """The next start finds no folder and a new id."""
    with DataDir(open_path / "data") as data:
        first = data.id
    assert remove(open_path / "data")
    assert not (open_path / "data").exists()
    with DataDir(open_path / "data") as data:
        assert data.id != first


@as_root
def test_as_root_a_closed_way_moves_the_servers_and_changes_no_mode(open_path: Path) -> None:
    """The servers' user may not pass: their files go elsewhere, and nobody's permissions are changed."""
    closed = open_path / "closed"
    closed.mkdir(mode=0o700)
    closed.chmod(0o700)
    system = open_path / "system"
    with DataDir(closed / "data", system) as data:
        assert data.servers.folder == system / data.id
        assert data.servers.run_as is not None
        assert data.servers.run_as.name == "nobody"
        (data.servers.folder / "redis").mkdir()
        with pytest.raises(DataDirError, match="already in use"):
            DataDir(closed / "data", system)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert remove(closed / "data", system)
    assert not list(system.iterdir())
    assert not (closed / "data").exists()


@as_root
def test_as_root_nowhere_to_go_is_told(open_path: Path) -> None:
    """Both folders are named, and what to do."""
    closed = open_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(DataDirError, match=rf"may enter neither {closed} nor {closed}; .*DATABASE_URL"):
        DataDir(closed / "data", closed / "system")


@as_root
def test_as_root_a_copy_of_the_folder_does_not_share_the_servers(open_path: Path) -> None:
    """A copy has the same id, and two runs on one database would both own every account."""
    closed = open_path / "closed"
    closed.mkdir(mode=0o700)
    with DataDir(closed / "data", open_path / "system"):
        subprocess.run(["/bin/cp", "-r", str(closed / "data"), str(closed / "copy")], check=True)
        with pytest.raises(DataDirError, match="already in use"):
            DataDir(closed / "copy", open_path / "system")


@as_root
def test_as_root_the_folder_of_an_ordinary_user_is_served_as_that_user(open_path: Path) -> None:
    """What somebody began without root goes on as theirs."""
    path = open_path / "theirs"
    path.mkdir()
    os.chown(path, 1, 1)
    with DataDir(path) as data:
        assert data.servers.run_as is not None
        assert (data.servers.run_as.uid, data.servers.run_as.gid) == (1, 1)


def test_only_known_folders_are_made(open_path: Path) -> None:
    """What `remove` does not know would stay behind."""
    with DataDir(open_path / "data") as data, pytest.raises(AssertionError):
        data.folder("elsewhere")


def test_the_lock_is_not_a_common_name() -> None:
    """In a folder that is refused nothing may be overwritten."""
    assert LOCK_NAME == "ledger-gateway.lock"
