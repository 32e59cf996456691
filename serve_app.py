"""Ledger Gateway, wired together. Nothing is decided here.

`python serve_app.py` runs the whole product on this machine; `serve run serve_app:app` and `serve deploy` with
`build` put the same application on a Ray cluster whose stores and node are given by URL. `ledger-gateway` has the same
commands beside those of clients, which need nothing of the product: so its parts are imported where they are used.
"""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.config import Config


def _application(config: "Config") -> Any:
    from actors.gateway.actor import application  # Imports Ray, which reads the environment: not before it is set.
    from actors.launch.assembly.opening import assembled
    from actors.launch.front.serve_hooks import drain_seconds
    from actors.methods import catalog

    catalog.check()
    return application(config, assembled, drain_seconds())


def build(arguments: dict[str, str]) -> Any:
    """Build the application for `serve run serve_app:app` and `serve deploy`.

    Raises RayServeException when a store, the node or a secret that a cluster must share is not configured, a store
    does not answer, or a running cluster cannot take over a change.
    """
    from actors.launch.assembly.migrations import migrate_all
    from actors.launch.operator.deployment import cluster_config, refusals_for_serve

    with refusals_for_serve():
        config = asyncio.run(migrate_all(cluster_config(arguments, os.environ)))
    return _application(config)


def app(arguments: dict[str, str]) -> Any:
    """Build the application for `serve run serve_app:app` on one machine, and start the servers that have no URL."""
    from actors.config_loader import load
    from actors.launch.assembly.migrations import migrate_all
    from actors.launch.local_run.cluster import start_plain_serve
    from actors.launch.local_run.stores import start_beside

    file = arguments.get("config")
    config = start_beside(load(os.environ, Path(file) if file else None).config)
    application = _application(asyncio.run(migrate_all(config)))
    start_plain_serve(config.serve)
    return application


def _product_commands() -> Any:
    from actors.accounts.placing import place_owners
    from actors.launch.assembly.migrations import migrate_all, planned_steps, try_out
    from actors.launch.local_run.run import Parts
    from actors.launch.operator.command_line import command_group

    return command_group(
        Parts(
            application=_application,
            place_owners=lambda config: asyncio.run(place_owners(config)),
            migrate=lambda config: asyncio.run(migrate_all(config)),
            planned_steps=lambda config: asyncio.run(planned_steps(config)),
            try_out=lambda config: asyncio.run(try_out(config)),
        )
    )


def command_line() -> None:
    """Run `ledger-gateway`."""
    from actors.launch.operator.command_line import FIRST_LINES
    from ledger_gateway.cli.app import main

    main(_product_commands, FIRST_LINES)


if __name__ == "__main__":
    _product_commands()()
