"""The product's commands within `ledger-gateway`, and their first lines.

This module imports little, so that the help of `ledger-gateway` and the commands of clients are quick; operator/cli.py,
which needs the whole product, is imported when one of these commands is called.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.launch.local_run.run import Parts

FIRST_LINES = MappingProxyType(
    {
        "run": "Start the whole product; Ctrl-C stops it.",
        "config": "Check the settings; with --show print them, secrets masked.",
        "migrate": "Create or update the tables of your own PostgreSQL.",
        "cluster": "The actors of the running instance: their number, their state.",
        "nodes": "The nodes that calls go to, changed while the product runs.",
        "accounts": "Operator commands on accounts of the running instance.",
        "adjust": "Add or remove credits.",
        "suspend": "Refuse every paid call of an account.",
        "deposits": "Transfers to the deposit account, and their outcomes.",
        "referrals": "Referral codes and their bonus on deposits.",
        "ledger-key": "Keys that sign statements of the ledger.",
        "months": "Old months of the ledger: exported to files, proven, and detached.",
        "memos": "Signed statements as memos on the chain.",
        "sponsor": "The key that pays network fees of x402 payments.",
        "operator": "The operators' page (GET /operator): its token.",
        "alerts": "Print what a person should look at now, each with what it means and what to do.",
        "backup": "Restored copies of the database: verify one before it goes into service.",
        "audit": "Recompute every balance and hash chain from the ledger.",
    }
)


def command_group(parts: "Parts") -> Any:
    """Return the product's command line, as `python serve_app.py` has it."""
    import typer

    from actors.launch.operator.cli import make_cli

    return typer.main.get_command(make_cli(parts))
