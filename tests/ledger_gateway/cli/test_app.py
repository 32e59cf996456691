"""The command as a whole: quick, complete, and without secrets where others can read them."""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

import ledger_gateway
from actors.launch.local_run.run import Parts
from actors.launch.operator.cli import make_cli
from actors.launch.operator.command_line import FIRST_LINES
from ledger_gateway.cli import app

from .conftest import Done

ROOT = Path(__file__).parents[3]
HEAVY = ("ray", "actors.config", "httpx", "solders", "websockets", "aiohttp", "pydantic", "asyncpg")


def test_the_help_imports_nothing_heavy() -> None:
    """`ledger-gateway --help` and commands of clients must be quick: neither Ray nor the product is imported."""
    code = (
        "import sys, serve_app\nsys.argv[1:] = {arguments}\n"
        "try:\n    serve_app.command_line()\nexcept SystemExit: pass\n"
        "print(*[name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    for arguments, heavy in ((["--help"], HEAVY), (["balance", "--help"], ("ray", "actors.config", "solders"))):
        run = [sys.executable, "-c", code.format(arguments=arguments, heavy=heavy)]
        done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
        assert done.stderr.strip() == "" and "Usage:" in done.stdout, done.stderr


def test_every_command_of_the_product_is_mounted_and_named() -> None:
    """The lines that the help has by heart are those of the product's own commands."""

    def unused(*_: object) -> object:
        raise AssertionError

    group = typer.main.get_command(make_cli(Parts(unused, unused, unused, unused, unused)))  # type: ignore[arg-type]
    assert set(group.commands) == set(FIRST_LINES)  # type: ignore[attr-defined]
    assert set(app._MODULES) == set(app._FIRST_LINES)
    for name in app._MODULES:
        shown = app._client_command(name).help or ""
        assert shown.startswith(app._FIRST_LINES[name].split(";")[0].rstrip(".")), name


def test_a_key_leaves_the_command_line(tmp_path: Path) -> None:
    """Rule: secrets are never in process titles. The process starts itself again, with the key in its environment."""
    code = (
        "import sys, os\nfrom ledger_gateway.cli import app\n"
        "app.make_group = lambda *_: lambda **__: print(open('/proc/self/cmdline').read().split('\\0')[-3:], "
        "os.environ['LEDGER_GATEWAY_API_KEY'])\napp.main()"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    run = [sys.executable, str(script), "balance", "--key", "SECRET", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['balance', '--json', ''] SECRET"


def test_names_of_the_package_are_what_it_says() -> None:
    """Names are loaded when they are used: each of __all__ must have its place, and dir() must show it."""
    assert sorted(ledger_gateway._PLACES) == sorted(ledger_gateway.__all__)
    for name in ledger_gateway.__all__:
        assert getattr(ledger_gateway, name) is not None and name in dir(ledger_gateway)
    with pytest.raises(AttributeError):
        _ = ledger_gateway.nothing  # type: ignore[attr-defined]
    assert inspect.iscoroutinefunction(ledger_gateway.Gateway.call)


def test_the_help_fits_a_terminal_and_a_wrong_command_is_usage(cli: Callable[..., Done]) -> None:
    """80 columns; exit code 2 for what the user typed wrongly, 0 for help."""
    shown = cli("--help")
    assert shown.code == 0 and max(map(len, shown.out.splitlines())) <= 80 and "deposit" in shown.out
    assert cli("nothing").code == 2 and cli("call").code == 2 and cli("balance", "--nothing").code == 2
