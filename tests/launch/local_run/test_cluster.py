"""Guards what Ray is started with, and that everything started is ended."""

import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from actors.config import ServeConfig
from actors.launch.front import installation as front
from actors.launch.local_run import cluster
from actors.launch.local_run.deadlines import GivenUp


def test_two_instances_share_no_port_and_no_file() -> None:
    """Rule: two instances on one machine collide until each has its own ports; one setting moves them all."""
    one = cluster.ray_environment(ServeConfig(internal_port_first=21_000), Path("/run/a"))
    two = cluster.ray_environment(ServeConfig(internal_port_first=22_000), Path("/run/b"))
    own = [name for name in one if ("_PORT" in name and "QUARANTINE" not in name) or "FILE" in name or "SOCKET" in name]
    assert len(own) >= 11
    assert all(one[name] != two[name] for name in own)


def test_a_front_that_cannot_be_run_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a Serve that does not fit is told in one sentence, before Serve is started."""

    def refuse(_program: Path) -> None:
        raise front.FrontUnusable("Ray 2.61 is installed")

    monkeypatch.setattr(front, "check", refuse)
    with pytest.raises(cluster.StartFailed, match=r"Ray 2\.61 is installed"):
        cluster.start_serve(ServeConfig(), Path("/run/haproxy"))


def test_serve_run_listens_where_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule (SECURITY.md): loopback by default, not port 8000 of all addresses; Serve ends before the stores do."""
    from ray import serve  # Serve reads the environment while it is imported.

    started: list[dict[str, object]] = []
    at_exit: list[object] = []
    monkeypatch.setattr(serve, "start", lambda **options: started.append(options["http_options"]))
    monkeypatch.setattr(cluster.atexit, "register", at_exit.append)
    cluster.start_plain_serve(ServeConfig(http_port=9_000))
    assert started == [{"host": "127.0.0.1", "port": 9_000}] and at_exit == [serve.shutdown]


def test_ray_of_a_local_run_is_on_loopback_for_all_that_join_it() -> None:
    """Rule (threat 58): an operator command that looked for another address would not find the run."""
    assert cluster.token_environment("t" * 64)["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"


def test_processes_that_ignore_the_polite_signal_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: Ctrl-C leaves no process behind."""
    monkeypatch.setattr(cluster, "_TERMINATE_SECONDS", 0.5)
    deaf = "import signal,sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        cluster.end_processes([psutil.Process(child.pid)])
        assert not psutil.pid_exists(child.pid)


def _sleeping() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sleep", "1000"])


def _ended(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()


def test_what_asks_a_ray_that_dies_is_given_up() -> None:
    """Rule: a call into a Ray that is gone hangs for a minute and then ends the process: it is not waited for."""
    never = threading.Event()
    children = [_sleeping(), _sleeping()]
    head = cluster.RayHead("address", tuple(psutil.Process(child.pid) for child in children))
    try:
        assert head.lives()
        assert head.during(lambda: 7) == 7
        with pytest.raises(ValueError, match="a mistake"):
            head.during(lambda: _raise(ValueError("a mistake")))
        with pytest.raises(GivenUp):
            head.during(never.wait, 0.01)
        children[0].kill()  # One is enough; and nobody has asked for its exit code yet.
        with pytest.raises(cluster.RayGone):
            head.during(never.wait)
        with pytest.raises(cluster.RayGone):  # What it failed with says less than why.
            head.during(lambda: _raise(ValueError("no connection")))
        assert not head.lives()
    finally:
        never.set()
        for child in children:
            _ended(child)


def _raise(error: Exception) -> None:
    raise error


def test_with_a_ray_that_is_gone_the_rest_is_ended_and_nothing_is_asked() -> None:
    """Rule: stopping ends all that we started, and spares what is not Ray's."""
    gone, worker, database = _sleeping(), _sleeping(), _sleeping()
    head = cluster.RayHead("address", (psutil.Process(gone.pid),))
    said: list[str] = []
    _ended(gone)
    others = [child.pid for child in psutil.Process().children() if child.pid not in (worker.pid, database.pid)]
    try:
        cluster.stop_ray(head, said.append, [database.pid, *others], application_runs=True)
        assert not psutil.pid_exists(worker.pid)
        assert database.poll() is None
        assert said == []
    finally:
        _ended(worker)
        _ended(database)


def test_the_process_table_names_this_process() -> None:
    """Rule: the ready file gives the process id of everything started, by name, no two alike."""
    table = cluster.process_table({})
    assert table["launcher"] == psutil.Process().pid
    assert len(set(table.values())) == len(table)


def test_the_process_table_names_an_actor_as_the_metrics_do() -> None:
    """Rule: a name says what a process is. The command line of an actor's process has the name of its class, or of the
    method that runs; the actor's own name is the one of its log and of its figures."""
    marks = ("ray::SendRacerActor.race", "ray::ServeReplica:x", "ray::ServeReplica:x", "ray::Unknown")
    children = [subprocess.Popen([sys.executable, "-c", "input()", mark], stdin=subprocess.PIPE) for mark in marks]
    table = cluster.process_table({"send-racer": children[0].pid, "ended-since": 1 << 22})
    for child in children:
        child.communicate(b"\n")
    names = ("send-racer", "gateway-1", "gateway-2", "ray-worker")
    assert [table.get(name) for name in names] == [child.pid for child in children]
    assert "ended-since" not in table


def test_the_process_table_names_all_actors_of_one_process() -> None:
    """Rule: whoever looks for an actor by its name finds its process, also where small actors share it."""
    child = subprocess.Popen([sys.executable, "-c", "input()", "ray::SharedProcessActor"], stdin=subprocess.PIPE)
    names = ("webhook-dispatcher", "small-actors", "send-racer-0")
    table = cluster.process_table(dict.fromkeys(names, child.pid) | {"ended-since": 1 << 22})
    child.communicate(b"\n")
    assert [name for name, pid in table.items() if pid == child.pid] == [
        "small-actors",
        "webhook-dispatcher",
        "send-racer-0",
    ]
    assert "ended-since" not in table


def test_the_process_table_tells_a_node_from_what_checks_its_signatures() -> None:
    """Rule: a name says what a process is."""
    modules = {"devnode": "devnode", "devnode-signatures": "devnode.execution.signature_process"}
    children = {
        name: subprocess.Popen([sys.executable, "-c", "input()", "-m", module], stdin=subprocess.PIPE)
        for name, module in modules.items()
    }
    table = cluster.process_table({})
    for child in children.values():
        child.communicate(b"\n")
    assert {name: table[name] for name in children} == {name: child.pid for name, child in children.items()}


def test_a_process_that_ends_while_ray_starts_is_none_of_rays() -> None:
    """Rule: the stores start beside Ray, and the programs that make a database come and go meanwhile."""
    child = _sleeping()
    process = psutil.Process(child.pid)
    assert cluster._name(process) == "sleep"
    gone = psutil.Process(child.pid)
    _ended(child)
    assert cluster._name(gone) == ""
