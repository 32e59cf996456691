"""The transfers of SOL and tokens in one transaction, from its instructions and balances.

Implements: interface, "getTransactionHistory result" (`token_transfers`, `sol_transfers`).
Pure. Takes a getTransaction result with jsonParsed. Raises KeyError, TypeError, IndexError or ValueError for anything
else; callers treat that as garbage.

Instructions name sender and receiver; balances show the result. Instructions are followed in the order in which they
ran. A change of balance that they do not explain (a program moved lamports itself, a fee was withheld, the node cannot
read an instruction) becomes a transfer with one side unknown, unless exactly two such changes cancel out. So the listed
transfers always add up to the change of every balance, less the fee.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from actors.addresses import TOKEN_PROGRAMS

# (program, instruction): the fields that name sender and receiver; the amount is in `lamports`.
_SOL_MOVES = {
    ("system", "transfer"): ("source", "destination"),
    ("system", "transferWithSeed"): ("source", "destination"),
    ("system", "createAccount"): ("source", "newAccount"),
    ("system", "createAccountWithSeed"): ("source", "newAccount"),
    ("system", "withdrawFromNonce"): ("nonceAccount", "destination"),
    ("stake", "withdraw"): ("stakeAccount", "destination"),
    ("vote", "withdraw"): ("voteAccount", "destination"),
}
# Instruction: the kind of transfer, and the fields that name the two token accounts.
_TOKEN_MOVES = {
    "transfer": ("transfer", "source", "destination"),
    "transferChecked": ("transfer", "source", "destination"),
    "transferCheckedWithFee": ("transfer", "source", "destination"),
    "mintTo": ("mint", None, "account"),
    "mintToChecked": ("mint", None, "account"),
    "burn": ("burn", "account", None),
    "burnChecked": ("burn", "account", None),
}
_INITIALIZED = ("initializeAccount", "initializeAccount2", "initializeAccount3")
_ASSOCIATED = ("create", "createIdempotent")
_DECIMALS_MAX = 255


@dataclass(frozen=True, slots=True)
class SolTransfer:
    """source, destination: None where unknown."""

    source: str | None
    destination: str | None
    lamports: int


@dataclass(frozen=True, slots=True)
class TokenTransfer:
    """kind: transfer, mint, burn, or balance_change where only one side is known.

    source, destination: the owners of source_account and destination_account. None: unknown.
    """

    kind: str
    mint: str | None
    decimals: int | None
    source: str | None
    source_account: str | None
    destination: str | None
    destination_account: str | None
    amount: int


def account_keys(transaction: Mapping[str, Any]) -> list[str]:
    return [key["pubkey"] for key in transaction["transaction"]["message"]["accountKeys"]]


def instructions(transaction: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return outer and inner instructions, in the order in which they began."""
    inner = {group["index"]: group["instructions"] for group in transaction["meta"].get("innerInstructions") or ()}
    for index, instruction in enumerate(transaction["transaction"]["message"]["instructions"]):
        yield instruction
        yield from inner.get(index, ())


