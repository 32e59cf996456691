"""`deposit`: pay USDC in from the wallet's own account, and wait until it is credited."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ledger_gateway.cli.arguments import NODE_VARIABLE
from ledger_gateway.cli.shell import Refused, Shell, command
from ledger_gateway.client import Gateway
from ledger_gateway.credentials import Wallet
from ledger_gateway.errors import BadAnswer, LedgerGatewayError, NodeError, PaymentNeeded, Unavailable, Unreachable

APP = typer.Typer(no_args_is_help=True)
_COMMITMENT = {"commitment": "confirmed"}


@APP.callback()
def _only() -> None:
    """Keep the command's name: an application of one command has none."""


@command(APP)
async def deposit(
    shell: Shell,
    amount: Annotated[str, typer.Argument(help="USDC, such as 5 or 0.25.")],
    node_url: Annotated[
        str | None,
        typer.Option("--node-url", help=f"Solana node to send by [{NODE_VARIABLE}]; by default the gateway."),
    ] = None,
    mint: Annotated[str | None, typer.Option("--mint", help="Accept this token where it is not USDC's own.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before sending.")] = False,
    wait_seconds: Annotated[int, typer.Option("--wait-seconds", min=0, help="For the credits.")] = 120,
) -> None:
    """Pay in: transfer USDC to the deposit address, and wait for the credits.

    The wallet pays the network's fee, so it needs a little SOL. A wallet without credits cannot send by the gateway:
    name another node.
    """
    from ledger_gateway.cli import transfer

    try:
        units = transfer.usdc_units(amount)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="AMOUNT") from None
    wallet = shell.profile.wallet()
    async with shell.gateway(wallet) as gateway:
        terms = await _terms(shell.profile.url)
        _check(terms, units, mint)
        _ask(shell, terms, transfer.usdc_text(units), wallet, yes)
        url = node_url or os.environ.get(NODE_VARIABLE)
        with shell.out.steps(3) as begin:
            begin("sending the transfer")
            signature = await _send(gateway, url, wallet, terms, units)
            shell.out.say(f"signature {signature}")
            begin("waiting until it is final and credited, about 15 to 30 seconds")
            try:
                done = await gateway.wait_for_deposit(signature, wait_seconds)
            except LedgerGatewayError as error:
                raise Refused(
                    f"{signature} was sent, and is not credited yet: {error}",
                    "do not pay again: the credits appear by themselves; `ledger-gateway balance` shows them.",
                ) from None
            begin("credited")
        # The watcher may have credited it before the confirmation did, which then adds nothing.
        last = (await gateway.account()).last_deposit or {}
        credited = last.get("credits") if last.get("signature") == signature else done.credits_added
    shell.out.rows({"signature": signature, "credits": credited, "balance": done.new_balance})
    has_key = shell.profile.key or shell.profile.url in shell.profile.saved.keys
    # A new key ends the one before it, which a program may be using.
    shell.out.next(f"`ledger-gateway call getSlot`{'' if has_key else '; without a key: `ledger-gateway key new`'}.")


async def _terms(url: str) -> dict[str, str]:
    """Return where to pay, as the gateway tells whoever sends no credentials."""
    try:
        async with Gateway(url) as stranger:
            await stranger.call("getSlot")
    except PaymentNeeded as told:
        wanted = ("deposit_address", "usdc_mint", "minimum_deposit_usdc", "network")
        found = {name: told.data.get(name) for name in wanted}
        if all(isinstance(value, str) for value in found.values()):
            return {name: str(value) for name, value in found.items()}
    raise Refused(
        "this gateway does not tell where to pay", "ask its operator; GET /account/info may name the address."
    )


