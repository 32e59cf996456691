"""Reads the named keys of accounts from PostgreSQL.

Implements: decisions, "Named keys". They are written with their account's group (functions.sql), and so are their spent
credits. Not here: the rules (named_keys.py).
"""

from typing import Any

from actors.accounts.named_keys import KeyProfile, KeySpending, StoredKey

FIND_KEY = (
    "SELECT pubkey FROM accounts WHERE api_key_hash = $1"
    " UNION ALL SELECT pubkey FROM account_keys WHERE key_hash = $1"
    " UNION ALL SELECT pubkey FROM account_keys WHERE old_hash = $1 LIMIT 1"
)
FIND_ROOT = (
    "SELECT pubkey FROM account_keys WHERE public = $1 AND block IS NULL"
    " UNION ALL SELECT pubkey FROM account_keys WHERE old_public = $1 AND block IS NULL LIMIT 1"
)
_READ = (
    "SELECT k.number, k.name, k.key_hash, k.key_prefix, k.limits, k.created_at, k.status, k.old_hash, k.old_until,"
    " k.parent, k.public, k.old_public, k.signed_by, k.block, s.total, s.day, s.in_day FROM account_keys k"
    " LEFT JOIN account_key_spending s ON s.pubkey = k.pubkey AND s.number = k.number"
    " WHERE k.pubkey = $1 ORDER BY k.number"
)
_PROFILE_COLUMNS = 14


async def read_keys(connection: Any, pubkey: bytes) -> list[StoredKey]:
    """Read all keys of an account, including deleted ones, whose numbers and hashes are never used again."""
    rows = map(tuple, await connection.fetch(_READ, pubkey))
    return [
        StoredKey(KeyProfile(*row[:_PROFILE_COLUMNS]), KeySpending(*(spent or 0 for spent in row[_PROFILE_COLUMNS:])))
        for row in rows
    ]
