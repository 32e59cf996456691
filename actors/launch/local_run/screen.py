"""The text that a person sees while the product starts, runs and stops; options and output that commands share.

Long work shows its progress, and the end of a start tells what to do next.
"""

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from actors.clock import SystemClock

DataDirOption = Annotated[Path | None, typer.Option("--data-dir", help="Folder that holds all data of a run.")]
ConfigFileOption = Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")]


@dataclass(frozen=True, slots=True)
class Demo:
    """The account that a run makes for first calls."""

    pubkey: str
    api_key: str
    credits: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that a first call needs."""

    http_url: str
    node_url: str
    demo: Demo | None  # None: no account is made where money is real.
    data_dir: Path
    seconds: float
    https_url: str | None = None  # URL for HTTPS, WSS and gRPC over TLS.
    ca_file: Path | None = None  # The certificate that clients must trust; None: the operator gave one.
    grpc_target: str | None = None  # host:port of Yellowstone gRPC; None: the node has none.
    metrics_url: str | None = None  # None: the page is switched off.
    ready_file: Path | None = None


class Screen:
    """Progress on a terminal or in a log: one line for each step, with its duration."""

    def __init__(self) -> None:
        self.console = Console(stderr=False, highlight=False)
        self._clock = SystemClock()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = self._clock.monotonic()
        if self.console.is_terminal:
            with self.console.status(what):
                yield
        else:
            yield
        self.console.print(f"  [green]✓[/green] {what} [dim]({self._clock.monotonic() - began:.1f} s)[/dim]")

    def say(self, text: str) -> None:
        self.console.print(f"  {text}", markup=False, soft_wrap=True)

    def failed(self, text: str) -> None:
        _print_fault("Cannot start:", text)

    def ended(self, text: str) -> None:
        _print_fault("Ended:", text)

    def ready(self, ready: Ready) -> None:
        table = Table.grid(padding=(0, 2))
        for name, value in (
            ("JSON-RPC", ready.http_url),
            ("WebSocket, MCP", f"{ready.http_url.replace('http', 'ws', 1)}/ws   {ready.http_url}/mcp"),
            *([] if ready.grpc_target is None else [("gRPC streams", f"{ready.grpc_target}   (x-token: the API key)")]),
            *([] if ready.https_url is None else [("HTTPS, WSS, gRPC", ready.https_url)]),
            ("Console, docs", f"{ready.http_url}/console   {ready.http_url}/docs"),
            ("For operators", f"{ready.http_url}/operator"),
            ("Health, prices", f"{ready.http_url}/health   {ready.http_url}/pricing"),
            *([] if ready.metrics_url is None else [("Metrics", ready.metrics_url)]),
            ("Node behind it", ready.node_url),
            *_demo_rows(ready),
            ("Data", str(ready.data_dir)),
        ):
            table.add_row(f"[bold]{name}[/bold]", escape(value))
        self.console.print(Panel(table, title=f"Ledger Gateway is ready ({ready.seconds:.1f} s)", border_style="green"))
        if ready.demo is None:
            _print_to_copy("A first account, for which nothing has been paid in:", *first_account(ready))
        else:
            _print_to_copy("A first call, to copy:", first_call(ready.http_url, ready.demo.api_key))
        _print_to_copy("The token of the page for operators, which nothing else prints:", _token_command(ready))
        if ready.ca_file is not None:
            trusting = f"curl --cacert {shlex.quote(str(ready.ca_file))} {ready.https_url}/health"
            _print_to_copy("Over TLS, trusting the certificate that this run made:", trusting)
        self.console.print(
            "\nStop with Ctrl-C; the next start keeps accounts, ledger and chain (--fresh starts anew).\n"
        )


def _demo_rows(ready: Ready) -> list[tuple[str, str]]:
    if ready.demo is None:
        return []
    place = "the file that --ready-file FILE writes" if ready.ready_file is None else str(ready.ready_file)
    return [
        ("Demo wallet", ready.demo.pubkey),
        ("Its API key", ready.demo.api_key),
        ("Its secret key", f"secret_key in {place}"),
        ("Its credits", f"{ready.demo.credits:,}"),
    ]


def _token_command(ready: Ready) -> str:
    return f"ledger-gateway operator token --data-dir {shlex.quote(str(ready.data_dir))}"


def _print_to_copy(title: str, *lines: str) -> None:
    """Print lines without wrapping or markup, so that they can be copied."""
    sys.stdout.write(f"\n{title}\n\n" + "".join(f"  {line}\n" for line in lines))
    sys.stdout.flush()


_is_for_programs = False  # Set once by the option --json, for the command of this process.


def print_for_programs(yes: bool) -> None:
    """With yes, commands print one JSON document and nothing beside it."""
    global _is_for_programs
    _is_for_programs = yes


def say(text: str) -> None:
    """Print text for people."""
    if not _is_for_programs:
        Console(highlight=False).print(text, soft_wrap=True)


def print_document(value: Any) -> bool:
    """Print a result as JSON where programs read it. False: people do, and nothing is printed."""
    if _is_for_programs:
        sys.stdout.write(f"{json.dumps(value, default=str)}\n")
    return _is_for_programs


def fail(text: str) -> NoReturn:
    """Print why a command is refused, and exit with code 1."""
    if print_document({"ok": False, "error": {"message": text}}):
        sys.exit(1)
    _print_fault("Refused:", text)
    sys.exit(1)


def _print_fault(heading: str, text: str) -> None:
    """Print what went wrong as it is: text from outside may have brackets, which are no markup."""
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble((heading, "red"), " ", text), soft_wrap=True)


def first_call(http_url: str, api_key: str) -> str:
    """Return a curl command whose output shows an answer and the credit headers."""
    body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
    return (
        f"curl -si {http_url}/ -H 'Content-Type: application/json' "
        f"-H {shlex.quote(f'X-Api-Key: {api_key}')} -d {shlex.quote(body)}"
    )


def first_account(ready: Ready) -> tuple[str, ...]:
    """Return the commands that make an account where a run makes none, and give it credits."""
    return (
        "ledger-gateway wallet new",
        f"ledger-gateway key new --url {ready.http_url}",
        f'ledger-gateway accounts grant PUBKEY 5000 --reason "first account" '
        f"--data-dir {shlex.quote(str(ready.data_dir))}",
    )
