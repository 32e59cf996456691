"""Roles of the embedded PostgreSQL: their names, passwords and rights to connect.

Implements: money rule 6 (the ledger is append-only, also for the product itself). Two roles may connect, each with a
random password of its own: one owns the tables and is used to make them, the other runs the product and has only the
rights in each context's grants.sql. Neither is a superuser, and no superuser may connect at all.
Not here: starting the server (embedded.py), the rights on each table (grants.sql), roles of a PostgreSQL that an
operator brings (launch/roles.sql).
"""

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

OWNER, PRODUCT = "ledger_owner", "ledger_gateway"
FILE = "postgres.json"
_PASSWORD_BYTES = 32
# Every other role, every other way in, and the network are refused, because no line allows them.
ACCESS_RULES = f"local all {OWNER},{PRODUCT} scram-sha-256\n"


@dataclass(frozen=True, slots=True)
class Passwords:
    owner: str
    product: str


def load(folder: Path) -> Passwords | None:
    """The passwords kept in the data folder's secrets; None: there are none yet."""
    try:
        kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Passwords(kept[OWNER], kept[PRODUCT])


def make(folder: Path) -> Passwords:
    """New passwords, kept in the folder before anything uses them, readable by the folder's owner only."""
    made = Passwords(secrets.token_hex(_PASSWORD_BYTES), secrets.token_hex(_PASSWORD_BYTES))
    scratch = folder / f"{FILE}.new"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({OWNER: made.owner, PRODUCT: made.product}, file)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(folder / FILE)
    return made


def statements(passwords: Passwords, database: str) -> str:
    """SQL for a new server, one statement a line, as its single-user mode reads it.

    The owner may make databases, so that a backup can be restored beside the live one, and has the product's rights.
    """
    return (
        f"CREATE ROLE {PRODUCT} LOGIN PASSWORD '{passwords.product}'\n"
        f"CREATE ROLE {OWNER} LOGIN CREATEDB IN ROLE {PRODUCT} PASSWORD '{passwords.owner}'\n"
        f"ALTER DATABASE {database} OWNER TO {OWNER}\n"
    )
