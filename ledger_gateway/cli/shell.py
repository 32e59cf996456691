"""Shared by all commands: the options --url, --key, --keypair and --json, and the handling of errors.

Implements: README.md of this folder, "Exit codes".
"""

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ledger_gateway.cli.output import Output
from ledger_gateway.cli.profile import Profile, ProfileError, resolve
from ledger_gateway.client import Gateway
from ledger_gateway.credentials import BadCredential, Wallet
from ledger_gateway.errors import BadRequest, Denied, LedgerGatewayError, NotFound, PaymentNeeded, Unreachable

FAILED, INTERRUPTED = 1, 130
_URL = Annotated[str | None, typer.Option("--url", help="URL of the gateway [LEDGER_GATEWAY_URL].", show_default=False)]
_KEY = Annotated[
    str | None,
    typer.Option("--key", help="API key [LEDGER_GATEWAY_API_KEY, where nobody sees it].", show_default=False),
]
_PAIR = Annotated[
    Path | None,
    typer.Option("--keypair", help="Key pair of solana-keygen [LEDGER_GATEWAY_KEYPAIR].", show_default=False),
]
_JSON = Annotated[bool, typer.Option("--json", help="One JSON document, for programs.")]
_SHARED = {"url": _URL, "key": _KEY, "keypair": _PAIR, "as_json": _JSON}
_DEFAULTS: dict[str, Any] = {"url": None, "key": None, "keypair": None, "as_json": False}


class Refused(Exception):
    """A command cannot do what it is asked. next_step: what the user can do."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.next_step = next_step


class Shell:
    """One command's run. out: for what it prints. profile: which gateway, and who is calling."""

    def __init__(self, profile: Profile, out: Output) -> None:
        self.profile, self.out = profile, out

    def gateway(self, wallet: Wallet | None = None) -> Gateway:
        """Return a client of the profile's caller, or of this wallet."""
        return Gateway(self.profile.url, wallet or self.profile.credential())

    def caller(self) -> Gateway:
        """Return a client that has a credential. Raises Refused where there is none."""
        credential = self.profile.credential()
        if credential is None:
            raise Refused(
                f"no API key and no wallet for {self.profile.url}",
                "pass --key or --keypair, or set LEDGER_GATEWAY_API_KEY; `ledger-gateway wallet new` and "
                "`ledger-gateway key new` make them.",
            )
        return Gateway(self.profile.url, credential)


Work = Callable[..., Coroutine[Any, Any, None]]


def command(app: typer.Typer, name: str | None = None) -> Callable[[Work], Work]:
    """Make an `async def work(shell, ...)` a command, with the options that all commands share."""

    def decorate(work: Work) -> Work:
        signature = inspect.signature(work, eval_str=True)
        own = list(signature.parameters.values())[1:]
        shared = [
            inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[each], annotation=kind)
            for each, kind in _SHARED.items()
        ]

        def run(**values: Any) -> None:
            given = {each: values.pop(each) for each in _SHARED}
            perform(work, given, values)

        run.__name__, run.__doc__ = work.__name__, work.__doc__
        keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        run.__signature__ = inspect.Signature([*keyword_only, *shared])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in (*keyword_only, *shared)}
        app.command(name)(run)
        return work

    return decorate


def perform(work: Work, given: dict[str, Any], values: dict[str, Any]) -> None:
    """Run a command, and end with its exit code."""
    out = Output(given["as_json"])
    try:
        profile = resolve(given["url"], given["key"], given["keypair"], os.environ)
        asyncio.run(work(Shell(profile, out), **values))
    except Refused as error:
        _fail(out, error, error.next_step)
    except (ProfileError, BadCredential) as error:
        _fail(out, error, "correct the option, the variable or the file that the line above names.")
    except LedgerGatewayError as error:
        _fail(out, error, _advice(error))
    except FileExistsError as error:
        _fail(out, Refused(f"{error.filename} exists already", ""), "name another file; nothing is overwritten.")
    except BrokenPipeError:  # `| head` has read enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except OSError as error:
        _fail(out, error, "check the file's name and its permissions.")
    except KeyboardInterrupt:
        out.say("stopped")
        raise typer.Exit(INTERRUPTED) from None


def _advice(error: LedgerGatewayError) -> str:
    hint = getattr(error, "hint", "")
    match error:
        case Unreachable(was_sent=False):
            return "check --url, and that the gateway runs: `ledger-gateway run` starts one on this machine."
        case PaymentNeeded():
            return f"`ledger-gateway deposit AMOUNT --keypair FILE` pays. {error.how_to_pay}"
        case Denied(constant="AUTH_FAILED"):
            return "check the key (`ledger-gateway key new` makes another one) and the clock of this machine."
        case NotFound(constant="ACCOUNT_NOT_FOUND"):
            return "`ledger-gateway key new` opens the account of a wallet; so does its first deposit."
        case NotFound():
            return "check the name or the id."
        case Denied(constant="METHOD_NOT_ALLOWED"):
            # A suspended account has no hint; a method that nobody may call has one.
            return f"{hint}." if hint else "ask the operator of the gateway; `ledger-gateway balance` still works."
        case BadRequest(constant="MAX_CREDITS_EXCEEDED"):
            return "allow more with --max-credits; `ledger-gateway quote` tells the price."
        case _:
            return f"{hint}. {error.next_step}" if hint else error.next_step


def _fail(out: Output, error: Exception, next_step: str) -> NoReturn:
    out.failed(error, next_step)
    raise typer.Exit(FAILED)
