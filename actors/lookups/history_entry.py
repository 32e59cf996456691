"""One entry of a transaction history, from its line in the listing and the transaction, where the node has it.

Implements: interface, "getTransactionHistory result".
Pure. The field names of an entry appear only here.
"""

from collections.abc import Mapping
from typing import Any

from actors import addresses
from actors.lookups import explanations
from actors.lookups.transfers import (
    SolTransfer,
    TokenTransfer,
    account_keys,
    instructions,
    parsed,
    sol_transfers,
    token_transfers,
)

# Names of programs that the node gives only as an address.
_NAMES = {
    addresses.COMPUTE_BUDGET_PROGRAM: "compute-budget",
    "BPFLoaderUpgradeab1e11111111111111111111111": "bpf-upgradeable-loader",
    addresses.LOOKUP_TABLE_PROGRAM: "address-lookup-table",
    addresses.TOKEN_2022_PROGRAM: "spl-token-2022",
    addresses.TOKEN_PROGRAM: "spl-token",
    addresses.SYSTEM_PROGRAM: "system",
}


def missing_entry(listed: Mapping[str, Any], reason: str = explanations.NOT_FOUND) -> dict[str, Any]:
    """Return the entry of a transaction that the node lists but does not give."""
    return {
        "signature": listed["signature"],
        "found": False,
        "slot": listed["slot"],
        "block_time": listed.get("blockTime"),
        "fee": None,
        "error": listed.get("err"),
        "enriched": {"token_transfers": [], "sol_transfers": [], "program_interactions": [], "summary": "not found"},
        "explanation": reason,
    }


def entry(address: str, listed: Mapping[str, Any], transaction: Mapping[str, Any]) -> dict[str, Any]:
    """Build an entry. transaction: a getTransaction result with jsonParsed. Raises as transfers.py does."""
    meta = transaction["meta"]
    failed = meta["err"] is not None
    sol, tokens = sol_transfers(transaction), token_transfers(transaction)
    programs = program_interactions(transaction)
    names = [program["name"] or explanations.short(program["program_id"]) for program in programs]
    payer = account_keys(transaction)[0]
    return {
        "signature": listed["signature"],
        "found": True,
        "slot": transaction["slot"],
        "block_time": transaction.get("blockTime"),
        "fee": meta["fee"],
        "error": meta["err"],
        "enriched": {
            "token_transfers": [_token_json(move) for move in tokens],
            "sol_transfers": [_sol_json(move) for move in sol],
            "program_interactions": programs,
            "summary": explanations.summary(sol, tokens, names, failed),
        },
        "explanation": explanations.explanation(address, payer, meta["fee"], sol, tokens, names, failed),
    }


def program_interactions(transaction: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each program once, in the order of its first instruction, with the instructions that the node named."""
    found: dict[str, dict[str, Any]] = {}
    for instruction in instructions(transaction):
        program = instruction["programId"]
        name = instruction.get("program") or _NAMES.get(program)
        row = found.setdefault(
            program, {"program_id": program, "name": name, "instructions": [], "instruction_count": 0}
        )
        row["instruction_count"] += 1
        known = parsed(instruction)
        if known is not None and known[0] not in row["instructions"]:
            row["instructions"].append(known[0])
    return list(found.values())


def _sol_json(move: SolTransfer) -> dict[str, Any]:
    return {"from": move.source, "to": move.destination, "lamports": move.lamports}


def _token_json(move: TokenTransfer) -> dict[str, Any]:
    return {
        "type": move.kind,
        "mint": move.mint,
        "from": move.source,
        "from_token_account": move.source_account,
        "to": move.destination,
        "to_token_account": move.destination_account,
        "amount": str(move.amount),
        "decimals": move.decimals,
        "ui_amount_string": None if move.decimals is None else explanations.decimal_text(move.amount, move.decimals),
    }
