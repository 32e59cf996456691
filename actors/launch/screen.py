"""The text that a person sees while the product starts, runs and stops; options and output that commands share.

Implements: the house rules "long work shows progress" and "every command prints what to do next".
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
from rich.panel import Panel
from rich.table import Table

from actors.clock import SystemClock

DataDirOption = Annotated[Path | None, typer.Option("--data-dir", help="Folder that holds all data of a run.")]
ConfigFileOption = Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")]


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that a first call needs."""

    http_url: str
    node_url: str
    pubkey: str
    api_key: str
    credits: int
    data_dir: Path
    seconds: float
    https_url: str | None = None  # Of HTTPS, WSS and gRPC over TLS.
    ca_file: Path | None = None  # The certificate that clients must trust; None: the operator gave one.
    grpc_target: str | None = None  # host:port of Yellowstone gRPC; None: the node has none.


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
        self.console.print(f"  {text}")

    def failed(self, text: str) -> None:
        Console(stderr=True, highlight=False).print(f"[red]Cannot start:[/red] {text}", soft_wrap=True)

    def ended(self, text: str) -> None:
        Console(stderr=True, highlight=False).print(f"[red]Ended:[/red] {text}", soft_wrap=True)

    def ready(self, ready: Ready) -> None:
        table = Table.grid(padding=(0, 2))
        for name, value in (
            ("JSON-RPC", ready.http_url),
            ("WebSocket, MCP", f"{ready.http_url.replace('http', 'ws', 1)}/ws   {ready.http_url}/mcp"),
            *([] if ready.grpc_target is None else [("gRPC streams", f"{ready.grpc_target}   (x-token: the API key)")]),
            ("Health, prices", f"{ready.http_url}/health   {ready.http_url}/pricing"),
            *_tls_rows(ready),
            ("Node behind it", ready.node_url),
            ("Demo wallet", ready.pubkey),
            ("Its API key", ready.api_key),
            ("Its credits", f"{ready.credits:,}"),
            ("Data", str(ready.data_dir)),
        ):
            table.add_row(f"[bold]{name}[/bold]", value)
        self.console.print(Panel(table, title=f"Ledger Gateway is ready ({ready.seconds:.1f} s)", border_style="green"))
        self.console.print("\nA first call, to copy:\n")
        # Without line wrapping or markup, so that the line can be copied.
        sys.stdout.write(f"  {first_call(ready.http_url, ready.api_key)}\n")
        sys.stdout.flush()
        self.console.print(
            "\nStop with Ctrl-C; the next start keeps accounts, ledger and chain (--fresh starts anew).\n"
        )


def _tls_rows(ready: Ready) -> list[tuple[str, str]]:
    """Return the address for TLS, and how to trust a certificate that this run made."""
    if ready.https_url is None:
        return []
    rows = [("HTTPS, WSS, gRPC", ready.https_url)]
    if ready.ca_file is not None:
        rows.append(("Trust it with", f"curl --cacert {shlex.quote(str(ready.ca_file))} {ready.https_url}/health"))
    return rows


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


def print_rows(rows: dict[str, Any]) -> None:
    """Print names and values in two columns."""
    if print_document(rows):
        return
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(name, "" if value is None else str(value))
    Console(highlight=False).print(table)


def fail(text: str) -> NoReturn:
    """Print why a command is refused, and exit with code 1."""
    if print_document({"ok": False, "error": {"message": text}}):
        sys.exit(1)
    Console(stderr=True, highlight=False).print(f"[red]Refused:[/red] {text}", soft_wrap=True)
    sys.exit(1)


def first_call(http_url: str, api_key: str) -> str:
    """Return a curl command whose output shows an answer and the credit headers."""
    body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
    return (
        f"curl -si {http_url}/ -H 'Content-Type: application/json' "
        f"-H {shlex.quote(f'X-Api-Key: {api_key}')} -d {shlex.quote(body)}"
    )