def _check(terms: Mapping[str, str], units: int, mint: str | None) -> None:
    from ledger_gateway.cli import transfer

    if terms["usdc_mint"] not in transfer.USDC_MINTS and mint != terms["usdc_mint"]:
        raise Refused(
            f"the gateway asks for a token that is not USDC: {terms['usdc_mint']}",
            "make sure that the URL is right; --mint with that address pays all the same.",
        )
    try:
        least = transfer.usdc_units(terms["minimum_deposit_usdc"])
    except ValueError:
        raise Refused("the gateway's least amount is no number", "make sure that the URL is right.") from None
    if units < least:
        raise Refused(f"the least amount is {terms['minimum_deposit_usdc']} USDC", "pay that much, or more.")


def _ask(shell: Shell, terms: Mapping[str, str], amount: str, wallet: Wallet, yes: bool) -> None:
    shell.out.say(f"{amount} USDC ({terms['network']}) from {wallet.pubkey}")
    shell.out.say(f"  to {terms['deposit_address']}, as {shell.profile.url} says")
    if yes:
        return
    if shell.out.as_json or not os.isatty(0):
        raise Refused("nobody is there to say yes", "pass --yes to send the transfer.")
    if not typer.confirm("Send it?", err=True):
        raise Refused("not sent", "nothing was paid.")


async def _send(gateway: Gateway, node_url: str | None, wallet: Wallet, terms: Mapping[str, str], units: int) -> str:
    from ledger_gateway.cli import funds

    faucet = funds.faucet_advice(wallet.pubkey, units, node_url or gateway.url, node_url)
    if node_url is None:
        try:
            return await _transfer(gateway, faucet, wallet, terms, units)
        except PaymentNeeded:
            raise Refused(
                "this wallet has no credits yet, so the gateway sends nothing for it",
                f"pass --node-url with any Solana node, or set {NODE_VARIABLE}; of a local product: "
                f"{funds.EMBEDDED_NODE}. The wallet needs USDC, and SOL for the network's fee.{faucet}",
            ) from None
    try:
        node = Gateway(node_url)
    except ValueError as error:
        raise Refused(f"--node-url: {error}", "name a node without a key in its query.") from None
    async with node:
        try:
            return await _transfer(node, faucet, wallet, terms, units)
        except NodeError as error:
            raise Refused(f"--node-url: {error}", "mend what that node names; nothing was paid.") from None
        except LedgerGatewayError as error:
            raise Refused(
                f"--node-url: {error}",
                f"name a Solana node that answers; of a local product: {funds.EMBEDDED_NODE}, while it runs.",
            ) from None


async def _transfer(node: Gateway, faucet: str, wallet: Wallet, terms: Mapping[str, str], units: int) -> str:
    """Send the transfer and return its signature, after a look at the wallet's balances. faucet: see funds.require."""
    from ledger_gateway.cli import funds, transfer

    mint = terms["usdc_mint"]
    try:
        asked = [wallet.pubkey, transfer.token_account(wallet.pubkey, mint)]
        accounts: Any = await node.call("getMultipleAccounts", asked, {**_COMMITMENT, "encoding": "jsonParsed"})
        funds.require(accounts, wallet.pubkey, units, faucet)
        found: Any = await node.call("getLatestBlockhash", _COMMITMENT)
        blockhash = found["value"]["blockhash"]
        signed, signature = transfer.signed_transfer(
            wallet.secret_bytes, mint, terms["deposit_address"], units, blockhash
        )
    except (LookupError, TypeError, ValueError) as error:
        raise Refused(f"the transfer cannot be built: {error}", "check the node's URL, and the wallet.") from None
    try:
        await node.call("sendTransaction", signed, {"encoding": "base64", "preflightCommitment": "confirmed"})
    except (Unreachable, Unavailable, BadAnswer) as error:
        if isinstance(error, Unreachable) and not error.was_sent:
            raise
        raise Refused(
            f"{error}; the transfer {signature} may have been sent",
            "wait two minutes and look at `ledger-gateway balance` before you pay again: credits appear by themselves.",
        ) from None
    return signature
