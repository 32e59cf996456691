"""Command line: `python -m devnode` runs a node, `python -m devnode fund PUBKEY` funds a wallet.

Implements: reading flags, exit codes, the status line on a terminal. Wiring only.
"""

import asyncio
import contextlib
import decimal
import http.client
import json
import logging
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer

from devnode import flags
from devnode.chain.open_block import ACCOUNT_UNITS_MAX, BLOCK_UNITS_MAX
from devnode.encoding.addresses import LAMPORTS_PER_SOL, USDC_DECIMALS
from devnode.faults.plan import FaultPlan, PlanError, read_plan
from devnode.geyser.settings import NO_LIMITS, FilterLimits, GeyserSettings, read_limits
from devnode.geyser.slot_logs import REPLAY_SLOTS
from devnode.settings import Dumps, Settings, SettingsError

EXIT_USAGE = 2
EXIT_UNAVAILABLE = 1
_CONFIRM_LOOKS, _CONFIRM_LOOK_SECONDS = 300, 0.1  # Half a minute; two slots last 0.8 s.
KNOWN_GAPS = """
A chain of one node that really executes transactions, for development and tests. It presents itself as devnet.

Known gaps: no stake or inflation (answers about them are constants), invented votes, forks only as faults; account
reads at confirmed or finalized show the newest contents for the first 32 slots after a restart; the effects of the
bonding-curve launch programs are imitated, unless real programs are loaded. devnode/README.md has the whole table, and
what the admin door does beside a node: funding, faults, jumps in time, snapshots of all accounts.
"""
app = typer.Typer(add_completion=False, rich_markup_mode=None, help=KNOWN_GAPS, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True, help=KNOWN_GAPS)
def serve(
    context: typer.Context,
    data_dir: flags.DataDir = None,
    http_port: flags.HttpPort = 8899,
    ws_port: flags.WsPort = None,
    tpu_port: flags.TpuPort = 0,
    leaders: flags.Leaders = 3,
    grpc_port: flags.GrpcPort = None,
    grpc_tls_port: flags.GrpcTlsPort = None,
    grpc_tls_cert: flags.GrpcTlsCert = None,
    grpc_tls_key: flags.GrpcTlsKey = None,
    grpc_token: flags.GrpcToken = None,
    grpc_replay_slots: flags.GrpcReplaySlots = REPLAY_SLOTS,
    grpc_limits: flags.GrpcLimits = None,
    host: flags.Host = "127.0.0.1",
    slot_ms: flags.SlotMs = 400,
    root_depth: flags.RootDepth = 32,
    confirm_depth: flags.ConfirmDepth = 2,
    block_units: flags.BlockUnits = BLOCK_UNITS_MAX,
    account_units: flags.AccountUnits = ACCOUNT_UNITS_MAX,
    crowd: flags.CrowdLoad = 0.0,
    seed: flags.Seed = None,
    retention_slots: flags.RetentionSlots = 216_000,
    reset: flags.Reset = False,
    ready_file: flags.ReadyFile = None,
    parent_pid: flags.ParentPid = None,
    faults: flags.FaultsFile = None,
    launch_programs: flags.LaunchPrograms = True,
    account: flags.AccountFiles = None,
    accounts: flags.AccountFolders = None,
    program: flags.ProgramFiles = None,
    clone_from: flags.CloneFrom = None,
) -> None:
    if context.invoked_subcommand is not None:
        return
    folder = tempfile.TemporaryDirectory(prefix="devnode-") if data_dir is None else contextlib.nullcontext(data_dir)
    with folder as path:
        try:
            settings = _settings(Path(path), context.params)
        except SettingsError as error:
            _fail(str(error), EXIT_USAGE)
        _run(settings, reset)


_SAME_NAMES = (  # Flags whose value is used unchanged as a setting.
    *("host", "http_port", "ws_port", "tpu_port", "leaders", "slot_ms", "root_depth", "confirm_depth", "block_units"),
    *("account_units", "crowd", "seed", "retention_slots", "parent_pid", "ready_file", "launch_programs"),
    "clone_from",
)


def _settings(data_dir: Path, given: dict[str, Any]) -> Settings:
    """The settings of the command line. given: each flag's value. Raises SettingsError."""
    return Settings(
        data_dir=data_dir,
        **{name: given[name] for name in _SAME_NAMES},
        faults=_faults_in(given["faults"]),
        geyser=GeyserSettings(
            port=given["grpc_port"],
            tls_port=given["grpc_tls_port"],
            tls_cert=given["grpc_tls_cert"],
            tls_key=given["grpc_tls_key"],
            token=given["grpc_token"],
            replay_slots=given["grpc_replay_slots"],
            limits=_limits_in(given["grpc_limits"]),
        ),
        dumps=Dumps(tuple(given["account"] or ()), tuple(given["program"] or ()), tuple(given["accounts"] or ())),
    )


