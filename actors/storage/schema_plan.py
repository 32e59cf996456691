"""Plans the steps that make a database usable by this release, or says why it cannot be.

Implements: launch/README.md, "Upgrades". Pure: SQL files and the database's records are arguments.

A database is older (it lacks migrations: they are planned), of this release, or newer. On a newer one a process runs if
its release is not older than `compatible_from`, the oldest release that can still use the database; it then changes
nothing there. Not here: reading files and records (schema.py), applying the plan (migrating.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from actors.release import FIRST_RELEASE, is_older, newest
from actors.storage.migration_files import Migration, MigrationKind, checksum

_MIGRATE = (
    "run `ledger-gateway migrate` with LEDGER_STORAGE__POSTGRES_MIGRATIONS_URL set to the same database and the role "
    "that owns the tables"
)
_OTHER_VERSION = (
    "was made by another version of this product, and its tables differ: run that version; or start a local run afresh "
    "with --fresh, or give an empty database"
)


class SchemaMismatch(Exception):
    """This release cannot use the database; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One context's SQL files, as text."""

    context: str
    schema: str
    functions: str
    grants: str
    migrations: tuple[Migration, ...] = ()

    @property
    def checksums(self) -> dict[int, str]:
        """Return the checksum of each number. Number 1 of a context without migrations is its schema.sql."""
        if not self.migrations:
            return {1: checksum(self.schema)}
        return {migration.number: migration.checksum for migration in self.migrations}

    @property
    def functions_checksum(self) -> str:
        return checksum(self.functions)


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """What a database says about a context. numbers: checksum of each migration that it has. release: the newest one
    that applied its files. compatible_from: the oldest one that may run on them."""

    numbers: Mapping[int, str]
    functions: str
    release: str
    compatible_from: str


@dataclass(frozen=True, slots=True)
class DatabaseRecords:
    """What a database says about all contexts. is_ancient: it was made before 0.1.0, with a table of applied files."""

    records: Mapping[str, ContextRecord]
    is_ancient: bool = False


class SchemaChange(StrEnum):
    TABLES = "tables"
    MIGRATION = "migration"
    FUNCTIONS = "functions"


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One change of a database. migration: of MIGRATION alone."""

    context: str
    change: SchemaChange
    migration: Migration | None = None

    @property
    def what(self) -> str:
        """Return the step in words."""
        match self.migration:
            case None:
                return "make the tables" if self.change is SchemaChange.TABLES else "replace the functions"
            case Migration(kind=MigrationKind.CONTRACT, contract_from=release):
                return f"contract: releases before {release} must not run afterwards"
            case Migration(kind=MigrationKind.INDEX, index=index):
                return f"add the index {index} outside a transaction, while writes go on"
        return "expand: the release before may go on running"

    @property
    def name(self) -> str:
        return str(self.change) if self.migration is None else self.migration.name


@dataclass(frozen=True, slots=True)
class ContextPlan:
    """Steps of one context. is_newer: a newer release has been here, so its functions and rights stay."""

    layout: Layout
    steps: tuple[MigrationStep, ...]
    compatible_from: str
    is_newer: bool = False


def plan(layout: Layout, found: DatabaseRecords, release: str) -> ContextPlan:
    """Return the steps that bring this context to this release. Raises SchemaMismatch where there is no way."""
    if found.is_ancient:
        raise SchemaMismatch(f"this database {_OTHER_VERSION}")
    record = found.records.get(layout.context)
    if record is None:
        made = MigrationStep(layout.context, SchemaChange.TABLES)
        return ContextPlan(layout, (made,), _compatible_from(layout, FIRST_RELEASE))
    _require_same_history(layout, record)
    compatible_from = _compatible_from(layout, record.compatible_from)
    if _is_newer(layout, record, release):
        if is_older(release, record.compatible_from):
            raise SchemaMismatch(
                f"this database ({layout.context}) was brought to release {record.release}, which left no room for "
                f"releases before {record.compatible_from}, and this is {release}: run {record.compatible_from} or a "
                "newer one"
            )
        return ContextPlan(layout, (), compatible_from, is_newer=True)
    steps = [
        MigrationStep(layout.context, SchemaChange.MIGRATION, migration)
        for migration in layout.migrations
        if migration.number not in record.numbers
    ]
    if record.functions != layout.functions_checksum:
        steps.append(MigrationStep(layout.context, SchemaChange.FUNCTIONS))
    return ContextPlan(layout, tuple(steps), compatible_from)


def require_usable(layout: Layout, found: DatabaseRecords, release: str) -> None:
    """Raise SchemaMismatch unless this release may run on the database without a change."""
    steps = plan(layout, found, release).steps
    if not steps:
        return
    first = steps[0]
    match first.change:
        case SchemaChange.TABLES:
            raise SchemaMismatch(f"this database has no tables of {layout.context} yet: {_MIGRATE}")
        case SchemaChange.MIGRATION:
            raise SchemaMismatch(
                f"this database ({layout.context}) is of an earlier release; {first.name} and what comes after it is "
                f"missing: {_MIGRATE}"
            )
    raise SchemaMismatch(f"the functions of {layout.context} in this database are of an earlier release: {_MIGRATE}")


def contract_from(plans: Sequence[ContextPlan]) -> str | None:
    """Return the oldest release that may be running when these plans are carried out; None: any may."""
    wanted = [
        step.migration.contract_from
        for each in plans
        for step in each.steps
        if step.migration is not None and step.migration.contract_from is not None
    ]
    return newest(*wanted) if wanted else None


def _compatible_from(layout: Layout, before: str) -> str:
    contracts = [one.contract_from for one in layout.migrations if one.contract_from is not None]
    return newest(before, *contracts)


def _is_newer(layout: Layout, record: ContextRecord, release: str) -> bool:
    return max(record.numbers) > max(layout.checksums) or is_older(release, record.release)


def _require_same_history(layout: Layout, record: ContextRecord) -> None:
    """Raise for a migration that was changed after it was applied: databases would differ in unknown ways."""
    known = layout.checksums
    for number in sorted(known.keys() & record.numbers.keys()):
        if record.numbers[number] != known[number]:
            raise SchemaMismatch(f"this database ({layout.context}, number {number}) {_OTHER_VERSION}")
