"""The stored samples of the chain, as transactions; and transactions made by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.signals.from_json import read_json
from actors.signals.observations import Observation, What
from actors.signals.transaction import Instruction, Transaction, key_text, known_key

FOLDER = Path(__file__).parents[1] / "fixtures" / "launch"
SIGNATURE = bytes(range(64))


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def of_signals() -> list[str]:
    """The samples whose expected result is a list of signals."""
    return sorted(path.stem for path in FOLDER.glob("*.json") if "signals" in json.loads(path.read_text())["expected"])


def transaction(sample: dict[str, Any]) -> Transaction:
    payload = sample["payload"]
    if "meta" in payload:
        found = read_json(payload.get("slot") or 0, payload)
        assert found is not None, sample["name"]
        return found
    if "data_hex" in payload:
        program = known_key(sample["expected"]["signals"][0]["program"])
        return of_instructions([Instruction(program, (), bytes.fromhex(payload["data_hex"]), 0, 2)])
    accounts = tuple(known_key(row["pubkey"]) for row in payload["accounts"])
    return of_instructions([Instruction(known_key(payload["program_id"]), accounts, bytes.fromhex(payload["data"]), 0)])


def of_instructions(instructions: Sequence[Instruction], **fields: Any) -> Transaction:
    keys = tuple(dict.fromkeys(key for one in instructions for key in (*one.accounts, one.program) if key is not None))
    return Transaction(SIGNATURE, 7, fields.pop("failed", False), keys, 1, tuple(instructions), **fields)


def as_expected(seen: Observation) -> dict[str, Any]:
    """The observation in the names of the samples."""
    kind = {What.CREATED: "newPair", What.GRADUATED: "graduation", What.TRADED: "trade"}[seen.what]
    return {
        "kind": kind,
        "program": key_text(seen.program),
        "mint": None if seen.mint is None else key_text(seen.mint),
        "quote_asset": seen.quote_asset,
        "quote_mint": seen.quote_asset,
        "curve_type": seen.curve_type,
        "complete": seen.complete,
        "is_buy": seen.is_buy,
        "sol_amount": seen.lamports,
        "accounts": [key_text(key) for key in seen.accounts if key is not None],
    }