def _faults_in(path: Path | None) -> FaultPlan:
    """Read the file of --faults. Raises SettingsError."""
    if path is None:
        return FaultPlan()
    from devnode.admin import refuse_unknown_methods

    try:
        return refuse_unknown_methods(read_plan(json.loads(path.read_bytes())))
    except (OSError, ValueError, PlanError) as error:
        raise SettingsError(f"--faults {path}: {error}") from None


def _limits_in(path: Path | None) -> FilterLimits:
    """Read the file of --grpc-limits. Raises SettingsError."""
    try:
        return NO_LIMITS if path is None else read_limits(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(f"--grpc-limits {path}: {error}") from None


def _run(settings: Settings, reset: bool) -> None:
    import uvloop

    from devnode.app import Devnode, ReadyFileUnusable, show_status, wipe
    from devnode.execution.dumps import DumpError, load
    from devnode.geyser.server import BadCertificate
    from devnode.journal.journal import FolderTaken, JournalError
    from devnode.ports import PortTaken
    from devnode.rpc.faulty_answers import BROKEN_OFF_LOG

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.error").addFilter(lambda record: record.getMessage() != BROKEN_OFF_LOG)
    logging.getLogger("quic").setLevel(logging.WARNING)  # At INFO, aioquic logs every connection of the TPU.

    async def live() -> None:
        node = Devnode(settings)
        await node.run(show_status)

    try:
        if reset:
            # Check the files first: after an error the old chain must still exist.
            load(settings.dumps.accounts, settings.dumps.programs, settings.dumps.folders)
            wipe(settings)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(live())
    except (FolderTaken, JournalError, PortTaken, BadCertificate, ReadyFileUnusable) as error:
        _fail(str(error), EXIT_UNAVAILABLE)
    except DumpError as error:
        _fail(str(error), EXIT_USAGE)


@app.command()
def fund(
    pubkey: Annotated[str, typer.Argument(help="Wallet to fund.")],
    sol: Annotated[str, typer.Option(help="Amount of SOL.")] = "0",
    usdc: Annotated[str, typer.Option(help="Amount of USDC, minted to the wallet's associated account.")] = "0",
    url: Annotated[
        str | None, typer.Option(help="A devnode on this machine.", show_default="this machine, --http-port")
    ] = None,
    http_port: Annotated[
        int, typer.Option(envvar="LEDGER_DEVNODE__HTTP_PORT", help="Its port, as the product's settings have it.")
    ] = 8899,
) -> None:
    """Fund a wallet with SOL and USDC from the faucet of a running devnode, and wait until it is confirmed."""
    body = {
        "pubkey": pubkey,
        "lamports": _base_units(sol, LAMPORTS_PER_SOL, "--sol"),
        "usdc_base_units": _base_units(usdc, 10**USDC_DECIMALS, "--usdc"),
    }
    url = f"http://127.0.0.1:{http_port}" if url is None else url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        _fail(f"--url: {url!r}, wanted http://HOST:PORT", EXIT_USAGE)
    funded = _post(url, "/admin/fund", body)
    asyncio.run(_wait_for_confirmation(url, funded["signatures"]))
    typer.echo(json.dumps({**funded, "url": url}))


def _post(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send one request to a devnode and return its answer; prints why it failed and exits."""
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked by the caller.
        url + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310
            told: dict[str, Any] = json.loads(reply.read())
            return told
    except urllib.error.HTTPError as error:
        _fail(f"{url}: {error.read().decode()}", EXIT_UNAVAILABLE)
    except (OSError, http.client.HTTPException, ValueError) as error:
        _fail(f"{url}: {error}; is a devnode running there?", EXIT_UNAVAILABLE)


async def _wait_for_confirmation(url: str, signatures: list[str]) -> None:
    """Return when these transactions are confirmed: before that, a payment from the wallet finds no money."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "getSignatureStatuses", "params": [signatures]}
    for _ in range(_CONFIRM_LOOKS if signatures else 0):
        found = _post(url, "/", asked)["result"]["value"]
        if all(status and status["confirmationStatus"] in ("confirmed", "finalized") for status in found):
            return
        await asyncio.sleep(_CONFIRM_LOOK_SECONDS)
    if signatures:
        _fail(f"{url}: {', '.join(signatures)} not confirmed yet: look them up before you fund again", EXIT_UNAVAILABLE)


def _base_units(text: str, unit: int, option: str) -> int:
    """Convert a decimal number of coins to base units, exactly. Refuses fractions of a base unit."""
    try:
        amount = decimal.Decimal(text) * unit
    except (decimal.InvalidOperation, decimal.Overflow):
        _fail(f"{option}: {text!r}, wanted a number", EXIT_USAGE)
    if not amount.is_finite() or amount < 0 or amount != amount.to_integral_value():
        _fail(f"{option}: {text!r}, wanted a number from 0 up with at most {len(str(unit)) - 1} decimals", EXIT_USAGE)
    return int(amount)


def _fail(text: str, code: int) -> NoReturn:
    print(f"devnode: {text}", file=sys.stderr)
    raise SystemExit(code)


if __name__ == "__main__":
    app(prog_name="python -m devnode")
