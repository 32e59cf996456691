"""`wallet` and `key`: who calls, and the key that stands for the wallet."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ledger_gateway.cli.profile import config_folder
from ledger_gateway.cli.shell import Refused, Shell, command
from ledger_gateway.credentials import Wallet

APP = typer.Typer(no_args_is_help=True)
_WALLET = typer.Typer(help="Key pairs of wallets.", no_args_is_help=True)
_KEY = typer.Typer(help="API keys.", no_args_is_help=True)
APP.add_typer(_WALLET, name="wallet")
APP.add_typer(_KEY, name="key")


@command(_WALLET, "new")
async def wallet_new(
    shell: Shell,
    path: Annotated[Path | None, typer.Argument(help="File to write; by default in the configuration folder.")] = None,
) -> None:
    """Make a wallet: a key pair in a file that solana tools read, of mode 600."""
    where = (path or config_folder(os.environ) / "id.json").expanduser().absolute()
    wallet = Wallet.generate()
    wallet.save(where)
    saved = shell.profile.saved
    if saved.keypair is None:
        saved.keypair = str(where)
        saved.save()
    shell.out.rows({"pubkey": wallet.pubkey, "keypair": str(where), "is_default": saved.keypair == str(where)})
    shell.out.say("Whoever has this file owns the wallet: keep a copy in a safe place.")
    shell.out.next("`ledger-gateway key new` opens its account, `ledger-gateway deposit AMOUNT` pays in.")


@command(_WALLET, "show")
async def wallet_show(
    shell: Shell,
    pubkey: Annotated[bool, typer.Option("--pubkey", help="Print the public key alone, for other commands.")] = False,
) -> None:
    """Show the public key of the wallet."""
    wallet = shell.profile.wallet()
    if pubkey and not shell.out.as_json:
        return shell.out.text(wallet.pubkey)
    shell.out.rows({"pubkey": wallet.pubkey, "keypair": str(shell.profile.keypair)})
    shell.out.next("send USDC from this wallet: `ledger-gateway deposit AMOUNT`.")
    return None


@command(_KEY, "new")
async def key_new(
    shell: Shell,
    show: Annotated[bool, typer.Option("--show", help="Print the key, instead of saving it.")] = False,
    ref_code: Annotated[str | None, typer.Option("--ref-code", help="Referral code, for a new account.")] = None,
) -> None:
    """Make an API key; the key before it ends at once. Opens the wallet's account where there is none."""
    wallet = shell.profile.wallet()
    async with shell.gateway(wallet) as gateway:
        key = await gateway.new_api_key(ref_code)
        credits = gateway.figures.credits_remaining
    told: dict[str, object] = {"pubkey": wallet.pubkey, "url": shell.profile.url}
    if show:
        shell.out.rows({**told, "api_key": key})
    else:
        saved = shell.profile.saved
        saved.url, saved.keys[shell.profile.url] = shell.profile.url, key
        saved.save()
        shell.out.rows({**told, "saved_in": str(saved.path)})
    if not credits:  # Every call would be a 402.
        shell.out.next("`ledger-gateway deposit AMOUNT` pays in, then `ledger-gateway call getSlot`.")
        return
    shell.out.next("`ledger-gateway balance`, then `ledger-gateway call getSlot`.")


@command(_KEY, "forget")
async def key_forget(shell: Shell) -> None:
    """Remove the saved key of this gateway from the profile. The key itself goes on until `key new`."""
    saved = shell.profile.saved
    if saved.keys.pop(shell.profile.url, None) is None:
        raise Refused(f"no key of {shell.profile.url} is saved", f"look into {saved.path}.")
    saved.save()
    shell.out.rows({"forgotten": shell.profile.url})
    shell.out.next("`ledger-gateway key new` ends the key itself, too.")
