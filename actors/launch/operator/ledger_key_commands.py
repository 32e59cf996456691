"""Operator commands on the keys that sign statements of the ledger: show, rotate.

Implements: decisions, "Signed roots"; launch/README.md (commands). Not here: making and sealing keys, which an owner of
accounts does.
"""

from typing import Any

import typer

from actors.accounts.receipts import ReadLedgerKeys, RotateLedgerKey
from actors.launch.local_run.screen import DataDirOption, say
from actors.launch.operator.money_commands import ask_owner
from actors.launch.operator.tables import print_rows, utc_text

_NEXT = (
    "Next: receipts of the old key stay good; /.well-known/ledger-keys.json has both. Owners take it over within 30 s."
)


def add_ledger_keys(cli: typer.Typer) -> None:
    keys = typer.Typer(help="Keys that sign statements of the ledger.", no_args_is_help=True)
    cli.add_typer(keys, name="ledger-key")

    @keys.command()
    def show(data_dir: DataDirOption = None) -> None:
        """List all keys there ever were, the newest first."""
        _print(ask_owner(data_dir, ReadLedgerKeys))
        say("Next: `ledger-key rotate` makes a new one, as after a leak of the cluster secret or the database.")

    @keys.command()
    def rotate(data_dir: DataDirOption = None) -> None:
        """Sign with a new key from now on; the old one stays published."""
        _print(ask_owner(data_dir, RotateLedgerKey))
        say(_NEXT)


def _print(published: dict[str, Any]) -> None:
    for key in published["keys"]:
        retired = key["retired_at"]
        until = "signs" if retired is None else f"until {utc_text(retired)}"
        print_rows({key["id"]: f"{key['public_key']}, made {utc_text(key['made_at'])}, {until}"})
