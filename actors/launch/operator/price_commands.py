"""Operator command on the price list of an account: show it, or give it another one.

Implements: launch/README.md (commands); decisions, "Price lists". Not here: prices, which follow from the settings; the
name of an account's list, which its owner keeps.
"""

from typing import Annotated

import typer

from actors.accounts.api import AccountState, Describe
from actors.accounts.price_list import PUBLIC_WORD
from actors.accounts.price_list_commands import SetPriceList
from actors.calls import PUBLIC_PRICES
from actors.config import ConfigError
from actors.launch.assembly.operating import account_document
from actors.launch.local_run import owner_commands as operator
from actors.launch.local_run.run import Options, settings
from actors.launch.local_run.screen import ConfigFileOption, DataDirOption, fail, print_document, say
from actors.launch.operator.money_commands import ask_owner
from actors.launch.operator.tables import print_rows
from actors.operators.price_lists import mistake_in_list
from actors.units import base58_text

_NEXT_SHOWN = "Next: `accounts price PUBKEY NAME` gives it a list of the settings, or `public`."
_NEXT_GIVEN = "Next: it pays so from its next call on; GET /pricing with its key shows the prices."


def add_price(accounts: typer.Typer) -> None:
    @accounts.command()
    def price(
        pubkey: Annotated[str, typer.Argument(help="Base58 public key of the account.")],
        name: Annotated[str | None, typer.Argument(help="A list of pricing.lists, or public; left out: show.")] = None,
        unchecked: Annotated[
            bool, typer.Option("--unchecked", help="The product has other settings than this command reads.")
        ] = False,
        config: ConfigFileOption = None,
        data_dir: DataDirOption = None,
    ) -> None:
        """Give an account a price list of the settings, or the public prices; without a name, print which it has."""
        if name is None:
            state = ask_owner(data_dir, lambda: Describe(operator.account_of(pubkey)))
            _print(state, "price list, unchanged", _NEXT_SHOWN)
            return
        if not unchecked:
            try:
                mistake = mistake_in_list(name, settings(Options(None, False, config, None, {})).config.pricing.lists)
            except ConfigError as error:
                fail(str(error))
            if mistake is not None:
                fail(f"{mistake}. Give --config FILE, or --unchecked where the product has other settings")
        wanted = PUBLIC_PRICES if name == PUBLIC_WORD else name
        state = ask_owner(data_dir, lambda: SetPriceList(operator.account_of(pubkey), wanted))
        _print(state, "price list given", _NEXT_GIVEN)


def _print(state: AccountState, what: str, next_step: str) -> None:
    say(f"[green]{what}[/green]")
    if print_document(account_document(state)):
        return
    print_rows({"pubkey": base58_text(state.pubkey), "price_list": state.price_list or PUBLIC_WORD})
    say(next_step)
