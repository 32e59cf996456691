"""Operator commands on the keys that sign statements of the ledger: show, rotate.

Implements: decisions, "Signed roots"; launch/README.md (commands). Not here: making and sealing keys, which an owner of
accounts does.
"""

from typing import Annotated, Any

import typer

from actors.accounts.receipts import AcceptLedgerKey, RotateLedgerKey, ShowLedgerKeys
from actors.launch.local_run.screen import DataDirOption, print_document, say
from actors.launch.operator.money_commands import ask_owner
from actors.launch.operator.tables import print_rows, utc_text

_NEXT = (
    "Next: receipts of the old key stay good; /.well-known/ledger-keys.json has both. Owners take it over within 30 s."
)
_UNPROVEN = (
    "Unproven rows are neither published nor used. If a saved /.well-known/ledger-keys.json has the key, and the "
    "cluster secret was changed since: `ledger-key accept ID`. Else somebody else has written it into the database."
)


def add_ledger_keys(cli: typer.Typer) -> None:
    keys = typer.Typer(help="Keys that sign statements of the ledger.", no_args_is_help=True)
    cli.add_typer(keys, name="ledger-key")

    @keys.command()
    def show(data_dir: DataDirOption = None) -> None:
        """List all keys there ever were, the newest first, and rows that are not known to be this service's."""
        told = ask_owner(data_dir, ShowLedgerKeys)
        _print(told)
        if told["unproven"]:
            say(_UNPROVEN)
        else:
            say("Next: `ledger-key rotate` makes a new one, as after a leak of the cluster secret or the database.")

    @keys.command()
    def rotate(data_dir: DataDirOption = None) -> None:
        """Sign with a new key from now on; the old one stays published."""
        _print(ask_owner(data_dir, RotateLedgerKey))
        say(_NEXT)

    @keys.command()
    def accept(
        key_id: Annotated[str, typer.Argument(help="Of a key that was published before the secret changed.")],
        data_dir: DataDirOption = None,
    ) -> None:
        """After a change of the cluster secret: believe an old key, which a new one vouches for from now on."""
        _print(ask_owner(data_dir, lambda: AcceptLedgerKey(key_id)))
        say("Next: statements go on within seconds; `ledger-key show` lists what is still unproven.")


def _print(published: dict[str, Any]) -> None:
    if print_document(published):
        return
    rows = [(key, "") for key in published["keys"]] + [(key, "UNPROVEN, ") for key in published.get("unproven", [])]
    for key, doubt in rows:
        retired = key["retired_at"]
        until = doubt + ("signs" if retired is None else f"until {utc_text(retired)}")
        print_rows({key["id"]: f"{key['public_key']}, made {utc_text(key['made_at'])}, {until}"})
