"""Roles of the embedded PostgreSQL: their names, passwords and rights to connect.

Implements: money rule 6 (the ledger is append-only, also for the product itself). Two roles may connect, each with its
own random password. One owns the tables and creates them. The other runs the product and has only the rights in each
context's grants.sql. Neither is a superuser, and no superuser may connect.
Not here: starting the server (embedded_postgres.py), the rights on each table (grants.sql), the roles on an operator's
own PostgreSQL (launch/roles.sql).
"""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from actors.local_servers.private_files import write_private

OWNER, PRODUCT = "ledger_owner", "ledger_gateway"
FILE = "postgres.json"
_PASSWORD_BYTES = 32
# Connections by any other role, method or network are refused, because no line allows them.
ACCESS_RULES = f"local all {OWNER},{PRODUCT} scram-sha-256\n"


@dataclass(frozen=True, slots=True)
class Passwords:
    owner: str
    product: str


def load(folder: Path) -> Passwords | None:
    """Read the passwords from the data folder's secrets. None: there are none yet."""
    try:
        kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Passwords(kept[OWNER], kept[PRODUCT])


def make(folder: Path) -> Passwords:
    """Make new passwords, and write them to the folder before they are used, readable by its owner only."""
    made = Passwords(secrets.token_hex(_PASSWORD_BYTES), secrets.token_hex(_PASSWORD_BYTES))
    write_private(folder / FILE, json.dumps({OWNER: made.owner, PRODUCT: made.product}))
    return made


def statements(passwords: Passwords, database: str) -> str:
    """Return SQL for a new server, one statement a line, as its single-user mode reads it.

    The owner may create databases, so that a backup can be restored beside the live one, and has the product's rights.
    """
    return (
        f"CREATE ROLE {PRODUCT} LOGIN PASSWORD '{passwords.product}'\n"
        f"CREATE ROLE {OWNER} LOGIN CREATEDB IN ROLE {PRODUCT} PASSWORD '{passwords.owner}'\n"
        f"ALTER DATABASE {database} OWNER TO {OWNER}\n"
    )
