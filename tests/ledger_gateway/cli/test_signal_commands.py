"""`signals`: what is printed of each, and why a stream cannot begin."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger_gateway.cli.output import Output
from ledger_gateway.cli.profile import resolve
from ledger_gateway.cli.shell import Shell
from ledger_gateway.cli.signal_commands import _print
from ledger_gateway.signals import Signal, SignalGap

from ..test_history import U64, answer, end, row
from ..world import http, raw_server
from .conftest import Done, Site

SIGNAL = Signal("largeSwap", "P", "S\x1b[2J", 7, "M", lamports=5_000, cursor="1-0", correction="moved")


@pytest.mark.parametrize("as_json", [True, False])
def test_signals_and_gaps_are_lines(as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json one document in a line; for people no escape of a token's creator."""
    shell = Shell(resolve("http://a", None, None, {"LEDGER_GATEWAY_PROFILE": str(tmp_path / "p")}), Output(as_json))
    _print(shell, SIGNAL)
    _print(shell, SignalGap("trimmed", "1-0", "5-0"))
    told = capsys.readouterr().out
    assert "\x1b" not in told
    if as_json:
        lines = [json.loads(line) for line in told.splitlines()]
        assert [line["type"] for line in lines] == ["signal", "gap"] and lines[0]["lamports"] == 5_000
    else:
        assert "5,000 lamports" in told and "(moved)" in told and "gap: trimmed" in told


def test_a_stream_that_cannot_begin_says_why(cli: Callable[..., Done]) -> None:
    done = cli("signals", "tail", "--url", "http://127.0.0.1:9", key="k")
    assert done.code == 1 and "Next:" in done.err


def test_an_export_has_every_page_and_overwrites_nothing(cli: Callable[..., Done], site: Site, tmp_path: Path) -> None:
    """A page may be empty and yet lead on, where its kinds are rare; the end is a cursor that stays."""
    pandas = pytest.importorskip("pandas")
    signal = {"kind": "newPair", "program": "P", "signature": "S1", "slot": 1, "cursor": "1-0"}
    pages = [([signal], "1-0"), ([], "5-0"), ([{**signal, "signature": "S2"}], "6-0"), ([], "6-0")]
    answers = (http(200, json.dumps({"ok": True, "events": e, "next_cursor": n}).encode()) for e, n in pages)
    opened = raw_server(*answers)
    url, heads = site.run(opened.__aenter__())
    try:
        path = tmp_path / "signals.parquet"
        done = cli("signals", "export", str(path), "--kind", "newPair", "--url", url)
    finally:
        site.run(opened.__aexit__(None, None, None))
    assert done.code == 0 and list(pandas.read_parquet(path)["signature"]) == ["S1", "S2"], done
    assert [head.partition(b"since=")[2][:3] for head in heads] == [b"0-0", b"1-0", b"5-0", b"6-0"]
    assert cli("signals", "export", str(path)).code == 1


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "arrow"])
def test_a_history_is_a_file_in_the_format_of_its_name(
    suffix: str, cli: Callable[..., Done], site: Site, tmp_path: Path
) -> None:
    """After a cut too; until it is whole it has another name, and nothing is overwritten."""
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    answers = answer(row(1), is_cut=True), answer(row(2, complete=True) + end("newest", 9, credits=20))
    opened = raw_server(*answers)
    url, heads = site.run(opened.__aenter__())
    path = tmp_path / f"signals.{suffix}"
    try:
        done = cli(
            "signals", "history", str(path), "--from", "2026-11-22", "--max-credits", "500", "--url", url, key="k"
        )
    finally:
        site.run(opened.__aexit__(None, None, None))
    assert done.code == 0 and "--cursor 9-1" in done.err + done.out, done
    assert b"from=2026-11-22" in heads[0] and b"cursor=1-1" in heads[1] and list(tmp_path.iterdir()) == [path]
    if suffix == "jsonl":
        assert path.read_bytes() == row(1) + row(2, complete=True)
        assert cli("signals", "history", str(path), key="k").code == 1
        return
    if suffix == "csv":
        frame = pandas.read_csv(path, dtype={"lamports": "UInt64"})
        assert list(frame["accounts"]) == ["a b", "a b"] and list(frame["complete"])[1] is True
    else:
        frame = pandas.read_parquet(path) if suffix == "parquet" else arrow.ipc.open_stream(path).read_pandas()
    assert list(frame["slot"]) == [1, 2] and list(frame["lamports"]) == [U64, U64]


def test_a_history_that_is_refused_leaves_no_file(cli: Callable[..., Done], tmp_path: Path) -> None:
    for name, url in (("signals.xls", "http://127.0.0.1:9"), ("signals.csv", "http://127.0.0.1:9")):
        done = cli("signals", "history", str(tmp_path / name), "--url", url, key="k")
        assert done.code == 1 and "Next:" in done.err and not list(tmp_path.iterdir())
