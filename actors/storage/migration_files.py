"""Migrations: numbered files that bring the tables of a context from one release to the next.

Implements: launch/README.md, "Upgrades". Pure: texts are arguments.

A context with migrations has them in `migrations/NNNN_name.sql`, from `0001_first.sql`, which has the tables of its
first release. A new database gets `schema.sql`, which has the tables of today. The first line of a file says its kind:

    -- Expand: WHY                       adds only, so the release before may go on running
    -- Contract from RELEASE: WHY        removes what releases before this one use; none of them may run
    -- Outside a transaction: WHY        adds one index by CREATE INDEX CONCURRENTLY, while writes go on; of a
                                         partitioned table, partition by partition

Not here: reading the files (schema.py), the plan (schema_plan.py), applying it (migrating.py).
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

_COMMENTS_AND_SPACES = re.compile(r"--[^\n]*|\s+")
_FILE_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_HEADER = re.compile(r"-- (?:(First|Expand|Outside a transaction)|Contract from (\d+\.\d+\.\d+)): \S")
_ONE_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+) ON (\w+) [^;]+;?", re.IGNORECASE)


class MigrationKind(StrEnum):
    FIRST = "first"
    EXPAND = "expand"
    CONTRACT = "contract"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. name: without its ending. contract_from: the oldest release that may run afterwards; None: any that
    could before. index: the index that it makes outside a transaction, of the table index_of."""

    number: int
    name: str
    kind: MigrationKind
    sql: str
    contract_from: str | None = None
    index: str | None = None
    index_of: str | None = None

    @property
    def checksum(self) -> str:
        return checksum(self.sql)


def bare(sql: str) -> str:
    """Remove comments, and make all spaces single."""
    return _COMMENTS_AND_SPACES.sub(" ", sql).strip()


def checksum(sql: str) -> str:
    """Return the hash of SQL. Comments and spaces do not count."""
    return hashlib.sha256(bare(sql).encode()).hexdigest()


def parse(file_name: str, text: str) -> Migration:
    """Raises AssertionError for a file that is not in the form above: it is a mistake of this project."""
    named, header = _FILE_NAME.fullmatch(file_name), _HEADER.match(text)
    assert named is not None, f"{file_name}: name it NNNN_name.sql"
    assert header is not None, f"{file_name}: the first line must say its kind (migration_files.py)"
    word, contract_from = header.groups()
    kind = {"First": MigrationKind.FIRST, "Expand": MigrationKind.EXPAND, None: MigrationKind.CONTRACT}.get(
        word, MigrationKind.INDEX
    )
    single = _ONE_INDEX.fullmatch(bare(text))
    assert (kind is MigrationKind.INDEX) == (single is not None), (
        f"{file_name}: outside a transaction runs one CREATE INDEX CONCURRENTLY with a name, and nothing else"
    )
    assert (int(named[1]) == 1) == (kind is MigrationKind.FIRST), f"{file_name}: 0001 is the first, and no other is"
    index, table = (None, None) if single is None else single.groups()
    return Migration(int(named[1]), file_name.removesuffix(".sql"), kind, text, contract_from, index, table)


def in_order(migrations: Iterable[Migration]) -> tuple[Migration, ...]:
    """Sort migrations, and assert that their numbers run from 1 without a gap."""
    ordered = tuple(sorted(migrations, key=lambda migration: migration.number))
    names = [migration.name for migration in ordered]
    assert [migration.number for migration in ordered] == list(range(1, len(ordered) + 1)), names
    return ordered
