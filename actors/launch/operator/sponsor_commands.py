"""Operator commands on the sponsor, the key that pays the network fees of x402 payments.

Implements: launch/README.md (commands); decisions, "Two ways to pay by x402". Each command prints its result and the
next step. Not here: the origin of keys and the calls to the chain (operator/sponsor_setup.py).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import typer
from solders.keypair import Keypair

from actors.config import Config, ConfigError, environment_name
from actors.launch.local_run import sponsor_setup, wallets
from actors.launch.local_run.run import Options, data_path, settings
from actors.launch.local_run.screen import ConfigFileOption, DataDirOption, fail, print_document, say
from actors.launch.local_run.sponsor_setup import Chain, Found, SponsorFailed
from actors.launch.local_run.stores import fill_local
from actors.launch.operator.tables import print_rows
from actors.local_servers.datadir import DataDirError
from actors.provider_config import shown_url

_PAYMENT_LAMPORTS = 10_001  # Two signatures, and the lamport or less that official clients add as priority.
_CHAIN_FILE = Path("devnode", "ready.json")  # Of the data folder; the embedded chain writes it while it runs.
_SECONDS = aiohttp.ClientTimeout(total=15)
Answer = TypeVar("Answer")


def add_sponsor(cli: typer.Typer) -> None:
    sponsor = typer.Typer(help="The key that pays network fees of x402 payments.", no_args_is_help=True)
    cli.add_typer(sponsor, name="sponsor")

    @sponsor.command()
    def show(data_dir: DataDirOption = None, config: ConfigFileOption = None) -> None:
        """Print its address, the origin of its key, its balance, and whether the deposit account exists."""
        _guarded(lambda: _show(_Place(data_dir, config)))

    @sponsor.command()
    def rotate(data_dir: DataDirOption = None, config: ConfigFileOption = None) -> None:
        """Make a new key (or the first), seal it, and move the SOL of the old key to it."""
        _guarded(lambda: _rotate(_Place(data_dir, config)))

    @sponsor.command("open-account")
    def open_account(data_dir: DataDirOption = None, config: ConfigFileOption = None) -> None:
        """Open the deposit wallet's token account at the sponsor's expense, where it is missing."""
        _guarded(lambda: _open_account(_Place(data_dir, config)))


class _Place:
    """The settings of a run and the files of its data folder, running or not."""

    def __init__(self, data_dir: Path | None, config_path: Path | None) -> None:
        loaded = settings(Options(data_dir, False, config_path, None, {})).config
        self.folder = data_path(loaded, data_dir) / "secrets"
        self.embedded = loaded.upstream.node_url is None
        self._own_url, self._run_folder = loaded.upstream.node_url, self.folder.parent
        kept = wallets.load_or_make(self.folder) if (self.folder / wallets.FILE).exists() else None
        self.local_seed = kept.sponsor.seed if kept and self.embedded else None
        self.config: Config = loaded if kept is None else _filled(loaded, kept, self.folder)

    def find(self) -> Found | None:
        return sponsor_setup.find_key(self.config, self.folder, self.local_seed)

    @property
    def node_url(self) -> str:
        """Return the node's URL: of the settings, or of the embedded chain that runs on this folder."""
        return self._own_url or str(self._embedded()["url"])

    def _embedded(self) -> dict[str, Any]:
        try:
            told: dict[str, Any] = json.loads((self._run_folder / _CHAIN_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise SponsorFailed(
                f"no chain runs on {self._run_folder}: start the product, or name its folder with --data-dir; for a "
                f"node of your own set {environment_name('upstream.node_url')}"
            ) from None
        return told

    def ask(self, question: Callable[[Chain], Awaitable[Answer]]) -> Answer:
        async def asked() -> Answer:
            async with aiohttp.ClientSession(timeout=_SECONDS) as session:
                chain = Chain(self.node_url, session)
                # After a kill the file of the embedded chain stays, and another chain may have its port.
                if self._own_url is None and await chain.identity() != self._embedded()["identity"]:
                    raise SponsorFailed(f"{self.node_url} is not the chain of {self._run_folder}: start the product")
                return await question(chain)

        return asyncio.run(asked())


def _filled(loaded: Config, kept: wallets.LocalSecrets, folder: Path) -> Config:
    """Return the settings with the deposit wallet and network of the run, without its sponsor's key."""
    settled = fill_local(loaded, kept, folder).payments
    wanted = {"network": settled.network, "deposit_wallet": settled.deposit_wallet}
    return loaded.model_copy(update={"payments": loaded.payments.model_copy(update=wanted)})


def _show(place: _Place) -> None:
    found = _existing(place)
    pubkey = Keypair.from_seed(found.seed).pubkey()
    lamports = place.ask(lambda chain: chain.lamports(pubkey))
    low_below = place.config.payments.sponsor_low_lamports
    low = lamports < low_below
    account, is_open = None, None
    if place.config.payments.deposit_wallet is not None:
        account = sponsor_setup.deposit_account(place.config)
        is_open = place.ask(lambda chain: chain.exists(account))
    told = {"sponsor": str(pubkey), "key_from": found.source, "lamports": lamports, "low": low}
    told |= {"low_below_lamports": low_below, "deposit_account": account and str(account), "is_open": is_open}
    if print_document(told):
        return
    rows = {
        "sponsor": str(pubkey),
        "key from": found.source,
        "node": shown_url(place.node_url),
        "balance": f"{_sol(lamports)}, about {lamports // _PAYMENT_LAMPORTS:,} payments",
        "low": f"{'yes' if low else 'no'} (below {_sol(low_below)})",
    }
    if account is not None:
        rows["deposit account"] = f"{account} {'is open' if is_open else 'is missing: run `sponsor open-account`'}"
    print_rows(rows)
    say(f"Next: send SOL to {pubkey}." if low else "Next: nothing to do.")


def _rotate(place: _Place) -> None:
    payments = place.config.payments
    if payments.sponsor_key is not None:
        raise ConfigError(
            "payments.sponsor_key: this key comes from the settings, so change it there: set another key, move the "
            "SOL, and restart"
        )
    old, seed = place.find(), sponsor_setup.new_seed()
    former = None if old is None else Keypair.from_seed(old.seed)
    if former is not None:
        _require_balance(place, former)
    path = sponsor_setup.key_path(place.config, place.folder)
    assert path is not None, "a data folder was settled"
    if payments.sponsor_passphrase is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sponsor_setup.write_sealed(path, seed, payments.sponsor_passphrase.get_secret_value())
    elif place.local_seed is not None:
        path = wallets.replace_sponsor(place.folder, seed)
    else:
        wanted = environment_name("payments.sponsor_passphrase")
        raise ConfigError(f"payments.sponsor_passphrase: a key is stored encrypted; set {wanted} to its passphrase")
    pubkey = Keypair.from_seed(seed).pubkey()
    rows = {"sponsor": str(pubkey), "key in": str(path)}
    if former is not None:
        rows["former sponsor"] = f"{former.pubkey()}; its key is kept in the same folder"
        try:
            moved = place.ask(lambda chain: sponsor_setup.move_lamports(chain, former, pubkey))
            rows["moved"] = _sol(moved) if moved else f"nothing: it holds no SOL at {shown_url(place.node_url)}"
        except SponsorFailed as error:  # The node became unavailable since it was asked.
            rows["moved"] = f"nothing: {error}; send its SOL to the new sponsor yourself"
    print_rows(rows)
    say("Next: restart the product; open payments end by themselves. `sponsor show` prints the balance.")


def _require_balance(place: _Place, former: Keypair) -> None:
    """Raise SponsorFailed unless the node tells what the former key holds: the money could not follow the new key."""
    try:
        place.ask(lambda chain: chain.lamports(former.pubkey()))
    except SponsorFailed as error:
        raise SponsorFailed(f"{error}. The key was not changed, because its SOL could not be moved") from None


def _open_account(place: _Place) -> None:
    found = _existing(place)
    if place.config.payments.deposit_wallet is None:
        raise ConfigError(f"payments.deposit_wallet: set {environment_name('payments.deposit_wallet')}")
    sponsor = Keypair.from_seed(found.seed)
    try:
        opened = place.ask(lambda chain: sponsor_setup.open_deposit_account(chain, place.config, sponsor))
    except SponsorFailed as error:
        raise SponsorFailed(f"{error}. `sponsor show` prints what the sponsor holds to pay for the account") from None
    rows = {
        "deposit account": f"{sponsor_setup.deposit_account(place.config)} {'opened' if opened else 'was open already'}"
    }
    print_rows(rows)
    say("Next: deposits and x402 payments can arrive.")


def _existing(place: _Place) -> Found:
    found = place.find()
    if found is None:
        raise ConfigError(
            f"payments.sponsor_key: no key is set, so x402 is off; set {environment_name('payments.sponsor_key')}, "
            f"or set {environment_name('payments.sponsor_passphrase')} and run `sponsor rotate`"
        )
    return found


def _sol(lamports: int) -> str:
    whole, part = divmod(lamports, 10**9)
    return f"{whole}.{part:09d} SOL"


def _guarded(work: Callable[[], None]) -> None:
    try:
        work()
    except (ConfigError, DataDirError, SponsorFailed) as error:
        fail(str(error))
