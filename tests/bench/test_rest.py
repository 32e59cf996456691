"""What a part of a run at rest takes, and which process belongs to which part."""

import os

import pytest
import typer

from bench.rest import OTHER, PARTS, Rest, by_part, part_of, settings_in, targets_of, total, wake_ups


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("ray::ServeReplica:ledger-gateway:Gateway", "replicas"),
        ("ray::SharedProcessActor.call", "small actors"),
        ("ray::SendRacerActor", "small actors"),
        ("ray::IDLE", "idle workers"),
        ("ray::DashboardAgent", "Ray agents"),
        ("/x/haproxy -db -f /run/haproxy.cfg", "HAProxy"),
        ("postgres: ledger_gateway postgres [local] idle", "PostgreSQL"),
        ("/x/python -P -m actors.launch.local_run.supervisor_process 12", "supervisor"),
        ("/x/python /y/serve_app.py --data-dir /z", "launcher"),
        ("/bin/sleep 5", OTHER),
    ],
)
def test_each_process_belongs_to_one_part(line: str, part: str) -> None:
    assert part_of(line) == part and part in PARTS


def test_figures_of_processes_are_added_up_by_part() -> None:
    """A process that nobody knows is in the part of all others, so that the sum is the run's."""
    found = by_part({1: 2.0, 2: 3.0, 3: 5.0}, {1: "Redis", 2: "Redis"})
    assert (found["Redis"], found[OTHER], sum(found.values())) == (5.0, 5.0, 10.0)


def test_the_whole_is_the_sum_of_its_parts_and_is_compared_with_the_targets() -> None:
    whole = total([Rest(1, 2.0, 10.0, 700.0, 900.0), Rest(2, 3.5, 20.0, 700.0, 900.0)])
    assert whole == Rest(3, 5.5, 30.0, 1_400.0, 1_800.0)
    assert [target.met for target in targets_of(whole, 11.9)] == [False, False, True]


def test_the_waits_of_a_process_are_counted_for_all_its_threads() -> None:
    """Of this one there are some, and none of a process that is gone."""
    assert wake_ups([os.getpid()])[os.getpid()] > 0
    assert wake_ups([2**22 + 1]) == {2**22 + 1: 0}


def test_settings_are_names_with_values() -> None:
    assert settings_in(["A=1", "B=x=y"]) == {"A": "1", "B": "x=y"}
    for text in ("A", "=1"):
        with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
            settings_in([text])
