"""The command `ledger-gateway`: commands of clients, and in front of them those of the product, which it is handed.

The product's commands are loaded when one of them is called, as they import much; the help has their first lines here.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from ledger_gateway.cli.arguments import KEY_VARIABLE, without_key

_HELP = (
    "Ledger Gateway: a prepaid, credit-metered gateway in front of a Solana node. Commands of clients use --url, --key "
    "and --keypair, or LEDGER_GATEWAY_URL, LEDGER_GATEWAY_API_KEY and LEDGER_GATEWAY_KEYPAIR. All take --json. Exit "
    "codes: 0 done, 1 refused or failed, 2 wrong usage, 130 stopped with Ctrl-C."
)
# In which module a group of commands is; imported when it is needed.
_MODULES = {
    "wallet": "wallet_commands",
    "key": "wallet_commands",
    "keys": "key_commands",
    "balance": "account_commands",
    "usage": "account_commands",
    "ledger": "ledger_command",
    "runway": "account_commands",
    "limit": "limit_command",
    "calls": "call_log_commands",
    "status": "account_commands",
    "receipts": "receipt_commands",
    "verify": "receipt_commands",
    "bill": "receipt_commands",
    "call": "call_commands",
    "quote": "call_commands",
    "send": "call_commands",
    "deposit": "deposit_command",
    "signals": "signal_commands",
    "webhooks": "webhook_commands",
}
_FIRST_LINES = {
    "wallet": "Key pairs of wallets.",
    "key": "API keys.",
    "keys": "Named keys with budgets.",
    "balance": "Show credits, limits and where to pay.",
    "usage": "Show what calls cost, by method, hour or day.",
    "ledger": "Show entries of the ledger, newest first, or write them all to a file.",
    "runway": "Show how fast credits are spent, and how long they last.",
    "limit": "Show or change the most credits that the account spends in an hour.",
    "calls": "Show the calls of the last day: outcome, time and credits of each.",
    "status": "Show the health of a gateway.",
    "receipts": "Get signed receipts of ledger entries, as JSON.",
    "verify": "Check receipts. Exit code 1: one does not hold.",
    "bill": "Show what a month began with, what came and went, and what was left.",
    "call": "Make one JSON-RPC call.",
    "quote": "Show what a call would cost; free.",
    "send": "Send a signed transaction and wait until it is confirmed.",
    "deposit": "Pay in: transfer USDC to the deposit address, and wait for the credits.",
    "signals": "Signals of the chain.",
    "webhooks": "Webhooks: URLs that are told of events.",
}
_PRODUCT_PANEL, _CLIENT_PANEL = "Run and operate a gateway", "Use a gateway"


def make_group(product: Callable[[], Any] | None, product_lines: Mapping[str, str]) -> TyperGroup:
    """Build the command. product: gives the group of the product's commands; None: there are none here.

    product_lines: their names and first lines.
    """

    class Commands(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return [*_MODULES, *product_lines]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in _MODULES:
                return _client_command(cmd_name)
            if cmd_name in product_lines and product is not None:
                return product().commands[cmd_name]
            return None

        def format_help(self, ctx: Any, formatter: Any) -> None:
            _print_help(ctx, product_lines)

    return Commands(name="ledger-gateway", help=_HELP, commands={}, no_args_is_help=True, add_help_option=True)


def main(product: Callable[[], Any] | None = None, product_lines: Mapping[str, str] | None = None) -> None:
    """Run the command line of this process."""
    arguments, key = without_key(sys.orig_argv)
    if key is not None:
        # Everybody on this machine can read a command line, and only its owner the environment.
        os.execve(sys.executable, [sys.executable, *arguments[1:]], {**os.environ, KEY_VARIABLE: key})  # noqa: S606
    make_group(product, product_lines or {})(prog_name="ledger-gateway")


def _client_command(name: str) -> Any:
    from importlib import import_module

    module = import_module(f"ledger_gateway.cli.{_MODULES[name]}")
    group: Any = typer.main.get_command(module.APP)
    return group.commands[name]


def _print_help(ctx: Any, product_lines: Mapping[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"\n Usage: {ctx.command_path} COMMAND [OPTIONS]\n\n {_HELP}\n")
    for title, lines in ((_CLIENT_PANEL, _FIRST_LINES), (_PRODUCT_PANEL, product_lines)):
        if lines:
            table = Table.grid(padding=(0, 2))
            for name, line in lines.items():
                table.add_row(f" [bold cyan]{name}[/]", line)
            console.print(f" [bold]{title}[/]")
            console.print(table)
            console.print()
    console.print(" `ledger-gateway COMMAND --help` tells more. Next: `ledger-gateway run`, or `wallet new`.\n")
