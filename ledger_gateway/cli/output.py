"""Prints the output of a command: for people, or with --json one JSON document for programs.

Text of a server is printed without control characters, so that it cannot drive the terminal. Results go to the standard
output; progress, errors and next steps to the standard error.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ledger_gateway.answers import plain
from ledger_gateway.errors import GatewayError, LedgerGatewayError, NodeError

_NOTHING = "nothing to show"


class Output:
    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._aside = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def document(self, value: Any) -> None:
        """Print a value as JSON; indented for people."""
        text = json.dumps(builtin(value), indent=None if self.as_json else 2, ensure_ascii=not self.as_json)
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def rows(self, rows: Mapping[str, Any]) -> None:
        """Print names and values in two columns."""
        if self.as_json:
            return self.document(rows)
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(overflow="fold")
        for name, value in rows.items():
            table.add_row(name, _cell(value))
        return self._console.print(table)

    def table(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], numbers: Iterable[str] = ()) -> None:
        """Print records, one in a line."""
        if self.as_json:
            return self.document(rows)
        if not rows:
            return self._console.print(_NOTHING)
        right = set(numbers)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for place, name in enumerate(columns):
            side: Literal["left", "right"] = "right" if name in right else "left"
            table.add_column(name.replace("_", " "), justify=side, overflow="fold", no_wrap=place == 0)
        for row in rows:
            table.add_row(*(_cell(row.get(name)) for name in columns))
        return self._console.print(table)

    def text(self, text: str) -> None:
        """Print one line of a result, which is never wrapped."""
        self._console.print(Text(plain(text)), soft_wrap=True)

    def say(self, text: str) -> None:
        """Tell people something beside the result."""
        if not self.as_json:
            self._aside.print(Text(plain(text)), soft_wrap=True)

    def next(self, text: str) -> None:
        """Tell people what to do next."""
        self.say(f"Next: {text}")

    def failed(self, error: Exception, next_step: str) -> None:
        """Tell why a command failed."""
        reason = plain(str(error)) or type(error).__name__
        if self.as_json:
            told: dict[str, Any] = {"type": type(error).__name__, "message": reason, "next": plain(next_step)}
            if isinstance(error, GatewayError):
                told |= {"constant": error.constant, "code": error.code, "http": error.http}
                told |= {"retry_after": error.retry_after, "request_id": error.request_id}
            elif isinstance(error, NodeError):
                told |= {"code": error.code, "data": error.data, "request_id": error.request_id}
            return self.document({"ok": False, "error": told})
        is_answer = isinstance(error, LedgerGatewayError) and not isinstance(error, GatewayError | NodeError)
        line = Text("Failed: " if is_answer else "Refused: ", style="red")
        self._aside.print(line + Text(reason, style="default"), soft_wrap=True)
        request_id = getattr(error, "request_id", None)
        if request_id and isinstance(error, LedgerGatewayError):
            self._aside.print(Text(f"Request: {request_id}"), soft_wrap=True)
        return self._aside.print(Text(f"Next: {plain(next_step)}"), soft_wrap=True)

    @contextmanager
    def steps(self, total: int) -> Iterator[Any]:
        """Show a bar of so many steps; the value is called with the name of each step as it begins."""
        columns = (BarColumn(20), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=self._aside, disable=self.as_json, transient=True) as progress:
            task = progress.add_task("", total=total)
            done = -1

            def begin(name: str) -> None:
                nonlocal done
                done += 1
                progress.update(task, completed=done, description=plain(name))
                if not self._aside.is_terminal:
                    self.say(f"  {name}")

            yield begin


def builtin(value: Any) -> Any:
    """Return records as plain values, and whole numbers as they are."""
    return msgspec.to_builtins(value)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    if isinstance(value, list | tuple):
        return Text(plain(", ".join(str(each) for each in value)))
    return Text(plain(value if isinstance(value, str) else json.dumps(builtin(value))))
