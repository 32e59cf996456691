"""Operator and auditor commands on memos of signed statements: new-key, show, audit.

Implements: decisions, "Signed roots" (memos on the chain); launch/README.md (commands). Not here: sending memos, which
an actor does; the audit itself (memos/audit.py).
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from actors.config import ConfigError, environment_name
from actors.launch.local_run import owner_commands as operator
from actors.launch.local_run.memo_setup import make_key_file
from actors.launch.local_run.run import Options, settings
from actors.launch.local_run.screen import ConfigFileOption, DataDirOption, fail, print_document, say
from actors.launch.operator.money_commands import with_instance
from actors.launch.operator.tables import print_rows
from actors.memos import audit
from actors.memos.core import CHARGED_MAX, fee_lamports
from actors.memos.host import ACTOR_NAME


def add_memos(cli: typer.Typer) -> None:
    memos = typer.Typer(help="Signed statements as memos on the chain.", no_args_is_help=True)
    cli.add_typer(memos, name="memos")

    @memos.command("new-key")
    def new_key(
        file: Annotated[Path, typer.Argument(help="A new file for the sealed key.")], config: ConfigFileOption = None
    ) -> None:
        """Make a key that signs and pays for memos, sealed with memos.passphrase."""
        try:
            address, most = _new_key(file, config)
        except ConfigError as error:
            fail(str(error))
        if print_document({"payer": address, "key_file": str(file), "lamports_per_series_and_hour": most}):
            return
        print_rows({"payer": address, "key in": str(file), "a series and hour": f"{most} lamports at most"})
        say(
            f"Next: send SOL to the payer, set {environment_name('memos.key_file')} and "
            f"{environment_name('memos.enabled')}=true, and start or deploy anew."
        )

    @memos.command()
    def show(data_dir: DataDirOption = None) -> None:
        """Print who pays for memos in the running product, what is left, and what holds them up."""
        told: dict[str, Any] = with_instance(
            data_dir, lambda instance: operator.ask_actor(instance, ACTOR_NAME, "health")
        )
        if print_document(told):
            return
        lamports = told["lamports"]
        holds = "not known" if lamports is None else f"{lamports:,} lamports"
        print_rows({"payer": told["payer"], "holds": holds, "fault": told["fault"] or "none"})
        say("Next: `memos audit --payer PAYER --node-url URL --roots FOLDER` compares the chain with the files.")

    memos.command("audit")(audit.main)


def _new_key(file: Path, config: Path | None) -> tuple[str, int]:
    memos = settings(Options(None, False, config, None, {})).config.memos
    if memos.passphrase is None:
        raise ConfigError(
            f"memos.passphrase: the key is stored encrypted; set {environment_name('memos.passphrase')} to a passphrase"
        )
    address = make_key_file(file, memos.passphrase.get_secret_value())
    return address, fee_lamports(memos.unit_price_micro_lamports) * CHARGED_MAX