def parsed(instruction: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Return (type, info), or None where the node did not parse the instruction into fields, as with a memo."""
    body = instruction.get("parsed")
    if not isinstance(body, dict) or not isinstance(body.get("info"), dict):
        return None
    return body["type"], body["info"]


def sol_transfers(transaction: Mapping[str, Any]) -> list[SolTransfer]:
    """Return all transfers of SOL except the fee."""
    meta, keys = transaction["meta"], account_keys(transaction)
    running = dict(zip(keys, meta["preBalances"], strict=True))
    running[keys[0]] -= meta["fee"]
    found: list[SolTransfer] = []
    for instruction in instructions(transaction) if meta["err"] is None else ():
        move = _sol_move(instruction, running)
        if move is not None and move[2]:
            source, destination, lamports = move
            running[source] -= lamports
            running[destination] += lamports
            found.append(SolTransfer(source, destination, lamports))
    rest = {key: post - running[key] for key, post in zip(keys, meta["postBalances"], strict=True)}
    return found + [SolTransfer(*sides) for sides in _unexplained(rest)]


def _sol_move(instruction: Mapping[str, Any], running: Mapping[str, int]) -> tuple[str, str, int] | None:
    """Return sender, receiver and lamports; None where the instruction moves no SOL."""
    known = parsed(instruction)
    if known is None:
        return None
    kind, info = known
    if instruction["programId"] in TOKEN_PROGRAMS and kind == "closeAccount":
        return info["account"], info["destination"], running[info["account"]]
    sides = _SOL_MOVES.get((instruction["program"], kind))
    return None if sides is None else (info[sides[0]], info[sides[1]], int(info["lamports"]))


def _unexplained(rest: Mapping[str, int]) -> Iterator[tuple[str | None, str | None, int]]:
    """Return changes of balance that no instruction explains, as (source, destination, amount)."""
    changed = [(key, amount) for key, amount in rest.items() if amount]
    if len(changed) == 2 and changed[0][1] == -changed[1][1]:
        giver, taker = sorted(changed, key=lambda pair: pair[1])
        yield giver[0], taker[0], taker[1]
        return
    for key, amount in changed:
        yield (None, key, amount) if amount > 0 else (key, None, -amount)


def _decimals_of(value: Any) -> int:
    """Return the decimals of a mint: one byte on the chain. A larger number could make amounts of any length."""
    if type(value) is not int or not 0 <= value <= _DECIMALS_MAX:
        raise ValueError("not a mint's decimals")
    return value


@dataclass(slots=True)
class _TokenAccounts:
    """The state of each token account while the instructions are followed."""

    mints: dict[str, str]
    owners: dict[str, str]
    decimals: dict[str, int]
    running: dict[str, int]


def token_transfers(transaction: Mapping[str, Any]) -> list[TokenTransfer]:
    meta = transaction["meta"]
    accounts, after = _token_accounts(transaction)
    found: list[TokenTransfer] = []
    for instruction in instructions(transaction) if meta["err"] is None else ():
        known = parsed(instruction)
        if known is None:
            continue
        kind, info = known
        if instruction["programId"] in TOKEN_PROGRAMS:
            found += _token_step(kind, info, accounts)
        elif instruction["program"] == "spl-associated-token-account" and kind in _ASSOCIATED:
            accounts.mints[info["account"]], accounts.owners[info["account"]] = info["mint"], info["wallet"]
    return found + _token_rest(accounts, after)


def _token_accounts(transaction: Mapping[str, Any]) -> tuple[_TokenAccounts, dict[str, int]]:
    """Return the token accounts before the transaction, and their amounts after it."""
    meta, keys = transaction["meta"], account_keys(transaction)
    accounts = _TokenAccounts({}, {}, {}, {})
    amounts: list[dict[str, int]] = [{}, {}]
    for side, name in enumerate(("preTokenBalances", "postTokenBalances")):
        for entry in meta.get(name) or ():
            address, shown = keys[entry["accountIndex"]], entry["uiTokenAmount"]
            accounts.mints[address] = entry["mint"]
            accounts.decimals[entry["mint"]] = _decimals_of(shown["decimals"])
            if entry.get("owner"):  # Missing in very old data.
                accounts.owners[address] = entry["owner"]
            amounts[side][address] = int(shown["amount"])
    accounts.running = amounts[0]
    return accounts, amounts[1]


def _token_step(kind: str, info: Mapping[str, Any], accounts: _TokenAccounts) -> list[TokenTransfer]:
    if kind in _INITIALIZED:
        accounts.mints[info["account"]], accounts.owners[info["account"]] = info["mint"], info["owner"]
    elif kind.startswith("initializeMint"):
        accounts.decimals[info["mint"]] = _decimals_of(info["decimals"])
    elif kind == "closeAccount":
        accounts.running.pop(
            info["account"], None
        )  # The account held wrapped SOL; its lamports are among the SOL transfers.
    move = _TOKEN_MOVES.get(kind)
    return [] if move is None else [_token_move(move, info, accounts)]


def _token_move(
    move: tuple[str, str | None, str | None], info: Mapping[str, Any], accounts: _TokenAccounts
) -> TokenTransfer:
    kind, source_field, destination_field = move
    source = None if source_field is None else info[source_field]
    destination = None if destination_field is None else info[destination_field]
    checked = info.get("tokenAmount")
    amount = int(info["amount"] if checked is None else checked["amount"])
    mint = info.get("mint") or accounts.mints.get(source or "") or accounts.mints.get(destination or "")
    if checked is not None and mint is not None:
        accounts.decimals[mint] = _decimals_of(checked["decimals"])
    withheld = int(info["feeAmount"]["amount"]) if "feeAmount" in info else 0
    for address, change in ((source, -amount), (destination, amount - withheld)):
        if address is not None:
            accounts.running[address] = accounts.running.get(address, 0) + change
            if mint is not None:
                accounts.mints[address] = mint
    return _transfer(kind, source, destination, amount, mint, accounts)


def _token_rest(accounts: _TokenAccounts, after: dict[str, int]) -> list[TokenTransfer]:
    by_mint: dict[str | None, dict[str, int]] = {}
    for address in accounts.running | after:
        change = after.get(address, 0) - accounts.running.get(address, 0)
        by_mint.setdefault(accounts.mints.get(address), {})[address] = change
    found = []
    for mint, rest in by_mint.items():
        for source, destination, amount in _unexplained(rest):
            kind = "transfer" if source and destination else "balance_change"
            found.append(_transfer(kind, source, destination, amount, mint, accounts))
    return found


def _transfer(
    kind: str, source: str | None, destination: str | None, amount: int, mint: str | None, accounts: _TokenAccounts
) -> TokenTransfer:
    return TokenTransfer(
        kind,
        mint,
        None if mint is None else accounts.decimals.get(mint),
        None if source is None else accounts.owners.get(source),
        source,
        None if destination is None else accounts.owners.get(destination),
        destination,
        amount,
    )
