"""Guards the command line: what it prints, what it hides, and what it says when something is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from actors.config import Config, environment_name
from actors.launch.local_run.run import Parts
from actors.launch.operator.cli import make_cli
from actors.storage.schema_plan import MigrationStep, SchemaChange, SchemaMismatch
from tests.storage.ducks import WEIGHT


def _unused(*_: Any) -> Any:
    raise AssertionError("nothing may be started by these commands")


def _no_steps(_: Config) -> tuple[MigrationStep, ...]:
    return ()


CLI = make_cli(Parts(_unused, _unused, _unused, _unused, _unused))
runner = CliRunner(env={"COLUMNS": "240"})


def test_show_masks_secrets_and_names_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: `config --show` prints the tree with secrets masked and where each value came from."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:hunter2@db.example/ledger")
    monkeypatch.setenv("LEDGER_ACCOUNTS__CONCURRENCY", "7")
    done = runner.invoke(CLI, ["config", "--show"])
    assert done.exit_code == 0
    assert "hunter2" not in done.output
    assert "environment LEDGER_ACCOUNTS__CONCURRENCY" in done.output
    assert "default" in done.output


def test_in_a_pipe_each_setting_is_one_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: grep finds a setting by its name or its variable, with value and meaning beside it."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = runner.invoke(CLI, ["config", "--show"]).output.splitlines()
    for branch_name, branch in Config():
        for field, info in type(branch).model_fields.items():
            name = f"{branch_name}.{field}"
            (line,) = (line for line in lines if f" {name} " in line)
            assert f" {environment_name(name)} " in line and str(info.description) in line


def test_every_mistake_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: all mistakes are reported together, with a non-zero exit."""
    monkeypatch.setenv("LEDGER_ACCOUNTS__CONCURRENCY", "0")
    monkeypatch.setenv("LEDGER_GATEWAY__REPLICAS", "none")
    done = runner.invoke(CLI, ["config"])
    assert done.exit_code != 0
    assert "accounts.concurrency" in done.output and "gateway.replicas" in done.output


@pytest.mark.parametrize(
    "command",
    [
        ["accounts", "grant", "1" * 32, "5", "--reason", "test"],
        ["deposits", "list"],
        ["deposits", "status"],
        ["referrals", "list"],
    ],
)
def test_operator_commands_say_how_to_start_what_is_not_running(command: list[str], tmp_path: Path) -> None:
    """Rule: every error says what to do about it."""
    done = runner.invoke(CLI, [*command, "--data-dir", str(tmp_path)])
    assert done.exit_code == 1 and "serve_app.py" in done.output


def test_a_grant_needs_a_reason_and_a_positive_amount(tmp_path: Path) -> None:
    """Rule: money is whole and explained; bad input is refused before anything is asked."""
    for arguments in (["1" * 32, "5"], ["1" * 32, "0", "--reason", "x"], ["1" * 32, "1.5", "--reason", "x"]):
        done = runner.invoke(CLI, ["accounts", "grant", *arguments, "--data-dir", str(tmp_path)])
        assert done.exit_code == 2


def test_nodes_are_shown_without_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a URL's credentials are masked in every output, whichever part of it they are."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("LEDGER_UPSTREAM__NODES", "https://u:pass1@a.example/key1?api-key=key2,http://b:1")
    monkeypatch.setenv("LEDGER_PAYMENTS__DEPOSIT_WALLET", "So11111111111111111111111111111111111111112")
    done = runner.invoke(CLI, ["config", "--show"])
    assert done.exit_code == 0
    assert "node-1: https://a.example/..., weight 1, read send" in done.output
    assert not any(secret in done.output for secret in ("pass1", "key1", "key2"))


def test_migrate_brings_ones_own_database_up_and_never_the_embedded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: an operator migrates with the stronger role apart from the cluster; refusals say what to do."""
    done = runner.invoke(CLI, ["migrate"])
    assert done.exit_code == 1 and "DATABASE_URL" in done.output
    seen = []

    def migrate(config: Config) -> Config:
        seen.append(config.storage.postgres_migrations_url)
        return config

    monkeypatch.setenv("DATABASE_URL", "postgresql://product@db.example/ledger")
    monkeypatch.setenv("LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL", "postgresql://owner:hunter2@db.example/ledger")
    done = runner.invoke(make_cli(Parts(_unused, _unused, migrate, _no_steps, _unused)), ["migrate"])
    assert done.exit_code == 0 and "needs only DATABASE_URL" in done.output and len(seen) == 1
    assert "hunter2" not in done.output + runner.invoke(CLI, ["config", "--show"]).output

    def refuse(_: Config) -> Config:
        raise SchemaMismatch("another version: do this")

    done = runner.invoke(make_cli(Parts(_unused, _unused, refuse, _no_steps, _unused)), ["migrate"])
    assert done.exit_code == 1 and "another version: do this" in done.output


def test_a_plan_is_shown_before_it_is_carried_out_or_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a dry run changes nothing; what it could not try is said, not counted as tried."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://product@db.example/ledger")
    plan = (
        MigrationStep("ponds", SchemaChange.TABLES),
        MigrationStep("ducks", SchemaChange.MIGRATION, WEIGHT),
        MigrationStep("ducks", SchemaChange.FUNCTIONS),
    )
    cli = make_cli(Parts(_unused, _unused, _unused, lambda _: plan, lambda _: plan[:2]))
    done = runner.invoke(cli, ["migrate", "--dry-run"])
    assert done.exit_code == 0 and "rolled back: 2 changes; 1 not tried" in done.output
    assert "ponds        tables" in done.output and "0002_weight" in done.output and "expand: " in done.output
    done = runner.invoke(cli, ["migrate", "--dry-run", "--json"])
    document = json.loads(done.output)
    assert document["migrated"] is False and [step["change"] for step in document["plan"]][1] == "0002_weight"
    cli = make_cli(Parts(_unused, _unused, lambda config: config, lambda _: plan, _unused))
    assert json.loads(runner.invoke(cli, ["migrate", "--json"]).output)["migrated"] is True


def test_options_before_a_command_are_not_lost(tmp_path: Path) -> None:
    """Rule: an option that a command would not see is refused, with the place where it belongs."""
    folder, file = ["--data-dir", str(tmp_path)], ["--config", str(tmp_path / "absent.toml")]
    for arguments, named in (
        ([*folder, "accounts", "show", "1" * 32], "--data-dir"),
        ([*file, "config"], "--config"),
        (["--http-port", "1", "--tls", "run"], "--tls"),
    ):
        done = runner.invoke(CLI, arguments)
        assert done.exit_code == 2 and named in done.output and "come after it" in done.output
    done = runner.invoke(CLI, ["config", *file])
    assert done.exit_code == 1 and "cannot be read" in done.output


def test_config_finds_what_a_start_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: settings that `config` calls valid are those that a start takes; a path is shown as it is."""
    monkeypatch.setenv("LEDGER_SERVE__GRPC_PORT", "8080")
    monkeypatch.setenv("REDIS_URL", "foo")
    done = runner.invoke(CLI, ["config"])
    assert done.exit_code == 1 and "port 8080" in done.output and "REDIS_URL" in done.output
    monkeypatch.delenv("LEDGER_SERVE__GRPC_PORT")
    monkeypatch.delenv("REDIS_URL")
    monkeypatch.setenv("LEDGER_STORAGE__DATA_DIR", "/data[red]1")
    assert "/data[red]1" in runner.invoke(CLI, ["config", "--show"]).output
